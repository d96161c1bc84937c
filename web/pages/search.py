"""Search over files, functions and kernels."""

from __future__ import annotations

from dataclasses import dataclass

from ptxguard.binary.demangle import demangle
from ptxguard.web.page import PageSpec, View
from ptxguard.web.params import Param
from ptxguard.web.table import Table, table_of

_LIMIT = 200
_KINDS = ("file", "function", "kernel")


@dataclass(frozen=True)
class HitRow:
    """A name: file, function or kernel, how it reads to people, and the newest run that has it."""

    kind: str
    name: str
    shown: str
    run: int


@dataclass(frozen=True)
class SearchPage:
    """Names that hold all words; `is_whole` is False where there are more than are shown."""

    text: str
    rows: tuple[HitRow, ...]
    is_whole: bool


def build(view: View) -> SearchPage:
    """The context; without words there are no hits."""
    text = view.values["q"] or ""
    hits = view.store.search(text, _LIMIT + 1) if text else ()
    rows = tuple(HitRow(hit.kind, hit.name, demangle(hit.name), hit.run) for hit in hits[:_LIMIT])
    return SearchPage(
        text, tuple(sorted(rows, key=lambda row: (_KINDS.index(row.kind), row.name))), len(hits) <= _LIMIT
    )


def table(page: SearchPage) -> Table:
    """Hits as CSV."""
    return table_of("kind name shown run", page.rows)


PAGE = PageSpec(
    "search",
    "/search",
    "Search",
    "Files, functions and kernels whose name holds all words, as beginnings of words.",
    build,
    SearchPage,
    table,
    "search.html",
    params=(Param("q", "Words."),),
)

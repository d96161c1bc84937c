"""Source text as HTML: highlighted by Pygments, with the reported characters marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES, Token, _TokenType

from ptxguard.web.words import visible

_LEXERS = {"py": "python", "pyi": "python", "ptx": "ptx", "ipynb": "json", "toml": "toml", "cmake": "cmake"}
_DEFAULT_LEXER = "cuda"


@dataclass(frozen=True)
class Mark:
    """Reported characters of one line: 1-based columns in code points, end exclusive."""

    line: int
    column: int
    end_column: int


@dataclass(frozen=True)
class SourceView:
    """Lines of a file.

    Attributes:
        path: of the file.
        first_line: number of the first line shown.
        lines: their text.
        marks: what is reported in them.
    """

    path: str
    first_line: int
    lines: tuple[str, ...]
    marks: tuple[Mark, ...]


def marks_of(
    first: tuple[int, int], end: tuple[int, int], view: tuple[int, Sequence[str]]
) -> tuple[Mark, ...]:
    """A span of a file as marks, one a line, within the lines shown.

    Args:
        first: line and column of the first character.
        end: line and column behind the last one.
        view: number of the first line shown, and the lines.
    """
    start, lines = view
    marks = []
    for line in range(max(first[0], start), min(end[0], start + len(lines) - 1) + 1):
        text = lines[line - start]
        left = first[1] if line == first[0] else len(text) - len(text.lstrip()) + 1
        right = end[1] if line == end[0] else len(text) + 1
        if right > left:
            marks.append(Mark(line, left, right))
    return tuple(marks)


def highlight(view: SourceView) -> Iterator[tuple[int, bool, Markup]]:
    """Number, whether marked, and HTML of each line."""
    marks: dict[int, list[Mark]] = {}
    for mark in view.marks:
        marks.setdefault(mark.line, []).append(mark)
    for index, pieces in enumerate(_token_lines(view)):
        number = view.first_line + index
        own = marks.get(number, [])
        yield number, bool(own), Markup("").join(_pieces(pieces, own))


def _token_lines(view: SourceView) -> list[list[tuple[str, str]]]:
    """(class, text) pieces of each line."""
    ending = view.path.rpartition(".")[2].lower()
    lexer = _lexer(_LEXERS.get(ending, _DEFAULT_LEXER))
    lines: list[list[tuple[str, str]]] = [[]]
    for kind, text in lexer.get_tokens("\n".join(view.lines)):
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append((_class(kind), part))
    lines += [[] for _ in range(len(view.lines) - len(lines))]
    return lines[: len(view.lines)]


@lru_cache(maxsize=16)
def _lexer(name: str) -> Any:
    return get_lexer_by_name(name, stripnl=False, ensurenl=False, tabsize=0)


@lru_cache(maxsize=512)
def _class(kind: _TokenType) -> str:
    """The short class of the nearest standard token type; empty for plain text."""
    while kind not in STANDARD_TYPES and kind is not Token:
        kind = kind.parent
    return str(STANDARD_TYPES.get(kind, ""))


def _pieces(pieces: Sequence[tuple[str, str]], marks: Sequence[Mark]) -> Iterator[Markup]:
    column = 1
    for name, text in pieces:
        cuts = {column, column + len(text)}
        for mark in marks:
            cuts |= {at for at in (mark.column, mark.end_column) if column < at < column + len(text)}
        places = sorted(cuts)
        for left, right in pairwise(places):
            part = text[left - column : right - column]
            inside = any(mark.column <= left < mark.end_column for mark in marks)
            yield _piece(name, part, marked=inside)
        column += len(text)


def _piece(name: str, text: str, *, marked: bool) -> Markup:
    safe = escape(visible(text))
    html = Markup('<span class="{}">{}</span>').format(name, safe) if name else safe
    return Markup("<mark>{}</mark>").format(html) if marked else html

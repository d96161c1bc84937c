"""Runs: the list, one run, and any two of a kind side by side."""

from __future__ import annotations

from dataclasses import dataclass

from ptxguard.store.readfindings import LISTS
from ptxguard.store.rows import KINDS, FindingFilter, Run
from ptxguard.web.page import NotThereError, PageSpec, View
from ptxguard.web.params import Param
from ptxguard.web.rowsof import (
    WORST_FIRST,
    FindingRow,
    Paging,
    RunPrices,
    RunRow,
    finding_row,
    findings_table,
    run_of,
    run_row,
    runs_table,
)
from ptxguard.web.table import Table

_SIZE = 100
_SHOWN = 100
_ERRORS = 100


@dataclass(frozen=True)
class RunsPage:
    """The list of runs, newest first."""

    kind: str | None
    subject: str | None
    rows: tuple[RunRow, ...]
    paging: Paging


def build_runs(view: View) -> RunsPage:
    """The context."""
    kind, subject, number = view.values["kind"], view.values["subject"], view.values["page"]
    runs = view.store.runs(kind, subject)
    first = (number - 1) * _SIZE
    if first and first >= len(runs):
        raise NotThereError(f"there is no page {number} of these runs")
    prices = RunPrices(view.store.run_prices(), view.gpu)
    rows = tuple(run_row(run, prices) for run in runs[first : first + _SIZE])
    return RunsPage(kind, subject, rows, Paging(number, max(1, -(-len(runs) // _SIZE)), _SIZE, len(runs)))


@dataclass(frozen=True)
class InputError:
    """An input that could not be read."""

    path: str
    line: int | None
    message: str


@dataclass(frozen=True)
class ArtifactRow:
    """A file that a run has read."""

    path: str
    member: str | None
    sha256: str


@dataclass(frozen=True)
class RunPage:
    """One run.

    Attributes:
        run: its head, with its price.
        key: the same in every store.
        states: findings by what became of them.
        severities: findings by severity, the worst first.
        artifacts: files read.
        errors: the first inputs that could not be read.
        errors_total: how many there were.
        earlier: runs of the same subject to compare with, newest first.
        previous: the one before it, or None.
    """

    run: RunRow
    key: str
    states: dict[str, int]
    severities: dict[str, int]
    artifacts: tuple[ArtifactRow, ...]
    errors: tuple[InputError, ...]
    errors_total: int
    earlier: tuple[RunRow, ...]
    previous: int | None


def build_run(view: View) -> RunPage:
    """The context."""
    run = run_of(view, view.values["run"])
    prices = RunPrices(view.store.run_prices(), view.gpu)
    others = [one for one in view.store.runs(None, run.subject) if one.number != run.number]
    before = [one for one in others if (one.created, one.number) < (run.created, run.number)]
    facets = () if run.thinned else view.store.facets(FindingFilter(run=run.number))
    counts = {facet.value: facet.count for facet in facets if facet.name == "severity"}
    errors = tuple(
        InputError(str(error.get("path") or ""), error.get("line"), str(error.get("message")))
        for error in run.errors
    )
    return RunPage(
        run=run_row(run, prices),
        key=run.key,
        states=view.store.states(run.number),
        severities={word: counts[word] for word in WORST_FIRST if word in counts},
        artifacts=tuple(ArtifactRow(one.path, one.member, one.sha256) for one in run.artifacts),
        errors=errors[:_ERRORS],
        errors_total=len(errors),
        earlier=tuple(run_row(one, prices) for one in others[:_SIZE]),
        previous=before[0].number if before else None,
    )


def run_table(page: RunPage) -> Table:
    """What the run has read."""
    return Table(
        ("run", "path", "member", "sha256"),
        ((page.run.number, one.path, one.member, one.sha256) for one in page.artifacts),
    )


@dataclass(frozen=True)
class ComparePage:
    """Two runs side by side: what is new in the second, resolved since the first, and in both.

    Attributes:
        old: the first.
        new: the second.
        same_subject: whether both looked at the same thing.
        counts: new, resolved and unchanged findings.
        shown: which of these lists the page shows.
        rows: of that list: unchanged ones as the second run has them.
        paging: of that list.
    """

    old: RunRow
    new: RunRow
    same_subject: bool
    counts: dict[str, int]
    shown: str
    rows: tuple[FindingRow, ...]
    paging: Paging


def build_compare(view: View) -> ComparePage:
    """The context."""
    old, new = run_of(view, view.values["old"]), run_of(view, view.values["new"])
    _refuse_without_findings(old, new)
    shown, number = view.values["list"], view.values["page"]
    counts = {name: view.store.compared(old.number, new.number, name, 1, 1).total for name in LISTS}
    if shown is None:  # the first list that holds something
        shown = next((name for name in LISTS if counts[name]), LISTS[0])
    found = view.store.compared(old.number, new.number, shown, number, _SHOWN)
    if number > found.count:
        raise NotThereError(f"there is no page {number} of this list")
    prices = RunPrices(view.store.run_prices(), view.gpu)
    return ComparePage(
        old=run_row(old, prices),
        new=run_row(new, prices),
        same_subject=old.subject == new.subject,
        counts=counts,
        shown=shown,
        rows=tuple(finding_row(one, view.gpu) for one in found.rows),
        paging=Paging(number, found.count, _SHOWN, found.total),
    )


def _refuse_without_findings(*runs: Run) -> None:
    for run in runs:
        if run.kind == "probe":
            raise NotThereError(f"run {run.number} is a probe of a card and has no findings to compare")
        if run.thinned:
            raise NotThereError(f"run {run.number} was thinned by `store gc`: its findings are gone")


def compare_table(page: ComparePage) -> Table:
    """The list that is shown; the first column names it."""
    base = findings_table(page.rows)
    return Table(("comparison", *base.columns), ((page.shown, *row) for row in base.rows))


_RUN = Param("run", "Number of a run.", "integer")
PAGES = (
    PageSpec(
        "runs",
        "/runs",
        "Runs",
        "All runs, newest first.",
        build_runs,
        RunsPage,
        lambda page: runs_table(page.rows),
        "runs.html",
        params=(
            Param("kind", "Only runs of this kind.", "choice", KINDS),
            Param("subject", "Only runs of this subject."),
            Param("page", "Page of the list.", "integer", default=1),
        ),
    ),
    PageSpec(
        "run",
        "/runs/{run}",
        "Run",
        "One run: what it read, what became of its findings, what it costs.",
        build_run,
        RunPage,
        run_table,
        "run.html",
        parts=(_RUN,),
    ),
    PageSpec(
        "compare",
        "/compare/{old}/{new}",
        "Comparison",
        "Findings of two runs: new, resolved, unchanged.",
        build_compare,
        ComparePage,
        compare_table,
        "compare.html",
        parts=(
            Param("old", "Number of the first run.", "integer"),
            Param("new", "Number of the second run.", "integer"),
        ),
        params=(
            Param("list", "Which findings; default: the first list that is not empty.", "choice", LISTS),
            Param("page", "Page of that list.", "integer", default=1),
        ),
    ),
)

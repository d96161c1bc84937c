"""The first page: what the newest runs cost on the chosen card, the trend, and where to look first."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from ptxguard.store.rows import FindingFilter, KernelFilter, Run
from ptxguard.web.charts import TrendChart, trend_chart
from ptxguard.web.page import PageSpec, View
from ptxguard.web.pages.rules import rule_names
from ptxguard.web.prices import Price, worst
from ptxguard.web.rowsof import (
    WORST_FIRST,
    FindingRow,
    RunPrices,
    RunRow,
    finding_row,
    newest_of_subjects,
    run_row,
    runs_table,
)
from ptxguard.web.table import Table

_TOP = 8
_TRENDS = 4
_POINTS = 40


@dataclass(frozen=True)
class Counted:
    """A value with how many findings have it; `text` says what it means where the value does not."""

    value: str
    count: int
    text: str


@dataclass(frozen=True)
class Trend:
    """The price of one subject, run by run; `chart` draws `runs`, oldest first."""

    subject: str
    runs: tuple[RunRow, ...]
    chart: TrendChart


@dataclass(frozen=True)
class KernelLine:
    """A kernel that reaches a driver function."""

    run: int
    place: int
    name: str
    target: str
    registers: int | None
    syscalls: int


@dataclass(frozen=True)
class OverviewPage:
    """What the newest runs say together.

    Attributes:
        gpu: chosen card.
        memory_gib: of it.
        price: the maximum over all newest runs, never a sum; None: nothing costs there.
        price_run: run with that price.
        price_finding: finding with that price.
        subjects: newest run of each subject.
        severities: findings by severity.
        rules: most frequent rules.
        files: files with most findings.
        kernels: kernels with a driver call that need most registers.
        kernels_total: how many there are.
        trends: of subjects with several runs.
        worst_findings: errors to begin with.
        probes: how many probe runs the store has.
    """

    gpu: str
    memory_gib: float
    price: Price | None
    price_run: int | None
    price_finding: str | None
    subjects: tuple[RunRow, ...]
    severities: tuple[Counted, ...]
    rules: tuple[Counted, ...]
    files: tuple[Counted, ...]
    kernels: tuple[KernelLine, ...]
    kernels_total: int
    trends: tuple[Trend, ...]
    worst_findings: tuple[FindingRow, ...]
    probes: int


def build(view: View) -> OverviewPage:
    """The context."""
    runs = view.store.runs()
    prices = RunPrices(view.store.run_prices(), view.gpu)
    subjects = tuple(run_row(run, prices) for run in newest_of_subjects(runs))
    top = worst(row.price for row in subjects)
    behind = next((row for row in subjects if row.price == top), None) if top is not None else None
    facets = view.store.facets(FindingFilter(), _TOP)

    def counted(name: str) -> tuple[Counted, ...]:
        named = rule_names() if name == "code" else {}
        top = islice((facet for facet in facets if facet.name == name), _TOP)
        return tuple(Counted(facet.value, facet.count, named.get(facet.value, "")) for facet in top)

    kernels = view.store.kernels(KernelFilter(with_syscall=True, order="registers"), 1, _TOP)
    first = view.store.findings(FindingFilter(severity="error"), 1, _TOP)
    return OverviewPage(
        gpu=view.gpu.name,
        memory_gib=view.gpu.memory_gib,
        price=top,
        price_run=behind.number if behind else None,
        price_finding=behind.fingerprint if behind else None,
        subjects=subjects,
        severities=tuple(sorted(counted("severity"), key=lambda one: WORST_FIRST.index(one.value))),
        rules=counted("code"),
        files=counted("path"),
        kernels=tuple(
            KernelLine(
                one.run, one.place, one.demangled or one.name, one.target, one.registers, len(one.syscalls)
            )
            for one in kernels.rows
        ),
        kernels_total=kernels.total,
        trends=_trends(runs, prices),
        worst_findings=tuple(finding_row(row, view.gpu) for row in first.rows),
        probes=sum(run.kind == "probe" for run in runs),
    )


def _trends(runs: tuple[Run, ...], prices: RunPrices) -> tuple[Trend, ...]:
    """Of the subjects that were looked at last and more than once."""
    grouped: dict[str, list[RunRow]] = {}
    for run in runs:  # newest first
        if run.kind != "probe" and (run.subject in grouped or len(grouped) < _TRENDS):
            grouped.setdefault(run.subject, []).append(run_row(run, prices))
    return tuple(
        trend_of(subject, tuple(reversed(rows[:_POINTS])))
        for subject, rows in grouped.items()
        if len(rows) > 1
    )


def trend_of(subject: str, rows: tuple[RunRow, ...]) -> Trend:
    """A trend out of runs, oldest first; a run without a price stands at 0 (it costs nothing on the card)."""
    points = [
        (row.created, row.number, (row.price.expected_mib or 0.0) if row.price is not None else 0.0)
        for row in rows
    ]
    return Trend(subject, rows, trend_chart(points))


def table(page: OverviewPage) -> Table:
    """The newest runs."""
    return runs_table(page.subjects)


PAGE = PageSpec(
    "overview",
    "/",
    "Overview",
    "What the newest runs cost on a card, the trend over runs, and where to look first.",
    build,
    OverviewPage,
    table,
    "overview.html",
)

"""Probe runs: what launches on a real card have shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptxguard.store.rows import ProbeRun
from ptxguard.web.charts import BarChart, Bars, bar_chart
from ptxguard.web.page import NotThereError, PageSpec, View
from ptxguard.web.params import Param
from ptxguard.web.table import Table, table_of

_CHART_BARS = 14


@dataclass(frozen=True)
class ProbeRow:
    """A probe run: the card, and how many variants agreed with what was predicted."""

    run: int
    card: str
    sm: str
    driver: str
    toolkit: str
    measured: str
    variants: int
    agree: int
    disagree: int
    not_finished: int


@dataclass(frozen=True)
class ProbesPage:
    """All probe runs, the newest measurement first."""

    rows: tuple[ProbeRow, ...]


@dataclass(frozen=True)
class VariantRow:
    """One launch.

    Attributes:
        name: of the variant.
        kind: frame, wait, copy or refer.
        status: done, or why there is no figure.
        limit_before: stack limit in bytes per thread.
        limit_after: after the first launch.
        load_mib: taken when the module was loaded.
        predicted_mib: of the launch, by the formula.
        measured_mib: of the launch.
        agrees: whether both are equal; None: nothing was predicted.
        conclusion: one sentence.
    """

    name: str
    kind: str
    status: str
    limit_before: int | None
    limit_after: int | None
    load_mib: float | None
    predicted_mib: float | None
    measured_mib: float | None
    agrees: bool | None
    conclusion: str


@dataclass(frozen=True)
class ProbePage:
    """One probe run.

    Attributes:
        row: its head.
        memory_gib: of the card.
        sm_count: of the card.
        threads_per_sm: of the card.
        summary: numbers of the run.
        variants: all launches.
        chart: measured stack part of the control launches.
        kinds: how many variants of each kind.
    """

    row: ProbeRow
    memory_gib: float
    sm_count: int
    threads_per_sm: int
    summary: dict[str, Any]
    variants: tuple[VariantRow, ...]
    chart: BarChart
    kinds: dict[str, int]


def _row(probe: ProbeRun) -> ProbeRow:
    summary, card = probe.record["summary"], probe.record["card"]
    return ProbeRow(
        probe.run,
        probe.card,
        probe.sm,
        probe.driver,
        str(card.get("toolkit", "")),
        probe.measured,
        int(summary["variants"]),
        int(summary["agree"]),
        len(summary["disagree"]),
        len(summary["not_finished"]),
    )


def build_probes(view: View) -> ProbesPage:
    """The context."""
    return ProbesPage(tuple(map(_row, view.store.probes())))


def build_probe(view: View) -> ProbePage:
    """The context."""
    number = view.values["run"]
    probe = next((one for one in view.store.probes() if one.run == number), None)
    if probe is None:
        raise NotThereError(f"run {number} is no probe run")
    card = probe.record["card"]
    variants = tuple(map(_variant, probe.record["variants"]))
    frames = [one for one in variants if one.kind == "frame" and one.measured_mib is not None]
    bars = [
        Bars(one.name, one.measured_mib, one.predicted_mib, one.predicted_mib, "measured")
        for one in frames[:_CHART_BARS]
    ]
    return ProbePage(
        row=_row(probe),
        memory_gib=round(card["memory_bytes"] / (1 << 30), 1),
        sm_count=card["sm_count"],
        threads_per_sm=card["threads_per_sm"],
        summary={
            name: value if isinstance(value, int | bool | str | float) else len(value)
            for name, value in probe.record["summary"].items()
            if value is not None
        },
        variants=variants,
        chart=bar_chart(bars),
        kinds=dict(Counter(one.kind for one in variants)),
    )


def _variant(record: Mapping[str, Any]) -> VariantRow:
    verdict = record.get("verdict") or {}
    return VariantRow(
        str(record["name"]),
        str(record["kind"]),
        str(record["status"]),
        verdict.get("limit_before"),
        verdict.get("limit_after"),
        verdict.get("load_mib"),
        verdict.get("predicted_mib"),
        verdict.get("measured_mib"),
        verdict.get("agrees"),
        str(verdict.get("conclusion") or record.get("error") or ""),
    )


def probes_table(page: ProbesPage) -> Table:
    """Probe runs as CSV."""
    columns = "run card sm driver toolkit measured variants agree disagree not_finished"
    return table_of(columns, page.rows)


def probe_table(page: ProbePage) -> Table:
    """Launches as CSV."""
    columns = (
        "name kind status limit_before limit_after load_mib predicted_mib measured_mib agrees conclusion"
    )
    return table_of(columns, page.variants)


PAGES = (
    PageSpec(
        "probes",
        "/probes",
        "Probe runs",
        "Measurements by launches on real cards.",
        build_probes,
        ProbesPage,
        probes_table,
        "probes.html",
    ),
    PageSpec(
        "probe",
        "/probes/{run}",
        "Probe run",
        "One probe run: every launch with what was predicted and what was measured.",
        build_probe,
        ProbePage,
        probe_table,
        "probe.html",
        parts=(Param("run", "Number of the run.", "integer"),),
    ),
)

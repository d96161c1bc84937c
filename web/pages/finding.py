"""One finding: source, instruction, kernels, price, evidence, fix, history and review."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptxguard.errors import ConfigError
from ptxguard.memcost import DEFAULT_GPUS, Gpu, find_gpu
from ptxguard.store.rows import HistoryEntry, Review, StoredFinding
from ptxguard.web.carriers import find_carriers
from ptxguard.web.charts import BarChart, Bars, bar_chart
from ptxguard.web.diffs import FixView, fix_view
from ptxguard.web.evidence import Chain, Link, chain_of, links_of, ways_of
from ptxguard.web.instruction import Explained, explain_opcode
from ptxguard.web.page import NotThereError, PageSpec, View
from ptxguard.web.pages.kernels import KernelRow, kernel_row
from ptxguard.web.params import Param
from ptxguard.web.prices import Price, price_on
from ptxguard.web.rowsof import FindingRow, finding_row
from ptxguard.web.source import SourceView, marks_of
from ptxguard.web.table import Table

_PLACES = 100
_AROUND = 12
_FILES = 100
# A fingerprint as permalinks and file names have it.
_WRITTEN = re.compile(r"([0-9a-f]{16})-(\d+)\Z")


@dataclass(frozen=True)
class TargetRow:
    """What happens on a target: what the guards say, and what ptxas does with the form."""

    target: str
    compiled: str
    on_target: str


@dataclass(frozen=True)
class VerdictRow:
    """A verdict with its reason."""

    about: str
    verdict: str
    reason: str


@dataclass(frozen=True)
class PlaceRow:
    """A kernel of the source that reaches the line."""

    name: str
    path: str | None
    line: int | None


@dataclass(frozen=True)
class FindingPage:
    """One finding of one run.

    Attributes:
        row: what lists show of it.
        column: 1-based, in code points.
        end_line: of the reported characters.
        end_column: behind the last one.
        source: lines around it; None: the run has not kept them.
        instruction: its opcode part by part, or None.
        targets: what happens on which target.
        verdicts: about address and cluster size.
        syscall: driver function, or None.
        effects: side effects beside memory.
        prices: on the chosen card and the usual ones.
        chart: of the prices.
        chain: the evidence as a picture.
        links: all evidence.
        ways: from kernels to the instruction, the first ones.
        ways_total: how many there are.
        places: kernels of the source, the first ones.
        places_total: how many there are.
        kernels: compiled kernels that make the call, the first ones.
        kernels_total: how many there are.
        kernels_elsewhere: whether they were found by name in runs of compiled code, not in this run.
        sass: instructions around the call in one of them, or None.
        sass_kernel: that kernel.
        fix: what repairs it, or None.
        history: what became of it, run by run.
        review: what people decided, or None.
    """

    row: FindingRow
    column: int
    end_line: int
    end_column: int
    source: SourceView | None
    instruction: Explained | None
    targets: tuple[TargetRow, ...]
    verdicts: tuple[VerdictRow, ...]
    syscall: str | None
    effects: tuple[str, ...]
    prices: tuple[Price, ...]
    chart: BarChart
    chain: Chain
    links: tuple[Link, ...]
    ways: tuple[tuple[Link, ...], ...]
    ways_total: int
    places: tuple[PlaceRow, ...]
    places_total: int
    kernels: tuple[KernelRow, ...]
    kernels_total: int
    kernels_elsewhere: bool
    sass: dict[str, Any] | None
    sass_kernel: KernelRow | None
    fix: FixView | None
    history: tuple[HistoryEntry, ...]
    review: Review | None


def build(view: View) -> FindingPage:
    """The context."""
    stored = _stored(view)
    record = stored.record
    price = price_on(record, view.gpu)
    prices = tuple(found for gpu in _cards(record, view.gpu) if (found := price_on(record, gpu)) is not None)
    edits = record["fix"]["edits"] if record["fix"] else ()
    excerpts = view.store.excerpts(stored.run, [record["path"], *(edit["path"] for edit in edits)][:_FILES])
    carriers = find_carriers(view.store, stored)
    ways, ways_total = ways_of(record)
    places = record["kernels"]
    return FindingPage(
        row=finding_row(stored, view.gpu),
        column=record["column"],
        end_line=record["end_line"],
        end_column=record["end_column"],
        source=_source(record, excerpts),
        instruction=explain_opcode(record["opcode"]) if record["opcode"] else None,
        targets=tuple(_targets(record)),
        verdicts=tuple(_verdicts(record)),
        syscall=record["syscall"],
        effects=tuple(_effects(record["performance"])),
        prices=prices,
        chart=bar_chart(
            [
                Bars(one.gpu, one.expected_mib, one.low_mib, one.high_mib, one.kind, one.gpu == view.gpu.name)
                for one in prices
            ]
        ),
        chain=chain_of(record, price),
        links=links_of(record),
        ways=ways,
        ways_total=ways_total,
        places=tuple(PlaceRow(one["name"], one["path"], one["line"]) for one in places[:_PLACES]),
        places_total=len(places),
        kernels=tuple(map(kernel_row, carriers.kernels)),
        kernels_total=carriers.total,
        kernels_elsewhere=carriers.elsewhere,
        sass=carriers.sass,
        sass_kernel=kernel_row(carriers.sass_kernel) if carriers.sass_kernel is not None else None,
        fix=fix_view(record, excerpts),
        history=view.store.history(stored.subject, stored.fingerprint),
        review=stored.review,
    )


def _stored(view: View) -> StoredFinding:
    values = view.values
    fingerprint = _WRITTEN.sub(r"\1:\2", values["fingerprint"])
    try:
        return view.store.finding(fingerprint, values["subject"], values["run"])
    except ConfigError as error:
        raise NotThereError(error.message) from error


def _cards(record: Mapping[str, Any], chosen: Gpu) -> list[Gpu]:
    """The chosen card first, then those that the record prices, then the usual ones."""
    names = [
        chosen.name,
        *(cost["gpu"] for cost in record["cost"]),
        *(DEFAULT_GPUS if record["cost"] else ()),
    ]
    return [find_gpu(name) for name in dict.fromkeys(names)]


def _source(record: Mapping[str, Any], excerpts: tuple[Any, ...]) -> SourceView | None:
    """The lines of the excerpt that holds the finding, some before and some behind it."""
    line, end = record["line"], record["end_line"]
    for excerpt in excerpts:
        lines = excerpt.text.split("\n")
        if excerpt.path == record["path"] and excerpt.first_line <= line < excerpt.first_line + len(lines):
            first = max(excerpt.first_line, line - _AROUND)
            kept = lines[first - excerpt.first_line : end + _AROUND + 1 - excerpt.first_line]
            marks = marks_of((line, record["column"]), (end, record["end_column"]), (first, kept))
            return SourceView(record["path"], first, tuple(kept), marks)
    return None


def _targets(record: Mapping[str, Any]) -> list[TargetRow]:
    names = dict.fromkeys((*record["targets"], *record["on_target"]))
    return [
        TargetRow(name, record["targets"].get(name, ""), record["on_target"].get(name, "")) for name in names
    ]


def _verdicts(record: Mapping[str, Any]) -> list[VerdictRow]:
    address, cluster = record["address"], record["cluster"]
    rows = []
    if address:
        rows.append(
            VerdictRow("destination", str(address.get("verdict") or ""), str(address.get("reason") or ""))
        )
        if address.get("mbarrier"):
            rows.append(VerdictRow("mbarrier", str(address["mbarrier"]), ""))
    if cluster:
        rows.append(
            VerdictRow("cluster size", str(cluster.get("verdict") or ""), str(cluster.get("reason") or ""))
        )
    if witness := record["performance"].get("binary"):
        counted = f"{witness['kernels']:,} kernels" if "kernels" in witness else ""
        rows.append(VerdictRow("compiled code", str(witness["verdict"]), counted))
    return rows


def _effects(performance: Mapping[str, Any]) -> list[str]:
    found = []
    if performance.get("abi_call_frame"):
        found.append("an ABI call frame in the kernel")
    if at_least := performance.get("registers_at_least"):
        found.append(f"at least {at_least} registers per thread")
    if performance.get("setmaxnreg_ignored"):
        found.append("setmaxnreg is ignored (ptxas C7506)")
    if performance.get("first_launch_waits"):
        found.append(
            "the launch that raises the stack limit waits until running kernels have ended: beside a"
            " persistent kernel it can hang"
        )
    if most := performance.get("registers_max"):
        found.append(f"up to {most} registers per thread in these kernels")
    if of := performance.get("warps_of"):
        low, high = performance["warps_min"], performance["warps_max"]
        found.append(f"registers and shared memory leave room for {low} to {high} of {of} warps per SM")
    if spilling := performance.get("kernels_with_local_reads"):
        found.append(f"{spilling:,} of these kernels read local memory (spilled registers or arrays)")
    if never := performance.get("never runs"):
        found.append(f"the kernels are {never}: priced at nothing")
    return found


def table(page: FindingPage) -> Table:
    """The evidence."""
    return Table(("kind", "place", "text"), ((one.kind, one.place, one.text) for one in page.links))


PAGE = PageSpec(
    "finding",
    "/findings/{fingerprint}",
    "Finding",
    "One finding: source, instruction, kernels, price, evidence, fix, history.",
    build,
    FindingPage,
    table,
    "finding.html",
    parts=(Param("fingerprint", "Fingerprint of the finding."),),
    params=(
        Param("subject", "Subject; needed where two subjects have the same finding."),
        Param("run", "As this run has it; default: the newest one with it.", "integer"),
    ),
)

"""The inventory of compiled kernels, and one kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptxguard.errors import ConfigError
from ptxguard.occupancy import Occupancy, occupancy
from ptxguard.store.kernelindex import ORDERS as KERNEL_ORDERS
from ptxguard.store.rows import FindingFilter, KernelFilter, StoredKernel
from ptxguard.web.page import NotThereError, PageSpec, View
from ptxguard.web.params import Param
from ptxguard.web.rowsof import FindingRow, Paging, finding_row, run_of
from ptxguard.web.table import Table

SIZE = 100
STATIC_SIZE = 500
_FINDINGS = 50


@dataclass(frozen=True)
class KernelRow:
    """A kernel in a list; `stack_bytes` is None where it is unknown, and `stack_unknown` says why."""

    run: int
    place: int
    artifact: str
    image: int
    name: str
    demangled: str
    target: str
    registers: int | None
    stack_bytes: int | None
    stack_unknown: str
    cluster_dims: tuple[int, ...] | None
    syscalls: tuple[str, ...]
    externs: tuple[str, ...]


@dataclass(frozen=True)
class KernelsPage:
    """A page of the inventory.

    Attributes:
        filters: chosen values by parameter.
        rows: of this page.
        paging: where it stands.
        targets: (target, kernels) to go on from here.
        with_syscall: kernels that reach a driver function.
        without_syscall: kernels that reach none.
    """

    filters: dict[str, Any]
    rows: tuple[KernelRow, ...]
    paging: Paging
    targets: tuple[tuple[str, int], ...]
    with_syscall: int
    without_syscall: int


def kernel_row(kernel: StoredKernel) -> KernelRow:
    """A row out of a stored kernel."""
    return KernelRow(
        kernel.run,
        kernel.place,
        kernel.artifact,
        kernel.image,
        kernel.name,
        kernel.demangled,
        kernel.target,
        kernel.registers,
        kernel.stack_bytes,
        kernel.stack_unknown,
        kernel.cluster_dims,
        tuple(str(call["name"]) for call in kernel.syscalls),
        kernel.externs,
    )


def build(view: View) -> KernelsPage:
    """The context."""
    chosen = {name: value for name, value in view.values.items() if name != "page" and value is not None}
    if "run" in chosen:
        run_of(view, chosen["run"])
    number, size = view.values["page"], STATIC_SIZE if view.static else SIZE
    wanted = KernelFilter(
        run=chosen.get("run"),
        target=chosen.get("target"),
        name=chosen.get("name"),
        with_syscall=None if "syscall" not in chosen else chosen["syscall"] == "yes",
        order=chosen.get("order", "place"),
    )
    found = view.store.kernels(wanted, number, size)
    if number > found.count:
        raise NotThereError(f"there is no page {number} of these kernels")
    facets = view.store.kernel_facets(wanted)
    reach = {facet.value: facet.count for facet in facets if facet.name == "with_syscall"}
    return KernelsPage(
        filters=chosen,
        rows=tuple(map(kernel_row, found.rows)),
        paging=Paging(number, found.count, size, found.total),
        targets=tuple((facet.value, facet.count) for facet in facets if facet.name == "target"),
        with_syscall=reach.get("yes", 0),
        without_syscall=reach.get("no", 0),
    )


def kernels_table(page: KernelsPage) -> Table:
    """Kernels as CSV."""
    columns = (
        "run place artifact image name demangled target registers stack_bytes stack_unknown cluster_dims"
        " syscalls externs"
    )
    return Table(columns.split(), (_cells(row) for row in page.rows))


def _cells(row: KernelRow) -> tuple[Any, ...]:
    return (
        row.run,
        row.place,
        row.artifact,
        row.image,
        row.name,
        row.demangled,
        row.target,
        row.registers,
        row.stack_bytes,
        row.stack_unknown,
        "x".join(map(str, row.cluster_dims or ())),
        " ".join(row.syscalls),
        " ".join(row.externs),
    )


@dataclass(frozen=True)
class CallSite:
    """A call of a driver function; `source` from the innermost inlined line outwards."""

    syscall: str
    offset: int | None
    source: tuple[str, ...]


@dataclass(frozen=True)
class KernelPage:
    """One kernel.

    Attributes:
        kernel: its facts.
        calls: call sites of driver functions.
        findings: of its run that name it.
        sass: instructions around the calls as the scan kept them, or None.
        warps: that an SM can hold of it, by its registers; None: unknown.
        warps_of: that it could hold.
    """

    kernel: KernelRow
    calls: tuple[CallSite, ...]
    findings: tuple[FindingRow, ...]
    sass: dict[str, Any] | None
    warps: int | None
    warps_of: int | None


def build_kernel(view: View) -> KernelPage:
    """The context."""
    run_of(view, view.values["run"])
    kernel = view.store.kernel(view.values["run"], view.values["place"] - 1)
    if kernel is None:
        raise NotThereError(f"run {view.values['run']} has no kernel {view.values['place']}")
    room = _room(kernel)
    calls = tuple(
        CallSite(str(call["name"]), site.get("offset"), tuple(map(_place, site.get("source", ()))))
        for call in kernel.syscalls
        for site in _sites(call)
    )
    carried = view.store.findings(FindingFilter(run=kernel.run), 1, 1000).rows if kernel.syscalls else ()
    named = {str(call["name"]) for call in kernel.syscalls}
    return KernelPage(
        kernel=kernel_row(kernel),
        calls=calls,
        findings=tuple(
            finding_row(one, view.gpu)
            for one in carried
            if one.record["syscall"] in named and kernel.target in one.record["targets"]
        )[:_FINDINGS],
        sass=view.store.sass(kernel.run, kernel.place),
        warps=room.warps if room is not None else None,
        warps_of=room.of if room is not None else None,
    )


def _room(kernel: StoredKernel) -> Occupancy | None:
    """What its registers allow; a stored target may be none that we know."""
    try:
        return None if kernel.registers is None else occupancy(kernel.target, kernel.registers)
    except ConfigError:
        return None


def _sites(call: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Call sites of a driver function; one without a place where the cubin names none."""
    return list(call.get("sites", ())) or [{}]


def _place(link: Any) -> str:
    function = f" in {link['function']}" if link.get("function") else ""
    return f"{link.get('path')}:{link.get('line')}{function}"


def kernel_table(page: KernelPage) -> Table:
    """Call sites as CSV."""
    return Table(
        ("kernel", "syscall", "offset", "source"),
        ((page.kernel.name, call.syscall, call.offset, " < ".join(call.source)) for call in page.calls),
    )


PAGES = (
    PageSpec(
        "kernels",
        "/kernels",
        "Kernels",
        "Compiled kernels of the newest binary runs, or of one run.",
        build,
        KernelsPage,
        kernels_table,
        "kernels.html",
        params=(
            Param("run", "Number of a run; default: the newest run of every subject.", "integer"),
            Param("target", "Target of the image."),
            Param("syscall", "Whether it reaches a driver function.", "choice", ("yes", "no")),
            Param("name", "Part of the mangled or demangled name."),
            Param("order", "Sorted by; figures largest first.", "choice", tuple(KERNEL_ORDERS), "place"),
            Param("page", "Page of the list.", "integer", default=1),
        ),
    ),
    PageSpec(
        "kernel",
        "/kernels/{run}/{place}",
        "Kernel",
        "One compiled kernel: facts, driver calls, SASS around them.",
        build_kernel,
        KernelPage,
        kernel_table,
        "kernel.html",
        parts=(
            Param("run", "Number of the run.", "integer"),
            Param("place", "Position in the run, from 1.", "integer"),
        ),
    ),
)

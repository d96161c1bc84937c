"""The cards: what each form and each run of the store costs on them."""

from __future__ import annotations

from dataclasses import dataclass

from ptxguard.arch import SYSCALL_ARCHES, Target
from ptxguard.memcost import (
    DEFAULT_STACK_BYTES,
    Gpu,
    expected_mib,
    gpus,
    price_syscall,
    reservation_mib,
)
from ptxguard.web.page import NotThereError, PageSpec, View
from ptxguard.web.params import Param, shown
from ptxguard.web.rowsof import RunPrices, RunRow, newest_of_subjects, run_row
from ptxguard.web.table import Table, table_of

# The two needs that the public knows: a tensor form and the plain bulk copy.
TENSOR = "__cuda_syscall_cp_async_bulk_tensor_2d_tile_unicast"
BULK = "__cuda_syscall_cp_async_bulk_unicast"
_FRAMES = (2048, 4096, 8192, 16384, 32768, 65536)


def slug(name: str) -> str:
    """`rtx-5090` of `RTX 5090`."""
    return "-".join(name.lower().split())


@dataclass(frozen=True)
class GpuRow:
    """A card; the two prices are None where copies are native."""

    name: str
    slug: str
    sm: str
    sm_count: int
    threads_per_sm: int
    memory_gib: float
    integrated: bool
    tensor_mib: int | None
    bulk_mib: int | None
    tensor_share: float | None
    source: str


@dataclass(frozen=True)
class GpusPage:
    """All cards; those whose target calls the driver first, the largest price first."""

    rows: tuple[GpuRow, ...]


def _row(gpu: Gpu) -> GpuRow:
    def mib(symbol: str) -> int | None:
        return next((cost.expected_mib for cost in price_syscall(symbol, (gpu,))), None)

    tensor = mib(TENSOR)
    return GpuRow(
        gpu.name,
        slug(gpu.name),
        gpu.sm,
        gpu.sm_count,
        gpu.threads_per_sm,
        gpu.memory_gib,
        gpu.integrated,
        tensor,
        mib(BULK),
        None if tensor is None else tensor / (gpu.memory_gib * 1024),
        gpu.source,
    )


def build_gpus(view: View) -> GpusPage:
    """The context."""
    return GpusPage(
        tuple(sorted(map(_row, gpus()), key=lambda row: (-(row.tensor_mib or 0), row.sm, row.name)))
    )


@dataclass(frozen=True)
class FrameRow:
    """What a stack limit costs: a number of bytes per thread, and MiB as a measurement shows them."""

    bytes_per_thread: int
    mib: int


@dataclass(frozen=True)
class GpuPage:
    """One card.

    Attributes:
        row: its facts.
        default_stack_bytes: limit that every context holds anyway.
        frames: what other stack limits cost on it.
        runs: newest run of every subject with its price on this card.
        probed: probe runs on it, by number.
    """

    row: GpuRow
    default_stack_bytes: int
    frames: tuple[FrameRow, ...]
    runs: tuple[RunRow, ...]
    probed: tuple[int, ...]


def build_gpu(view: View) -> GpuPage:
    """The context."""
    wanted = view.values["slug"]
    gpu = next((one for one in gpus() if slug(one.name) == wanted), None)
    if gpu is None:
        raise NotThereError(f"no card is called {shown(wanted)}")
    prices = RunPrices(view.store.run_prices(), gpu)
    names = {gpu.name, *gpu.aliases}
    return GpuPage(
        row=_row(gpu),
        default_stack_bytes=DEFAULT_STACK_BYTES,
        frames=tuple(FrameRow(size, expected_mib(reservation_mib(gpu, size))) for size in _FRAMES),
        runs=tuple(run_row(run, prices) for run in newest_of_subjects(view.store.runs())),
        probed=tuple(probe.run for probe in view.store.probes() if any(name in probe.card for name in names)),
    )


def priced_cards() -> tuple[Gpu, ...]:
    """Cards of the chooser: those whose target calls the driver."""
    return tuple(gpu for gpu in gpus() if Target.parse(gpu.sm).number in SYSCALL_ARCHES)


def gpus_table(page: GpusPage) -> Table:
    """Cards as CSV."""
    columns = "name sm sm_count threads_per_sm memory_gib integrated tensor_mib bulk_mib source"
    return table_of(columns, page.rows)


def gpu_table(page: GpuPage) -> Table:
    """Stack limits as CSV."""
    return Table(
        ("gpu", "bytes_per_thread", "mib"),
        ((page.row.name, frame.bytes_per_thread, frame.mib) for frame in page.frames),
    )


PAGES = (
    PageSpec(
        "gpus",
        "/gpus",
        "GPUs",
        "All cards with the price of a copy that becomes a driver call.",
        build_gpus,
        GpusPage,
        gpus_table,
        "gpus.html",
    ),
    PageSpec(
        "gpu",
        "/gpus/{slug}",
        "GPU",
        "One card: facts, prices of stack limits, of the newest runs, probe runs on it.",
        build_gpu,
        GpuPage,
        gpu_table,
        "gpu.html",
        parts=(Param("slug", "Name of the card in lower case, joined by dashes."),),
    ),
)

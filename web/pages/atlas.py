"""The atlas: what ptxas makes of every form of a bulk copy on every target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ptxguard.arch import Target
from ptxguard.forms import first_toolkit, on_target, read_bulk_copy, syscall_name
from ptxguard.model import Instruction
from ptxguard.web.page import PageSpec, View
from ptxguard.web.table import Table

TARGETS = "sm_90 sm_90a sm_100 sm_100a sm_103a sm_110a sm_120 sm_120a sm_120f sm_121 sm_121a".split()
_MBARRIER = "mbarrier::complete_tx::bytes"


@dataclass(frozen=True)
class FormRow:
    """A form: what happens on each of `TARGETS`, its driver function on sm_12x, its first toolkit."""

    opcode: str
    outcomes: tuple[str, ...]
    syscall: str | None
    toolkit: str


@dataclass(frozen=True)
class AtlasPage:
    """All forms; `outcomes` of a row stand under `targets`."""

    targets: tuple[str, ...]
    rows: tuple[FormRow, ...]


def build(view: View) -> AtlasPage:
    """The context."""
    return _atlas()


@lru_cache(maxsize=1)
def _atlas() -> AtlasPage:
    return AtlasPage(tuple(TARGETS), tuple(map(_row, _opcodes())))


def _row(opcode: str) -> FormRow:
    copy = read_bulk_copy(Instruction(opcode, None, (), 0, 0, 0))
    if copy is None:
        raise ValueError(f"{opcode} is no bulk copy")
    major, minor = first_toolkit(copy)
    outcomes = tuple(on_target(copy, Target.parse(name)) for name in TARGETS)
    return FormRow(opcode, outcomes, syscall_name(copy), f"{major}.{minor}")


def _opcodes() -> Iterator[str]:
    """Every form of the PTX ISA's syntax, less cache hints (they change nothing here)."""
    for space in ("shared::cluster", "shared::cta"):
        yield f"cp.async.bulk.{space}.global.{_MBARRIER}"
    yield f"cp.async.bulk.shared::cluster.global.{_MBARRIER}.multicast::cluster"
    yield f"cp.async.bulk.shared::cluster.shared::cta.{_MBARRIER}"
    yield "cp.async.bulk.global.shared::cta.bulk_group"
    yield from _loads()
    for rank in range(1, 6):
        yield f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"
    for rank in range(3, 6):
        yield f"cp.async.bulk.tensor.{rank}d.global.shared::cta.im2col_no_offs.bulk_group"
    yield "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group"


def _loads() -> Iterator[str]:
    modes = [(rank, "tile") for rank in range(1, 6)] + [(2, "tile::gather4")]
    modes += [(rank, mode) for mode in ("im2col", "im2col::w", "im2col::w::128") for rank in range(3, 6)]
    for rank, mode in modes:
        for space in ("shared::cluster", "shared::cta"):
            base = f"cp.async.bulk.tensor.{rank}d.{space}.global.{mode}.{_MBARRIER}"
            yield base
            if space == "shared::cluster":
                yield f"{base}.multicast::cluster"
    yield f"cp.async.bulk.tensor.2d.shared::cluster.global.tile.{_MBARRIER}.cta_group::2"


def table(page: AtlasPage) -> Table:
    """The atlas as CSV."""
    columns = ("opcode", *page.targets, "syscall", "toolkit")
    return Table(columns, ((row.opcode, *row.outcomes, row.syscall, row.toolkit) for row in page.rows))


PAGE = PageSpec(
    "atlas",
    "/atlas",
    "Atlas",
    "What ptxas makes of every bulk copy on every target: native, a driver call, or rejected.",
    build,
    AtlasPage,
    table,
    "atlas.html",
)

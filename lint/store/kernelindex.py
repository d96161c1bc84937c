"""The kernels of one run in memory, by target, driver function, name and order; a run never changes."""

from __future__ import annotations

import json
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.store.bits import everything, mask_of, masks_of, positions_of
from ptxguard.store.rows import Facet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ptxguard.store.database import Database
    from ptxguard.store.rows import KernelFilter

ORDERS = ("place", "name", "registers", "stack", "syscalls")
_BATCH = 20_000
_SPARSE = 6
# People turn the pages of one search: its last answers are kept.
_MOST_PARTS = 64


@dataclass(frozen=True)
class KernelIndex:
    """Kernels of a run; a position is the place in the run.

    Attributes:
        run: number of the run.
        size: how many kernels.
        targets: target -> set of positions.
        calling: positions that reach a driver function.
        syscalls: driver function -> set of positions.
        names: distinct names, mangled and demangled, lower-case, in the order of the mangled ones.
        name_of: position -> index in `names`.
        ranks: order -> position -> rank key, largest first where the order is one of figures.
    """

    run: int
    size: int
    targets: Mapping[str, int]
    calling: int
    syscalls: Mapping[str, int]
    names: Sequence[str]
    name_of: array[int]
    ranks: Mapping[str, array[int]]
    _orders: dict[str, array[int]] = field(default_factory=dict, repr=False, compare=False)
    _parts: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def select(self, wanted: KernelFilter) -> int:
        """The set of positions that a filter asks for."""
        mask = everything(self.size)
        if wanted.target is not None:
            mask &= self.targets.get(wanted.target, 0)
        if wanted.with_syscall is not None:
            mask &= self.calling if wanted.with_syscall else ~self.calling
        if wanted.syscall is not None:
            mask &= self.syscalls.get(wanted.syscall, 0)
        if wanted.name is not None and mask:
            mask &= self._named(wanted.name.lower(), mask)
        return mask

    def _named(self, part: str, mask: int) -> int:
        if self._is_sparse(mask):
            found = (at for at in positions_of(mask) if part in self.names[self.name_of[at]])
            return mask_of(found, self.size)
        if part not in self._parts:
            if len(self._parts) >= _MOST_PARTS:
                self._parts.clear()
            self._parts[part] = self._everywhere(part)
        return self._parts[part]

    def _everywhere(self, part: str) -> int:
        """All positions whose name holds a text."""
        named = bytearray(part in name for name in self.names)
        if not any(named):
            return 0
        return mask_of((position for position, name in enumerate(self.name_of) if named[name]), self.size)

    def page(self, mask: int, order: str, first: int, size: int) -> list[int]:
        """Positions of a page of a set, in an order."""
        if self._is_sparse(mask):
            return self._sorted(positions_of(mask), order)[first : first + size]
        bits = mask.to_bytes((self.size + 7) // 8, "little")
        ranked: Iterable[int] = range(self.size) if order == "place" else self._order(order)
        if mask.bit_count() == self.size:
            return list(ranked[first : first + size])  # type: ignore[index] # both are sequences
        found: list[int] = []
        for position in ranked:
            if bits[position >> 3] >> (position & 7) & 1:
                if first:
                    first -= 1
                    continue
                found.append(position)
                if len(found) == size:
                    break
        return found

    def _order(self, order: str) -> array[int]:
        """All positions in an order, sorted when it is first asked for."""
        if order not in self._orders:
            self._orders[order] = array("I", self._sorted(range(self.size), order))
        return self._orders[order]

    def _sorted(self, positions: Iterable[int], order: str) -> list[int]:
        """Ascending positions in an order; equal ones stay as they are."""
        if order == "place":
            return list(positions)
        ranks = self.name_of if order == "name" else self.ranks[order]
        return sorted(positions, key=ranks.__getitem__, reverse=order != "name")

    def _is_sparse(self, mask: int) -> bool:
        """Whether a walk over the set alone is shorter than one over all kernels."""
        return mask.bit_count() * _SPARSE < self.size

    def facets(self, mask: int) -> dict[tuple[str, str], int]:
        """(facet, value) -> how many kernels of a set have it."""
        found = {("target", name): (mask & having).bit_count() for name, having in self.targets.items()}
        found["with_syscall", "yes"] = (mask & self.calling).bit_count()
        found["with_syscall", "no"] = (mask & ~self.calling).bit_count()
        return {key: count for key, count in found.items() if count}


def merge_facets(counts: Iterable[Mapping[tuple[str, str], int]]) -> tuple[Facet, ...]:
    """Facets of several runs, targets first, the most frequent first."""
    total: dict[tuple[str, str], int] = {}
    for one in counts:
        for key, count in one.items():
            total[key] = total.get(key, 0) + count
    ranked = sorted(total.items(), key=lambda item: (item[0][0], -item[1], item[0][1]))
    return tuple(Facet(name, value, count) for (name, value), count in ranked)


def read_index(database: Database, run: int) -> KernelIndex:
    """Read the kernels of a run, some thousands at a time."""
    targets: list[str] = []
    ids: dict[str, int] = {}
    shown: list[str] = []
    name_of = array("I")
    ranks = {name: array("q") for name in ORDERS[2:]}
    first = 0
    while rows := database.rows(
        "SELECT name, demangled, target, registers, stack_bytes, syscall_count FROM kernel"
        " WHERE run = :run AND place >= :first AND place < :last ORDER BY place",
        {"run": run, "first": first, "last": first + _BATCH},
    ):
        for name, demangled, target, registers, stack, calls in rows:
            if (number := ids.setdefault(name, len(ids))) == len(shown):
                shown.append((name if demangled == name else f"{name}\n{demangled}").lower())
            name_of.append(number)
            targets.append(target)
            ranks["registers"].append(-1 if registers is None else registers)
            ranks["stack"].append(-1 if stack is None else stack)
            ranks["syscalls"].append(calls)
        first += _BATCH
    sorted_ids = sorted(ids, key=lambda name: name)
    rank_of = {ids[name]: rank for rank, name in enumerate(sorted_ids)}
    return KernelIndex(
        run,
        len(targets),
        masks_of(targets),
        mask_of((at for at, calls in enumerate(ranks["syscalls"]) if calls), len(targets)),
        _read_syscalls(database, run, len(targets)),
        [shown[ids[name]] for name in sorted_ids],
        array("I", (rank_of[number] for number in name_of)),
        ranks,
    )


def _read_syscalls(database: Database, run: int, size: int) -> dict[str, int]:
    places: dict[str, list[int]] = {}
    rows = database.rows(
        "SELECT place, syscalls FROM kernel WHERE run = :run AND syscall_count > 0", {"run": run}
    )
    for place, syscalls in rows:
        for call in json.loads(syscalls):
            places.setdefault(call["name"], []).append(place)
    return {name: mask_of(positions, size) for name, positions in places.items()}

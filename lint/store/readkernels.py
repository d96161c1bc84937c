"""Answers the questions that pages ask about compiled kernels."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from ptxguard.errors import ConfigError
from ptxguard.store.bits import mask_of, positions_of
from ptxguard.store.indexes import IndexCache
from ptxguard.store.kernelindex import ORDERS, KernelIndex, merge_facets, read_index
from ptxguard.store.rows import Page, StoredKernel
from ptxguard.store.scope import AT_ONCE, ScopedReader, first_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.store.rows import Facet, KernelFilter

_KERNEL = (
    "SELECT k.run, k.place, k.image, k.name, k.demangled, k.target, k.registers, k.stack_bytes,"
    " k.stack_unknown, k.cluster_dims, k.syscalls, k.externs, a.path, a.member"
    " FROM kernel AS k JOIN artifact AS a ON a.run = k.run AND a.place = k.artifact"
)
# A process keeps the kernels of some large libraries.
_INDEXES: IndexCache[KernelIndex] = IndexCache(800_000, lambda index: index.size)


class KernelReader(ScopedReader):
    """Kernels of binary runs."""

    def kernels(self, wanted: KernelFilter, page: int = 1, size: int = 50) -> Page[StoredKernel]:
        """Kernels in the order that the filter names; of several runs, one run after another.

        Raises:
            ConfigError: there is no such order or page.
        """
        if wanted.order not in ORDERS:
            raise ConfigError(f"{wanted.order!r} is no order; use one of {', '.join(ORDERS)}")
        first = first_row(page, size)
        rows: list[StoredKernel] = []
        total = 0
        for index, mask in self._kernels_of(wanted):
            count = mask.bit_count()
            if total + count > first and len(rows) < size:
                skip = max(0, first - total)
                rows += self._kernel_rows(index.run, index.page(mask, wanted.order, skip, size - len(rows)))
            total += count
        return Page(tuple(rows), page, size, total)

    def kernel_facets(self, wanted: KernelFilter) -> tuple[Facet, ...]:
        """Targets, and whether a driver function is reached ("yes", "no"), with counts."""
        return merge_facets(index.facets(mask) for index, mask in self._kernels_of(wanted))

    def kernel(self, run: int, place: int) -> StoredKernel | None:
        """One kernel by its position in a run, from 0; None where there is none."""
        return next(iter(self._kernel_rows(run, [place])), None)

    def sass(self, run: int, place: int) -> dict[str, Any] | None:
        """SASS around the calls of a kernel, as the scan kept it; None where it kept none."""
        rows = self.database.rows(
            "SELECT record FROM sass WHERE run = :run AND place = :place", {"run": run, "place": place}
        )
        return dict(json.loads(rows[0][0])) if rows else None

    def with_sass(self, wanted: KernelFilter, most: int) -> list[StoredKernel]:
        """The first kernels of a filter that have SASS, by run and position."""
        found: list[StoredKernel] = []
        for index, mask in self._kernels_of(wanted):
            if mask and len(found) < most:
                rows = self.database.rows("SELECT place FROM sass WHERE run = :run", {"run": index.run})
                having = positions_of(mask & mask_of((place for (place,) in rows), index.size))
                found += self._kernel_rows(index.run, having[: most - len(found)])
        return found

    def _kernels_of(self, wanted: KernelFilter) -> Iterator[tuple[KernelIndex, int]]:
        for number, key, _ in self.scope(wanted.run):
            index = _INDEXES.get(self.database.label, key, partial(read_index, self.database, number))
            yield index, index.select(wanted)

    def _kernel_rows(self, run: int, places: list[int]) -> list[StoredKernel]:
        """Kernels by their positions, in that order."""
        found: dict[int, StoredKernel] = {}
        for at in range(0, len(places), AT_ONCE):
            values = {f"p{number}": place for number, place in enumerate(places[at : at + AT_ONCE])}
            listed = ", ".join(f":{name}" for name in values)
            rows = self.database.rows(
                f"{_KERNEL} WHERE k.run = :run AND k.place IN ({listed})", {**values, "run": run}
            )
            found.update((row[1], _kernel(row)) for row in rows)
        return [found[place] for place in places if place in found]

    def flagged_kernels(self) -> tuple[tuple[int, int], ...]:
        """(run, position from 0) of all kernels that reach a driver function."""
        rows = self.database.rows("SELECT run, place FROM kernel WHERE syscall_count > 0 ORDER BY 1, 2")
        return tuple((int(run), int(place)) for run, place in rows)


def _kernel(row: tuple[Any, ...]) -> StoredKernel:
    run, place, image, name, demangled, target, registers, stack, unknown, dims, syscalls, externs = row[:12]
    path, member = row[12:]
    return StoredKernel(
        run,
        place,
        f"{path}!{member}" if member else path,
        image,
        name,
        demangled,
        target,
        registers,
        stack,
        unknown,
        tuple(int(part) for part in dims.split(",")) if dims else None,
        tuple(json.loads(syscalls)),
        tuple(json.loads(externs)),
    )

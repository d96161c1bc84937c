"""The compiled kernels that carry a finding, and the SASS around their call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ptxguard.store.rows import KernelFilter, StoredFinding, StoredKernel
from ptxguard.store.store import Store

_SHOWN = 25
# Kernels of the source whose compiled instances are looked for.
_NAMES = 3


@dataclass(frozen=True)
class Carriers:
    """Compiled kernels that make the call of a finding.

    Attributes:
        kernels: the first ones.
        total: how many there are.
        elsewhere: found by name in the newest runs of compiled code, because the finding is one of source.
        sass: instructions around the call in one of them, or None.
        sass_kernel: that kernel.
    """

    kernels: tuple[StoredKernel, ...] = ()
    total: int = 0
    elsewhere: bool = False
    sass: dict[str, Any] | None = None
    sass_kernel: StoredKernel | None = None


def find_carriers(store: Store, stored: StoredFinding) -> Carriers:
    """The kernels of a finding of compiled code; of one of source those with the names of its kernels."""
    filters = tuple(_filters(stored))
    if not filters:
        return Carriers()
    pages = [store.kernels(wanted, 1, _SHOWN) for wanted in filters]
    kernels = tuple(kernel for page in pages for kernel in page.rows)[:_SHOWN]
    sass_kernel = next((found for wanted in filters for found in store.with_sass(wanted, 1)), None)
    return Carriers(
        kernels,
        sum(page.total for page in pages),
        filters[0].run is None,
        store.sass(sass_kernel.run, sass_kernel.place) if sass_kernel is not None else None,
        sass_kernel,
    )


def _filters(stored: StoredFinding) -> Iterator[KernelFilter]:
    record = stored.record
    syscall = record["syscall"]
    if not syscall or not syscall.startswith("__"):
        return
    if record["path"] and any(kernel["path"] is not None for kernel in record["kernels"]):
        names = dict.fromkeys(kernel["name"] for kernel in record["kernels"] if kernel["path"] is not None)
        for name in list(names)[:_NAMES]:
            yield KernelFilter(name=f"{name}<", syscall=syscall)
            yield KernelFilter(name=f"{name}(", syscall=syscall)
    elif record["targets"]:
        yield KernelFilter(run=stored.run, target=next(iter(record["targets"])), syscall=syscall)

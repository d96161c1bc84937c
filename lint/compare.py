"""Two builds of the same code: kernels that gained or lost driver calls, registers, stack; and the price."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ptxguard.binary.demangle import demangle
from ptxguard.binary.facts import COPY_SYSCALL_PREFIX
from ptxguard.compiled import find_all, worst_cost

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ptxguard.binary.facts import Artifact, CubinKernel
    from ptxguard.errors import PtxguardError
    from ptxguard.memcost import Gpu

# `_GLOBAL__N__<hash>_<length>_<file>_cu_<hash>`: both change with the path and the content of the file.
_FILE_HASH = re.compile(r"(_GLOBAL__N__|_cu_)[0-9a-f]{8}")
Key = tuple[str, str]  # target, mangled name without hashes


@dataclass(frozen=True)
class Build:
    """A kernel in one build; copies of it in several images are taken together, the largest figures count.

    Attributes:
        syscalls: driver functions that it can reach.
        registers: per thread; None where no image says.
        stack_bytes: per thread; None where unknown.
    """

    syscalls: frozenset[str]
    registers: int | None
    stack_bytes: int | None


@dataclass(frozen=True)
class Change:
    """A kernel that differs between two builds.

    Attributes:
        target: `sm_120f`.
        name: mangled.
        old: None where the kernel is new.
        new: None where it is gone.
    """

    target: str
    name: str
    old: Build | None
    new: Build | None

    @property
    def gained(self) -> tuple[str, ...]:
        """Driver functions that only the new build reaches."""
        return tuple(sorted(_syscalls(self.new) - _syscalls(self.old)))

    @property
    def lost(self) -> tuple[str, ...]:
        """Driver functions that only the old build reaches."""
        return tuple(sorted(_syscalls(self.old) - _syscalls(self.new)))

    @property
    def kind(self) -> str:
        """new, gone or changed."""
        return "new" if self.old is None else "gone" if self.new is None else "changed"

    def record(self) -> dict[str, Any]:
        """The JSON form; pairs are old and new."""
        return {
            "name": self.name,
            "demangled": demangle(self.name),
            "target": self.target,
            "change": self.kind,
            "gained": list(self.gained),
            "lost": list(self.lost),
            "registers": [build.registers if build else None for build in (self.old, self.new)],
            "stack_bytes": [build.stack_bytes if build else None for build in (self.old, self.new)],
        }


@dataclass(frozen=True)
class Price:
    """What the worst kernel costs on one card, before and after, in MiB; None where nothing is priced."""

    gpu: str
    old_mib: float | None
    new_mib: float | None

    @property
    def is_worse(self) -> bool:
        """Whether the new build costs more."""
        return (self.new_mib or 0.0) > (self.old_mib or 0.0)


@dataclass(frozen=True)
class Comparison:
    """Two builds beside each other.

    Attributes:
        changes: kernels that differ, by target and name; new and gone ones only if they call the driver.
        kernels: number of distinct kernels (target and name) of the old and of the new build.
        added: number of kernels that only the new build has.
        removed: number of those that only the old one has.
        prices: per card.
    """

    changes: tuple[Change, ...]
    kernels: tuple[int, int]
    added: int
    removed: int
    prices: tuple[Price, ...]

    @property
    def is_worse(self) -> bool:
        """Whether a kernel gained a copy that calls the driver, or a price rose."""
        copies = any(
            name.startswith(COPY_SYSCALL_PREFIX) for change in self.changes for name in change.gained
        )
        return copies or any(price.is_worse for price in self.prices)


def compare(
    old: Sequence[Artifact], new: Sequence[Artifact], gpus: Sequence[Gpu], errors: list[PtxguardError]
) -> Comparison:
    """Compare two builds kernel by kernel; names of files and members play no part.

    Args:
        old: artifacts of the old build, with every kernel.
        new: likewise.
        gpus: cards to price on.
        errors: takes what of their PTX could not be parsed.
    """
    before, after = _builds(old), _builds(new)
    changes = []
    for key in sorted(before.keys() | after.keys()):
        change = Change(*key, before.get(key), after.get(key))
        both = change.kind == "changed"
        if (both and change.old != change.new) or (not both and (change.gained or change.lost)):
            changes.append(change)
    found = [find_all(artifacts, gpus, errors) for artifacts in (old, new)]
    prices = []
    for gpu in gpus:
        costs = [worst_cost(findings, gpu.name) for findings in found]
        prices.append(Price(gpu.name, *(cost.mib if cost is not None else None for cost in costs)))
    return Comparison(
        changes=tuple(changes),
        kernels=(len(before), len(after)),
        added=len(after.keys() - before.keys()),
        removed=len(before.keys() - after.keys()),
        prices=tuple(prices),
    )


def _builds(artifacts: Iterable[Artifact]) -> Mapping[Key, Build]:
    found: dict[Key, Build] = {}
    for artifact in artifacts:
        for image in artifact.images:
            for kernel in image.kernels:
                key = (image.target, _stable(kernel.name))
                found[key] = _joined(found.get(key), kernel)
    return found


def _stable(name: str) -> str:
    """A mangled name without the hashes by which nvcc tells unnamed namespaces of different files apart."""
    return _FILE_HASH.sub(r"\1", name) if "_GLOBAL__N__" in name else name


def _joined(known: Build | None, kernel: CubinKernel) -> Build:
    own = frozenset(syscall.name for syscall in kernel.syscalls)
    if known is None:
        return Build(own, kernel.registers, kernel.stack_bytes)
    stack = (
        None
        if None in (known.stack_bytes, kernel.stack_bytes)
        else max(known.stack_bytes or 0, kernel.stack_bytes or 0)
    )
    return Build(known.syscalls | own, max(known.registers or 0, kernel.registers or 0) or None, stack)


def _syscalls(build: Build | None) -> frozenset[str]:
    return build.syscalls if build is not None else frozenset()

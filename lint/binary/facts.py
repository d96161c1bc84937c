"""Facts about compiled code that leave this layer, all frozen: kernels, images, artifacts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import builtins

    from ptxguard.binary.disassembly import Sass

SYSCALL_PREFIX = "__cuda_syscall_"
# Bulk copies; other syscalls (CDP's cnpv2*, aligned_malloc) are the device runtime's own.
COPY_SYSCALL_PREFIX = "__cuda_syscall_cp_async_bulk"

# Why the stack of a kernel compiled with -rdc is not known: it calls a function of another image.
NOT_LINKED = "the image is not linked yet"


@lru_cache
def _values_of(kind: Any) -> attrgetter[tuple[Any, ...]]:
    return attrgetter(*[field.name for field in fields(kind)])


class _Record:
    """Pickled as a call of its class, in half the time that a dataclass with slots takes by itself."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        kind: Any = type(self)
        return kind, _values_of(kind)(self)


@dataclass(frozen=True, slots=True)
class SourceLine(_Record):
    """One link of an inlining chain; `path` as nvcc got it, `function` mangled or None where not known."""

    path: str
    line: int
    function: str | None


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call of a driver function.

    Attributes:
        offset: byte offset of the CALL in the section of `function`.
        function: mangled name of the function whose code holds the call (the kernel itself, mostly).
        source: the chain of source lines, innermost first; empty without -lineinfo.
    """

    offset: int
    function: str
    source: tuple[SourceLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Calls(_Record):
    """The calls of one driver function in the code of one function, kept small: a library has 60,000.

    Attributes:
        function: mangled name of the function whose code holds them (the kernel itself, mostly).
        offsets: byte offset of each CALL in the section of `function`.
        chains: source lines of each one; empty where the image has no line table.
    """

    function: str
    offsets: tuple[int, ...]
    chains: tuple[tuple[SourceLine, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Syscall(_Record):
    """A driver function `__cuda_syscall_…` that a kernel can reach, with the calls found."""

    name: str
    calls: tuple[Calls, ...]

    @property
    def sites(self) -> tuple[CallSite, ...]:
        """Each call found, in the order of functions and offsets."""
        return tuple(
            CallSite(offset, group.function, chain)
            for group in self.calls
            for offset, chain in zip(group.offsets, group.chains or repeat(()), strict=False)
        )


@dataclass(frozen=True, slots=True)
class CubinKernel(_Record):
    """One compiled kernel.

    Attributes:
        name: mangled.
        registers: per thread, None where the image does not say.
        stack_bytes: per thread without what driver functions need; None where unknown.
        stack_unknown: why the stack is not known ("recursion", …); empty where it is.
        shared_bytes: static shared memory, with the reserved part that sm_90 and later add.
        constant_bytes: size of constant bank 0.
        code_bytes: size of the code.
        cluster_dims: compiled-in (x, y, z), or None.
        explicit_cluster: launched only with a cluster (`__cluster_dims__`).
        max_cluster_rank: third argument of `__launch_bounds__`, or None.
        max_threads: (x, y, z) of `__launch_bounds__`, or None.
        block_dims: required block size (x, y, z), or None.
        barriers: named barriers, or None where not said.
        syscalls: every `__cuda_syscall_…` it can reach, sorted by name.
        externs: the other driver functions it can reach (vprintf, malloc, …), sorted.
        never_runs: why it cannot do its work on this target though it was compiled for it; else empty.
        local_reads: instructions of its own section that read local memory (spilled registers, arrays of a
            thread); None where it reaches no driver function, and nobody looked.
        setmaxnreg: USETMAXREG instructions there, likewise.
        sass: instructions around its calls, where they were asked for.
    """

    name: str
    registers: int | None
    stack_bytes: int | None
    stack_unknown: str
    shared_bytes: int
    constant_bytes: int
    code_bytes: int
    cluster_dims: tuple[int, int, int] | None
    explicit_cluster: bool
    max_cluster_rank: int | None
    max_threads: tuple[int, int, int] | None
    block_dims: tuple[int, int, int] | None
    barriers: int | None
    syscalls: tuple[Syscall, ...]
    externs: tuple[str, ...]
    never_runs: str = ""
    local_reads: int | None = None
    setmaxnreg: int | None = None
    sass: Sass | None = None

    @property
    def flagged(self) -> bool:
        """Whether it reaches a syscall, recurses or calls through a pointer."""
        return bool(self.syscalls or self.stack_unknown not in ("", NOT_LINKED))


@dataclass(frozen=True, slots=True)
class Image(_Record):
    """One compiled entry of an artifact.

    Attributes:
        index: number in the artifact, from 0.
        container: number of its fatbin container, None for an image outside any.
        offset: byte offset in the artifact.
        kind: elf, ptx, ltoir or `kind <n>`.
        target: `sm_120f`; `compute_90` of PTX.
        compressed_bytes: as stored; equal to `bytes` where it is not compressed.
        bytes: unpacked.
        toolkit: `13.0`, or None where the image does not say (PTX says its ISA version only).
        relocatable: compiled with -rdc and not linked.
        kernel_count: kernels defined in it; None where they were not counted.
        kernels: facts of the kernels asked for.
        ptx: text of a PTX image that holds a bulk copy, else None.
        command_line: of ptxas, from the tool note; empty where there is none.
        encoded: what `Wish.encode` made of all kernels, packed (`inflate.unpack`); empty without it.
    """

    index: int
    container: int | None
    offset: int
    kind: str
    target: str
    compressed_bytes: int
    bytes: int
    toolkit: str | None = None
    relocatable: bool = False
    kernel_count: int | None = None
    kernels: tuple[CubinKernel, ...] = ()
    ptx: str | None = None
    command_line: str = ""
    encoded: builtins.bytes = b""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file, or a member of an archive, that holds device code.

    Attributes:
        path: the file, as it was given.
        member: path inside the archive, parts of nested ones joined by "!"; None for the file itself.
        sha256: of the file or the member.
        images: in file order.
    """

    path: str
    member: str | None
    sha256: str
    images: tuple[Image, ...]

    @property
    def label(self) -> str:
        """`lib.whl!pkg/lib.so`."""
        return self.path if self.member is None else f"{self.path}!{self.member}"

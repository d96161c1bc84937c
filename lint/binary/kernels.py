"""Builds the facts of each kernel of a cubin."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

from ptxguard.binary import eiattr, elf, sass
from ptxguard.binary.callgraph import CallGraph, deepest_bytes
from ptxguard.binary.callsites import ATTRIBUTES, find_calls
from ptxguard.binary.facts import NOT_LINKED, SYSCALL_PREFIX, CubinKernel, Syscall

if TYPE_CHECKING:
    from ptxguard.binary.cubin import Cubin

_EXTERNS_HEAD = re.compile(re.escape(bytes((4, eiattr.EXTERNS))))
# SHF_ALLOC and SHF_INFO_LINK: constant banks of one function.
_ALLOC_INFO_LINK = 0x42
_UNKNOWN_STACK = 0xFFFFFFFF
# CUDA C++ Programming Guide: what device code can call without defining it.
_DRIVER_FUNCTIONS = frozenset({"vprintf", "malloc", "free", "__assertfail"})
_NONE: frozenset[int] = frozenset()
RECURSION = "recursion"
INDIRECT = "a call through a pointer"

# A kernel of CUTLASS names the architecture it was written for; on any other it prints and gives up ("Arch
# conditional MMA instruction used …", "Attempting to use … without CUTE_ARCH_MMA_SM90A_ENABLED").
_WRITTEN_FOR = re.compile(r"(?:Sm|sm_?)(90|10[03])(?!\d)")
_GIVES_UP = (b"rch conditional", b" without CUTE_ARCH_")
_SM_FAMILY = 10


def read_kernels(cubin: Cubin, *, every: bool) -> tuple[CubinKernel, ...]:
    """Facts of the kernels of an image in symbol order: of all, or of the flagged ones only.

    Raises:
        BinaryError: the image contradicts itself.
    """
    reader = _Reader(cubin)
    if not every and not reader.may_flag:
        return ()
    symbols = cubin.kernels if every else reader.callers
    kernels = (reader.kernel(symbol, every=every) for symbol in symbols)
    return tuple(kernel for kernel in kernels if kernel is not None)


class _Reader:
    """What the kernels of one image share."""

    def __init__(self, cubin: Cubin) -> None:
        self.cubin = cubin
        self.drivers = cubin.drivers
        self.syscalls = frozenset(s for s, name in self.drivers.items() if name.startswith(SYSCALL_PREFIX))
        attributes = cubin.attributes
        self.registers = attributes.get(eiattr.REGCOUNT, {})
        self.frames = attributes.get(eiattr.FRAME_SIZE, {})
        linked = not cubin.header.relocatable
        self.stack = attributes.get(eiattr.MIN_STACK_SIZE if linked else eiattr.MAX_STACK_SIZE, {})
        graph = cubin.graph
        # Where every call is one of a driver function, nothing has to be closed over.
        self.flat = not graph.indirect and all(
            c in self.drivers for calls in graph.calls.values() for c in calls
        )

    @property
    def may_flag(self) -> bool:
        """Whether a kernel of the image can be flagged at all."""
        return bool(
            self.syscalls
            or self.cubin.cloned_functions
            or not self.flat
            or _UNKNOWN_STACK in self.stack.values()
        )

    @cached_property
    def gives_up(self) -> bool:
        """Whether the image holds the text with which CUTLASS kernels of another architecture give up."""
        index = self.cubin.sections.named(".nv.global.init")
        if index is None:
            return False
        texts = bytes(self.cubin.sections.content(index))
        return any(text in texts for text in _GIVES_UP)

    @cached_property
    def sizes(self) -> tuple[dict[int, int], dict[int, int]]:
        """Section of code -> bytes of static shared memory, and of constant bank 0."""
        sections = self.cubin.sections
        shared, constant = (
            {
                sections.info[i]: sections.size[i]
                for i in indices
                if sections.names.startswith(prefix, sections.name[i])
            }
            for indices, prefix in (
                (sections.of_type(elf.SHT_NOBITS) + sections.of_type(elf.SHT_CUDA_SHARED), b".nv.shared."),
                (sections.with_flags(_ALLOC_INFO_LINK), b".nv.constant0."),
            )
        )
        return shared, constant

    def kernel(self, symbol: int, *, every: bool) -> CubinKernel | None:
        """Facts of one kernel; None where it is not flagged and only flagged ones are asked for."""
        cubin = self.cubin
        section = cubin.symbols.section(symbol)
        info = ATTRIBUTES.read(self._attributes(section))
        reached = {symbol: None} if self.flat else cubin.graph.reach(symbol)
        names = self._drivers_of(info, reached)
        stack = self.stack.get(symbol)
        unknown = self._unknown_stack(symbol, section, reached, stack)
        if cubin.header.relocatable and not unknown:
            # MAX_STACK_SIZE is 0 there even for a kernel with a frame of 512 bytes (ptxas 13.0).
            stack = deepest_bytes(cubin.graph, symbol, self.frames)
        wanted = self.syscalls.intersection(names) if names else _NONE
        if not (every or wanted or unknown not in ("", NOT_LINKED)):
            return None
        return self._facts(symbol, section, info, reached, stack, unknown, names, wanted)

    def _drivers_of(self, info: dict[int, tuple[int, ...]], reached: dict[int, None]) -> dict[int, str]:
        """The driver functions that EXTERNS or the call graph name: symbol -> name."""
        calls, drivers = self.cubin.graph.calls, self.drivers
        called = [*info.get(eiattr.EXTERNS, ())]
        for function in reached:
            if function in calls:
                called += calls[function]
        return {callee: drivers[callee] for callee in called if callee in drivers} if called else {}

    @property
    def callers(self) -> list[int]:
        """The kernels that may be flagged: call graph or EXTERNS say that they call something."""
        cubin, kernels = self.cubin, self.cubin.kernels
        if not self.flat:
            return kernels
        of_code = cubin.sections.info
        sections = {of_code[index] for index in self.with_externs}.union(cubin.cloned_functions)
        unknown = [symbol for symbol, size in self.stack.items() if size == _UNKNOWN_STACK]
        callers, section = frozenset(cubin.graph.calls).union(unknown), cubin.symbols.section
        return [symbol for symbol in kernels if symbol in callers or section(symbol) in sections]

    @cached_property
    def with_externs(self) -> frozenset[int]:
        """The attribute sections in which an EXTERNS record may stand (its first bytes do)."""
        sections = self.cubin.sections
        starts = sorted((sections.offset[i], i) for i in self.cubin.info_of.values() if sections.size[i])
        if not starts:
            return frozenset()
        ends = [start + sections.size[index] for start, index in starts]
        if any(end > start for end, (start, _) in zip(ends, starts[1:], strict=False)):
            return frozenset(index for _, index in starts)  # sections that overlap: a damaged image
        low, high = starts[0][0], ends[-1]
        found = set()
        for match in _EXTERNS_HEAD.finditer(self.cubin.image, low, high):
            found.add(starts[bisect_right(starts, (match.start(), len(sections.type))) - 1][1])
        return frozenset(found)

    def _facts(
        self,
        symbol: int,
        section: int,
        info: dict[int, tuple[int, ...]],
        reached: dict[int, None],
        stack: int | None,
        unknown: str,
        names: dict[int, str],
        wanted: frozenset[int],
    ) -> CubinKernel:
        name = self.cubin.symbols.name(symbol)
        calls = find_calls(self.cubin, reached, wanted, {symbol: (name, info)}) if wanted else {}
        shared, constant = self.sizes
        syscalls: tuple[Syscall, ...] = ()
        externs: tuple[str, ...] = ()
        if names:
            ordered = sorted(wanted, key=names.__getitem__)
            syscalls = tuple([Syscall(names[callee], tuple(calls[callee])) for callee in ordered])
            externs = tuple(sorted([n for callee, n in names.items() if callee not in wanted]))
        costly: tuple[int, int] | tuple[None, None] = (None, None)
        if syscalls:
            costly = sass.count_costly(self.cubin.sections.content(section))
        return CubinKernel(
            name=name,
            registers=self.registers.get(symbol),
            stack_bytes=None if unknown else stack,
            stack_unknown=unknown,
            shared_bytes=shared.get(section, 0),
            constant_bytes=constant.get(section, 0),
            code_bytes=self.cubin.sections.size[section],
            cluster_dims=_triple(info.get(eiattr.CTA_PER_CLUSTER)),
            explicit_cluster=eiattr.EXPLICIT_CLUSTER in info,
            max_cluster_rank=_single(info.get(eiattr.MAX_CLUSTER_RANK)),
            max_threads=_triple(info.get(eiattr.MAX_THREADS)),
            block_dims=_triple(info.get(eiattr.REQNTID)),
            barriers=_single(info.get(eiattr.NUM_BARRIERS)),
            syscalls=syscalls,
            externs=externs,
            never_runs=self._never_runs(name, externs) if syscalls else "",
            local_reads=costly[0],
            setmaxnreg=costly[1],
        )

    def _attributes(self, section: int) -> memoryview:
        index = self.cubin.info_of.get(section)
        return self.cubin.image[:0] if index is None else self.cubin.sections.content(index)

    def _unknown_stack(self, symbol: int, section: int, reached: dict[int, None], stack: int | None) -> str:
        graph = self.cubin.graph
        if not self.flat:
            if any(function in graph.indirect for function in reached):
                return INDIRECT
            if graph.recursive(symbol):
                return RECURSION
        if stack == _UNKNOWN_STACK:
            return "the linker says so"
        if section in self.cubin.cloned_functions:
            return self._unknown_by_code(symbol, section)
        if self.cubin.header.relocatable and any(
            callee in self.drivers and not _of_driver(self.drivers[callee])
            for function in reached
            for callee in (function, *graph.calls.get(function, ()))
        ):
            return NOT_LINKED
        return "" if stack is not None else "the image does not say"

    def _unknown_by_code(self, symbol: int, section: int) -> str:
        """Recursion and pointers among functions cloned into a kernel stand in no table, only in its code."""
        symbols = self.cubin.symbols
        direct, indirect = sass.local_calls(self.cubin.sections.content(section), self.cubin.sm)
        if indirect:
            return INDIRECT
        cloned = self.cubin.cloned_functions[section]
        starts = {symbols.value[function]: function for function in cloned}
        order = sorted(starts)
        graph = CallGraph()
        for at, target in direct:
            # Calls into the kernel's own body are ptxas' outlined blocks (WARPSYNC.COLLECTIVE), no recursion:
            # nothing can call a kernel.
            if target in starts:
                place = bisect_right(order, at)
                caller = starts[order[place - 1]] if place else symbol
                graph.calls.setdefault(caller, []).append(starts[target])
        return RECURSION if any(graph.recursive(function) for function in cloned) else ""

    def _never_runs(self, name: str, externs: tuple[str, ...]) -> str:
        if not self.gives_up or not {"vprintf", "__assertfail"}.intersection(externs):
            return ""
        written_for = {int(number) for number in _WRITTEN_FOR.findall(name)}
        if not written_for:
            return ""
        if self.cubin.sm // _SM_FAMILY in {number // _SM_FAMILY for number in written_for}:
            return ""
        numbers = ", ".join(f"sm_{number}" for number in sorted(written_for))
        return f"written for {numbers}; on any other target they print that and stop"


def _of_driver(name: str) -> bool:
    """Whether an undefined function is the driver's; any other one comes with another image."""
    return name in _DRIVER_FUNCTIONS or name.startswith(SYSCALL_PREFIX)


def _triple(words: tuple[int, ...] | None) -> tuple[int, int, int] | None:
    return (words[0], words[1], words[2]) if words is not None and len(words) >= 3 else None


def _single(words: tuple[int, ...] | None) -> int | None:
    return words[0] if words else None

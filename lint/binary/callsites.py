"""Finds the calls of driver functions in the code of a kernel, and which function each one calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.binary import eiattr, sass
from ptxguard.binary.elf import read_relocations
from ptxguard.binary.facts import Calls

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ptxguard.binary.cubin import Cubin
    from ptxguard.binary.facts import SourceLine

# Relocation of a CALL.ABS in code that is not linked (R_CUDA_ABS55_16_34 of cuobjdump).
_R_CUDA_ABS55_16_34 = 75

# The attributes of a function that its facts are made of.
ATTRIBUTES = eiattr.ValueReader(
    frozenset(
        {
            eiattr.EXTERNS,
            eiattr.SYSCALL_OFFSETS,
            eiattr.CTA_PER_CLUSTER,
            eiattr.EXPLICIT_CLUSTER,
            eiattr.MAX_CLUSTER_RANK,
            eiattr.MAX_THREADS,
            eiattr.REQNTID,
            eiattr.NUM_BARRIERS,
        }
    )
)


def find_calls(
    cubin: Cubin,
    functions: Iterable[int],
    wanted: frozenset[int],
    known: dict[int, tuple[str, dict[int, tuple[int, ...]]]],
) -> dict[int, list[Calls]]:
    """Calls of the wanted driver functions in the code of some functions.

    Args:
        cubin: the image.
        functions: symbols of the kernel and of the functions it can reach.
        wanted: symbols of the driver functions asked for.
        known: names and attributes of functions that are read already.

    Returns:
        Driver function -> its calls; one that cannot be decoded is given to no function.
    """
    found: dict[int, list[Calls]] = {symbol: [] for symbol in wanted}
    for function in functions:
        section = cubin.symbols.section(function)
        if not section:
            continue
        if function in known:
            name, info = known[function]
        else:
            name, info = cubin.symbols.name(function), function_attributes(cubin, section)
        calls = _announced(cubin, section, info) or _relocated(cubin, section)
        if calls:
            for symbol in wanted.intersection(calls):
                offsets = tuple(calls[symbol])
                found[symbol].append(Calls(name, offsets, _chains(cubin, section, name, offsets)))
    return found


def _chains(
    cubin: Cubin, section: int, function: str, offsets: tuple[int, ...]
) -> tuple[tuple[SourceLine, ...], ...]:
    if cubin.lines.empty:
        return ()
    return tuple(
        cubin.lines.chain(section, offset, _holder(cubin, section, offset, function)) for offset in offsets
    )


def _holder(cubin: Cubin, section: int, offset: int, function: str) -> str:
    """The function whose code is at an offset: the one the section is for, or one cloned into it."""
    symbols = cubin.symbols
    before = [clone for clone in cubin.cloned_functions.get(section, ()) if symbols.value[clone] <= offset]
    if not before:
        return function
    return symbols.name(max(before, key=lambda clone: symbols.value[clone])).rpartition("$")[2]


def function_attributes(cubin: Cubin, section: int) -> dict[int, tuple[int, ...]]:
    """The attributes used here of the function whose code is in a section."""
    index = cubin.info_of.get(section)
    return {} if index is None else ATTRIBUTES.read(cubin.sections.content(index))


def _announced(cubin: Cubin, section: int, info: dict[int, tuple[int, ...]]) -> dict[int, Sequence[int]]:
    """Driver function -> offsets by SYSCALL_OFFSETS, which whole-program images have."""
    offsets, externs = info.get(eiattr.SYSCALL_OFFSETS, ()), info.get(eiattr.EXTERNS, ())
    if not offsets:
        return {}
    if len(externs) == 1:
        return {externs[0]: offsets}
    found: dict[int, list[int]] = {}
    symbols = cubin.constant4_symbols
    for offset, slot in sass.called_slots(cubin.sections.content(section), offsets).items():
        if slot is not None and slot in symbols:
            found.setdefault(symbols[slot], []).append(offset)
    return dict(found)


def _relocated(cubin: Cubin, section: int) -> dict[int, Sequence[int]]:
    """Driver function -> offsets by the relocations that -rdc and nvlink leave in the code."""
    index = cubin.relocations_of.get(section)
    found: dict[int, list[int]] = {}
    if index is not None:
        for offset, kind, symbol in read_relocations(cubin.sections, index):
            if kind == _R_CUDA_ABS55_16_34 and symbol in cubin.drivers:
                found.setdefault(symbol, []).append(offset)
    return dict(found)

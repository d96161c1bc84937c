"""Finds the calls of driver functions in the code of a kernel, and which function each one calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.binary import eiattr, sass
from ptxguard.binary.elf import read_relocations
from ptxguard.binary.facts import CallSite

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ptxguard.binary.cubin import Cubin

# Relocation of a CALL.ABS in code that is not linked (R_CUDA_ABS55_16_34 of cuobjdump).
_R_CUDA_ABS55_16_34 = 75


def find_sites(cubin: Cubin, functions: Iterable[int], wanted: frozenset[int]) -> dict[int, list[CallSite]]:
    """Calls of the wanted driver functions in the code of some functions.

    Args:
        cubin: the image.
        functions: symbols of the kernel and of the functions it can reach.
        wanted: symbols of the driver functions asked for.

    Returns:
        Driver function -> its call sites; a site that cannot be decoded is given to no function.
    """
    found: dict[int, list[CallSite]] = {symbol: [] for symbol in wanted}
    for function in functions:
        section = cubin.symbols.section(function)
        if not section:
            continue
        name = cubin.symbols.name(function)
        pairs = _announced(cubin, section) or _relocated(cubin, section)
        for offset, symbol in pairs:
            if symbol in wanted:
                found[symbol].append(CallSite(offset, name))
    return found


def _announced(cubin: Cubin, section: int) -> list[tuple[int, int]]:
    """(offset, driver function) by SYSCALL_OFFSETS, which whole-program images have."""
    index = cubin.info_of.get(section)
    if index is None:
        return []
    offsets: tuple[int, ...] = ()
    externs: tuple[int, ...] = ()
    for record in eiattr.decode_records(cubin.sections.content(index)):
        if record.attribute == eiattr.SYSCALL_OFFSETS:
            offsets += record.words
        elif record.attribute == eiattr.EXTERNS:
            externs += record.words
    if len(externs) == 1:
        return [(offset, externs[0]) for offset in offsets]
    slots = sass.called_slots(cubin.sections.content(section), offsets)
    symbols = cubin.constant4_symbols
    return [
        (offset, symbols[slot]) for offset, slot in slots.items() if slot is not None and slot in symbols
    ]


def _relocated(cubin: Cubin, section: int) -> list[tuple[int, int]]:
    """(offset, driver function) by the relocations that -rdc and nvlink leave in the code."""
    index = cubin.relocations_of.get(section)
    if index is None:
        return []
    return [
        (offset, symbol)
        for offset, kind, symbol in read_relocations(cubin.sections, index)
        if kind == _R_CUDA_ABS55_16_34 and symbol in cubin.drivers
    ]

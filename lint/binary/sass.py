"""Decodes the few SASS instructions that say who calls whom: calls, and what loads their address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.binary.columns import flags

if TYPE_CHECKING:
    from collections.abc import Iterable

_INSTRUCTION_BYTES = 16
_OPCODE = 0xFFF
_CALL_REL = 0x944
_CALL_REL_REGISTER = 0x344
_CALL_ABS_REGISTER = 0x343
_LDC = 0xB82
# MOV, IMAD.MOV.U32 and HFMA2 are the forms in which ptxas materialises a 32-bit constant.
_MOVES = frozenset({0x802, 0x424, 0x431, 0x435})
# Reads of local memory, and what sizes the registers of a warp at run time (nvdisasm 13.5, sm_80 to sm_121).
# Writes (STL) say nothing: the arguments of a driver function go through the stack too.
_LDL = 0x983
_USETMAXREG = 0x9C8
_NO_REGISTER = 255
_CONSTANT4 = 4
_LOW_BYTES = tuple({bytes([opcode & 0xFF]) for opcode in (_LDL, _USETMAXREG)})
# For each of the two: which first bytes of an instruction may be its opcode's, and which second ones.
_COSTLY_BYTES = tuple(
    (
        bytes(value == opcode & 0xFF for value in range(256)),
        bytes(value & 0xF == opcode >> 8 for value in range(256)),
    )
    for opcode in (_LDL, _USETMAXREG)
)
# sm_90 and later (nvdisasm 13.5, sm_75 to sm_121).
_LONG_OFFSETS_SINCE = 90


def local_calls(code: memoryview, sm: int) -> tuple[list[tuple[int, int]], list[int]]:
    """Relative calls in the code of one section.

    Returns:
        (offset of the call, offset of its target) of direct ones, and the offsets of those by register.
    """
    words = code[: len(code) & ~15].cast("Q")
    low, high = words[0::2].tolist(), words[1::2].tolist()
    direct, indirect = [], []
    for index, word in enumerate(low):
        opcode = word & _OPCODE
        if opcode == _CALL_REL:
            at = index * _INSTRUCTION_BYTES
            direct.append((at, at + _INSTRUCTION_BYTES + _relative(word, high[index], sm)))
        elif opcode == _CALL_REL_REGISTER:
            indirect.append(index * _INSTRUCTION_BYTES)
    return direct, indirect


def _relative(low: int, high: int, sm: int) -> int:
    """Signed byte offset of a relative call, counted from the next instruction."""
    if sm >= _LONG_OFFSETS_SINCE:
        # Bits 16-23 are the low byte of the offset in words of four bytes, bits 34-81 the rest.
        value = (low >> 34 | (high & 0x3FFFF) << 30) << 8 | (low >> 16 & 0xFF)
        bits = 56
    else:
        value = low >> 34 | (high & 0x3FFFF) << 30
        bits = 48
    return (value - (1 << bits) if value >> (bits - 1) else value) * 4


def count_costly(code: memoryview) -> tuple[int, int]:
    """How many instructions of a section read local memory (LDL), and how many are USETMAXREG."""
    whole = bytes(code[: len(code) & ~15])
    low = whole[::_INSTRUCTION_BYTES]
    if not any(mark in low for mark in _LOW_BYTES):
        return 0, 0
    high = whole[1::_INSTRUCTION_BYTES]
    local, resizing = (
        (flags(low, is_low) & flags(high, is_high)).bit_count() for is_low, is_high in _COSTLY_BYTES
    )
    return local, resizing


def called_slots(code: memoryview, sites: Iterable[int]) -> dict[int, int | None]:
    """For each CALL.ABS, the offset in constant bank 4 that its address was loaded from; None if not decoded.

    The address register is loaded by the last `LDC.64 R, c[0x4][Rx + n]` before the call; Rx, if there is
    one, holds the last 32-bit constant moved into it.
    """
    words = code[: len(code) & ~15].cast("Q")
    return {site: _slot(words, site // _INSTRUCTION_BYTES) for site in sites}


def _slot(words: memoryview, call: int) -> int | None:
    if 2 * call >= len(words) or words[2 * call] & _OPCODE != _CALL_ABS_REGISTER:
        return None
    wanted = words[2 * call] >> 24 & 0xFF
    for index in range(call - 1, -1, -1):
        word = words[2 * index]
        if word & _OPCODE == _LDC and word >> 16 & 0xFF == wanted and word >> 54 & 0x1F == _CONSTANT4:
            base = word >> 24 & 0xFF
            offset: int = word >> 38 & 0xFFFF
            if base == _NO_REGISTER:
                return offset
            moved = _constant(words, index, base)
            return None if moved is None else moved + offset
    return None


def _constant(words: memoryview, before: int, register: int) -> int | None:
    for index in range(before - 1, -1, -1):
        word: int = words[2 * index]
        if word & _OPCODE in _MOVES and word >> 16 & 0xFF == register:
            return word >> 32
    return None

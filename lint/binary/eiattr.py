"""Decodes the records of `.nv.info` and `.nv.compat` sections; unknown attributes stay data."""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.errors import BinaryError

if TYPE_CHECKING:
    from collections.abc import Iterator

EXTERNS = 0x0F
MAX_THREADS = 0x05
REQNTID = 0x10
FRAME_SIZE = 0x11
MIN_STACK_SIZE = 0x12
MAXREG_COUNT = 0x1B
MAX_STACK_SIZE = 0x23
REGCOUNT = 0x2F
CTA_PER_CLUSTER = 0x3D
EXPLICIT_CLUSTER = 0x3E
MAX_CLUSTER_RANK = 0x3F
SYSCALL_OFFSETS = 0x46
NUM_BARRIERS = 0x4C

# `.nv.compat`: the image is for one architecture only (the `a` of sm_120a).
COMPAT_ACCELERATOR_TARGET = 0x09

# How the value is stored (EIFMT_*): none, u8, u16, or a u16 size and that many bytes.
_BVAL, _HVAL, _SVAL = 2, 3, 4
_INLINE_BYTES = {1: 0, 2: 1, 3: 2}
# First word of EIATTR_KPARAM_INFO, three words of which follow; the parameter number is in the second.
_KPARAM_INFO = 0x000C1704
# Bounds what damaged sections can make the reader remember.
_MAX_STEPS = 1 << 14


@dataclass(frozen=True, slots=True)
class Record:
    """One attribute.

    Attributes:
        format: 1 no value, 2 a byte, 3 a 16-bit number, 4 sized bytes.
        attribute: the EIATTR number.
        payload: the value's bytes.
    """

    format: int
    attribute: int
    payload: bytes

    @property
    def words(self) -> tuple[int, ...]:
        """The value as 32-bit words; a byte or a 16-bit number is one word."""
        if self.format != _SVAL:
            return (int.from_bytes(self.payload, "little"),) if self.payload else ()
        return struct.unpack(f"<{len(self.payload) // 4}I", self.payload[: len(self.payload) & ~3])


def decode_records(content: memoryview) -> Iterator[Record]:
    """Decode the records of a section in order.

    Raises:
        BinaryError: a format that does not exist or a size beyond the end; `offset` counts from the section.
    """
    at, end = 0, len(content)
    while at + 4 <= end:
        kind, attribute = content[at], content[at + 1]
        size = content[at + 2] | content[at + 3] << 8
        if kind == _SVAL:
            if at + 4 + size > end:
                raise BinaryError(
                    f"attribute {attribute:#04x} claims {size} bytes, {end - at - 4} are left", offset=at
                )
            yield Record(kind, attribute, bytes(content[at + 4 : at + 4 + size]))
            at += 4 + (size + 3 & ~3)
        elif kind in _INLINE_BYTES:
            yield Record(kind, attribute, bytes(content[at + 2 : at + 2 + _INLINE_BYTES[kind]]))
            at += 4
        else:
            raise BinaryError(
                f"attribute {attribute:#04x} has format {kind}, which does not exist", offset=at
            )


def per_symbol(content: memoryview) -> dict[int, dict[int, int]]:
    """Attribute -> symbol -> value of the two-word records of the module's `.nv.info`.

    Raises:
        BinaryError: as `decode_records`.
    """
    words = content.cast("I") if len(content) % 12 == 0 else content[:0].cast("I")
    heads = words[0::3].tolist()
    kinds = set(heads)
    found: dict[int, dict[int, int]] = {}
    if words and all(head & 0xFFFF00FF == 0x00080004 for head in kinds):
        # The usual case: nothing but 12-byte records (u8 4, u8 attribute, u16 8, u32 symbol, u32 value).
        for head in kinds:
            found[head >> 8 & 0xFF] = {}
        for head, symbol, value in zip(heads, words[1::3].tolist(), words[2::3].tolist(), strict=True):
            found[head >> 8 & 0xFF][symbol] = value
        return found
    for record in decode_records(content):
        if record.format == _SVAL and len(record.payload) == 8:
            symbol, value = record.words
            found.setdefault(record.attribute, {})[symbol] = value
    return found


class ValueReader:
    """Reads some attributes of function after function, passing over all others in compiled code."""

    def __init__(self, wanted: frozenset[int]) -> None:
        self._wanted = wanted
        # First word of a record that is not wanted -> words to the next one: 30 records for each of 175,000
        # kernels begin with a few hundred different words.
        self._steps: dict[int, int] = {}

    def read(self, content: memoryview) -> dict[int, tuple[int, ...]]:
        """Attribute -> words of the wanted records of a section; the words of one that recurs are joined.

        Raises:
            BinaryError: as `decode_records`.
        """
        found: dict[int, tuple[int, ...]] = {}
        words = array("I", content[: len(content) & ~3].tobytes())
        at, end, step = 0, len(words), self._steps.get
        while at < end:
            head = words[at]
            known = step(head)
            if known is not None:
                at += known
                if head == _KPARAM_INFO:
                    at += known * _repeats(words, at, end)
                continue
            kind, attribute, size = head & 0xFF, head >> 8 & 0xFF, head >> 16
            behind = at + 1 + (size + 3 >> 2 if kind == _SVAL else 0)
            if not 1 <= kind <= _SVAL or 4 * at + 4 + (size if kind == _SVAL else 0) > len(content):
                raise BinaryError(
                    f"attribute {attribute:#04x} has format {kind} and size {size}", offset=4 * at
                )
            if attribute in self._wanted:
                value = (
                    tuple(words[at + 1 : at + 1 + (size >> 2)])
                    if kind == _SVAL
                    else _inline_value(kind, size)
                )
                found[attribute] = found[attribute] + value if attribute in found else value
            elif len(self._steps) < _MAX_STEPS:
                self._steps[head] = behind - at
            at = behind
        if at > end:
            raise BinaryError(
                f"the last attribute ends {4 * (at - end)} bytes behind its section", offset=4 * end
            )
        return found


def _repeats(words: array[int], at: int, end: int) -> int:
    """How many KPARAM_INFO records follow; they count down to parameter 0, half of all records are such."""
    if at + 3 < end and words[at] == _KPARAM_INFO:
        count = (words[at + 2] & 0xFFFF) + 1
        if words[at : at + 4 * count : 4].count(_KPARAM_INFO) == count:
            return count
    return 0


def _inline_value(kind: int, stored: int) -> tuple[int, ...]:
    """The value that stands in a record's first word: none, a byte or 16 bits."""
    width = _INLINE_BYTES[kind]
    return (stored & (1 << 8 * width) - 1,) if width else ()

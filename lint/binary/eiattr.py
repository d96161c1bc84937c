"""Decodes the records of `.nv.info` and `.nv.compat` sections; unknown attributes stay data."""

from __future__ import annotations

import re
import struct
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
        other = b"[^" + b"".join(re.escape(bytes([attribute])) for attribute in sorted(wanted)) + b"]"
        # 50 records for each of 175,000 kernels: a run of records that are not wanted is one match.
        self._others = re.compile(
            rb"(?:[\x01-\x03]"
            + other
            + rb"..|\x04"
            + other
            + rb"(?:\x0c\0.{12}|\x04\0.{4}|\x08\0.{8}|\x10\0.{16}))*+",
            re.DOTALL,
        )

    def read(self, content: bytes) -> dict[int, tuple[int, ...]]:
        """Attribute -> words of the wanted records of a section; the words of one that recurs are joined.

        Raises:
            BinaryError: as `decode_records`.
        """
        found: dict[int, tuple[int, ...]] = {}
        at, end, others = 0, len(content) & ~3, self._others.match
        while at < end:
            match = others(content, at)
            at = match.end() if match is not None else at
            if at >= end:
                break
            kind, attribute = content[at], content[at + 1]
            size = content[at + 2] | content[at + 3] << 8
            if not 1 <= kind <= _SVAL or (kind == _SVAL and at + 4 + size > len(content)):
                raise BinaryError(f"attribute {attribute:#04x} has format {kind} and size {size}", offset=at)
            if attribute in self._wanted:
                payload = (
                    content[at + 4 : at + 4 + size] if kind == _SVAL else content[at + 2 : at + 1 + kind]
                )
                found[attribute] = found.get(attribute, ()) + Record(kind, attribute, payload).words
            at += 4 + (size + 3 & ~3 if kind == _SVAL else 0)
        return found

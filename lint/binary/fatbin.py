"""Walks fatbin containers and their entries; byte layout as cuobjdump 13.5 reads it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.errors import BinaryError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.binary.cursor import Cursor

MAGIC = b"\x50\xed\x55\xba"
_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
CONTAINER_BYTES = _CONTAINER.size
ENTRY_BYTES = _ENTRY.size

# Largest entry header and payload that are believed; met: 128 bytes and 3.6 MB.
_MAX_HEADER_BYTES = 1 << 16
MAX_PAYLOAD_BYTES = 512 << 20

KINDS = {1: "ptx", 2: "elf", 8: "ltoir"}

FLAG_DEBUG = 0x2
FLAG_LZ4 = 0x2000
FLAG_ZSTD = 0x8000
FLAG_ARCH_SPECIFIC = 0x100000
FLAG_FAMILY = 0x200000


@dataclass(frozen=True, slots=True)
class FatbinEntry:
    """The header of one fatbin entry.

    Attributes:
        container: number of its container in the file, from 0.
        offset: byte offset of the entry in the file.
        kind: ptx, elf, ltoir, or `kind <number>` where the number is not known.
        header_bytes: size of the header.
        payload_bytes: size of the payload as stored, without padding.
        padded_bytes: the same with padding.
        full_bytes: size when unpacked.
        version: (major, minor): PTX ISA of PTX, code version of a cubin.
        arch: 120 for sm_120.
        flags: all bits as stored.
        identifier: name of the source file that `-lineinfo` or `-ident` leaves; else empty.
        options: bytes of the option block: ptxas options of PTX, `.nv.compat` of a cubin.
    """

    container: int
    offset: int
    kind: str
    header_bytes: int
    payload_bytes: int
    padded_bytes: int
    full_bytes: int
    version: tuple[int, int]
    arch: int
    flags: int
    identifier: str
    options: bytes

    @property
    def target(self) -> str:
        """`sm_120f`: the suffix f of a cubin is written nowhere but in these flags."""
        suffix = "a" if self.flags & FLAG_ARCH_SPECIFIC else "f" if self.flags & FLAG_FAMILY else ""
        return f"sm_{self.arch}{suffix}"

    @property
    def compression(self) -> str:
        """none, lz4 or zstd."""
        return "lz4" if self.flags & FLAG_LZ4 else "zstd" if self.flags & FLAG_ZSTD else "none"


def decode_entry(header: memoryview, container: int, offset: int) -> FatbinEntry:
    """Decode the header of an entry; `header` holds all of it.

    Raises:
        BinaryError: sizes contradict each other; `offset` is that of the entry.
    """
    (
        number,
        _,
        header_bytes,
        padded,
        stored,
        options_at,
        minor,
        major,
        arch,
        ident_at,
        ident_bytes,
        flags,
        _,
        full,
    ) = _ENTRY.unpack_from(header)
    packed = flags & (FLAG_LZ4 | FLAG_ZSTD)
    payload = stored if packed and stored else padded
    if payload > padded or (packed and not stored):
        raise BinaryError(
            f"fatbin entry: {stored} compressed bytes do not fit a payload of {padded}; it was not read",
            offset=offset,
        )
    return FatbinEntry(
        container=container,
        offset=offset,
        kind=KINDS.get(number, f"kind {number}"),
        header_bytes=header_bytes,
        payload_bytes=payload,
        padded_bytes=padded,
        full_bytes=full if packed else padded,
        version=(major, minor),
        arch=arch,
        flags=flags,
        identifier=bytes(header[ident_at : ident_at + ident_bytes]).decode("utf-8", "replace")
        if ident_at
        else "",
        options=_option_block(header, options_at),
    )


def _option_block(header: memoryview, at: int) -> bytes:
    if not at or at + 8 > len(header):
        return b""
    data_at, length = struct.unpack_from("<II", header, at)
    return bytes(header[data_at : data_at + length])


def is_container(head: memoryview) -> bool:
    """Whether bytes begin with a container header of the only version met (1, header of 16 bytes)."""
    return len(head) >= CONTAINER_BYTES and _CONTAINER.unpack_from(head)[:3] == (
        0xBA55ED50,
        1,
        CONTAINER_BYTES,
    )


def walk_container(cursor: Cursor, number: int) -> Iterator[tuple[FatbinEntry, memoryview]]:
    """Entries of the container at the cursor with their stored payloads; the cursor ends up behind it.

    Raises:
        BinaryError: the bytes contradict the format; entries before that place have been handed out.
    """
    start = cursor.position
    size = _CONTAINER.unpack_from(cursor.take(CONTAINER_BYTES))[3]
    end = start + CONTAINER_BYTES + size
    while end - cursor.position >= ENTRY_BYTES:
        yield _take_entry(cursor, number, end)
    rest = end - cursor.position
    if cursor.skip(rest) < rest:
        raise BinaryError(
            f"fatbin ends {end - cursor.position} bytes before the size it announces; the rest was not read",
            offset=cursor.position,
        )


def _take_entry(cursor: Cursor, number: int, end: int) -> tuple[FatbinEntry, memoryview]:
    offset = cursor.position
    head = cursor.peek(ENTRY_BYTES)
    if len(head) < ENTRY_BYTES:
        raise BinaryError("file ends inside the header of a fatbin entry", offset=offset)
    header_bytes, padded = struct.unpack_from("<IQ", head, 4)
    if not ENTRY_BYTES <= header_bytes <= _MAX_HEADER_BYTES or header_bytes + padded > end - offset:
        raise BinaryError(
            f"fatbin entry claims {header_bytes} + {padded} bytes, its container has {end - offset} left",
            offset=offset,
        )
    if padded > MAX_PAYLOAD_BYTES:
        raise BinaryError(f"fatbin entry of {padded} bytes is larger than what is read", offset=offset)
    header = cursor.take(header_bytes)
    if len(header) < header_bytes:
        raise BinaryError("file ends inside the header of a fatbin entry", offset=offset)
    entry = decode_entry(header, number, offset)
    payload = cursor.take(padded)
    if len(payload) < padded:
        raise BinaryError(
            f"file ends {padded - len(payload)} bytes before the end of a fatbin entry; it was not read",
            offset=offset,
        )
    return entry, payload[: entry.payload_bytes]

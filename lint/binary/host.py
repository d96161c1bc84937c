"""Finds the sections of a host file (ELF, PE) that hold device code, to prove that all of it was walked."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from ptxguard.errors import BinaryError

if TYPE_CHECKING:
    from ptxguard.binary.cursor import Cursor

_ELF_SECTIONS = frozenset({".nv_fatbin", "__nv_relfatbin"})
# A PE section name has eight characters.
_PE_SECTIONS = frozenset({b".nv_fatb", b"__nv_rel"})
_ELF_HEADER_BYTES = 64
_SECTION_BYTES = 64
_SHT_NOBITS = 8
# Flags of sections that hold instructions: SHF_EXECINSTR, IMAGE_SCN_MEM_EXECUTE.
_ELF_CODE = 0x4
_PE_CODE = 0x20000000
_EM_CUDA = 190
_MAX_TABLE_BYTES = 8 << 20
# Section names stand before the section table; this much of it is looked at.
_NAMES_BYTES = 1 << 16
_PE_HEAD_BYTES = 1 << 13
# Containers are aligned to 8 bytes, in some linkers' output to 16.
_PADDING_BYTES = 16


@dataclass(frozen=True, slots=True)
class HostSection:
    """A section that fatbin containers fill, or one of instructions; offsets count from the file's start."""

    name: str
    offset: int
    size: int
    code: bool


class HostFile:
    """What a host file says about its device code; made before the file is read, asked when it has been."""

    def __init__(self, cursor: Cursor) -> None:
        head = cursor.peek(_PE_HEAD_BYTES)
        self._sections: list[HostSection] = []
        self._table: tuple[int, int, int] | None = None
        if len(head) >= _ELF_HEADER_BYTES and bytes(head[:6]) == b"\x7fELF\x02\x01":
            self._expect_elf(head, cursor)
        elif bytes(head[:2]) == b"MZ":
            self._sections = _pe_sections(head)
        elif bytes(head[:4]) == b"\x7fELF" and len(head) < _ELF_HEADER_BYTES:
            raise BinaryError(f"ELF file of {len(head)} bytes is cut off inside its header", offset=len(head))

    def _expect_elf(self, head: memoryview, cursor: Cursor) -> None:
        machine, table_at = struct.unpack_from("<H", head, 18)[0], struct.unpack_from("<Q", head, 40)[0]
        count, names = struct.unpack_from("<HH", head, 60)
        size = count * _SECTION_BYTES
        if machine == _EM_CUDA or not table_at or not count:
            return
        start = max(table_at - _NAMES_BYTES, 0)
        cursor.keep(start, table_at + size - start)
        self._table = (start, table_at, names)

    def device_ranges(self, kept: bytes) -> list[tuple[int, int]]:
        """(start, end) of the sections that fatbins fill, in the order of the file; empty where not known."""
        sections = sorted((s.offset, s.offset + s.size) for s in self._known(kept) if not s.code)
        apart = all(end <= start for (_, end), (start, _) in pairwise(sections))
        return sections if apart else []

    def _known(self, kept: bytes) -> list[HostSection]:
        if self._table is None:
            return self._sections
        start, table_at, names = self._table
        if len(kept) - (table_at - start) < _SECTION_BYTES:
            return []
        return _elf_sections(kept, table_at - start, names, start)

    def unproven(
        self, kept: bytes, walked: list[tuple[int, int]], doubted: list[tuple[int, BinaryError]], end: int
    ) -> list[BinaryError]:
        """What of the device sections was not walked, and what else may have been a container.

        Args:
            kept: what the cursor kept.
            walked: (start, end) of each container, in order.
            doubted: places of bytes that begin like a container and do not go on like one, with the reason.
                Inside instructions they are an operand (the compiler inside libcudnn writes fatbins).
            end: size of the file.
        """
        if self._table is not None:
            start, table_at, _ = self._table
            if len(kept) - (table_at - start) < _SECTION_BYTES:
                return [error for _, error in doubted] + [
                    BinaryError(
                        f"ELF file ends before its section table at {table_at:#x}; it is cut off", offset=end
                    )
                ]
        sections = self._known(kept)
        code = [section for section in sections if section.code]
        device = [section for section in sections if not section.code]
        return [
            error
            for place, error in doubted
            if not any(section.offset <= place < section.offset + section.size for section in code)
        ] + [error for section in device for error in _gaps(section, walked, end)]


def _elf_sections(kept: bytes, table: int, names_index: int, start: int) -> list[HostSection]:
    found = []
    rows = [
        struct.unpack_from("<IIQQQQ", kept, at)
        for at in range(table, len(kept) - _SECTION_BYTES + 1, _SECTION_BYTES)
    ]
    if names_index >= len(rows):
        return []
    names_at = rows[names_index][4] - start
    for name, kind, flags, _, offset, size in rows:
        at = names_at + name
        text = kept[at : kept.find(b"\0", at)].decode("ascii", "replace") if 0 <= at < len(kept) else ""
        code = bool(flags & _ELF_CODE) and text not in _ELF_SECTIONS
        if (code or text in _ELF_SECTIONS) and kind != _SHT_NOBITS and size:
            found.append(HostSection(text, offset, size, code))
    return found


def _pe_sections(head: memoryview) -> list[HostSection]:
    at = struct.unpack_from("<I", head, 0x3C)[0] if len(head) >= 0x40 else len(head)
    if bytes(head[at : at + 4]) != b"PE\0\0" or at + 24 > len(head):
        return []
    count, optional = struct.unpack_from("<H", head, at + 6)[0], struct.unpack_from("<H", head, at + 20)[0]
    found = []
    for row in range(at + 24 + optional, min(at + 24 + optional + 40 * count, len(head) - 39), 40):
        name = bytes(head[row : row + 8])
        virtual_size, _, raw_size, offset = struct.unpack_from("<IIII", head, row + 8)
        code = bool(struct.unpack_from("<I", head, row + 36)[0] & _PE_CODE) and name not in _PE_SECTIONS
        if code or name in _PE_SECTIONS:
            size = min(virtual_size or raw_size, raw_size)
            found.append(HostSection(name.decode("ascii", "replace"), offset, size, code))
    return found


def _gaps(section: HostSection, walked: list[tuple[int, int]], end: int) -> list[BinaryError]:
    stop = section.offset + section.size
    if stop > end:
        return [
            BinaryError(
                f"section {section.name} ends at {stop:#x}, the file at {end:#x}: cut off", offset=end
            )
        ]
    errors, at = [], section.offset
    for low, high in [pair for pair in walked if pair[1] > section.offset and pair[0] < stop] + [
        (stop, stop)
    ]:
        if low - at >= _PADDING_BYTES:
            errors.append(
                BinaryError(
                    f"{low - at} bytes of section {section.name} are no fatbin and were not checked",
                    offset=at,
                )
            )
        at = max(at, high)
    return errors

"""Counts the kernels of a cubin and rules driver syscalls out before its code is unpacked.

ptxas and nvlink write `.shstrtab` at 0x40, `.strtab`, `.symtab`, then notes and attributes, the code far
behind and the section table last (7,116 of 7,116 images of CUDA 11.8 to 13.4). So the tables are recognised
by what is in them; where anything is not as known, the caller reads the whole image.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.binary import elf
from ptxguard.binary.columns import flags
from ptxguard.binary.facts import SYSCALL_PREFIX
from ptxguard.binary.notes import read_toolkit

if TYPE_CHECKING:
    from ptxguard.binary.inflate import Unpacked

_SECTION_NAMES = b"\0.shstrtab\0.strtab\0.symtab\0"
_SYMBOL_BYTES = 24
_EMPTY_SYMBOL = bytes(_SYMBOL_BYTES)
_NOT_ZERO = re.compile(rb"[^\0]")
_CUINFO = struct.pack("<I", 1000) + b"NVIDIA Corp\0"
_CUINFO_BYTES = 64
# What is unpacked at first, and by what share more where that was not enough: the two tables of names take
# 20 KB to 20 MB, and what is unpacked behind the symbols is for nothing.
_FIRST_BYTES, _MORE_SHARE = 1 << 16, 8
# st_info that ptxas writes: local, global or weak; no type, object, function, section, 13 (of CUDA).
_INFOS = bytes(binding << 4 | kind for binding in range(3) for kind in (0, 1, 2, 3, 13))
_NO_INFO = re.compile(b"[^" + re.escape(_INFOS) + b"]", re.DOTALL)
# One where a byte of st_info means a function, of st_other a kernel, of the section number a section.
_FUNCTION = bytes(info & 0xF == elf.STT_FUNC for info in range(256))
_ENTRY = bytes(other << 8 & elf.STO_CUDA_ENTRY != 0 for other in range(256))
_NOT_ZERO_BYTE = bytes(value != 0 for value in range(256))
_STT_SECTION = 3
_SHN_LORESERVE = 0xFF00
_NEW_ABI = 8
# ptxas' own helpers call nothing; among other functions could be recursion or the target of a pointer.
_HELPER = b"\0$__internal_"


@dataclass(frozen=True, slots=True)
class Glance:
    """The front of a cubin without driver syscalls, whose only functions are kernels and ptxas' helpers."""

    kernel_count: int
    toolkit: str | None
    relocatable: bool


class _Front:
    """The first bytes of an image, as many as were needed so far."""

    def __init__(self, unpacked: Unpacked) -> None:
        self.data = bytearray()
        self._unpacked = unpacked
        self.reach(_FIRST_BYTES)

    def reach(self, end: int) -> bool:
        """Have the bytes up to an offset; False where the image ends before."""
        have = len(self.data)
        if have < end:
            self.data += self._unpacked.first(end)[have:]
        return len(self.data) >= end

    def more(self) -> bool:
        """Have some bytes more; False where there are none."""
        have = len(self.data)
        self.reach(have + max(_FIRST_BYTES, have // _MORE_SHARE))
        return len(self.data) > have

    def find(self, raw: bytes, start: int) -> int:
        """Offset of the first place of some bytes behind an offset, -1 where the image has none."""
        while True:
            have = len(self.data)
            at = self.data.find(raw, start)
            if at >= 0 or not self.more():
                return at
            start = max(start, have - len(raw) + 1)

    def behind_zeros(self, start: int) -> int:
        """Offset of the first byte behind an offset that is not zero, -1 where there is none."""
        while True:
            found = _NOT_ZERO.search(self.data, start)
            if found is not None:
                return found.start()
            start = len(self.data)
            if not self.more():
                return -1


def glance(unpacked: Unpacked) -> Glance | None:
    """Look at the front of an image; None where it has to be read as a whole.

    Raises:
        BinaryError: the payload is damaged.
    """
    front = _Front(unpacked)
    data = front.data
    head = memoryview(data[: elf.HEADER_BYTES])
    if not elf.is_cubin(head):
        return None
    header = elf.decode_header(head)
    if not data.startswith(_SECTION_NAMES, elf.HEADER_BYTES) or not header.e_shnum:
        return None
    start = front.find(_SECTION_NAMES, elf.HEADER_BYTES + 1)
    table = _symbol_table(front, start) if start >= 0 else -1
    if table < 0 or data.find(SYSCALL_PREFIX.encode(), start, table) >= 0:
        return None
    # The table has an entry for most names; where that is too little, the loop sees to it.
    front.reach(table + _SYMBOL_BYTES * (data.count(0, start, table) + 1))
    while True:
        count, kernels, others = _count_symbols(data, table, header.e_shnum)
        end = table + count * _SYMBOL_BYTES
        if end + _SYMBOL_BYTES <= len(data):
            break
        if not front.more():
            return None
    if not kernels or (others and others > data.count(_HELPER, start, table)):
        return None
    if header.abi_version < _NEW_ABI:
        toolkit = f"{header.e_version // 10}.{header.e_version % 10}" if header.e_version > 1 else None
        return Glance(kernels, toolkit, header.relocatable)
    note = front.find(_CUINFO, end - _SYMBOL_BYTES)
    if note < 0 or not front.reach(note + _CUINFO_BYTES):
        return None
    toolkit = read_toolkit(memoryview(data[note - 8 : note + _CUINFO_BYTES]))
    return Glance(kernels, toolkit, header.relocatable)


def _symbol_table(front: _Front, start: int) -> int:
    """Where the symbol table begins: the empty symbol, then that of a section (value and size 0)."""
    # The names of symbols are those of sections and kernels once more.
    front.reach(2 * start - elf.HEADER_BYTES)
    at = front.find(_EMPTY_SYMBOL, start)
    while at >= 0:
        behind = front.behind_zeros(at)
        # The first byte that is not zero belongs to the name of the second symbol, which begins at 8n.
        table = (behind & ~7) - _SYMBOL_BYTES
        if behind < 0 or not front.reach(table + 2 * _SYMBOL_BYTES):
            return -1
        info, other, section = struct.unpack_from("<BBH", front.data, table + 28)
        if (info, other) == (_STT_SECTION, 0) and section and not any(front.data[table + 32 : table + 48]):
            return table
        at = front.find(_EMPTY_SYMBOL, behind)
    return -1


def _count_symbols(front: bytearray, table: int, sections: int) -> tuple[int, int, int]:
    """Entries up to the first that cannot be one; the kernels and the other functions defined among them.

    Columns of bytes and numbers of one byte a symbol, because a library has two million symbols.
    """
    whole = len(front) - (len(front) - table) % _SYMBOL_BYTES
    infos, others, low, high = (bytes(front[table + at : whole : _SYMBOL_BYTES]) for at in (4, 5, 6, 7))
    strange = _NO_INFO.search(infos)
    count = strange.start() if strange is not None else len(infos)
    last_low, last_high = sections & 0xFF, sections >> 8
    beyond = flags(low, bytes(value >= last_low for value in range(256)))
    beyond &= flags(high, bytes(value == last_high for value in range(256)))
    beyond |= flags(high, bytes(last_high < value < _SHN_LORESERVE >> 8 for value in range(256)))
    if beyond:
        # One byte a symbol, the first symbol the lowest.
        count = min(count, (beyond & -beyond).bit_length() - 1 >> 3)
    defined = flags(low[:count], _NOT_ZERO_BYTE) | flags(high[:count], _NOT_ZERO_BYTE)
    functions = flags(infos[:count], _FUNCTION) & defined
    kernels = functions & flags(others[:count], _ENTRY)
    return count, kernels.bit_count(), (functions & ~kernels).bit_count()

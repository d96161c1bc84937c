"""Counts the kernels of a cubin and rules driver syscalls out before its code is unpacked.

ptxas and nvlink write `.shstrtab` at 0x40, `.strtab`, `.symtab`, then notes and attributes, the code far
behind and the section table last (7,116 of 7,116 images of CUDA 11.8 to 13.4). So the tables are recognised
by what is in them; where anything is not as known, the caller reads the whole image.
"""

from __future__ import annotations

import re
import struct
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.binary import elf
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
# What is unpacked at first: the two tables end within a tenth of most images.
_FIRST_BYTES, _FRONT_SHARE = 1 << 16, 10
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


def glance(unpacked: Unpacked) -> Glance | None:
    """Look at the front of an image; None where it has to be read as a whole.

    Raises:
        BinaryError: the payload is damaged.
    """
    size = max(_FIRST_BYTES, unpacked.size // _FRONT_SHARE)
    while True:
        image = unpacked.first(size)
        if not elf.is_cubin(image):
            return None
        found = _look(bytes(image), elf.decode_header(image))
        if isinstance(found, Glance):
            return found
        if found is False or len(image) >= unpacked.size:
            return None
        size = 2 * len(image)


def _look(front: bytes, header: elf.ElfHeader) -> Glance | bool | None:
    """The answer, False where the image has to be read as a whole, None where more bytes are needed."""
    if not front.startswith(_SECTION_NAMES, elf.HEADER_BYTES) or not header.e_shnum:
        return False
    start = front.find(_SECTION_NAMES, elf.HEADER_BYTES + 1)
    table = _symbol_table(front, start) if start >= 0 else None
    if table is None:
        return None
    if front.find(SYSCALL_PREFIX.encode(), elf.HEADER_BYTES, table) >= 0:
        return False
    count, kernels, others = _count_symbols(front, table, header.e_shnum)
    end = table + count * _SYMBOL_BYTES
    if end + _SYMBOL_BYTES > len(front):
        return None
    if not kernels or (others and others > front.count(_HELPER, elf.HEADER_BYTES, table)):
        return False
    if header.abi_version < _NEW_ABI:
        toolkit = f"{header.e_version // 10}.{header.e_version % 10}" if header.e_version > 1 else None
        return Glance(kernels, toolkit, header.relocatable)
    note = front.find(_CUINFO, end - _SYMBOL_BYTES)
    if note < 0 or note + _CUINFO_BYTES > len(front):
        return None
    toolkit = read_toolkit(memoryview(front)[note - 8 : note + _CUINFO_BYTES])
    return Glance(kernels, toolkit, header.relocatable)


def _symbol_table(front: bytes, start: int) -> int | None:
    """Where the symbol table begins: the empty symbol, then that of a section (value and size 0)."""
    at = front.find(_EMPTY_SYMBOL, start)
    while at >= 0:
        behind = _NOT_ZERO.search(front, at)
        if behind is None:
            return None
        # The first byte that is not zero belongs to the name of the second symbol, which begins at 8n.
        table = (behind.start() & ~7) - _SYMBOL_BYTES
        info, other, section = struct.unpack_from("<BBH", front.ljust(table + 56, b"\0"), table + 28)
        if (info, other) == (_STT_SECTION, 0) and section and front[table + 32 : table + 48] == bytes(16):
            return table
        at = front.find(_EMPTY_SYMBOL, behind.start())
    return None


def _count_symbols(front: bytes, table: int, sections: int) -> tuple[int, int, int]:
    """Entries up to the first that cannot be one; the kernels and the other functions defined among them.

    Columns of bytes and numbers of one byte a symbol, because a library has two million symbols.
    """
    entries = front[table : table + (len(front) - table) // _SYMBOL_BYTES * _SYMBOL_BYTES]
    infos = entries[4::_SYMBOL_BYTES]
    strange = _NO_INFO.search(infos)
    count = strange.start() if strange is not None else len(infos)
    numbers = array("H", entries)[3 :: _SYMBOL_BYTES // 2][:count]
    count = next((i for i, n in enumerate(numbers) if sections <= n < _SHN_LORESERVE), count)
    low, high = (entries[at : count * _SYMBOL_BYTES : _SYMBOL_BYTES] for at in (6, 7))
    defined = _flags(low, _NOT_ZERO_BYTE) | _flags(high, _NOT_ZERO_BYTE)
    functions = _flags(infos[:count], _FUNCTION) & defined
    kernels = functions & _flags(entries[5 : count * _SYMBOL_BYTES : _SYMBOL_BYTES], _ENTRY)
    return count, kernels.bit_count(), (functions & ~kernels).bit_count()


def _flags(column: bytes, table: bytes) -> int:
    return int.from_bytes(column.translate(table), "little")

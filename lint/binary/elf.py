"""Sections, symbols and relocations of a cubin as columns; every offset is checked against the image."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

from ptxguard.errors import BinaryError

EM_CUDA = 190
HEADER_BYTES = 64
SECTION_BYTES = 64
_SYMBOL_BYTES = 24

SHT_SYMTAB = 2
SHT_RELA = 4
SHT_NOBITS = 8
SHT_REL = 9
SHT_SYMTAB_SHNDX = 18
SHT_CUDA_SHARED = 0x7000000A
SHT_CUDA_INFO = 0x70000000
SHT_CUDA_CALLGRAPH = 0x70000001
SHT_CUDA_COMPAT_INFO = 0x70000086
# Sections without bytes in the file; 0x15 is CUDA_RESERVED_SHARED.
WITHOUT_BYTES = frozenset({SHT_NOBITS, SHT_CUDA_SHARED, 0x70000015})

# One table of 10^6 sections or 10^7 symbols is more than any toolkit writes (met: 21,294 sections).
_MAX_SECTIONS = 1_000_000
_MAX_SYMBOLS = 10_000_000
# Occurrences of one section name inside others that are tried (met: 3).
_MAX_NAME_PLACES = 64

# In the second u32 of a symbol: type 0-3, binding 4-7, st_other 8-15, section 16-31.
STT_FUNC = 2
STO_CUDA_ENTRY = 0x1000
_SHN_XINDEX = 0xFFFF


@dataclass(frozen=True, slots=True)
class ElfHeader:
    """The ELF header of a cubin; names as in the ELF specification."""

    abi: int
    abi_version: int
    e_type: int
    e_version: int
    e_flags: int
    e_shoff: int
    e_shnum: int
    e_shstrndx: int

    @property
    def relocatable(self) -> bool:
        """Compiled with -rdc or -dc and not linked yet."""
        return self.e_type == 1


def is_cubin(head: memoryview) -> bool:
    """Whether bytes begin with the header of a 64-bit little-endian CUDA ELF."""
    return (
        len(head) >= HEADER_BYTES
        and bytes(head[:6]) == b"\x7fELF\x02\x01"
        and head[18] | head[19] << 8 == EM_CUDA
    )


def read_header(image: memoryview) -> ElfHeader:
    """Decode the ELF header of a cubin that is there as a whole.

    Raises:
        BinaryError: it is no CUDA ELF, or cut off.
    """
    if not is_cubin(image):
        raise BinaryError("not a cubin: no 64-bit little-endian ELF header of machine EM_CUDA", offset=0)
    programs_at, program_size, programs = struct.unpack_from("<Q14xHH", image, 32)
    if programs_at + program_size * programs > len(image):
        raise BinaryError(f"program headers at {programs_at:#x} lie behind the end of the image", offset=32)
    return decode_header(image)


def decode_header(image: memoryview) -> ElfHeader:
    """Decode the ELF header at the front of a cubin."""
    e_type, _, e_version, _, _, shoff, flags, _, _, _, _, shnum, shstrndx = struct.unpack_from(
        "<HHIQQQIHHHHHH", image, 16
    )
    return ElfHeader(image[7], image[8], e_type, e_version, flags, shoff, shnum, shstrndx)


@dataclass(frozen=True)
class Sections:
    """The section table, one list a column, and the image it describes."""

    image: memoryview
    type: list[int]
    flags: list[int]
    offset: list[int]
    size: list[int]
    link: list[int]
    info: list[int]
    name: list[int]
    names_index: int

    def content(self, index: int) -> memoryview:
        """Bytes of a section; empty for one that has none in the file.

        Raises:
            BinaryError: it lies outside the image.
        """
        if self.type[index] in WITHOUT_BYTES:
            return self.image[:0]
        start, size = self.offset[index], self.size[index]
        if start + size > len(self.image):
            raise BinaryError(
                f"section {index} claims {size} bytes from {start:#x}, the image has {len(self.image)}",
                offset=start,
            )
        return self.image[start : start + size]

    def words(self, index: int) -> memoryview:
        """A section as 32-bit words; a rest of fewer than four bytes is left out."""
        content = self.content(index)
        return content[: len(content) & ~3].cast("I")

    def of_type(self, kind: int) -> list[int]:
        """Indices of the sections of one type."""
        return _places(self.type, kind)

    def with_flags(self, flags: int) -> list[int]:
        """Indices of the sections with exactly these flags."""
        return _places(self.flags, flags)

    @cached_property
    def names(self) -> bytes:
        """The table of section names."""
        return bytes(self.content(self.names_index))

    def named(self, name: str) -> int | None:
        """Index of a section by its name, None where there is none of it."""
        raw, at = name.encode() + b"\0", -1
        # A name may be the tail of another one (`.rel.nv.constant4`), so every place of it is tried.
        for _ in range(_MAX_NAME_PLACES):
            at = self.names.find(raw, at + 1)
            if at < 0:
                return None
            if at in self.name:
                return self.name.index(at)
        return None


def _places(values: list[int], wanted: int) -> list[int]:
    """Indices of a value in a list that mostly holds others."""
    found, at = [], -1
    try:
        while True:
            at = values.index(wanted, at + 1)
            found.append(at)
    except ValueError:
        return found


def read_sections(image: memoryview, header: ElfHeader) -> Sections:
    """Read the section table.

    Raises:
        BinaryError: it lies outside the image, or its size cannot be meant.
    """
    count, names_index = header.e_shnum, header.e_shstrndx
    if header.e_shoff + SECTION_BYTES > len(image):
        raise BinaryError(
            f"section table at {header.e_shoff:#x} lies behind the end of the image ({len(image)} bytes)",
            offset=40,
        )
    if count == 0 or names_index == _SHN_XINDEX:
        # ELF specification, "Sections": values that do not fit 16 bits stand in section 0.
        size, link = struct.unpack_from("<QI", image, header.e_shoff + 32)
        count, names_index = count or size, link if names_index == _SHN_XINDEX else names_index
    end = header.e_shoff + count * SECTION_BYTES
    if count > _MAX_SECTIONS or end > len(image):
        raise BinaryError(
            f"table of {count} sections does not fit the image of {len(image)} bytes", offset=header.e_shoff
        )
    if names_index >= count:
        raise BinaryError(f"section names are said to be in section {names_index} of {count}", offset=62)
    table = image[header.e_shoff : end]
    narrow, wide = table.cast("I"), table.cast("Q")
    return Sections(
        image=image,
        type=narrow[1::16].tolist(),
        flags=wide[1::8].tolist(),
        offset=wide[3::8].tolist(),
        size=wide[4::8].tolist(),
        link=narrow[10::16].tolist(),
        info=narrow[11::16].tolist(),
        name=narrow[0::16].tolist(),
        names_index=names_index,
    )


@dataclass(frozen=True)
class Symbols:
    """The symbol table as columns.

    Attributes:
        table: its bytes, of whole entries.
        strings: the string table.
        far_sections: section of each symbol whose section number does not fit 16 bits; empty without such.
    """

    table: memoryview
    strings: bytes
    far_sections: list[int]

    @cached_property
    def name_at(self) -> list[int]:
        """Offset of each name in the string table."""
        return self.table.cast("I")[0::6].tolist()

    @cached_property
    def word(self) -> list[int]:
        """st_info, st_other and section of each symbol, packed as in the file."""
        return self.table.cast("I")[1::6].tolist()

    @cached_property
    def value(self) -> list[int]:
        """st_value of each symbol: where in its section it begins."""
        return self.table.cast("Q")[1::3].tolist()

    def __len__(self) -> int:
        return len(self.word)

    def name(self, index: int) -> str:
        """Name of a symbol.

        Raises:
            BinaryError: there is no such symbol, or its name lies outside the string table.
        """
        places = self.name_at
        if index >= len(places):
            raise BinaryError(f"symbol {index} of {len(places)} is referred to")
        at = places[index]
        end = self.strings.find(b"\0", at)
        if end < 0:
            raise BinaryError(f"the name of symbol {index} lies outside the string table")
        return self.strings[at:end].decode("utf-8", "replace")

    def section(self, index: int) -> int:
        """Section a symbol lies in; 0 for an undefined one."""
        words = self.word
        if index >= len(words):
            raise BinaryError(f"symbol {index} of {len(words)} is referred to")
        number = words[index] >> 16
        if number == _SHN_XINDEX and index < len(self.far_sections):
            return self.far_sections[index]
        return number

    def kernels(self) -> list[int]:
        """Indices of the defined functions that carry STO_CUDA_ENTRY."""
        return [i for i, w in enumerate(self.word) if w & 0x100F == STO_CUDA_ENTRY | STT_FUNC and w >> 16]

    def undefined_functions(self) -> dict[int, str]:
        """Index -> name of the functions that the driver resolves."""
        return {i: self.name(i) for i, w in enumerate(self.word) if w & 0xF == STT_FUNC and not w >> 16}


def read_symbols(sections: Sections) -> Symbols | None:
    """Read the symbol table; None where an image has none.

    Raises:
        BinaryError: table or names lie outside the image.
    """
    tables = sections.of_type(SHT_SYMTAB)
    if not tables:
        return None
    index = tables[0]
    content = sections.content(index)
    count = len(content) // _SYMBOL_BYTES
    link = sections.link[index]
    if count > _MAX_SYMBOLS or link >= len(sections.type):
        raise BinaryError(
            f"symbol table of {count} symbols with names in section {link} cannot be meant",
            offset=sections.offset[index],
        )
    far = sections.of_type(SHT_SYMTAB_SHNDX)
    return Symbols(
        content[: count * _SYMBOL_BYTES],
        bytes(sections.content(link)),
        sections.words(far[0]).tolist() if far else [],
    )


def read_relocations(sections: Sections, index: int) -> list[tuple[int, int, int]]:
    """(offset, type, symbol) of the entries of a `.rel` or `.rela` section."""
    width = 3 if sections.type[index] == SHT_RELA else 2
    content = sections.content(index)
    wide = content[: len(content) // (8 * width) * 8 * width].cast("Q")
    return [
        (at, info & 0xFFFFFFFF, info >> 32)
        for at, info in zip(wide[0::width].tolist(), wide[1::width].tolist(), strict=True)
    ]

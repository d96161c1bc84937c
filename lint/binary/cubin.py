"""Takes one cubin of either ABI generation apart: header, tables, notes, call graph."""

from __future__ import annotations

import re
from functools import cached_property

from ptxguard.binary import eiattr, elf
from ptxguard.binary.callgraph import CallGraph, read_callgraph
from ptxguard.binary.lineinfo import LineTable
from ptxguard.binary.notes import ToolNote, read_tool_notes, read_toolkit
from ptxguard.errors import BinaryError

# ABI 7 is written by ptxas 12.x for sm_90 and older, ABI 8 by 12.8 for sm_100 and later, by 13.x for all.
_NEW_ABI = 8
_OLD_ARCH_SPECIFIC = 0x800

# A function that was not inlined, cloned into its kernel's section: `$kernel$function`. ptxas' own division
# and root helpers are called `$__internal_<n>_$…` and call nothing.
USER_FUNCTION = re.compile(rb"\0\$(?!__internal_)[^\0]*\$")
# Symbol type and binding: a local function that is no kernel.
_CLONE_MASK = 0x10FF
_ARCH_OPTION = re.compile(r"-arch[ =](?:sm|compute)_\d+([af]?)\b")


class Cubin:
    """A cubin; tables are decoded when they are first asked for.

    Attributes:
        image: all bytes.
        header: the ELF header.
        sections: the section table.
        symbols: the symbol table.
    """

    def __init__(self, image: memoryview) -> None:
        """Read header, section table and symbols.

        Raises:
            BinaryError: the bytes are no cubin or contradict themselves; offsets count from the image.
        """
        self.image = image
        self.header = elf.read_header(image)
        self.sections = elf.read_sections(image, self.header)
        symbols = elf.read_symbols(self.sections)
        if symbols is None:
            raise BinaryError("the cubin has no symbol table", offset=0)
        self.symbols = symbols

    @cached_property
    def sm(self) -> int:
        """120 for sm_120: bits 8-15 of e_flags in ABI 8, bits 0-7 before."""
        flags = self.header.e_flags
        return flags >> 8 & 0xFF if self.header.abi_version >= _NEW_ABI else flags & 0xFF

    @cached_property
    def suffix(self) -> str:
        """`a`, `f` or nothing; `f` stands nowhere in a cubin but in the tool's command line."""
        if self.header.abi_version < _NEW_ABI:
            return "a" if self.header.e_flags & _OLD_ARCH_SPECIFIC else ""
        for index in self.sections.of_type(elf.SHT_CUDA_COMPAT_INFO):
            for record in eiattr.decode_records(self.sections.content(index)):
                if record.attribute == eiattr.COMPAT_ACCELERATOR_TARGET and record.words == (1,):
                    return "a"
        match = _ARCH_OPTION.search(self.command_line)
        return match[1] if match else ""

    @cached_property
    def target(self) -> str:
        """`sm_120a`."""
        return f"sm_{self.sm}{self.suffix}"

    @cached_property
    def tools(self) -> list[ToolNote]:
        """Tool notes in file order; none before CUDA 12.8."""
        index = self.sections.named(".note.nv.tkinfo")
        return read_tool_notes(self.sections.content(index)) if index is not None else []

    @property
    def command_line(self) -> str:
        """Options of ptxas (the last tool that wrote a note); empty where there is none."""
        return self.tools[-1].command_line if self.tools else ""

    @cached_property
    def toolkit(self) -> str | None:
        """`13.0`, from the ELF version of ABI 7 or the notes of ABI 8; None where neither says."""
        if self.header.abi_version < _NEW_ABI:
            return (
                f"{self.header.e_version // 10}.{self.header.e_version % 10}"
                if self.header.e_version > 1
                else None
            )
        index = self.sections.named(".note.nv.cuinfo")
        found = read_toolkit(self.sections.content(index)) if index is not None else None
        if found is None and self.tools:
            match = re.search(r"release (\d+\.\d+)", self.tools[-1].version)
            found = match[1] if match else None
        return found

    @cached_property
    def kernels(self) -> list[int]:
        """Symbol indices of the kernels, in symbol order."""
        return self.symbols.kernels()

    @cached_property
    def drivers(self) -> dict[int, str]:
        """Symbol index -> name of the functions that the driver resolves."""
        return self.symbols.undefined_functions()

    @cached_property
    def attributes(self) -> dict[int, dict[int, int]]:
        """Attribute -> symbol -> value, from the module's `.nv.info`."""
        merged: dict[int, dict[int, int]] = {}
        for index in self.sections.of_type(elf.SHT_CUDA_INFO):
            if self.sections.info[index] == 0:
                for attribute, values in eiattr.per_symbol(self.sections.content(index)).items():
                    merged.setdefault(attribute, {}).update(values)
        return merged

    @cached_property
    def info_of(self) -> dict[int, int]:
        """Section of a function's code -> section of its attributes."""
        info = self.sections.info
        return {info[index]: index for index in self.sections.of_type(elf.SHT_CUDA_INFO) if info[index]}

    @cached_property
    def relocations_of(self) -> dict[int, int]:
        """Section -> section of the relocations for it."""
        info = self.sections.info
        return {info[i]: i for kind in (elf.SHT_REL, elf.SHT_RELA) for i in self.sections.of_type(kind)}

    @cached_property
    def graph(self) -> CallGraph:
        """The call graph; empty where the image has none."""
        found = self.sections.of_type(elf.SHT_CUDA_CALLGRAPH)
        return read_callgraph(self.sections.words(found[0])) if found else CallGraph()

    @cached_property
    def cloned_functions(self) -> dict[int, list[int]]:
        """Section of a kernel's code -> symbols of the functions of the program cloned into it.

        Sections that hold none but ptxas' own helpers are left out: those are leaf functions.
        """
        symbols = self.symbols
        if not USER_FUNCTION.search(symbols.strings):
            return {}
        cloned: dict[int, list[int]] = {}
        for index, word in enumerate(symbols.word):
            if (
                word & _CLONE_MASK == elf.STT_FUNC
                and word >> 16
                and symbols.strings.startswith(b"$", symbols.name_at[index])
            ):
                cloned.setdefault(symbols.section(index), []).append(index)
        own = b"$__internal_"
        return {
            section: functions
            for section, functions in cloned.items()
            if not all(symbols.strings.startswith(own, symbols.name_at[function]) for function in functions)
        }

    @cached_property
    def lines(self) -> LineTable:
        """The line table; empty without -lineinfo."""
        return LineTable(self)

    @cached_property
    def constant4_symbols(self) -> dict[int, int]:
        """Offset in constant bank 4 -> symbol whose address the driver stores there."""
        index = self.sections.named(".nv.constant4")
        relocations = self.relocations_of.get(index) if index is not None else None
        if relocations is None:
            return {}
        return {offset: symbol for offset, _, symbol in elf.read_relocations(self.sections, relocations)}

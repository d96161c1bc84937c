"""From an offset in the code of a cubin to the lines of source it comes from, through the inlining chain."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from ptxguard.binary.elf import read_relocations
from ptxguard.binary.facts import SourceLine
from ptxguard.binary.lineprogram import Sequence, decode_sequences
from ptxguard.errors import BinaryError

if TYPE_CHECKING:
    from ptxguard.binary.cubin import Cubin

_MAX_DEPTH = 256


class LineTable:
    """The line table that `-lineinfo` leaves in one cubin; without it there are no lines."""

    def __init__(self, cubin: Cubin) -> None:
        """Decode the whole table.

        Raises:
            BinaryError: it is cut off or contradicts itself; `offset` counts from the image.
        """
        self._names = b""
        # Section of code -> (offset of the function in it, its rows).
        self._sequences: dict[int, list[tuple[int, Sequence]]] = {}
        sections = cubin.sections
        index = sections.named(".debug_line")
        relocations = cubin.relocations_of.get(index) if index is not None else None
        if index is None or relocations is None:
            return
        names = sections.named(".debug_str")
        self._names = bytes(sections.content(names)) if names is not None else b""
        symbol_at = {offset: symbol for offset, _, symbol in read_relocations(sections, relocations)}
        try:
            for sequence in decode_sequences(bytes(sections.content(index))):
                symbol = symbol_at.get(sequence.operand_at, 0)
                if 0 < symbol < len(cubin.symbols):
                    place = (cubin.symbols.value[symbol], sequence)
                    self._sequences.setdefault(cubin.symbols.section(symbol), []).append(place)
        except BinaryError as error:
            raise BinaryError(error.message, offset=sections.offset[index] + (error.offset or 0)) from error

    @property
    def empty(self) -> bool:
        """Whether the image has no line of any function."""
        return not self._sequences

    def chain(self, section: int, offset: int, function: str) -> tuple[SourceLine, ...]:
        """Source lines of the instruction at an offset of a code section, innermost first; () where unknown.

        Args:
            section: index of the code's section.
            offset: of the instruction in it.
            function: mangled name of the function whose code it is, for the outermost line.
        """
        before = [place for place in self._sequences.get(section, ()) if place[0] <= offset]
        for start, sequence in sorted(before, key=lambda place: place[0], reverse=True):
            row = bisect_right(sequence.addresses, offset - start) - 1
            if row >= 0:
                return self._follow(sequence, row, function)
        return ()

    def _follow(self, sequence: Sequence, number: int, function: str) -> tuple[SourceLine, ...]:
        links: list[SourceLine] = []
        while len(links) < _MAX_DEPTH:
            row = sequence.rows[number]
            inlined = row.inlined_at > 0
            links.append(SourceLine(row.file, row.line, self._name(row.name_at) if inlined else function))
            if not 0 < row.inlined_at <= len(sequence.rows):
                break
            number = row.inlined_at - 1
        return tuple(links)

    def _name(self, at: int) -> str | None:
        end = self._names.find(b"\0", at)
        return self._names[at:end].decode("utf-8", "replace") if end > at else None

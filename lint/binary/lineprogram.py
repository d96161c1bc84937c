"""Decodes DWARF 2 line programs with NVIDIA's extended opcode for inlined rows.

The addition is extended opcode 0x90 (row, name): the rows behind it are inlined at that row of the sequence
(counted from 1; 0 ends it) and belong to the function whose mangled name stands there in `.debug_str`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.errors import BinaryError

if TYPE_CHECKING:
    from collections.abc import Iterator

# DWARF 2 specification, section 6.2.5: opcodes of a line program.
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _CONST_ADD_PC, _FIXED_ADVANCE_PC = 1, 2, 3, 4, 8, 9
_END_SEQUENCE, _SET_ADDRESS, _INLINED = 0x01, 0x02, 0x90
_HEADER = struct.Struct("<IHIBBbBB")
_VERSION = 2


@dataclass(frozen=True, slots=True)
class Row:
    """One row; `inlined_at` is the number of a row of the same sequence from 1, 0 where it is not inlined."""

    file: str
    line: int
    inlined_at: int
    name_at: int


@dataclass(slots=True)
class Sequence:
    """Rows of one function.

    Attributes:
        operand_at: offset in the section of the address operand, which a relocation fills.
        addresses: of each row, ascending, counted from that address.
        rows: one for each address.
    """

    operand_at: int = -1
    addresses: list[int] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)


def decode_sequences(data: bytes) -> Iterator[Sequence]:
    """All sequences of a `.debug_line` or `.nv_debug_line_sass` section.

    Raises:
        BinaryError: the section is cut off or of another version; `offset` counts from the section.
    """
    at = 0
    while at + _HEADER.size <= len(data):
        length, version = struct.unpack_from("<IH", data, at)
        end = at + 4 + length
        if version != _VERSION or end > len(data):
            raise BinaryError(f"line table of DWARF version {version} with {length} bytes", offset=at)
        try:
            yield from _Unit(data, at, end).sequences()
        except (IndexError, struct.error, OverflowError) as error:
            raise BinaryError("the line table is cut off", offset=at) from error
        at = end


@dataclass(slots=True)
class _State:
    """Registers of the line machine, and the rows they left."""

    address: int = 0
    file: int = 1
    line: int = 1
    inlined_at: int = 0
    name_at: int = 0
    ended: bool = False
    sequence: Sequence = field(default_factory=Sequence)

    def emit(self, files: list[str]) -> None:
        """Append a row."""
        path = files[self.file] if self.file < len(files) else ""
        self.sequence.addresses.append(self.address)
        self.sequence.rows.append(Row(path, self.line, self.inlined_at, self.name_at))


class _Unit:
    """One line program with its header."""

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self._data, self._end = data, end
        _, _, header, self._minimum, _, self._base, self._range, opcodes = _HEADER.unpack_from(data, start)
        self._at = start + _HEADER.size
        self._operands = data[self._at : self._at + opcodes - 1]
        self._opcodes = opcodes
        self._at += len(self._operands)
        self._files = ["", *self._file_names()]
        # NVIDIA leaves four unknown bytes behind the file table: the program begins where the header says.
        self._at = start + 10 + header

    def _text(self) -> str:
        stop = self._data.index(b"\0", self._at)
        text = self._data[self._at : stop].decode("utf-8", "replace")
        self._at = stop + 1
        return text

    def _uleb(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def _sleb(self) -> int:
        start = self._at
        value, bits = self._uleb(), 7 * (self._at - start)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value

    def _file_names(self) -> Iterator[str]:
        folders = [""]
        while folder := self._text():
            folders.append(folder)
        while name := self._text():
            number, _, _ = self._uleb(), self._uleb(), self._uleb()
            yield f"{folders[number]}/{name}" if 0 < number < len(folders) else name

    def sequences(self) -> Iterator[Sequence]:
        """Run the program."""
        while self._at < self._end:
            yield self._sequence()

    def _sequence(self) -> Sequence:
        state = _State()
        span = max(self._range, 1)
        while self._at < self._end and not state.ended:
            opcode = self._data[self._at]
            self._at += 1
            if opcode >= self._opcodes:
                advance, line = divmod(opcode - self._opcodes, span)
                state.address += advance * self._minimum
                state.line += self._base + line
                state.emit(self._files)
            elif opcode == 0:
                self._extended(state)
            elif opcode == _COPY:
                state.emit(self._files)
            else:
                self._standard(opcode, state, (255 - self._opcodes) // span * self._minimum)
        return state.sequence

    def _extended(self, state: _State) -> None:
        stop = self._uleb() + self._at
        kind = self._data[self._at]
        self._at += 1
        if kind == _END_SEQUENCE:
            state.ended = True
        elif kind == _SET_ADDRESS:
            state.sequence.operand_at = self._at
            state.address = struct.unpack_from("<Q", self._data, self._at)[0]
        elif kind == _INLINED:
            state.inlined_at, state.name_at = self._uleb(), self._uleb()
        self._at = stop

    def _standard(self, opcode: int, state: _State, constant: int) -> None:
        if opcode == _ADVANCE_PC:
            state.address += self._uleb() * self._minimum
        elif opcode == _ADVANCE_LINE:
            state.line += self._sleb()
        elif opcode == _SET_FILE:
            state.file = self._uleb()
        elif opcode == _CONST_ADD_PC:
            state.address += constant
        elif opcode == _FIXED_ADVANCE_PC:
            state.address += struct.unpack_from("<H", self._data, self._at)[0]
            self._at += 2
        else:
            for _ in range(self._operands[opcode - 1]):
                self._uleb()

"""Edits at exact bytes: a file's text in its encoding, with everything outside of the edits untouched."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.errors import PtxguardError
from ptxguard.location import SourceFile
from ptxguard.source.tree import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ptxguard.finding import Edit

# Encodings whose first bytes are a mark that no character of the text stands for.
_MARKS = {"utf-8-sig": 3, "utf-16": 2, "utf-32": 4}


@dataclass(frozen=True, order=True)
class Change:
    """Replace characters of a text; offsets are code points, the end exclusive."""

    start: int
    end: int
    text: str

    def overlaps(self, other: Change) -> bool:
        """Whether both cannot be made; two insertions at one place have no order, so they cannot."""
        if self.start == self.end or other.start == other.end:
            first, second = sorted((self, other))
            return first.start == second.start or second.start < first.end
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True)
class Text:
    """The text of a file with what is needed to write it back.

    Attributes:
        file: decoded text.
        data: its bytes.
    """

    file: SourceFile
    data: bytes

    def change(self, edit: Edit) -> Change:
        """An edit as offsets.

        Raises:
            PtxguardError: the file has no such place.
        """
        start, end = self._offset(edit.line, edit.column), self._offset(edit.end_line, edit.end_column)
        if start is None or end is None or end < start:
            message = f"has no text from {edit.line}:{edit.column} to {edit.end_line}:{edit.end_column}"
            raise PtxguardError(message, path=self.file.path, line=edit.line)
        return Change(start, end, edit.text)

    def _offset(self, line: int, column: int) -> int | None:
        starts = self.file.line_starts
        if not 1 <= line <= len(starts):
            # Behind the last line feed begins a line that has no characters.
            whole = len(self.file.text)
            return whole if (line, column) == (len(starts) + 1, 1) else None
        offset = starts[line - 1] + column - 1
        return offset if 0 <= offset <= len(self.file.text) else None

    def between(self, change: Change) -> str:
        """The characters that a change takes away."""
        return self.file.text[change.start : change.end]

    def with_changes(self, changes: Iterable[Change]) -> bytes:
        """Bytes of the file after changes that do not overlap."""
        encoding, mark = self.file.encoding.removesuffix("-sig"), _MARKS.get(self.file.encoding, 0)
        if encoding in ("utf-16", "utf-32"):
            encoding += "-le" if self.data.startswith(b"\xff\xfe") else "-be"
        text, pieces, at, byte = self.file.text, [], 0, 0
        for change in sorted(changes):
            kept = mark * (byte == 0) + len(text[at : change.start].encode(encoding))
            pieces += [self.data[byte : byte + kept], change.text.encode(encoding)]
            byte += kept + len(text[change.start : change.end].encode(encoding))
            at = change.end
        return b"".join([*pieces, self.data[byte:]])


def read_text(data: bytes, path: str) -> Text:
    """Decode the bytes of a file.

    Raises:
        ParseError: they are no text.
    """
    text, encoding = decode(data, path)
    return Text(SourceFile(path, text, encoding), data)


class Moves:
    """Where characters stand after changes: an offset before them -> the offset behind them."""

    def __init__(self, changes: Sequence[Change]) -> None:
        """Changes that do not overlap."""
        ordered = sorted(changes)
        self._ends = [change.end for change in ordered]
        self._shifts = [0]
        for change in ordered:
            grown = len(change.text) - (change.end - change.start)
            self._shifts.append(self._shifts[-1] + grown)

    def after(self, offset: int) -> int:
        """The new offset of a character that no change takes away."""
        return offset + self._shifts[bisect_right(self._ends, offset)]

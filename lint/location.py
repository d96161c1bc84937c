"""Where a character stands: files, spans, and text joined from pieces of several files."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from io import StringIO
from itertools import accumulate


def find_line_starts(text: str) -> list[int]:
    """Offsets of the first character of each line; the last one is empty where the text ends with a line."""
    starts = list(accumulate(map(len, StringIO(text, newline="\n")), initial=0))
    if text and not text.endswith("\n"):
        starts.pop()
    return starts


@dataclass(frozen=True, eq=False)
class SourceFile:
    """A decoded text file, or a piece of one that is a file of its own (code inside a raw string).

    Attributes:
        path: as shown to the user, relative to the working directory, with "/".
        text: decoded text; offsets everywhere are code points into it.
        encoding: how the bytes were decoded, so that a rewrite keeps them.
        parent: the file that holds this one inside a string literal, or None.
        parent_offset: where this text begins in the parent.
    """

    path: str
    text: str
    encoding: str = "utf-8"
    parent: SourceFile | None = None
    parent_offset: int = 0

    @cached_property
    def line_starts(self) -> list[int]:
        """Offsets of the first character of each line (a line feed ends a line, as in every compiler)."""
        return find_line_starts(self.text)

    def position(self, offset: int) -> tuple[int, int]:
        """1-based (line, column in code points) of an offset, in the outermost file."""
        if self.parent is not None:
            return self.parent.position(self.parent_offset + offset)
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def end_position(self, offset: int) -> tuple[int, int]:
        """`position` of an offset that ends a span: behind the character before it."""
        return self.position(offset)

    def line_text(self, line: int) -> str:
        """The text of a 1-based line of the outermost file, without its line end."""
        if self.parent is not None:
            return self.parent.line_text(line)
        if not 1 <= line <= len(self.line_starts):
            return ""
        start = self.line_starts[line - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")


@dataclass(frozen=True)
class Span:
    """A half-open range of characters in one file.

    Attributes:
        file: the file it lies in.
        start: offset of the first character.
        end: offset behind the last character.
    """

    file: SourceFile
    start: int
    end: int

    @property
    def path(self) -> str:
        """Path of the file, as shown to the user."""
        return self.file.path

    @cached_property
    def begin_position(self) -> tuple[int, int]:
        """1-based (line, column) of the first character."""
        return self.file.position(self.start)

    @cached_property
    def end_position(self) -> tuple[int, int]:
        """1-based (line, column) behind the last character."""
        return self.file.end_position(self.end)

    @property
    def line(self) -> int:
        """1-based line of the first character."""
        return self.begin_position[0]

    @property
    def column(self) -> int:
        """1-based column of the first character, in code points."""
        return self.begin_position[1]

    @property
    def text(self) -> str:
        """The characters themselves."""
        return self.file.text[self.start : self.end]


@dataclass(frozen=True)
class Run:
    """Consecutive characters of a joined text that are consecutive in one file.

    Attributes:
        start: where the run begins in the joined text.
        length: characters of joined text.
        file: the file they come from.
        offset: where they begin in the file.
        source_length: characters in the file; differs from `length` only for an escape or a stringised token.
    """

    start: int
    length: int
    file: SourceFile
    offset: int
    source_length: int


@dataclass(frozen=True, eq=False)
class JoinedText:
    """Text joined from string literals and macro values, each character with its place in a file.

    Attributes:
        text: the joined characters, escapes resolved.
        runs: the pieces, in order, without gaps.
    """

    text: str
    runs: tuple[Run, ...]
    _starts: list[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_starts", [run.start for run in self.runs])

    @classmethod
    def of_file(cls, file: SourceFile) -> JoinedText:
        """A whole file as one run, for text that no compiler has to join (`.ptx`)."""
        size = len(file.text)
        return cls(file.text, (Run(0, size, file, 0, size),) if size else ())

    def locate(self, position: int) -> tuple[SourceFile, int]:
        """File and offset of the character at a position; behind the last one for the end position.

        Raises:
            IndexError: the text is empty.
        """
        run = self.runs[max(bisect_right(self._starts, position) - 1, 0)]
        inside = position - run.start
        if inside >= run.length:
            return run.file, run.offset + run.source_length
        return run.file, run.offset + (inside if run.length == run.source_length else 0)

    def spans(self, start: int, end: int) -> list[Span]:
        """The pieces of source that produced the characters from start to end, in order."""
        pieces: list[Span] = []
        for run in self.runs[max(bisect_right(self._starts, start) - 1, 0) :]:
            if run.start >= end:
                break
            low, high = max(start, run.start), min(end, run.start + run.length)
            if low >= high:
                continue
            if run.length == run.source_length:
                piece = Span(run.file, run.offset + low - run.start, run.offset + high - run.start)
            else:
                piece = Span(run.file, run.offset, run.offset + run.source_length)
            if pieces and pieces[-1].file is piece.file and pieces[-1].end == piece.start:
                piece = Span(piece.file, pieces.pop().start, piece.end)
            pieces.append(piece)
        return pieces


@dataclass(frozen=True, eq=False)
class JoinedFile(SourceFile):
    """Code that a program joins from several literals: a file of its own whose places are in another file.

    Attributes:
        joined: the code, each character with its place.
    """

    joined: JoinedText = field(default_factory=lambda: JoinedText("", ()))

    @classmethod
    def of(cls, joined: JoinedText, parent: SourceFile) -> JoinedFile:
        """The file of a joined text whose literals stand in `parent`, as far as one file holds them."""
        return cls(parent.path, joined.text, parent.encoding, parent, 0, joined)

    def position(self, offset: int) -> tuple[int, int]:
        """1-based (line, column) of the literal's character."""
        file, place = self.joined.locate(offset)
        return file.position(place)

    def end_position(self, offset: int) -> tuple[int, int]:
        """1-based (line, column) behind the literal's character that stands before an offset."""
        pieces = self.joined.spans(max(offset - 1, 0), offset)
        return pieces[-1].end_position if pieces else self.position(offset)

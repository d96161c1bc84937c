"""Between our places (1-based, code points, paths) and those of the protocol (0-based, its units, URIs)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

if TYPE_CHECKING:
    from pygls.workspace import PositionCodec

    from ptxguard.finding import Edit, Finding
    from ptxguard.output.report import Report


def uri_of(path: str) -> str:
    """URI of a path relative to the working directory."""
    return Path(path).absolute().as_uri()


class Places:
    """Converts positions of one report.

    Attributes:
        report: knows the texts, saved or not.
        codec: counts units as the client asked for (UTF-16 by default).
    """

    def __init__(self, report: Report, codec: PositionCodec) -> None:
        self.report = report
        self.codec = codec

    def position(self, path: str, line: int, column: int) -> types.Position:
        """A 1-based line and column in code points."""
        text = self.report.source_line(path, line) or ""
        return types.Position(line - 1, self.codec.client_num_units(text[: column - 1]))

    def range(self, path: str, item: Finding | Edit) -> types.Range:
        """The characters of a finding or an edit."""
        return types.Range(
            self.position(path, item.line, item.column),
            self.position(path, item.end_line, item.end_column),
        )

    def line_range(self, path: str, line: int) -> types.Range:
        """The text of a line without its indentation."""
        text = (self.report.source_line(path, line) or "").rstrip()
        start = len(text) - len(text.lstrip())
        return types.Range(self.position(path, line, start + 1), self.position(path, line, len(text) + 1))

    def location(self, path: str, line: int) -> types.Location:
        """A line of a file."""
        return types.Location(uri_of(path), self.line_range(path, line))

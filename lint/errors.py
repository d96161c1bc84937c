"""Errors that a user can act on: each is one sentence with its place, and leads to exit status 2."""

from __future__ import annotations


class PtxguardError(Exception):
    """The job could not be done.

    Attributes:
        message: one sentence that says what is wrong and what to do.
        path: the file it is about, or None.
        line: 1-based line, or None where a line makes no sense.
        column: 1-based column in code points, or None.
        offset: byte offset in a binary file, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        line: int | None = None,
        column: int | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.line = line
        self.column = column
        self.offset = offset

    def __str__(self) -> str:
        place = self.path or ""
        if self.line is not None:
            place += f":{self.line}" + (f":{self.column}" if self.column is not None else "")
        elif self.offset is not None:
            place += f" at byte {self.offset:#x}"
        return f"{place}: {self.message}" if place else self.message


class ConfigError(PtxguardError):
    """An option or a configuration value cannot be used."""


class ParseError(PtxguardError):
    """Text is not what its place says it is (PTX, C++ tokens, a preprocessor expression)."""


class BinaryError(PtxguardError):
    """Bytes contradict the format they claim to be."""


class ToolError(PtxguardError):
    """An outside tool (ptxas, nvdisasm, git, a driver) is missing or failed."""

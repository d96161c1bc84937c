"""How text looks on a terminal: colour or none, wrapping with a hanging label, harmless characters."""

from __future__ import annotations

import os
import textwrap
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

WIDTH = 100
LABEL = 12


def wants_color(choice: str, stream: TextIO, *, to_file: bool = False) -> bool:
    """Whether to colour: `--color` decides, then NO_COLOR, then FORCE_COLOR, then whether a terminal reads.

    Args:
        choice: auto, always or never.
        stream: where the text goes.
        to_file: whether `--output-file` takes it instead.
    """
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return not to_file and stream.isatty()


@dataclass(frozen=True)
class Style:
    """Colours by meaning; without colour each method returns its text as it is."""

    color: bool = False

    def severity(self, word: str, text: str) -> str:
        """Text in the colour of a severity (which the text always names too)."""
        return self._paint(text, {"error": "red", "warning": "yellow", "note": "cyan"}[word], bold=True)

    def strong(self, text: str) -> str:
        """Bold."""
        return self._paint(text, None, bold=True)

    def faint(self, text: str) -> str:
        """Line numbers, rules and labels."""
        return self._paint(text, "blue")

    def _paint(self, text: str, color: str | None, *, bold: bool = False) -> str:
        return click.style(text, fg=color, bold=bold) if self.color else text

    def field(self, label: str, text: str) -> Iterator[str]:
        """`  label     text`, wrapped under itself."""
        room = WIDTH - LABEL
        lines = textwrap.wrap(printable(text), room, break_long_words=False, break_on_hyphens=False) or [""]
        yield f"  {self.faint(label.ljust(LABEL - 2))}{lines[0]}\n"
        for line in lines[1:]:
            yield f"{' ' * LABEL}{line}\n"


def printable(text: str) -> str:
    """Source text for a terminal: a tab becomes 4 spaces, any other control character a middle dot."""
    safe = text.replace("\t", "    ")
    if safe.isprintable():
        return safe
    return "".join(char if char.isprintable() else "·" for char in safe)


def columns(text: str) -> int:
    """Terminal cells that a printable text takes."""
    if text.isascii():
        return len(text)
    return sum(_cells(char) for char in text)


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1

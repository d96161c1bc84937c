"""The hash by which GitHub code scanning recognises a line again, computed as its upload action does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptxguard.location import SourceFile

# github/codeql-action, src/fingerprints.ts: a polynomial in 64 bits over the first 100 UTF-16 units from the
# start of the line on that are neither space nor tab, then a number that tells equal ones apart.
_UNITS = 100
_FACTOR = 37
_MASK = (1 << 64) - 1
_END_OF_FILE = "\uffff"
_BLANKS = str.maketrans("", "", " \t")


class LineHashes:
    """The hashes of one file; each is computed when it is asked for.

    Attributes:
        windows: what is hashed, line by line.
    """

    def __init__(self, file: SourceFile) -> None:
        # GitHub reads the bytes as UTF-8, with a byte order mark as a character, whatever they are.
        text = file.text.encode(file.encoding, "surrogatepass").decode("utf-8", "replace")
        text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_BLANKS) + _END_OF_FILE
        self.windows: list[str] = []
        start = 0
        while start < len(text):
            self.windows.append(_first_units(text[start : start + _UNITS]))
            start = text.find("\n", start) + 1 or len(text)

    def of_line(self, line: int) -> str | None:
        """`<hash>:<n>` of a 1-based line, the n-th with that hash in the file; None past the end."""
        if not 1 <= line <= len(self.windows):
            return None
        window = self.windows[line - 1]
        return f"{_hash(window):x}:{self.windows[:line].count(window)}"


def _first_units(text: str) -> str:
    """At most 100 UTF-16 units of a text, each as one character."""
    if text.isascii():
        return text
    data = text.encode("utf-16-le", "surrogatepass")[: 2 * _UNITS]
    return "".join(chr(data[index] | data[index + 1] << 8) for index in range(0, len(data), 2))


def _hash(window: str) -> int:
    value = 0
    for unit in window:
        value = value * _FACTOR + ord(unit)
    return value * pow(_FACTOR, _UNITS - len(window), _MASK + 1) & _MASK

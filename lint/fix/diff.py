"""Changed files as a unified diff that `git apply -p0` and `patch -p0` take."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from ptxguard.fix.edits import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ptxguard.fix.plan import FileChange


def render_diff(files: Iterable[FileChange]) -> Iterator[str]:
    """The diff, file by file; line ends stand in it as they stand in the file."""
    for file in files:
        old = _lines(file.text.file.text)
        new = _lines(read_text(file.new, file.path).file.text)
        for line in difflib.unified_diff(old, new, file.path, file.path):
            yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    """Lines with their ends; only a line feed ends one, so that odd characters cannot break a hunk."""
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])

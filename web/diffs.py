"""The fix of a finding as a diff, made from the lines that the run has kept."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptxguard.store.rows import Excerpt

_CONTEXT = 2


@dataclass(frozen=True)
class FixView:
    """A fix.

    Attributes:
        safety: safe or unsafe.
        lines: of a unified diff; empty where the run has not kept the lines.
        edits: the edits in words.
    """

    safety: str
    lines: tuple[str, ...]
    edits: tuple[str, ...]


def fix_view(record: Mapping[str, Any], excerpts: Sequence[Excerpt]) -> FixView | None:
    """The fix of a record; None where it has none."""
    fix = record["fix"]
    if not fix:
        return None
    edits = fix["edits"]
    words = tuple(
        f"{edit['path']}:{edit['line']}:{edit['column']} becomes {edit['text']!r}"
        if (edit["line"], edit["column"]) != (edit["end_line"], edit["end_column"])
        else f"{edit['path']}:{edit['line']}:{edit['column']} gets {edit['text']!r}"
        for edit in edits
    )
    lines: list[str] = []
    for excerpt in excerpts:
        last = excerpt.first_line + excerpt.text.count("\n")
        own = [
            edit
            for edit in edits
            if edit["path"] == excerpt.path
            and excerpt.first_line <= edit["line"]
            and edit["end_line"] <= last
        ]
        lines += _diff(excerpt, own) if own else []
    return FixView(fix["safety"], tuple(lines), words)


def _diff(excerpt: Excerpt, edits: Sequence[Mapping[str, Any]]) -> list[str]:
    """A unified diff with the line numbers of the file."""
    before = excerpt.text.split("\n")
    text = excerpt.text
    starts = [0]
    for line in before:
        starts.append(starts[-1] + len(line) + 1)

    def offset(line: int, column: int) -> int:
        return min(starts[line - excerpt.first_line] + column - 1, len(text))

    for edit in sorted(edits, key=lambda edit: (edit["line"], edit["column"]), reverse=True):
        begin, end = offset(edit["line"], edit["column"]), offset(edit["end_line"], edit["end_column"])
        text = text[:begin] + edit["text"] + text[end:]
    after = text.split("\n")
    found = list(
        difflib.unified_diff(before, after, f"a/{excerpt.path}", f"b/{excerpt.path}", n=_CONTEXT, lineterm="")
    )
    return [_moved(line, excerpt.first_line - 1) for line in found]


def _moved(line: str, by: int) -> str:
    """A line of a diff; the numbers of a `@@` line count from the begin of the file."""
    if not line.startswith("@@"):
        return line
    parts = line.split(" ")
    for index in (1, 2):
        sign, numbers = parts[index][0], parts[index][1:].split(",")
        parts[index] = sign + ",".join([str(int(numbers[0]) + by), *numbers[1:]])
    return " ".join(parts)

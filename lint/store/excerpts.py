"""Cuts out of source files the lines that a page shows beside a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.store.rows import Excerpt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ptxguard.finding import Finding

# Enough to see the whole asm statement and the guard or signature above it on one screen.
CONTEXT_LINES = 12
EDIT_CONTEXT_LINES = 3
# A generated file may be one line of megabytes; columns before the cut stay right.
_MAX_LINE = 4000
_LOOKAHEAD = 1 << 20


def excerpts_of(
    findings: Iterable[Finding], line_text: Callable[[str, int], str | None]
) -> tuple[Excerpt, ...]:
    """The lines around each finding and each edit of its fix, by file and line, without overlap.

    Args:
        findings: what is shown.
        line_text: text of a 1-based line of a file; None where the file cannot be read, "" behind its end.
    """
    wanted: dict[str, list[tuple[int, int]]] = {}
    for finding in findings:
        _want(wanted, finding.path, finding.line, finding.end_line, CONTEXT_LINES)
        for edit in finding.fix.edits if finding.fix is not None else ():
            _want(wanted, edit.path, edit.line, edit.end_line, EDIT_CONTEXT_LINES)
    return tuple(
        excerpt
        for path in sorted(wanted)
        for first, last in _joined(wanted[path])
        if (excerpt := _cut(path, first, last, line_text)) is not None
    )


def _want(wanted: dict[str, list[tuple[int, int]]], path: str, first: int, last: int, around: int) -> None:
    wanted.setdefault(path, []).append((max(1, first - around), min(last, _LOOKAHEAD) + around))


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of lines, touching ones made one."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def _cut(path: str, first: int, last: int, line_text: Callable[[str, int], str | None]) -> Excerpt | None:
    lines: list[str] = []
    for line in range(first, last + 1):
        text = line_text(path, line)
        if text is None:
            return None
        lines.append(text if len(text) <= _MAX_LINE else text[:_MAX_LINE] + "…")
    while lines and not lines[-1]:  # behind the end of the file, or blank
        lines.pop()
    return Excerpt(path, first, "\n".join(lines)) if lines else None

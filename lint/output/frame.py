"""The code frame: source lines with their numbers and carets under the exact characters of a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.output.style import columns, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.finding import Finding
    from ptxguard.output.report import Report
    from ptxguard.output.style import Style

MOST_LINES = 6
LINE_ROOM = 90


def render_frame(finding: Finding, report: Report, style: Style) -> Iterator[str]:
    """A line of context, then the lines of the finding with carets; nothing where the text is not at hand."""
    first, last = finding.line, max(finding.line, finding.end_line)
    shown = range(first, min(last, first + MOST_LINES - 1) + 1)
    gutter = len(str(shown[-1]))
    context = report.source_line(finding.path, first - 1)
    if report.source_line(finding.path, first) is None:
        return
    bar = style.faint("|")
    if context is not None and context.strip() and len(context) <= LINE_ROOM:
        yield f" {style.faint(str(first - 1).rjust(gutter))} {bar} {printable(context)}\n"
    for line in shown:
        text = report.source_line(finding.path, line) or ""
        start, end = _range_in_line(finding, line, text)
        text, before, marked = _window(text, start, end)
        yield f" {style.faint(str(line).rjust(gutter))} {bar} {text}\n"
        carets = style.severity(finding.severity.word, "^" * max(columns(marked), 1))
        yield f" {' ' * gutter} {bar} {' ' * columns(before)}{carets}\n"
    if shown[-1] < last:
        yield f" {' ' * gutter} {bar} … up to line {last}\n"


def _range_in_line(finding: Finding, line: int, text: str) -> tuple[int, int]:
    """0-based first and last+1 character to mark in a line; quotes and blanks around it are not marked."""
    start = finding.column - 1 if line == finding.line else len(text) - len(text.lstrip(' "\t'))
    end = finding.end_column - 1 if line == finding.end_line else len(text.rstrip(' "\\\t'))
    return start, max(end, start)


def _window(text: str, start: int, end: int) -> tuple[str, str, str]:
    """A piece of the line that fits, the part before the marked characters, and these, all printable."""
    low = 0 if min(end, len(text)) <= LINE_ROOM else max(start - 20, 0)
    high = min(len(text), low + LINE_ROOM)
    left, right = ("…" if low else ""), ("…" if high < len(text) else "")
    before = left + printable(text[low:start])
    return left + printable(text[low:high]) + right, before, printable(text[start : min(end, high)])

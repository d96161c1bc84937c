"""Markdown for the summary page of a GitHub job."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ptxguard.output.order import counted, most_severe_first

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.finding import Finding
    from ptxguard.output.report import Report

# GitHub refuses a summary of more than 1 MiB as a whole; some room stays for other writers of the same step.
MOST_BYTES = 1_000_000
_MARKS = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]<>|#"} | {"\n": " ", "\r": " "})


def render(report: Report) -> Iterator[str]:
    """Counts, then a table of findings, the most severe first, as far as the limit goes."""
    head = f"## ptxguard\n\n{_counts(report)}\n\n"
    for error in report.errors[:10]:
        head += f"- **not judged:** {str(error).translate(_MARKS)}\n"
    if len(report.errors) > 10:
        head += f"- and {counted(len(report.errors) - 10, 'more input')} not judged\n"
    yield head
    if report.findings:
        yield "\n| severity | rule | place | finding |\n|---|---|---|---|\n"
    size = len(head.encode("utf-8", "replace"))
    ordered = most_severe_first(report.findings)
    for index, finding in enumerate(ordered):
        row = _row(finding)
        size += len(row.encode("utf-8", "replace"))
        if size > MOST_BYTES:
            yield f"\n{counted(len(ordered) - index, 'more finding')}: a summary holds at most 1 MiB.\n"
            return
        yield row


def _counts(report: Report) -> str:
    counts = Counter(finding.severity.word for finding in report.findings)
    parts = [counted(counts[word], word) for word in ("error", "warning", "note") if counts[word]]
    return (", ".join(parts) or "Nothing to report") + "."


def _row(finding: Finding) -> str:
    place = f"{finding.path}:{finding.line}".translate(_MARKS)
    message = finding.message.translate(_MARKS)
    return f"| {finding.severity.word} | {finding.code} | {place} | {message} |\n"

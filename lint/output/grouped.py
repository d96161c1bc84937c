"""Findings a line each under the name of their file, for people with many of them."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

from ptxguard.output.order import counted
from ptxguard.output.style import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.finding import Finding
    from ptxguard.output.report import Report
    from ptxguard.output.style import Style


def render(report: Report, style: Style) -> Iterator[str]:
    """A block a file, then how many of each severity."""
    ordered = sorted(report.findings, key=lambda finding: finding.path)
    for path, group in groupby(ordered, key=lambda finding: finding.path):
        found = list(group)
        yield f"{style.strong(printable(path))} ({counted(len(found), 'finding')})\n"
        width = max(len(_place(finding)) for finding in found)
        for finding in found:
            word = finding.severity.word
            repair = f" [{finding.fix.safety} fix]" if finding.fix is not None else ""
            yield (
                f"  {_place(finding):>{width}}  {style.severity(word, f'{word:<7}')}  {finding.code}  "
                f"{printable(finding.message)}{repair}\n"
            )
        yield "\n"
    yield _summary(report)


def _place(finding: Finding) -> str:
    return f"{finding.line}:{finding.column}"


def _summary(report: Report) -> str:
    counts = Counter(finding.severity.word for finding in report.findings)
    text = ", ".join(counted(counts[word], word) for word in ("error", "warning", "note") if counts[word])
    if report.hidden:
        text += f"{'; ' if text else ''}{report.hidden} more below --min-severity"
    if report.errors:
        text += f"{'; ' if text else ''}{counted(len(report.errors), 'input')} could not be judged"
    return (text or "nothing to report") + "\n"

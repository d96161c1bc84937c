"""GitHub workflow commands, which the runner turns into annotations of the changed files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.finding import Severity
from ptxguard.output.order import counted, most_severe_first
from ptxguard.output.permalink import finding_link

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ptxguard.errors import PtxguardError
    from ptxguard.finding import Finding
    from ptxguard.output.report import Report

# GitHub shows this many annotations of a step and level, and drops the rest without a word.
MOST = 10
_COMMAND = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def render(report: Report) -> Iterator[str]:
    """At most 10 annotations of each level; where there are more, the last one says how many."""
    errors = [_unreadable(error) for error in report.errors]
    ordered = most_severe_first(report.findings)
    for severity in sorted(Severity, reverse=True):
        lines = errors if severity is Severity.ERROR else []
        own = (finding for finding in ordered if finding.severity is severity)
        lines = [*lines, *(_annotation(finding, report.site) for finding in own)]
        if len(lines) > MOST:
            rest = len(lines) - MOST + 1
            text = f"{counted(rest, 'more finding')} of this level; GitHub shows {MOST} of a step"
            lines = [*lines[: MOST - 1], _command(_COMMAND[severity], {"title": "ptxguard"}, text)]
        yield from lines


def _annotation(finding: Finding, site: str) -> str:
    properties = {"file": finding.path, "line": str(finding.line), "endLine": str(finding.end_line)}
    if finding.line == finding.end_line:  # GitHub refuses columns of an annotation over several lines
        properties |= {"col": str(finding.column), "endColumn": str(finding.end_column)}
    properties["title"] = f"ptxguard {finding.code} {finding.rule}"
    link = f"\n{finding_link(site, finding)}" if site else ""
    return _command(_COMMAND[finding.severity], properties, finding.message + link)


def _unreadable(error: PtxguardError) -> str:
    properties = {"file": error.path} if error.path else {}
    if error.path and error.line:
        properties["line"] = str(error.line)
    return _command("error", {**properties, "title": "ptxguard cannot judge this"}, error.message)


def _command(name: str, properties: Mapping[str, str], text: str) -> str:
    shown = ",".join(f"{key}={value.translate(_PROPERTY)}" for key, value in properties.items())
    return f"::{name} {shown}::{text.translate(_DATA)}\n"

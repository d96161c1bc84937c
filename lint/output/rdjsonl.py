"""reviewdog diagnostics (rdjsonl): one JSON object a line, columns in UTF-8 bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ptxguard.finding import Severity
from ptxguard.output.permalink import finding_link

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.errors import PtxguardError
    from ptxguard.finding import Evidence, Finding
    from ptxguard.output.report import Report

_SEVERITY = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.NOTE: "INFO"}
_SOURCE = {"name": "ptxguard"}


def render(report: Report) -> Iterator[str]:
    """A line for each finding and for each input that could not be judged."""
    for finding in report.findings:
        yield json.dumps(_of_finding(report, finding)) + "\n"
    for error in report.errors:
        yield json.dumps(_of_error(error)) + "\n"


def _of_finding(report: Report, finding: Finding) -> dict[str, Any]:
    where = _range(report, finding.path, finding.line, finding.column, finding.end_line, finding.end_column)
    link = {"url": finding_link(report.site, finding)} if report.site else {}
    record: dict[str, Any] = {
        "message": finding.message,
        "location": {"path": finding.path, "range": where},
        "severity": _SEVERITY[finding.severity],
        "source": _SOURCE,
        "code": {"value": finding.code, **link},
        "related_locations": [_related(item) for item in finding.evidence if item.path is not None],
    }
    # A suggestion speaks of the file of its diagnostic; an edit elsewhere (a macro) cannot be said.
    if finding.fix is not None and all(edit.path == finding.path for edit in finding.fix.edits):
        record["suggestions"] = [
            {
                "range": _range(report, edit.path, edit.line, edit.column, edit.end_line, edit.end_column),
                "text": edit.text,
            }
            for edit in finding.fix.edits
        ]
    return record


def _related(item: Evidence) -> dict[str, Any]:
    where: dict[str, Any] = {"path": item.path}
    if item.line:
        where["range"] = {"start": {"line": item.line}}
    return {"message": f"{item.kind}: {item.text}", "location": where}


def _of_error(error: PtxguardError) -> dict[str, Any]:
    where: dict[str, Any] = {"path": error.path or "."}
    if error.line:
        where["range"] = {"start": {"line": error.line}}
    return {
        "message": f"cannot be judged: {error.message}",
        "location": where,
        "severity": "ERROR",
        "source": _SOURCE,
        "code": {"value": "not-judged"},
    }


def _range(
    report: Report, path: str, line: int, column: int, end_line: int, end_column: int
) -> dict[str, Any]:
    return {
        "start": {"line": line, "column": _byte_column(report, path, line, column)},
        "end": {"line": end_line, "column": _byte_column(report, path, end_line, end_column)},
    }


def _byte_column(report: Report, path: str, line: int, column: int) -> int:
    """A column in UTF-8 bytes from one in code points, both 1-based."""
    text = report.source_line(path, line)
    if text is None:
        return column
    return len(text[: column - 1].encode("utf-8", "replace")) + 1

"""GitLab Code Quality: the report that a merge request shows as a widget and beside the changed lines."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from ptxguard.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.errors import PtxguardError
    from ptxguard.finding import Finding
    from ptxguard.output.report import Report

_SEVERITY = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.NOTE: "info"}


def render(report: Report) -> Iterator[str]:
    """One array; an input that could not be judged is an entry too."""
    entries = [*map(_of_finding, report.findings), *map(_of_error, report.errors)]
    yield json.dumps(entries, indent=2)
    yield "\n"


def _of_finding(finding: Finding) -> dict[str, Any]:
    """GitLab takes equal fingerprints for one finding; ours holds the number of the occurrence."""
    return {
        "description": finding.message,
        "check_name": finding.code,
        "fingerprint": _digest(finding.path, finding.fingerprint),
        "severity": _SEVERITY[finding.severity],
        "location": {"path": finding.path, "lines": {"begin": finding.line, "end": finding.end_line}},
    }


def _of_error(error: PtxguardError) -> dict[str, Any]:
    path, line = error.path or ".", error.line or 1
    return {
        "description": f"cannot be judged: {error.message}",
        "check_name": "not-judged",
        "fingerprint": _digest(path, str(line), error.message),
        "severity": "blocker",
        "location": {"path": path, "lines": {"begin": line}},
    }


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:40]

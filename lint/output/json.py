"""Findings as the versioned JSON record of the contract."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ptxguard import __version__
from ptxguard.output.report import error_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.output.report import Report

VERSION = 1


def render(report: Report) -> Iterator[str]:
    """One JSON document; nothing is shortened."""
    record = {
        "version": VERSION,
        "tool": {"name": "ptxguard", "version": __version__},
        "findings": [finding.record() for finding in report.findings],
        "errors": error_records(report.errors),
    }
    yield json.dumps(record, indent=2, ensure_ascii=False)
    yield "\n"

"""Places as SARIF spells them: relative URIs under one root, regions with all four numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from ptxguard.finding import Evidence
    from ptxguard.output.report import Report

ROOT = "%SRCROOT%"


def artifact(path: str) -> dict[str, Any]:
    """A file: relative to the root, or absolute where it does not lie under it."""
    if path.startswith("../") or Path(path).is_absolute():
        return {"uri": Path(path).resolve().as_uri()}
    return {"uri": quote(path, errors="surrogateescape"), "uriBaseId": ROOT}


def place(path: str, region: dict[str, Any], text: str | None = None) -> dict[str, Any]:
    """A location, with a message where there is a text."""
    record: dict[str, Any] = {"physicalLocation": {"artifactLocation": artifact(path), "region": region}}
    if text:
        record["message"] = {"text": text}
    return record


def region(line: int, column: int, end_line: int, end_column: int) -> dict[str, int]:
    """1-based, end exclusive."""
    return {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}


def line_region(report: Report, path: str, line: int) -> dict[str, int]:
    """The text of a line without its indentation; its first character where the text is not at hand."""
    text = (report.source_line(path, line) or "").rstrip()
    start = len(text) - len(text.lstrip())
    return region(line, start + 1, line, max(len(text), start + 1) + 1)


def evidence_place(report: Report, item: Evidence) -> dict[str, Any]:
    """A link of the chain that has a place in a file."""
    assert item.path is not None  # noqa: S101 - callers choose links with a place
    return place(item.path, line_region(report, item.path, item.line or 1), f"{item.kind}: {item.text}")

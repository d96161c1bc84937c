"""Findings as diagnostics with their evidence, and fixes as code actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from ptxguard.finding import Severity
from ptxguard.lsp.places import uri_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.errors import PtxguardError
    from ptxguard.finding import Finding, Fix
    from ptxguard.lsp.places import Places

SOURCE = "ptxguard"
MOST_RELATED = 20
_SEVERITY = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.NOTE: types.DiagnosticSeverity.Information,
}


def diagnostics(path: str, places: Places) -> list[types.Diagnostic]:
    """All that a report says about one file, what could not be judged too."""
    found = [diagnostic(finding, places) for finding in places.report.findings if finding.path == path]
    return found + [_of_error(error, path, places) for error in places.report.errors if error.path == path]


def diagnostic(finding: Finding, places: Places) -> types.Diagnostic:
    """A finding where it stands."""
    return types.Diagnostic(
        range=places.range(finding.path, finding),
        message=finding.message,
        severity=_SEVERITY[finding.severity],
        code=finding.code,
        source=SOURCE,
        related_information=list(_related(finding, places)),
    )


def _related(finding: Finding, places: Places) -> Iterator[types.DiagnosticRelatedInformation]:
    with_place = [item for item in finding.evidence if item.path is not None and item.line is not None]
    for item in with_place[:MOST_RELATED]:
        if item.path is not None and item.line is not None:
            text = f"{item.kind}: {item.text}"
            yield types.DiagnosticRelatedInformation(places.location(item.path, item.line), text)


def _of_error(error: PtxguardError, path: str, places: Places) -> types.Diagnostic:
    return types.Diagnostic(
        range=places.line_range(path, error.line or 1),
        message=f"cannot be judged: {error.message}",
        severity=types.DiagnosticSeverity.Error,
        code="not-judged",
        source=SOURCE,
    )


def code_actions(path: str, wanted: types.Range, places: Places) -> list[types.CodeAction]:
    """The repairs of the findings that a range touches."""
    actions = []
    for finding in places.report.findings:
        if finding.path != path or finding.fix is None or not _can_be_made(finding.fix, places):
            continue
        where = places.range(path, finding)
        if where.start.line <= wanted.end.line and wanted.start.line <= where.end.line:
            actions.append(_code_action(finding, finding.fix, places))
    return actions


def _can_be_made(fix: Fix, places: Places) -> bool:
    """Whether the text to be replaced is there, and no other copy changes along without being repairable.

    A macro may spell several copies: `fix.users` are the others, which have to be findings with a fix, too.
    """
    repairable = {(one.path, one.line, one.column) for one in places.report.findings if one.fix is not None}
    return all(user in repairable for user in fix.users) and _replaced(fix, places) in ("", fix.replaces)


def _replaced(fix: Fix, places: Places) -> str:
    """The text that the edits take away; "" for one that spans lines, which the server does not compare."""
    taken = ""
    for edit in fix.edits:
        if edit.line != edit.end_line:
            return ""
        taken += (places.report.source_line(edit.path, edit.line) or "")[
            edit.column - 1 : edit.end_column - 1
        ]
    return taken


def _code_action(finding: Finding, fix: Fix, places: Places) -> types.CodeAction:
    changes: dict[str, list[types.TextEdit]] = {}
    for edit in fix.edits:
        text = types.TextEdit(places.range(edit.path, edit), edit.text)
        changes.setdefault(uri_of(edit.path), []).append(text)
    words = {
        "safe": "repair (safe: the destination proves it)",
        "unsafe": "repair (unsafe: rests on the launches in sight)",
    }
    return types.CodeAction(
        title=f"{finding.code}: {words[fix.safety]}",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[diagnostic(finding, places)],
        is_preferred=fix.safety == "safe",
        edit=types.WorkspaceEdit(changes=changes),
    )

"""SARIF 2.1.0 as GitHub code scanning, GitLab and editors read it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxguard import __version__
from ptxguard.output.permalink import rule_link
from ptxguard.output.ruledocs import rule_docs
from ptxguard.output.sarif_places import ROOT, artifact
from ptxguard.output.sarif_results import Results

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.errors import PtxguardError
    from ptxguard.finding import Finding
    from ptxguard.output.report import Report
    from ptxguard.output.ruledocs import RuleDoc

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
# Limits of GitHub code scanning: runs of a file, results of a run, characters of a description.
MOST_RUNS = 20
MOST_RESULTS = 25_000
MOST_CHARACTERS = 1024


def render(report: Report) -> Iterator[str]:
    """One document: a run for each target that the user names, one run for the default targets.

    Each run has an id of its own, so that uploads for several targets stand beside each other.
    """
    named = report.targets if report.targets_named and len(report.targets) <= MOST_RUNS else ()
    groups = [(name, [f for f in report.findings if _concerns(f, name)]) for name in named]
    results = Results(report)
    if not groups:
        scope = "named-targets" if report.targets_named else "default-targets"
        groups = [(scope if report.command == "check" else "compiled-code", list(report.findings))]
    record = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [_run(report, scope, found, results) for scope, found in groups],
    }
    yield from json.JSONEncoder(indent=1).iterencode(record)
    yield "\n"


def _concerns(finding: Finding, target: str) -> bool:
    """Whether a finding is about code for a target; without a verdict for it, it is about all."""
    return finding.targets.get(target) != "excluded"


def _run(report: Report, scope: str, findings: list[Finding], results: Results) -> dict[str, Any]:
    # What is left out is the least severe; the notification says how much, nothing is cut in silence.
    kept = sorted(findings, key=lambda finding: -finding.severity)[:MOST_RESULTS]
    rules = rule_docs(kept)
    order = {rule.code: index for index, rule in enumerate(rules)}
    kept.sort(key=lambda finding: (finding.path, finding.line, finding.column, finding.code))
    return {
        "tool": {
            "driver": {
                "name": "ptxguard",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": [_rule(rule, report.site) for rule in rules],
            }
        },
        "automationDetails": {"id": f"ptxguard/{report.command}/{scope}/"},
        "originalUriBaseIds": {ROOT: {"uri": Path.cwd().as_uri().rstrip("/") + "/"}},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(report.errors, len(findings) - len(kept))],
        "results": [results.result(finding, order[finding.code]) for finding in kept],
    }


def _rule(rule: RuleDoc, site: str) -> dict[str, Any]:
    link = {"helpUri": rule_link(site, rule.code)} if site else {}
    return {
        **link,
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": _shorten(rule.summary)},
        "fullDescription": {"text": _shorten(_first_section(rule.text) or rule.summary)},
        "help": {"text": rule.text, "markdown": _markdown(rule)},
        "defaultConfiguration": {"level": rule.severity.word},
        "properties": {"tags": ["cuda", "ptx"], "problem.severity": _problem(rule.severity.word)},
    }


def _problem(word: str) -> str:
    """GitHub's word for a severity."""
    return "recommendation" if word == "note" else word


def _first_section(text: str) -> str:
    """What stands under the first heading of a rule's documentation, as one paragraph."""
    parts = re.split(r"^.+\n-+$", text, flags=re.MULTILINE)
    return " ".join(parts[1].split()) if len(parts) > 1 else ""


def _shorten(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"


def _markdown(rule: RuleDoc) -> str:
    """The documentation with its underlined headings as Markdown has them."""
    lines: list[str] = []
    for line in rule.text.splitlines():
        if line and not line.strip("-") and lines:
            lines[-1] = f"## {lines[-1]}"
        else:
            lines.append(line)
    return f"# {rule.code} {rule.name}\n\n" + "\n".join(lines)


def _invocation(errors: Sequence[PtxguardError], left_out: int) -> dict[str, Any]:
    notes = [_notification(error) for error in errors]
    if left_out:
        text = f"{left_out} findings of the lowest severity are left out: a run holds at most {MOST_RESULTS}"
        notes.append({"level": "warning", "message": {"text": text}})
    return {"executionSuccessful": not errors, "toolExecutionNotifications": notes}


def _notification(error: PtxguardError) -> dict[str, Any]:
    record: dict[str, Any] = {"level": "error", "message": {"text": error.message}}
    if error.path:
        place: dict[str, Any] = {"artifactLocation": artifact(error.path)}
        if error.line:
            place["region"] = {"startLine": error.line}
        record["locations"] = [{"physicalLocation": place}]
    return record

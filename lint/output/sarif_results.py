"""One SARIF result for each finding: message, code flows, related places, fixes and fingerprints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ptxguard.output.flows import flows_of
from ptxguard.output.linehash import LineHashes
from ptxguard.output.permalink import finding_link
from ptxguard.output.sarif_places import artifact, evidence_place, line_region, place, region

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.finding import Edit, Finding, Fix
    from ptxguard.output.flows import Flow
    from ptxguard.output.report import Report

# GitHub keeps 100 related locations and 1,000 steps of code flows of a result.
MOST_RELATED = 100
MOST_STEPS = 1000
_WHY = {
    "safe": "safe repair: the destination proves it",
    "unsafe": "unsafe repair: it rests on the launches in sight",
}


class Results:
    """Renders findings; each file is hashed once.

    Attributes:
        report: what the findings belong to.
    """

    def __init__(self, report: Report) -> None:
        self.report = report
        self._hashes: dict[str, LineHashes | None] = {}

    def result(self, finding: Finding, rule_index: int) -> dict[str, Any]:
        """The result object of a finding."""
        where = region(finding.line, finding.column, finding.end_line, finding.end_column)
        record: dict[str, Any] = {
            "ruleId": finding.code,
            "ruleIndex": rule_index,
            "level": finding.severity.word,
            "message": {"text": finding.message},
            "locations": [place(finding.path, where)],
            "partialFingerprints": self._fingerprints(finding),
            "properties": dict(_properties(finding)),
        }
        if self.report.site:
            record["hostedViewerUri"] = finding_link(self.report.site, finding)
        related = list(self._related(finding))[:MOST_RELATED]
        if related:
            record["relatedLocations"] = [{"id": index, **one} for index, one in enumerate(related, start=1)]
        flows = list(self._code_flows(flows_of(finding)))
        if flows:
            record["codeFlows"] = flows
        if finding.fix is not None:
            record["fixes"] = [_fix(finding.fix)]
        return record

    def _fingerprints(self, finding: Finding) -> dict[str, str]:
        """Both fingerprints; compiled code has no lines, so ours serves GitHub too."""
        if finding.path not in self._hashes:
            file = self.report.source_file(finding.path)
            self._hashes[finding.path] = LineHashes(file) if file is not None else None
        hashes = self._hashes[finding.path]
        line = hashes.of_line(finding.line) if hashes is not None else None
        return {
            "primaryLocationLineHash": line or finding.fingerprint,
            "ptxguard/v1": finding.fingerprint,
        }

    def _related(self, finding: Finding) -> Iterator[dict[str, Any]]:
        """The kernels, then every link of the evidence, each place once."""
        seen: set[tuple[str, int | None]] = {(finding.path, finding.line)}
        for kernel in finding.kernels:
            if kernel.path is None or (kernel.path, kernel.line) in seen:
                continue
            seen.add((kernel.path, kernel.line))
            where = line_region(self.report, kernel.path, kernel.line or 1)
            yield place(kernel.path, where, f"kernel {kernel.name}")
        for item in finding.evidence:
            if item.path is not None and (item.path, item.line) not in seen:
                seen.add((item.path, item.line))
                yield evidence_place(self.report, item)

    def _code_flows(self, flows: Sequence[Flow]) -> Iterator[dict[str, Any]]:
        room = MOST_STEPS
        for flow in flows:
            room -= len(flow.steps)
            if room < 0:
                return
            steps = [{"location": evidence_place(self.report, step)} for step in flow.steps]
            yield {
                "message": {"text": f"launch to instruction through {flow.kernel.name}"},
                "threadFlows": [{"locations": steps}],
            }


def _properties(finding: Finding) -> Iterator[tuple[str, Any]]:
    """What GitHub does not ask for and other readers may want; empty values are left out."""
    values = {
        "confidence": finding.confidence.word,
        "opcode": finding.opcode,
        "function": finding.function,
        "kernelCount": len(finding.kernels),
        "syscall": finding.syscall,
        "targets": finding.targets,
        "onTarget": finding.on_target,
        "cluster": finding.cluster.get("verdict"),
        "address": finding.address.get("verdict"),
        "expectedMib": {cost.gpu: cost.expected_mib for cost in finding.cost if cost.expected_mib},
    }
    return ((key, value) for key, value in values.items() if value)


def _fix(fix: Fix) -> dict[str, Any]:
    files: dict[str, list[Edit]] = {}
    for edit in fix.edits:
        files.setdefault(edit.path, []).append(edit)
    changes = [
        {"artifactLocation": artifact(path), "replacements": [_replacement(edit) for edit in edits]}
        for path, edits in files.items()
    ]
    return {"description": {"text": _WHY[fix.safety]}, "artifactChanges": changes}


def _replacement(edit: Edit) -> dict[str, Any]:
    deleted = region(edit.line, edit.column, edit.end_line, edit.end_column)
    if not edit.text:
        return {"deletedRegion": deleted}
    return {"deletedRegion": deleted, "insertedContent": {"text": edit.text}}

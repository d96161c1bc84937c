"""What formats with a table of rules say about a code: from its module, or from the codes of `scan`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ptxguard.finding import Finding

# Codes that `scan` reports: the compiled counterpart of the rules, which judge source.
_SCAN = {
    "TMA101": "A compiled kernel reaches a driver function for bulk copies, with a large stack per thread.",
    "TMA102": "Shipped PTX holds a bulk copy that becomes a driver call when an sm_12x device assembles it.",
    "TMA103": "A compiled kernel reaches a driver function that is no bulk copy (device runtime).",
    "TMA104": "The stack need of a compiled kernel cannot be known: recursion or an indirect call.",
    "TMA105": "An image cannot be checked before it is linked, since it holds no machine code and no PTX.",
}


@dataclass(frozen=True)
class RuleDoc:
    """A rule as tables of rules show it.

    Attributes:
        code: `TMA001`.
        name: words joined by dashes.
        summary: one sentence.
        text: the documentation, with its headings.
        severity: the worst that it reports.
    """

    code: str
    name: str
    summary: str
    text: str
    severity: Severity


def rule_docs(findings: Iterable[Finding]) -> tuple[RuleDoc, ...]:
    """The rules of the findings, by code."""
    worst: dict[tuple[str, str], Severity] = {}
    for finding in findings:
        key = (finding.code, finding.rule)
        worst[key] = max(finding.severity, worst.get(key, Severity.NOTE))
    return tuple(_rule_doc(code, name, severity) for (code, name), severity in sorted(worst.items()))


def _rule_doc(code: str, name: str, severity: Severity) -> RuleDoc:
    from ptxguard.engine import all_rules  # a run without findings imports no rule for their texts

    for rule in all_rules():
        if rule.meta.code == code:
            worst = max(case.severity for case in rule.meta.cases)
            return RuleDoc(code, rule.meta.name, rule.meta.summary, rule.documentation.strip(), worst)
    summary = _SCAN.get(code, f"{name.replace('-', ' ').capitalize()}.")
    return RuleDoc(code, name, summary, summary, severity)

"""What formats with a table of rules say about a code: from its module, or from the codes of `scan`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.finding import Severity
from ptxguard.otherrules import find_other

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ptxguard.finding import Finding


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
    other = find_other(code)
    if other is not None:
        return RuleDoc(code, other.name, other.summary, other.documentation.strip(), other.severity)
    summary = f"{name.replace('-', ' ').capitalize()}."
    return RuleDoc(code, name, summary, summary, severity)

"""The rules: what each finds, why it matters, its severity table and examples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ptxguard.engine import all_rules
from ptxguard.otherrules import find_other, other_rules
from ptxguard.rule import Example, Rule
from ptxguard.store.rows import FindingFilter
from ptxguard.web.page import NotThereError, PageSpec, View
from ptxguard.web.params import Param, shown
from ptxguard.web.table import Table, table_of


@dataclass(frozen=True)
class RuleRow:
    """A rule in the list; `findings` counts those of the newest runs."""

    code: str
    name: str
    summary: str
    severity: str
    fix: str
    findings: int


@dataclass(frozen=True)
class RulesPage:
    """All rules, by code."""

    rows: tuple[RuleRow, ...]


def build_rules(view: View) -> RulesPage:
    """The context."""
    counts = {
        facet.value: facet.count for facet in view.store.facets(FindingFilter()) if facet.name == "code"
    }
    rows = [
        RuleRow(
            rule.meta.code,
            rule.meta.name,
            rule.meta.summary,
            max(case.severity for case in rule.meta.cases).word,
            ", ".join(rule.meta.fix_safety) or "none",
            counts.get(rule.meta.code, 0),
        )
        for rule in all_rules()
    ]
    rows += [
        RuleRow(one.code, one.name, one.summary, one.severity.word, "none", counts.get(one.code, 0))
        for one in other_rules()
    ]
    return RulesPage(tuple(sorted(rows, key=lambda row: row.code)))


@lru_cache(maxsize=1)
def rule_names() -> dict[str, str]:
    """Code -> name of every rule."""
    names = {rule.meta.code: rule.meta.name for rule in all_rules()}
    return names | {one.code: one.name for one in other_rules()}


@dataclass(frozen=True)
class CaseRow:
    """A row of the severity table, decided in this order."""

    condition: str
    severity: str
    confidence: str
    fix: str


@dataclass(frozen=True)
class ExampleView:
    """An example: reported lines by number with their severity, and the repaired line if one is offered."""

    title: str
    settings: str
    lines: tuple[str, ...]
    reported: dict[int, str]
    fixed: str | None


@dataclass(frozen=True)
class RulePage:
    """One rule.

    Attributes:
        code: of it.
        name: in words joined by dashes.
        summary: one sentence.
        targets: on which it can report.
        since: version that brought it.
        documentation: docstring with its headings.
        cases: severity table.
        examples: good and bad code.
        findings: of the newest runs.
    """

    code: str
    name: str
    summary: str
    targets: str
    since: str
    documentation: str
    cases: tuple[CaseRow, ...]
    examples: tuple[ExampleView, ...]
    findings: int


def build_rule(view: View) -> RulePage:
    """The context."""
    code = view.values["code"]
    rule = next((one for one in all_rules() if one.meta.code == code), None)
    count = sum(
        facet.count
        for facet in view.store.facets(FindingFilter(code=code))
        if facet.name == "code" and facet.value == code
    )
    if rule is not None:
        return _rule(rule, count)
    other = find_other(code)
    if other is None or other.code != code:
        raise NotThereError(f"no rule has the code {shown(code)}")
    return RulePage(
        other.code,
        other.name,
        other.summary,
        "compiled code" if other.code.startswith("TMA1") else "all",
        "0.1.0",
        other.documentation,
        (),
        (),
        count,
    )


def _rule(rule: Rule, count: int) -> RulePage:
    meta = rule.meta
    return RulePage(
        meta.code,
        meta.name,
        meta.summary,
        meta.targets,
        meta.since,
        rule.documentation,
        tuple(
            CaseRow(case.condition, case.severity.word, case.confidence.word, case.fix or "none")
            for case in meta.cases
        ),
        tuple(_example(example, meta.code) for example in rule.examples),
        count,
    )


def _example(example: Example, code: str) -> ExampleView:
    lines, reported = [], {}
    mark = f"// !{code}"
    for number, line in enumerate(example.source.strip("\n").split("\n"), start=1):
        text, found, word = line.partition(mark)
        if found:
            reported[number] = word.strip()
        lines.append(text.rstrip() if found else line)
    named = [f"--target {name}" for name in example.targets]
    if example.cuda_min is not None:
        named.append(f"--cuda-min {example.cuda_min[0]}.{example.cuda_min[1]}")
    if example.public:
        named.append("--public of its file")
    return ExampleView(example.title, " ".join(named), tuple(lines), reported, example.fixed)


def rules_table(page: RulesPage) -> Table:
    """Rules as CSV."""
    return table_of("code name summary severity fix findings", page.rows)


def rule_table(page: RulePage) -> Table:
    """The severity table as CSV."""
    return Table(
        ("code", "condition", "severity", "confidence", "fix"),
        ((page.code, case.condition, case.severity, case.confidence, case.fix) for case in page.cases),
    )


PAGES = (
    PageSpec(
        "rules",
        "/rules",
        "Rules",
        "All rules with their findings in the newest runs.",
        build_rules,
        RulesPage,
        rules_table,
        "rules.html",
    ),
    PageSpec(
        "rule",
        "/rules/{code}",
        "Rule",
        "One rule: what it finds, why, severity table, examples.",
        build_rule,
        RulePage,
        rule_table,
        "rule.html",
        parts=(Param("code", "Code of the rule."),),
    ),
)

"""`ptxguard explain`: a rule's documentation, severity table and examples."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ptxguard.otherrules import find_other, other_rules
from ptxguard.output.report import deliver
from ptxguard.output.style import Style, wants_color
from ptxguard.rule import HEADINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.otherrules import OtherRule
    from ptxguard.rule import Example, Rule


@click.command()
@click.argument("code", required=False)
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True)
def command(code: str | None, color: str) -> None:
    """Explain a rule by its code or name; without one, list them all."""
    from ptxguard.engine import all_rules, find_rule

    style = Style(wants_color(color, sys.stdout))
    other = find_other(code) if code is not None else None
    if code is None:
        deliver(render_list(all_rules(), style), None)
    else:
        deliver(
            render_other(other, style) if other is not None else render_rule(find_rule(code), style), None
        )


def render_list(rules: tuple[Rule, ...], style: Style) -> Iterator[str]:
    """One line a rule."""
    for rule in rules:
        yield f"{style.strong(rule.meta.code)}  {rule.meta.name:<24}{rule.meta.summary}\n"
    for other in other_rules():
        yield f"{style.strong(other.code)}  {other.name:<24}{other.summary}\n"


def render_other(rule: OtherRule, style: Style) -> Iterator[str]:
    """Title and prose of a code that `scan` or the suppression comments report."""
    yield f"{style.strong(f'{rule.code} {rule.name}')}\n"
    yield f"Worst severity: {rule.severity.word}\n\n"
    yield from _prose(rule.documentation, style)


def render_rule(rule: Rule, style: Style) -> Iterator[str]:
    """Title, prose, severity table, examples."""
    meta = rule.meta
    yield f"{style.strong(f'{meta.code} {meta.name}')}\n"
    fixes = ", ".join(meta.fix_safety) or "none"
    yield f"Reports on {meta.targets}; since ptxguard {meta.since}; fixes: {fixes}\n\n"
    yield from _prose(rule.documentation, style)
    yield f"\n{style.strong('Severity, first row that holds')}\n"
    for case in meta.cases:
        word = case.severity.word
        fix = f"fix {case.fix}" if case.fix else "no fix"
        row = f"{word:<8} {case.confidence.word:<7} {fix:<11} {case.condition}\n"
        yield f"  {style.severity(word, row[:8])}{row[8:]}"
    for example in rule.examples:
        yield from _example(example, style)


def _prose(text: str, style: Style) -> Iterator[str]:
    for line in text.strip().splitlines():
        if not line or line.strip("-"):  # the rule under a heading is for the reader of the source
            yield f"{style.strong(line) if line in HEADINGS else line}\n"


def _example(example: Example, style: Style) -> Iterator[str]:
    yield f"\n{style.strong(f'Example: {example.title}')}\n"
    named = [f"--target {name}" for name in example.targets]
    if example.cuda_min is not None:
        named.append(f"--cuda-min {example.cuda_min[0]}.{example.cuda_min[1]}")
    if example.public:
        named.append("--public of its file")
    if named:
        yield f"  with {' '.join(named)}\n"
    for line in example.source.splitlines():
        yield f"    {line}\n"
    if example.fixed is not None:
        yield f"  the reported line after the fix:\n    {example.fixed}\n"

"""`ptxguard explain`: a rule's documentation, severity table and examples."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ptxguard.output.style import Style, wants_color

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.rule import Example, Rule


@click.command()
@click.argument("code", required=False)
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True)
def command(code: str | None, color: str) -> None:
    """Explain a rule by its code or name; without one, list them all."""
    from ptxguard.engine import all_rules, find_rule

    style = Style(wants_color(color, sys.stdout))
    chunks = render_rule(find_rule(code), style) if code is not None else render_list(all_rules(), style)
    for chunk in chunks:
        click.echo(chunk, nl=False, color=style.color)


def render_list(rules: tuple[Rule, ...], style: Style) -> Iterator[str]:
    """One line a rule."""
    for rule in rules:
        yield f"{style.strong(rule.meta.code)}  {rule.meta.name:<24}{rule.meta.summary}\n"


def render_rule(rule: Rule, style: Style) -> Iterator[str]:
    """Title, prose, severity table, examples."""
    meta = rule.meta
    yield f"{style.strong(f'{meta.code} {meta.name}')}\n"
    fixes = ", ".join(meta.fix_safety) or "none"
    yield f"Reports on {meta.targets}; since ptxguard {meta.since}; fixes: {fixes}\n\n"
    for line in rule.documentation.strip().splitlines():
        if line and not line.strip("-"):
            continue
        yield f"{line}\n"
    yield f"\n{style.strong('Severity, first row that holds')}\n"
    for case in meta.cases:
        word = case.severity.word
        fix = f"fix {case.fix}" if case.fix else "no fix"
        row = f"{word:<8} {case.confidence.word:<7} {fix:<11} {case.condition}\n"
        yield f"  {style.severity(word, row[:8])}{row[8:]}"
    for example in rule.examples:
        yield from _example(example, style)


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

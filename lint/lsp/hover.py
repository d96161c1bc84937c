"""Markdown for the hover over a copy or a finding: verdicts, price, and the ways from its launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ptxguard.effects import target_words
from ptxguard.lsp.places import uri_of
from ptxguard.output.flows import flows_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ptxguard.finding import Cost, Finding
    from ptxguard.model import CopySite
    from ptxguard.output.flows import Flow
    from ptxguard.output.report import Report

MOST_WAYS = 4


def hover_text(report: Report, path: str, line: int) -> str:
    """What is known about a 1-based line; "" where nothing is."""
    found = [item for item in report.findings if item.path == path and item.line <= line <= item.end_line]
    if found:
        return "\n\n---\n\n".join("\n".join(_of_finding(finding)) for finding in found)
    return "\n\n---\n\n".join(
        "\n".join(_of_site(site))
        for site in report.sites
        if site.span.path == path and site.span.line <= line <= site.end_span.end_position[0]
    )


def _of_finding(finding: Finding) -> Iterator[str]:
    confidence = f"{finding.confidence.word} confidence"
    yield f"**{finding.severity.word} {finding.code}** {finding.rule} ({confidence})\n"
    yield f"{_escaped(finding.message)}\n"
    yield from _verdict("address", finding.address)
    yield from _verdict("cluster", finding.cluster)
    if finding.cost:
        yield from _price(finding.cost)
    yield from _ways(flows_of(finding))


def _of_site(site: CopySite) -> Iterator[str]:
    yield f"`{site.copy.opcode}`\n"
    groups: dict[str, list[str]] = {}
    for name, behaviour in site.on_target.items():
        groups.setdefault(behaviour, []).append(name)
    words = {"syscall": "a driver call", "native": "native", "rejected": "refused by ptxas"}
    yield "; ".join(f"{words[key]} on {target_words(names)}" for key, names in groups.items()) + "\n"
    yield from _verdict("address", site.address.record())
    yield from _verdict("cluster", site.cluster.record())


def _verdict(label: str, record: Mapping[str, Any]) -> Iterator[str]:
    if record:
        yield f"- {label} **{record['verdict']}**: {_escaped(record['reason'])}"


def _price(costs: Sequence[Cost]) -> Iterator[str]:
    yield "\nPredicted, not measured here, per context and process:\n"
    yield "| GPU | MiB | range | B/thread | basis |"
    yield "|---|---:|---|---:|---|"
    for cost in costs:
        figures = [cost.expected_mib, cost.low_mib, cost.high_mib, cost.bytes_per_thread]
        mib, low, high, thread = ("unknown" if value is None else f"{value:,}" for value in figures)
        yield f"| {cost.gpu} | {mib} | {low} to {high} | {thread} | {cost.basis} |"


def _ways(flows: Sequence[Flow]) -> Iterator[str]:
    """A list for each of the first kernels: launch, kernel, calls, asm, each a link."""
    for flow in flows[:MOST_WAYS]:
        yield f"\nthrough `{flow.kernel.name}`:\n"
        for number, step in enumerate(flow.steps, start=1):
            place = f"{step.path}:{step.line}"
            yield f"{number}. {step.kind} [{_escaped(place)}]({uri_of(step.path or '')}#L{step.line})"
    if len(flows) > MOST_WAYS:
        yield f"\nand through {len(flows) - MOST_WAYS} more kernels"


def _escaped(text: str) -> str:
    for mark in "\\`*_[]<>|":
        text = text.replace(mark, f"\\{mark}")
    return text

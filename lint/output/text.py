"""Findings for people: code frame, verdicts with reasons, evidence, price, fix; at the end a summary."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import TYPE_CHECKING

from ptxguard.effects import UNKNOWN_FUNCTION, price_words, target_words
from ptxguard.output.chain import render_chain, render_kernels
from ptxguard.output.frame import render_frame
from ptxguard.output.style import LABEL, WIDTH, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.finding import Cost, Edit, Finding
    from ptxguard.output.report import Report
    from ptxguard.output.style import Style


_SHOWN_EDITS = 4


def render(report: Report, style: Style) -> Iterator[str]:
    """The whole text, finding by finding; a price table stands where it is needed first."""
    priced: dict[tuple[Cost, ...], str] = {}
    for finding in report.findings:
        yield from _head(finding, style)
        yield from render_frame(finding, report, style)
        yield from _verdicts(finding, style)
        yield from render_kernels(finding, style)
        yield from render_chain(finding, style)
        yield from _price(finding, style, priced)
        yield from _effects(finding, style)
        yield from _fix(finding, style)
        yield "\n"
    yield _summary(report, style)


def _head(finding: Finding, style: Style) -> Iterator[str]:
    word = finding.severity.word
    head = f"{word}[{finding.code}]"
    lines = textwrap.wrap(
        f"{head} {finding.message}",
        WIDTH,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield f"{style.severity(word, head)}{style.strong(lines[0].removeprefix(head))}\n"
    yield from (f"{style.strong(line)}\n" for line in lines[1:])
    place = f"{printable(finding.path)}:{finding.line}:{finding.column}"
    inside = f" in {printable(finding.function)}" if finding.function else ""
    broken = "\n     " if len(place) + len(inside) + 6 > WIDTH else ""
    yield f"  {style.faint('-->')} {place}{broken}{inside}\n"


def _verdicts(finding: Finding, style: Style) -> Iterator[str]:
    yield from style.field("targets", _target_text(finding))
    for label, record in (("address", finding.address), ("cluster", finding.cluster)):
        if record:
            yield from style.field(label, f"{record['verdict']}: {record['reason']}")


def _target_text(finding: Finding) -> str:
    groups: dict[str, list[str]] = {}
    for name, guard in finding.targets.items():
        behaviour = finding.on_target.get(name, "compiled" if not finding.on_target else "unknown")
        words = {"syscall": "driver call", "native": "native", "rejected": "refused by ptxas"}.get(
            behaviour, behaviour
        )
        state = {"compiled": words, "excluded": "not compiled", "unknown": f"{words} if its guard holds"}[
            guard
        ]
        groups.setdefault(state, []).append(name)
    return "; ".join(f"{state} on {target_words(names)}" for state, names in groups.items())


def _price(finding: Finding, style: Style, priced: dict[tuple[Cost, ...], str]) -> Iterator[str]:
    if finding.syscall is None:
        return
    if finding.syscall == UNKNOWN_FUNCTION:
        yield from style.field("price", "unknown, as the driver function is")
        return
    if not finding.cost:
        yield from style.field("price", "unknown: none of the cards asked for runs code for these targets")
        return
    if finding.cost in priced:
        yield from style.field("price", f"{price_words(finding.cost)}, table at {priced[finding.cost]}")
        return
    priced[finding.cost] = f"{finding.path}:{finding.line}"
    yield from style.field(
        "price",
        "predicted, not measured here: per context and process, net of the 1,024 B default limit; what the "
        "driver's device library takes at module load comes on top and is unknown until probed",
    )
    yield from _price_table(finding.cost, style)
    for basis, source in dict.fromkeys((item.basis, item.source) for item in finding.cost):
        yield from style.field("", f"B/thread by {basis}: {source}")


def _price_table(cost: Sequence[Cost], style: Style) -> Iterator[str]:
    rows = [("GPU", "B/thread", "MiB expected", "MiB range")]
    for item in cost:
        low_high = f"{item.low_mib:,.1f} to {item.high_mib:,.1f}" if item.low_mib is not None else "unknown"
        rows.append((item.gpu, _number(item.bytes_per_thread), _number(item.expected_mib), low_high))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for index, row in enumerate(rows):
        text = f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:>{widths[3]}}"
        yield f"{' ' * LABEL}{style.faint(text) if index == 0 else text}\n"


def _number(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _effects(finding: Finding, style: Style) -> Iterator[str]:
    performance = finding.performance
    if "registers_at_least" not in performance:  # a finding of compiled code, or one without a driver call
        return
    ignored = ", setmaxnreg ignored (ptxas C7506)" if performance["setmaxnreg_ignored"] else ""
    text = (
        f"at least {performance['registers_at_least']} registers, an ABI call frame{ignored}; the first "
        "launch that raises the stack limit waits for running kernels and can hang beside a persistent one"
    )
    yield from style.field("effects", text)


def _fix(finding: Finding, style: Style) -> Iterator[str]:
    if finding.fix is None:
        return
    why = {"safe": "safe, proved by the destination", "unsafe": "unsafe, rests on the launches in sight"}
    edits = finding.fix.edits
    text = ", ".join(map(_edit_text, edits[:_SHOWN_EDITS]))
    if len(edits) > _SHOWN_EDITS:
        text += f" and {len(edits) - _SHOWN_EDITS} more edits"
    yield from style.field("fix", f"{text} ({why[finding.fix.safety]})")


def _edit_text(edit: Edit) -> str:
    """One edit in words; whole lines are counted, `--diff` shows them."""
    if "\n" in edit.text:
        return f"{edit.text.count(chr(10))} lines are put before {edit.path}:{edit.line}"
    place = f"{edit.path}:{edit.line}:{edit.column}"
    if (edit.line, edit.column) == (edit.end_line, edit.end_column):
        return f"{place} gets `{edit.text}`"
    return f"{place}-{edit.end_column} {f'becomes `{edit.text}`' if edit.text else 'is removed'}"


def _summary(report: Report, style: Style) -> str:
    counts = Counter(finding.severity.word for finding in report.findings)
    parts = [
        style.severity(word, f"{counts[word]} {word}{'s' if counts[word] != 1 else ''}")
        for word in ("error", "warning", "note")
        if counts[word]
    ]
    copies = len(report.sites)
    files = len({site.span.path for site in report.sites})
    text = ", ".join(parts) or "nothing to report"
    text += (
        f" among {copies} bulk cop{'y' if copies == 1 else 'ies'} in {files} file{'' if files == 1 else 's'}"
    )
    if report.targets:
        text += f", targets {target_words(report.targets)}"
    if report.fixed:
        text += f"; {report.fixed} fixed"
    if report.hidden:
        text += f"; {report.hidden} more below --min-severity"
    if report.errors:
        text += f"; {len(report.errors)} input{'s' if len(report.errors) > 1 else ''} could not be judged"
    return text + "\n"

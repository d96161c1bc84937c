"""The result of `scan` for people: targets of each library, findings by template, price, totals."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ptxguard.binary.demangle import family
from ptxguard.compiled import NEVER_RUNS, is_of, reaches, worst_cost
from ptxguard.output.scan_json import summary
from ptxguard.output.style import LABEL, WIDTH, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.binary.facts import Artifact
    from ptxguard.binary.inventory import Inventory
    from ptxguard.finding import Finding
    from ptxguard.output.style import Style

# Rows of the list of kernel templates; what is left out is counted in its last line.
_MOST_FAMILIES = 12


def render(found: Inventory, findings: Sequence[Finding], gpus: Sequence[str], style: Style) -> Iterator[str]:
    """The whole text: artifact by artifact, then what the worst kernel costs on each card, then totals."""
    for artifact in found.artifacts:
        yield from _artifact(artifact, style)
    for finding in findings:
        yield from _finding(finding, found, style)
    yield from _price(findings, gpus, style)
    yield _totals(found, findings, style)


def _artifact(artifact: Artifact, style: Style) -> Iterator[str]:
    yield f"{style.strong(printable(artifact.label))}\n"
    rows = [("target", "images", "kernels", "with a driver syscall")]
    for row in summary(artifact):
        kernels = "not read" if row["kernels"] is None else f"{row['kernels']:,}"
        rows.append((row["target"], f"{row['images']:,}", kernels, f"{row['kernels_with_syscall']:,}"))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for index, cells in enumerate(rows):
        text = "  ".join(
            [cells[0].ljust(widths[0]), *(cells[column].rjust(widths[column]) for column in (1, 2, 3))]
        )
        yield f"  {style.faint(text) if index == 0 else text}\n"
    yield "\n"


def _finding(finding: Finding, found: Inventory, style: Style) -> Iterator[str]:
    word = finding.severity.word
    yield f"{style.severity(word, f'{word}[{finding.code}]')} {style.strong(printable(finding.message))}\n"
    yield f"  {style.faint('-->')} {printable(finding.path)}\n"
    for label, count in _families(finding, found):
        yield f"{' ' * LABEL}{count:>7,} x {printable(label)[: WIDTH - LABEL]}\n"
    for link in finding.evidence:
        place = f"{link.path}:{link.line}: " if link.line is not None else ""
        yield from style.field("evidence" if link is finding.evidence[0] else "", f"{place}{link.text}")
    yield from style.field("speed", text) if (text := _speed(finding)) else ()
    yield "\n"


def _speed(finding: Finding) -> str:
    """What the kernels of a finding need beside memory, in one sentence; empty where nothing is known."""
    known = finding.performance
    if known.get("registers_max") is None:
        return ""
    text = f"{_span(known['registers_min'], known['registers_max'])} registers per thread"
    if known["warps_of"]:
        room = _span(known["warps_min"], known["warps_max"])
        text += f", room for {room} of {known['warps_of']} warps per SM"
    text += f"; {known['kernels_with_local_reads']:,} of {known['kernels']:,} kernels read local memory"
    return f"{text}, {known['kernels_with_setmaxnreg']:,} have setmaxnreg"


def _span(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low} to {high}"


def _families(finding: Finding, found: Inventory) -> Iterator[tuple[str, int]]:
    """Kernel templates of a finding with the number of their kernels; the rest summed up in a last line."""
    counts = Counter(
        family(kernel.name)
        for artifact in found.artifacts
        for reach in reaches(artifact)
        if is_of(finding, reach)
        for _, kernel in reach.pairs
    ) or Counter(family(kernel.name) for kernel in finding.kernels)
    ordered = counts.most_common()
    yield from ordered[:_MOST_FAMILIES]
    if len(ordered) > _MOST_FAMILIES:
        rest = ordered[_MOST_FAMILIES:]
        yield (
            f"of {len(rest)} more templates (all are in --output-format json)",
            sum(count for _, count in rest),
        )


def _price(findings: Sequence[Finding], gpus: Sequence[str], style: Style) -> Iterator[str]:
    if not any(finding.cost for finding in findings):
        return
    yield from style.field(
        "price",
        "first launch (or graph instantiation) of the worst kernel, per context and process, predicted, not "
        "measured here, net of the 1,024 B default limit; the maximum over all kernels, never a sum",
    )
    for gpu in gpus:
        cost = worst_cost(findings, gpu)
        if cost is None or cost.mib is None:
            yield f"{' ' * LABEL}{gpu}: nothing is known to be reserved\n"
            continue
        span = f"{cost.low_mib:,.1f} to {cost.high_mib:,.1f}" if cost.low_mib is not None else "unknown"
        yield (
            f"{' ' * LABEL}{gpu}: {cost.expected_mib:,} MiB expected ({span}; "
            f"{cost.bytes_per_thread:,} B/thread, {cost.basis})\n"
        )
    yield from style.field(
        "", "at module load: unknown until probed (the driver's device library, once per context)"
    )
    yield "\n"


def _totals(found: Inventory, findings: Sequence[Finding], style: Style) -> str:
    counts = Counter(finding.severity.word for finding in findings)
    parts = [
        style.severity(word, f"{counts[word]} {word}{'s' if counts[word] != 1 else ''}")
        for word in ("error", "warning", "note")
        if counts[word]
    ]
    images = sum(len(artifact.images) for artifact in found.artifacts)
    text = ", ".join(parts) or "nothing to report"
    text += (
        f" in {images:,} images of {len(found.artifacts):,} libraries; {found.file_count:,} files looked at"
    )
    if any(finding.performance.get(NEVER_RUNS) for finding in findings):
        text += "; kernels that never run on their target are priced at nothing"
    if found.errors:
        text += f"; {len(found.errors)} could not be read"
    return text + "\n"

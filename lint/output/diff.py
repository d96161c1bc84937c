"""The result of `diff`: for people by driver function and template, as JSON kernel by kernel."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from ptxguard.binary.demangle import family
from ptxguard.output.report import error_records
from ptxguard.output.style import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.compare import Change, Comparison
    from ptxguard.errors import PtxguardError
    from ptxguard.output.style import Style

VERSION = 1
_MOST_ROWS = 12


def render_json(found: Comparison, errors: Sequence[PtxguardError]) -> Iterator[str]:
    """One JSON document; nothing is shortened."""
    record = {
        "version": VERSION,
        "kernels": {
            "old": found.kernels[0],
            "new": found.kernels[1],
            "added": found.added,
            "removed": found.removed,
        },
        "changes": [change.record() for change in found.changes],
        "prices": [
            {"gpu": price.gpu, "old_mib": price.old_mib, "new_mib": price.new_mib} for price in found.prices
        ],
        "worse": found.is_worse,
        "errors": error_records(errors),
    }
    yield json.dumps(record, indent=2)
    yield "\n"


def render_text(found: Comparison, style: Style) -> Iterator[str]:
    """Driver calls gained and lost, registers, stack, price."""
    old, new = found.kernels
    yield f"{old:,} kernels before, {new:,} after: {found.added:,} new, {found.removed:,} gone\n"
    yield from _calls("gained", found, style)
    yield from _calls("lost", found, style)
    yield from _figures(found, style)
    for price in found.prices:
        before, after = (
            f"{mib:,.1f} MiB" if mib is not None else "nothing" for mib in (price.old_mib, price.new_mib)
        )
        yield f"{price.gpu}: {before} before, {after} after\n"
    yield f"{'worse' if found.is_worse else 'not worse'} than before\n"


def _calls(what: str, found: Comparison, style: Style) -> Iterator[str]:
    groups: dict[str, list[Change]] = {}
    for change in found.changes:
        for symbol in change.gained if what == "gained" else change.lost:
            groups.setdefault(symbol, []).append(change)
    for symbol, changes in sorted(groups.items()):
        kinds = Counter(change.kind for change in changes)
        told = ", ".join(
            f"{count:,} of them {kind}" for kind, count in sorted(kinds.items()) if kind != "changed"
        )
        count = f"{len(changes):,} kernel{'s' if len(changes) > 1 else ''} {what} {symbol}"
        yield style.strong(count) + (f" ({told})\n" if told else "\n")
        rows = Counter((family(change.name), change.target) for change in changes).most_common()
        for (name, target), number in rows[:_MOST_ROWS]:
            yield f"  {number:>7,} x {printable(name)} for {target}\n"
        if len(rows) > _MOST_ROWS:
            left = sum(number for _, number in rows[_MOST_ROWS:])
            yield f"  {left:>7,} more in {len(rows) - _MOST_ROWS} templates\n"


def _figures(found: Comparison, style: Style) -> Iterator[str]:
    """How many kernels got more or fewer registers and bytes of stack, and the largest step."""
    for label, unit in (("registers", "registers"), ("stack_bytes", "B of stack")):
        steps = []
        for change in found.changes:
            before, after = getattr(change.old, label, None), getattr(change.new, label, None)
            if before is not None and after is not None and before != after:
                steps.append((after - before, change))
        if not steps:
            continue
        more, fewer = sum(step > 0 for step, _ in steps), sum(step < 0 for step, _ in steps)
        yield style.strong(f"{more:,} kernels with more {unit}, {fewer:,} with fewer") + "\n"
        _, change = max(steps, key=lambda item: (abs(item[0]), item[1].name))
        before, after = getattr(change.old, label), getattr(change.new, label)
        yield f"  largest step {before} to {after}: {printable(family(change.name))} for {change.target}\n"

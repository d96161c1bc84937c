"""The inventory of bulk copies: a table for people and the contract's JSON record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ptxguard.effects import target_words
from ptxguard.output.report import error_records
from ptxguard.output.style import WIDTH, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.model import CopySite
    from ptxguard.output.report import Report
    from ptxguard.output.style import Style

VERSION = 1


def render_json(report: Report) -> Iterator[str]:
    """One JSON document, sites in file order."""
    record = {
        "version": VERSION,
        "sites": [site.record() for site in report.sites],
        "errors": error_records(report.errors),
    }
    yield json.dumps(record, indent=2)
    yield "\n"


def render_text(report: Report, style: Style) -> Iterator[str]:
    """Copies under their file: place and opcode on one line, what is known about them on the next."""
    path = None
    for site in report.sites:
        if site.span.path != path:
            path = site.span.path
            yield style.strong(printable(path)) + "\n"
        place = f"{site.span.line}:{site.span.column}"
        yield f"  {style.faint(place.ljust(9))} {printable(site.copy.opcode)}\n"
        yield from _known(site)
    copies = len(report.sites)
    yield f"{copies} bulk cop{'y' if copies == 1 else 'ies'}"
    yield f", {len(report.errors)} inputs could not be judged\n" if report.errors else "\n"


def _known(site: CopySite) -> Iterator[str]:
    parts = [
        f"in {printable(site.function)}" if site.function else site.kind,
        _behaviour(site),
        f"cluster {site.cluster.verdict}",
        f"address {site.address.verdict}",
    ]
    line = f"{' ' * 12}{parts[0]}"
    for part in parts[1:]:
        if len(line) + len(part) + 2 > WIDTH:
            yield f"{line};\n"
            line = f"{' ' * 12}{part}"
        else:
            line += f"; {part}"
    yield line + "\n"


def _behaviour(site: CopySite) -> str:
    compiled = [name for name, guard in site.targets.items() if guard == "compiled"]
    unknown = [name for name, guard in site.targets.items() if guard == "unknown"]
    if not compiled and not unknown:
        through = f", but in PTX for {' and '.join(site.jit)}" if site.jit else ""
        return f"not compiled for the targets asked for{through}"
    groups: dict[str, list[str]] = {}
    for name in compiled or unknown:
        groups.setdefault(site.on_target.get(name, "unknown"), []).append(name)
    text = ", ".join(f"{behaviour} on {target_words(names)}" for behaviour, names in groups.items())
    return text if compiled else f"{text} if its guard holds"

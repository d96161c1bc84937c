"""Fixes at the callers: they call the twin of a helper that is spelled for the own CTA."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ptxguard.finding import Edit, Fix

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ptxguard.finding import Finding
    from ptxguard.location import Span
    from ptxguard.model import CopySite

_SHOWN = 3


def switch_words(site: CopySite) -> str:
    """What may be done at the callers of a helper; "" where there is nothing to say."""
    own = _own_calls(site)
    if site.twin is not None and own:
        twin = f"{site.twin.qualified} ({site.twin.path}:{site.twin.line})"
        return f"{_places(own, site)} may call {twin}, the same helper for shared::cta"
    if own and len(own) < len(site.calls):
        return f"{_places(own, site)} could call a helper of their own, spelled shared::cta"
    return ""


def _own_calls(site: CopySite) -> list[Span]:
    return [call.span for call in site.calls if call.destination == "local"]


def _places(spans: list[Span], site: CopySite) -> str:
    if len(spans) == len(site.calls):
        return "its callers, which all pass their own CTA's memory,"
    shown = ", ".join(f"{span.path}:{span.line}" for span in spans[:_SHOWN])
    more = f" and {len(spans) - _SHOWN} more" if len(spans) > _SHOWN else ""
    return f"the callers that pass their own CTA's memory ({shown}{more})"


def switched(findings: Sequence[Finding], sites: Iterable[CopySite]) -> list[Finding]:
    """Findings whose fix is at the callers, where the helper has a twin; the others are as they were."""
    by_place = {(site.span.path, site.span.line, site.span.column, site.copy.opcode): site for site in sites}
    changed = []
    for finding in findings:
        site = by_place.get((finding.path, finding.line, finding.column, finding.opcode or ""))
        fix = _switch_fix(site) if site is not None and finding.syscall is not None else None
        changed.append(replace(finding, fix=fix) if fix is not None else finding)
    return changed


def _switch_fix(site: CopySite) -> Fix | None:
    own = sorted(_own_calls(site), key=lambda span: (span.path, span.start))
    twin = site.twin
    if twin is None or not own or site.copy.multicast:
        return None
    edits = tuple(Edit(span.path, *span.begin_position, *span.end_position, twin.name) for span in own)
    return Fix("safe", edits, replaces="".join(span.text for span in own), twin=twin.place)

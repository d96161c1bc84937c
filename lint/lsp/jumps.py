"""From a copy to the launches that reach it, and from a launch, kernel or call back to the copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.rule import chain_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ptxguard.model import CopySite

Place = tuple[str, int]
_WAY = ("launch", "kernel", "call")


def launches_of(sites: Iterable[CopySite], path: str, line: int) -> list[Place] | None:
    """Launches of the copies at a 1-based line, kernels where none is in sight; None where no copy is."""
    here = [
        site
        for site in sites
        if site.span.path == path and site.span.line <= line <= site.end_span.end_position[0]
    ]
    if not here:
        return None
    for kind in ("launch", "kernel"):
        found = [place for site in here for place in _places(site, (kind,))]
        if found:
            return list(dict.fromkeys(found))
    return []


def copies_of(sites: Iterable[CopySite], path: str, line: int) -> list[Place]:
    """Copies whose way from a launch leads over a 1-based line."""
    here = (path, line)
    found = [(site.span.path, site.span.line) for site in sites if here in _places(site, _WAY)]
    return list(dict.fromkeys(found))


def _places(site: CopySite, kinds: tuple[str, ...]) -> list[Place]:
    return [
        (item.path, item.line)
        for item in chain_of(site)
        if item.kind in kinds and item.path is not None and item.line is not None
    ]

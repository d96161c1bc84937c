"""Fixes that rest on the user's word: every caller of these functions passes memory of its own CTA."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ptxguard.fix.choice import destination_fix
from ptxguard.fix.recheck import place_of
from ptxguard.fix.spelling import settle_shared

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ptxguard.finding import Finding
    from ptxguard.model import CopySite


def vouch(
    findings: Sequence[Finding],
    sites: Iterable[CopySite],
    patterns: Sequence[str],
    cuda_min: tuple[int, int] | None,
) -> list[Finding]:
    """Offer an unsafe fix where nothing is known of a destination and the user says that it is local.

    Args:
        findings: of a run.
        sites: the copies of that run.
        patterns: globs for qualified names of functions, or for paths.
        cuda_min: oldest toolkit that the project supports, or None.
    """
    vouched = {(place_of(site), site.copy.opcode): site for site in sites if _is_open(site, patterns)}
    changed = []
    for finding in findings:
        site = vouched.get((place_of(finding), finding.opcode or ""))
        # One note stands for all copies of a public header: its fix would be that of the first alone.
        if site is not None and finding.fix is None and finding.syscall is not None and not site.public:
            fix = destination_fix(site, "unsafe", cuda_min)
            message = f"{finding.message} (offered on the word of --assume-local)" if fix else finding.message
            finding = replace(finding, fix=fix, message=message)
        changed.append(finding)
    return settle_shared(changed)


def _is_open(site: CopySite, patterns: Sequence[str]) -> bool:
    """Whether a copy is one that the user speaks of, and nothing in sight speaks against it."""
    if site.copy.multicast or site.address.destination != "unknown" or site.address.mbarrier == "peer":
        return False
    names = (site.function or "", site.span.path)
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)

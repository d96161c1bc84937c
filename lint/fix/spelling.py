"""Edits that respell the destination of a copy from `shared::cluster` to `shared::cta`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ptxguard.finding import Edit, Finding, Fix

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ptxguard.model import CopySite

OLD_WORD, NEW_WORD = "cluster", "cta"


def cta_fix(site: CopySite, safety: str) -> Fix | None:
    """Rewrite the destination to `shared::cta`; None where the characters cannot be rewritten in place.

    A word that is cut between two literals gives one edit a piece: the first writes the new word, the others
    remove the rest.
    """
    return respelled(site, safety, NEW_WORD)


def tag_fix(site: CopySite, safety: str) -> Fix | None:
    """Rewrite the tag `space_cluster` of a library call to `space_shared`; None where it stands elsewhere."""
    return respelled(site, safety, "shared")


def respelled(site: CopySite, safety: str, text: str) -> Fix | None:
    """The fix that puts a text in the place of the word."""
    if "".join(span.text for span in site.space_spans) != OLD_WORD:
        return None
    edits = tuple(
        Edit(span.path, *span.begin_position, *span.end_position, text if index == 0 else "")
        for index, span in enumerate(site.space_spans)
    )
    places = site.asm.places if site.asm is not None else ()
    return Fix(safety, edits, replaces=OLD_WORD, statements=places, users=site.space_users)


def settle_shared(findings: Iterable[Finding]) -> list[Finding]:
    """Let fixes of a macro's value stand only where every copy that is made with it has one.

    One of them that is unsafe makes all of them unsafe, for the edit is the same.
    """
    settled = list(findings)
    fixed = {place for finding in settled if finding.fix for place in finding.fix.statements}
    unsafe = {
        edit
        for finding in settled
        if finding.fix is not None and finding.fix.safety == "unsafe"
        for edit in finding.fix.edits
    }
    for index, finding in enumerate(settled):
        fix = finding.fix
        if fix is None or not fix.users:
            continue
        missing = [place for place in fix.users if place not in fixed]
        if missing:
            path, line, _ = missing[0]
            reason = f"no fix: {path}:{line} is made with the same macro and must stay as it is"
            settled[index] = replace(finding, fix=None, message=f"{finding.message} ({reason})")
        elif fix.safety == "safe" and not unsafe.isdisjoint(fix.edits):
            settled[index] = replace(finding, fix=replace(fix, safety="unsafe"))
    return settled

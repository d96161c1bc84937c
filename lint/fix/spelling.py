"""Edits that respell the destination of a copy from `shared::cluster` to `shared::cta`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ptxguard.finding import Edit, Finding, Fix
from ptxguard.location import JoinedFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ptxguard.location import Span
    from ptxguard.model import CopySite

OLD_WORD, NEW_WORD = "cluster", "cta"
# What may stand between two literals of Python that are one text.
_JOINT = re.compile(r"[\"'](?:[\s()+\\]*)[rfbuRFBU]{0,2}[\"']")


def cta_fix(site: CopySite, safety: str) -> Fix | None:
    """Rewrite the destination to `shared::cta`; None where the characters cannot be rewritten in place.

    A word that is cut between two literals gives one edit a piece: the first writes the new word, the others
    remove the rest.
    """
    return respelled(site, safety, NEW_WORD)


def call_fix(site: CopySite, safety: str) -> Fix | None:
    """Rewrite a library call to the one for the own CTA's window; None where there is none to be had."""
    rewrite = site.hidden.rewrite if site.hidden is not None else ()
    if not rewrite:
        return None
    edits = tuple(Edit(span.path, *span.begin_position, *span.end_position, text) for span, text in rewrite)
    return Fix(safety, edits, replaces="".join(span.text for span, _ in rewrite))


def respelled(site: CopySite, safety: str, text: str) -> Fix | None:
    """The fix that puts a text in the place of the word."""
    spans = _in_files(site.space_spans)
    if "".join(span.text for span in spans) != OLD_WORD:
        return None
    if site.kind == "python_string" and not _behind_mnemonic(site, spans):
        return None
    edits = tuple(
        Edit(span.path, *span.begin_position, *span.end_position, text if index == 0 else "")
        for index, span in enumerate(spans)
    )
    places = site.asm.places if site.asm is not None else ()
    return Fix(safety, edits, replaces=OLD_WORD, statements=places, users=site.space_users)


def _in_files(spans: Iterable[Span]) -> list[Span]:
    """The literals in a file that spans of joined code come from."""
    pieces: list[Span] = []
    for span in spans:
        joined = span.file.joined if isinstance(span.file, JoinedFile) else None
        pieces += [span] if joined is None else joined.spans(span.start, span.end)
    return pieces


def _behind_mnemonic(site: CopySite, spans: list[Span]) -> bool:
    """Whether the word stands behind its mnemonic, in the same literal or the next one.

    A constant of a program may be part of other texts too, and nobody has looked at those.
    """
    (first, *_), (file, at) = _in_files((site.span,)), (spans[0].file, spans[0].start)
    for span in (first, *spans):
        if span.file is not file or span.start < first.start:
            return False
    between = file.text[first.start : at]
    written = "".join(_JOINT.split(between))
    return bool(written) and site.copy.opcode.startswith(written) and len(written) > len("cp.async.bulk")


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

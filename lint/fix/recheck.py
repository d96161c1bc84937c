"""Compares the tree with its fixes to that before: each fixed copy is clean, and no other one changed."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ptxguard.fix.edits import Moves, read_text
from ptxguard.fix.plan import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ptxguard.finding import Finding
    from ptxguard.fix.plan import FileChange, Plan
    from ptxguard.model import Analysis, CopySite

Place = tuple[str, int, int]


@dataclass(frozen=True)
class Judged:
    """A tree as it was found.

    Attributes:
        analysis: its facts.
        findings: what the rules say of them.
    """

    analysis: Analysis
    findings: Sequence[Finding]


def place_of(item: Finding | CopySite) -> Place:
    """(path, line, column) of a finding or a site."""
    at = item if not hasattr(item, "span") else item.span
    return at.path, at.line, at.column


class _Moved:
    """Places of one changed file after the changes."""

    def __init__(self, change: FileChange) -> None:
        self._starts = change.text.file.line_starts
        self._moves = Moves(change.changes)
        self._new = read_text(change.new, change.path).file

    def after(self, place: Place) -> Place:
        path, line, column = place
        return (path, *self._new.position(self._moves.after(self._starts[line - 1] + column - 1)))


class Comparison:
    """Two analyses of a tree, and the plan that lies between them."""

    def __init__(self, before: Judged, after: Judged, plan: Plan) -> None:
        """The order of the arguments is that of time."""
        self.before, self.after, self.plan = before, after, plan
        self._moved = {change.real: _Moved(change) for change in plan.files}
        self._real: dict[str, str] = {}

    def _real_path(self, path: str) -> str:
        if path not in self._real:
            self._real[path] = os.path.realpath(path)
        return self._real[path]

    def moved(self, place: Place) -> Place:
        """Where a place is after the plan."""
        known = self._moved.get(self._real_path(place[0]))
        return known.after(place) if known is not None else place

    @cached_property
    def _after_sites(self) -> dict[Place, list[CopySite]]:
        found: dict[Place, list[CopySite]] = {}
        for site in self.after.analysis.sites:
            found.setdefault(place_of(site), []).append(site)
        return found

    def original_site(self, finding: Finding) -> CopySite | None:
        """The copy of a finding, before."""
        place = place_of(finding)
        sites = (site for site in self.before.analysis.sites if place_of(site) == place)
        return next((site for site in sites if site.copy.opcode == finding.opcode), None)

    def fixed_site(self, finding: Finding) -> CopySite | None:
        """The copy that a fix made of the one of a finding; None where there is none."""
        twin = finding.fix.twin if finding.fix is not None else None
        if twin is not None:
            return next(iter(self._after_sites.get(self.moved(twin), ())), None)
        wanted = new_opcode(finding)
        sites = self._after_sites.get(self.moved(place_of(finding)), [])
        return next((site for site in sites if site.copy.opcode == wanted), None)

    def failures(self) -> list[Refusal]:
        """Fixes that have to be taken back, with the reason."""
        failed = [
            Refusal(finding, reason)
            for finding in self.plan.findings
            if (reason := self._failure(finding)) is not None
        ]
        if failed:
            return failed
        return [
            Refusal(finding, f"{path} holds other copies or cannot be read after it")
            for path in self._disturbed()
            for finding in self.plan.findings
            if self._real_path(path) not in self._moved or self._touches(finding, path)
        ]

    def _failure(self, finding: Finding) -> str | None:
        place = self.moved(place_of(finding))
        old, new = self.original_site(finding), self.fixed_site(finding)
        if old is None or new is None:
            return "the text after it holds no such copy"
        if _statement(old) != _statement(new):
            return "more of the statement is changed than the spelling"
        known = {finding.opcode, new_opcode(finding)}
        if any(site.copy.opcode not in known for site in self._after_sites.get(place, ())):
            return "the text after it holds another instruction"
        if finding.fix is not None and finding.fix.twin is not None:
            left = any(
                call.destination == "local"
                for site in self._after_sites.get(place, ())
                for call in site.calls
            )
            return "some of the callers call the same helper after it" if left else None
        if any(other.code == finding.code and place_of(other) == place for other in self.after.findings):
            return "the copy is reported after it, too"
        return None

    def _touches(self, finding: Finding, path: str) -> bool:
        edits = finding.fix.edits if finding.fix is not None else ()
        return any(self._real_path(edit.path) == self._real_path(path) for edit in edits)

    def _disturbed(self) -> set[str]:
        """Files in which copies that were not to be fixed changed, or new errors stand."""
        respelled = [f for f in self.plan.findings if f.fix is not None and f.fix.twin is None]
        fixed = {place_of(finding) for finding in respelled}
        moved = {self.moved(place) for place in fixed}
        old = Counter(
            (self.moved(place_of(site)), site.copy.opcode)
            for site in self.before.analysis.sites
            if place_of(site) not in fixed
        )
        new = Counter(
            (place_of(site), site.copy.opcode)
            for site in self.after.analysis.sites
            if place_of(site) not in moved
        )
        different = (old - new) + (new - old)
        return {place[0] for place, _ in different} | self._new_errors()

    def _new_errors(self) -> set[str]:
        def counted(judged: Judged) -> Counter[tuple[str, str]]:
            return Counter((error.path or "", error.message) for error in judged.analysis.errors)

        return {path for path, _ in counted(self.after) - counted(self.before)}


def _statement(site: CopySite) -> tuple[str, ...]:
    """Everything of a copy but the spelling of its destination."""
    whole = site.asm.text if site.asm is not None else ""
    operands = (operand.text for operand in site.copy.instruction.operands)
    predicate = site.copy.instruction.predicate or ""
    return (whole.replace("shared::cluster", "shared::cta"), predicate, *operands)


def new_opcode(finding: Finding) -> str:
    """What the opcode of a finding has to be after its fix."""
    return (finding.opcode or "").replace("shared::cluster", "shared::cta", 1)


def without(findings: Iterable[Finding], refused: Iterable[Refusal]) -> list[Finding]:
    """Findings less those that were refused."""
    gone = {id(refusal.finding) for refusal in refused}
    return [finding for finding in findings if id(finding) not in gone]

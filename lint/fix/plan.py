"""Which fixes are made together: equal edits are one, overlapping ones are refused, shared ones need all."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ptxguard.errors import PtxguardError
from ptxguard.fix.edits import Change, Text, read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Set

    from ptxguard.finding import Finding, Fix


@dataclass(frozen=True)
class Refusal:
    """A fix that is not made, with one sentence why."""

    finding: Finding
    reason: str

    def __str__(self) -> str:
        return f"{self.finding.path}:{self.finding.line}: not fixed: {self.reason}"


@dataclass(frozen=True)
class FileChange:
    """One file before and after.

    Attributes:
        path: as shown to the user.
        real: for the operating system, links followed.
        text: before.
        changes: in order.
    """

    path: str
    real: str
    text: Text
    changes: tuple[Change, ...]

    @property
    def new(self) -> bytes:
        """Bytes after the changes."""
        return self.text.with_changes(self.changes)


@dataclass(frozen=True)
class Plan:
    """What a run is about to do.

    Attributes:
        findings: those whose fix is made.
        files: by path.
        refused: fixes that were asked for and are not made.
    """

    findings: tuple[Finding, ...]
    files: tuple[FileChange, ...]
    refused: tuple[Refusal, ...]

    def overlay(self) -> dict[str, bytes]:
        """Real path -> new bytes."""
        return {file.real: file.new for file in self.files}


@dataclass
class _Planner:
    """Collects changes by file.

    Attributes:
        reported: paths that may be changed.
        texts: files read so far, by real path: a link and what it points to are one file.
        changes: accepted changes, likewise.
    """

    reported: Set[str]
    texts: dict[str, Text] = field(default_factory=dict)
    changes: dict[str, set[Change]] = field(default_factory=dict)

    def text(self, path: str) -> tuple[str, Text]:
        """Real path and text of a file."""
        real = os.path.realpath(path)
        if real not in self.texts:
            try:
                data = Path(real).read_bytes()
            except OSError as error:
                raise PtxguardError(f"cannot be read: {error.strerror}", path=path) from None
            self.texts[real] = read_text(data, path)
        return real, self.texts[real]

    def refuse(self, fix: Fix) -> str:
        """Why a fix cannot be made beside those accepted; empty after it has been accepted."""
        outside = next((edit.path for edit in fix.edits if edit.path not in self.reported), None)
        if outside is not None:
            return f"the text stands in {outside}, which was not named"
        try:
            wanted = [
                (real, text.change(edit)) for edit in fix.edits for real, text in [self.text(edit.path)]
            ]
        except PtxguardError as error:
            return str(error)
        replaced = "".join(self.texts[real].between(change) for real, change in wanted)
        if replaced != fix.replaces:
            return f"the text there is {replaced!r} and not {fix.replaces!r} (joined by a program?)"
        for real, change in wanted:
            for made in self.changes.get(real, ()):
                if made != change and made.overlaps(change):
                    return "it overlaps another fix; run again when that one has been made"
        for real, change in wanted:
            self.changes.setdefault(real, set()).add(change)
        return ""

    def files(self) -> Iterator[FileChange]:
        """What is accepted, by path."""
        for real in sorted(self.changes, key=lambda real: self.texts[real].file.path):
            text = self.texts[real]
            yield FileChange(text.file.path, real, text, tuple(sorted(self.changes[real])))


def make_plan(findings: Iterable[Finding], safeties: Set[str], reported: Set[str]) -> Plan:
    """Plan the fixes of findings.

    Args:
        findings: in the order in which their fixes come first; those without a fix are passed over.
        safeties: kinds of fix asked for, "safe" and "unsafe".
        reported: paths that may be changed.
    """
    chosen = [finding for finding in findings if finding.fix is not None and finding.fix.safety in safeties]
    refused: list[Refusal] = []
    while True:
        planner = _Planner(reported)
        kept, dropped = [], _without_users(chosen)
        for finding in chosen:
            if finding.fix is None or any(refusal.finding is finding for refusal in dropped):
                continue
            reason = planner.refuse(finding.fix)
            if reason:
                dropped.append(Refusal(finding, reason))
            else:
                kept.append(finding)
        refused += dropped
        if not dropped:
            return Plan(tuple(kept), tuple(planner.files()), tuple(refused))
        chosen = kept  # a fix that leans on a refused one has to be refused as well


def _without_users(chosen: list[Finding]) -> list[Refusal]:
    """Fixes of a macro whose other copies are not among those that are fixed."""
    fixed = {place for finding in chosen if finding.fix for place in finding.fix.statements}
    refused = []
    for finding in chosen:
        users = finding.fix.users if finding.fix is not None else ()
        missing = next((place for place in users if place not in fixed), None)
        if missing is not None:
            reason = f"{missing[0]}:{missing[1]} is made with the same macro and is not fixed"
            refused.append(Refusal(finding, reason))
    return refused

"""The whole fix of a tree: plan, look at the result in memory, verify, and only then write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from ptxguard.errors import PtxguardError, ToolError
from ptxguard.fix.files import replace_file
from ptxguard.fix.plan import Refusal, make_plan
from ptxguard.fix.recheck import Comparison, Judged, without

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Set

    from ptxguard.finding import Finding
    from ptxguard.fix.plan import Plan

# Analyses of the changed text before everything is taken back; one is enough unless a fix fails.
_MAX_ROUNDS = 4

# What judges a tree with other bytes in the place of some files (real path -> bytes).
Judge = Callable[[Mapping[str, bytes]], Judged]
# What says which fixes of a plan do not verify.
Verify = Callable[[Comparison], Sequence[Refusal]]


class Units(Protocol):
    """Compiles units of the project around the writing of the files."""

    def look_before(self) -> None:
        """Compile them with the old text."""

    def wrong_after(self) -> str:
        """Compile them with the new text; why they do not verify, or nothing."""


@dataclass(frozen=True)
class Repair:
    """What a run of fixes comes to.

    Attributes:
        before: the tree as it was.
        plan: what is (to be) written; its findings are those that are fixed.
        after: the tree with the plan.
        failed: fixes that did not make their copy clean: the text was not understood.
        unverified: fixes that the assembler did not bear out.
    """

    before: Judged
    plan: Plan
    after: Judged
    failed: tuple[Refusal, ...]
    unverified: tuple[Refusal, ...]

    def errors(self) -> tuple[PtxguardError, ...]:
        """Failed fixes as errors of the run."""
        return tuple(
            PtxguardError(f"fix taken back: {item.reason}", path=item.finding.path, line=item.finding.line)
            for item in self.failed
        )

    def summary(self, *, written: bool) -> Iterator[str]:
        """What was done, for people, a line each."""
        copies, files = len(self.plan.findings), len(self.plan.files)
        verb = "fixed" if written else "would fix"
        if copies:
            counted = (
                f"{copies} cop{'y' if copies == 1 else 'ies'} in {files} file{'' if files == 1 else 's'}"
            )
            yield f"{verb} {counted}"
        for refusal in (*self.plan.refused, *self.unverified):
            yield str(refusal)


def repair(
    before: Judged,
    findings: Sequence[Finding],
    safeties: Set[str],
    judge: Judge,
    verify: Verify | None = None,
) -> Repair:
    """Plan fixes and take back those that fail; nothing is written.

    Args:
        before: the tree as it is.
        findings: those that may be fixed.
        safeties: "safe", or "safe" and "unsafe".
        judge: analyses the tree with other bytes.
        verify: the assembler's word on a plan that held so far; None for none.
    """
    failed: list[Refusal] = []
    unverified: list[Refusal] = []
    candidates = list(findings)
    for _ in range(_MAX_ROUNDS):
        plan = make_plan(candidates, safeties, before.analysis.reported)
        if not plan.files:
            return Repair(before, plan, before, tuple(failed), tuple(unverified))
        after = judge(plan.overlay())
        comparison = Comparison(before, after, plan)
        wrong = comparison.failures()
        failed += wrong
        if not wrong and verify is not None:
            wrong = list(verify(comparison))
            unverified += wrong
        if not wrong:
            return Repair(before, plan, after, tuple(failed), tuple(unverified))
        candidates = without(candidates, wrong)
    nothing = make_plan((), safeties, before.analysis.reported)
    return Repair(before, nothing, before, tuple(failed), tuple(unverified))


def write(done: Repair, units: Units | None = None) -> tuple[Repair, list[ToolError]]:
    """Replace the files of a plan, one by one; what cannot be written is in the answer.

    Where the units do not verify with the new text, every file gets its old text back.
    """
    if not done.plan.files:
        return done, []
    if units is not None:
        units.look_before()
    errors = _replaced((file.path, file.text.data, file.new) for file in done.plan.files)
    wrong = units.wrong_after() if units is not None and not errors else ""
    if not wrong:
        return done, errors
    errors += _replaced((file.path, file.new, file.text.data) for file in done.plan.files)
    refused = tuple(Refusal(finding, f"does not verify: {wrong}") for finding in done.plan.findings)
    nothing = replace(done.plan, findings=(), files=())
    return replace(done, plan=nothing, after=done.before, unverified=(*done.unverified, *refused)), errors


def _replaced(files: Iterable[tuple[str, bytes, bytes]]) -> list[ToolError]:
    """Replace files, given as path, old bytes and new ones; what cannot be written is in the answer."""
    errors = []
    for path, old, new in files:
        try:
            replace_file(path, old, new)
        except ToolError as error:
            errors.append(error)
    return errors

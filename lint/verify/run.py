"""Verifies the fixes of a plan with ptxas and says what that proves."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ptxguard.arch import Target
from ptxguard.errors import ParseError, ToolError
from ptxguard.fix.plan import Refusal
from ptxguard.verify.assemble import Assembled, assemble
from ptxguard.verify.compare import Outcome, compare
from ptxguard.verify.kernel import kernel_of_copy, kernel_of_form, kernel_of_statement
from ptxguard.verify.tools import Tool, find_tool
from ptxguard.verify.units import UnitVerifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.finding import Finding
    from ptxguard.fix.recheck import Comparison
    from ptxguard.model import CopySite

# Where the fix must change nothing at all (issue 6, "Fixes").
UNCHANGED = tuple(Target.parse(name) for name in ("sm_90a", "sm_100a", "sm_103a", "sm_110a"))

PROOF = (
    "this proves that nothing else changed, not whose memory the address is: off sm_12x both spellings "
    "are the same code, and a test there cannot tell them apart"
)


@dataclass
class Verifier:
    """Asks ptxas about fixes; what it answered is kept for the report.

    Attributes:
        ptxas: the assembler.
        targets: for which the statement is assembled.
    """

    ptxas: Tool
    targets: tuple[Target, ...]
    _bodies: dict[tuple[str, Target], Assembled | str] = field(default_factory=dict, repr=False)
    _outcomes: dict[tuple[str, int, int], list[Outcome]] = field(default_factory=dict, repr=False)
    _whole: dict[tuple[str, int, int], str] = field(default_factory=dict, repr=False)

    @classmethod
    def on_this_machine(cls, targets: Sequence[Target]) -> Verifier:
        """With the assembler of this machine.

        Raises:
            ToolError: there is none.
        """
        ptxas = find_tool("ptxas")
        if ptxas is None:
            message = "--verify needs ptxas: put it on PATH, or pip install 'ptxguard[cuda]'"
            raise ToolError(message)
        return cls(ptxas, (*targets, *(target for target in UNCHANGED if target not in targets)))

    def __call__(self, comparison: Comparison) -> list[Refusal]:
        """Fixes of a plan that do not verify."""
        self._outcomes.clear()
        self._whole.clear()
        return [
            Refusal(finding, reason)
            for finding in comparison.plan.findings
            if (reason := self._refusal(finding, comparison))
        ]

    def _refusal(self, finding: Finding, comparison: Comparison) -> str:
        before, after = comparison.original_site(finding), comparison.fixed_site(finding)
        key = (finding.path, finding.line, finding.column)
        if before is None or after is None:
            return "the copy is not found again"
        try:
            kernels, self._whole[key] = _kernels(before, after)
        except ParseError as error:
            return f"no kernel can be made for ptxas: {error}"
        outcomes = [self._compared(target, *kernels) for target in self.targets]
        self._outcomes[key] = outcomes
        wrong = next((f"on {item.target} {item.wrong}" for item in outcomes if item.wrong), "")
        if not wrong and not any(item.done for item in outcomes):
            wrong = outcomes[0].text
        return f"does not verify: {wrong}" if wrong else ""

    def _compared(self, target: Target, before: str, after: str) -> Outcome:
        return compare(target, self._assembled(before, target), self._assembled(after, target))

    def _assembled(self, body: str, target: Target) -> Assembled | str:
        known = self._bodies.get((body, target))
        if known is None:
            with tempfile.TemporaryDirectory(prefix="ptxguard-") as folder:
                known = assemble(body, target, self.ptxas, Path(folder))
            self._bodies[body, target] = known
        return known

    def units(self, findings: Sequence[Finding]) -> UnitVerifier:
        """What compiles the units of fixed findings."""
        return UnitVerifier.of(findings, self.targets, self.ptxas)

    def report(self, units: UnitVerifier | None) -> Iterator[str]:
        """What was done and found, for people, a line each; `units` is None where nothing was written."""
        if not self._outcomes:
            return
        yield f"verified with {self.ptxas.name}, not by a run on a card:"
        for (path, line, column), outcomes in self._outcomes.items():
            yield f"  {path}:{line}:{column} {self._whole[path, line, column]}"
            grouped: dict[str, list[str]] = {}
            for outcome in outcomes:
                grouped.setdefault(outcome.wrong or outcome.text, []).append(outcome.target)
            yield from (f"    {', '.join(names)}: {text}" for text, names in grouped.items())
        if units is None:
            yield "  whole units not compiled: nothing was written"
        else:
            yield from units.report()
        yield f"  {PROOF}"


def _kernels(before: CopySite, after: CopySite) -> tuple[tuple[str, str], str]:
    """Kernels in both spellings, and what of the source stands in them."""
    if before.asm is not None and after.asm is not None:
        texts = kernel_of_statement(before.asm), kernel_of_statement(after.asm)
        return texts, "the statement in a generated kernel"
    if before.kind == "wrapper":
        forms = kernel_of_form(before.copy), kernel_of_form(after.copy)
        return forms, "the form that the call hides, in a generated kernel"
    return (kernel_of_copy(before.copy), kernel_of_copy(after.copy)), "the copy alone in a generated kernel"

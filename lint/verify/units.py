"""Compiles the units that hold fixed copies before and after the files are written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.arch import Target
from ptxguard.verify.compare import Outcome, compare
from ptxguard.verify.tools import find_tool
from ptxguard.verify.unit import Unit, find_units, units_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.finding import Finding
    from ptxguard.verify.assemble import Assembled
    from ptxguard.verify.tools import Tool

# A unit takes nvcc seconds to minutes: one target that calls the driver and one that does not say enough,
# after the statement has been assembled for all of them.
_OTHER = Target.parse("sm_90a")


@dataclass
class UnitVerifier:
    """Units with what became of them before the fix.

    Attributes:
        nvcc: the compiler, or None.
        units: those that hold fixed copies, with the findings.
        targets: for which they are compiled.
    """

    nvcc: Tool | None
    units: dict[Unit, list[Finding]]
    targets: tuple[Target, ...]
    _before: dict[tuple[Unit, Target], Assembled | str] = field(default_factory=dict, repr=False)
    _outcomes: dict[Unit, list[Outcome]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, findings: Sequence[Finding], targets: Sequence[Target]) -> UnitVerifier:
        """Choose the units of fixed findings, one for each finding."""
        known = find_units()
        units: dict[Unit, list[Finding]] = {}
        for finding in findings if known else ():
            unit = units_of(finding, known)
            if unit is not None:
                units.setdefault(unit, []).append(finding)
        calling = [target for target in targets if target.calls_driver]
        return cls(find_tool("nvcc") if units else None, units, (*calling[:1], _OTHER))

    def look_before(self) -> None:
        """Compile the units as they are."""
        if self.nvcc is not None:
            for unit in self.units:
                for target in self.targets:
                    self._before[unit, target] = unit.compile(target, self.nvcc)

    def wrong_after(self) -> str:
        """Compile the units again, with the fixes written; why they do not verify, or nothing."""
        if self.nvcc is None:
            return ""
        for unit in self.units:
            self._outcomes[unit] = [
                self._outcome(unit, target, unit.compile(target, self.nvcc)) for target in self.targets
            ]
        return next(
            (
                f"{unit.shown}: on {outcome.target} {outcome.wrong}"
                for unit, outcomes in self._outcomes.items()
                for outcome in outcomes
                if outcome.wrong
            ),
            "",
        )

    def _outcome(self, unit: Unit, target: Target, after: Assembled | str) -> Outcome:
        before = self._before[unit, target]
        if target.calls_driver and not isinstance(before, str):
            wanted = {finding.syscall for finding in self.units[unit]}
            calls = Counter(name for _, name in before.calls)
            if not any(calls[name] for name in wanted if name is not None):
                return Outcome(target.name, "", "the copies are not compiled in", done=False)
        return compare(target, before, after, whole=False)

    def report(self) -> Iterator[str]:
        """What was done, for people, a line each."""
        if self.nvcc is None:
            reason = (
                "nvcc is not there" if self.units else "no compile_commands.json has a unit with the copies"
            )
            yield f"  whole units not compiled: {reason}"
            return
        for unit, outcomes in self._outcomes.items():
            yield f"  {unit.shown}, the whole unit with {self.nvcc.name}"
            yield from (f"    {item.target}: {item.wrong or item.text}" for item in outcomes)

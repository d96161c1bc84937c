"""Compiles the units that hold fixed copies before and after the files are written."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.arch import Target
from ptxguard.verify.compare import Outcome, compare
from ptxguard.verify.module import Module
from ptxguard.verify.tools import Tool, find_tool
from ptxguard.verify.unit import Unit, find_units, units_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.finding import Finding
    from ptxguard.verify.assemble import Assembled

# A C++ unit takes nvcc seconds to minutes: one target that calls the driver and one that does not say enough,
# after the statement has been assembled for all of them.
_OTHER = Target.parse("sm_90a")


@dataclass
class _Job:
    """One unit to be compiled twice."""

    unit: Unit | Module
    tool: Tool
    targets: tuple[Target, ...]
    syscalls: set[str] = field(default_factory=set)
    before: dict[Target, Assembled | str] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)

    def outcome(self, target: Target) -> Outcome:
        """Compile it again and compare; copies that are not compiled in say nothing."""
        before, after = self.before[target], self.unit.compile(target, self.tool)
        if target.calls_driver and not isinstance(before, str):
            calls = Counter(name for _, name in before.calls)
            if not any(calls[name] for name in self.syscalls):
                return Outcome(target.name, "", "the copies are not compiled in", done=False)
        return compare(target, before, after, whole=False)


@dataclass
class UnitVerifier:
    """Units that hold fixed copies, with what became of them before the fix.

    Attributes:
        jobs: what is compiled.
        reason: why nothing is, or "".
    """

    jobs: list[_Job]
    reason: str

    @classmethod
    def of(cls, findings: Sequence[Finding], targets: Sequence[Target], ptxas: Tool) -> UnitVerifier:
        """Choose the units of fixed findings, one for each finding: PTX modules, and what nvcc compiles."""
        jobs: dict[Unit | Module, _Job] = {}
        known = find_units()
        nvcc = find_tool("nvcc") if known else None
        calling = [target for target in targets if target.calls_driver]
        for finding in findings:
            job = None
            if finding.path.endswith(".ptx"):
                module = Module(os.path.realpath(finding.path))
                job = jobs.get(module) or _Job(module, ptxas, module.targets(targets))
            elif nvcc is not None and (unit := units_of(finding, known)) is not None:
                job = jobs.get(unit) or _Job(unit, nvcc, (*calling[:1], _OTHER))
            if job is not None:
                jobs[job.unit] = job
                job.syscalls.update(filter(None, (finding.syscall,)))
        reason = "nvcc is not there" if known and nvcc is None else "no compile_commands.json has the copies"
        return cls(list(jobs.values()), "" if jobs else reason)

    def look_before(self) -> None:
        """Compile the units as they are."""
        for job in self.jobs:
            job.before = {target: job.unit.compile(target, job.tool) for target in job.targets}

    def wrong_after(self) -> str:
        """Compile the units again, with the fixes written; why they do not verify, or nothing."""
        for job in self.jobs:
            job.outcomes = [job.outcome(target) for target in job.targets]
        wrong = (
            f"{job.unit.shown}: on {outcome.target} {outcome.wrong}"
            for job in self.jobs
            for outcome in job.outcomes
            if outcome.wrong
        )
        return next(wrong, "")

    def report(self) -> Iterator[str]:
        """What was done, for people, a line each."""
        if self.reason:
            yield f"  whole units not compiled: {self.reason}"
        for job in self.jobs:
            yield f"  {job.unit.shown}, the whole unit with {job.tool.name}"
            yield from (f"    {item.target}: {item.wrong or item.text}" for item in job.outcomes)

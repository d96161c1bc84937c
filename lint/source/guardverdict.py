"""What the guards around an asm statement say for each target and toolkit asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

from ptxguard import forms
from ptxguard.arch import Target
from ptxguard.finding import Evidence
from ptxguard.source.macros import UNKNOWN_VALUE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ptxguard.model import BulkCopy
    from ptxguard.source.condition import Value
    from ptxguard.source.guards import CppFile, Guard, World
    from ptxguard.source.lexer import AsmStatement, Condition
    from ptxguard.source.project import Project

# Toolkits released so far: guards compare with these and with the one the project starts from.
TOOLKITS = (
    (11, 8), (12, 0), (12, 1), (12, 2), (12, 3), (12, 4), (12, 5), (12, 6), (12, 8), (12, 9),
    (13, 0), (13, 1), (13, 2), (13, 3), (13, 4), (13, 5),
)  # fmt: skip
# Macros that nobody defines which are tried together; each doubles the work.
_MAX_TRIED = 3
_FIRST_WITH_SM12X = (12, 8)
# Virtual architectures whose PTX later cards take, among those that have bulk copies (PTX ISA, ".target").
_PTX_FOR_LATER = (Target(90), Target(100))


@dataclass(eq=False)
class GuardVerdicts:
    """Evaluates guards for the targets of a run.

    Attributes:
        project: the tree.
        targets: targets asked for.
        cuda_min: oldest toolkit, or None.
    """

    project: Project
    targets: tuple[Target, ...]
    cuda_min: tuple[int, int] | None
    _live: dict[Guard | None, bool] = field(default_factory=dict, repr=False)
    _build_defines: set[str] = field(default_factory=set, repr=False)

    def toolkits(self, target: Target) -> list[tuple[int, int]]:
        """Toolkits from the oldest supported one that know a target."""
        oldest = max(self.cuda_min or _FIRST_WITH_SM12X, target.first_toolkit)
        return [version for version in TOOLKITS if version >= oldest] or [TOOLKITS[-1]]

    def worlds(self, target: Target) -> list[World]:
        """The toolkits asked for with one target."""
        return self._worlds[target]

    def newest_world(self, target: Target) -> World:
        """A target, asked for or not, with the newest toolkit."""
        return self.project.world(target, TOOLKITS[-1])

    @cached_property
    def _worlds(self) -> dict[Target, list[World]]:
        return {t: [self.project.world(t, toolkit) for toolkit in self.toolkits(t)] for t in self.targets}

    @cached_property
    def _all_worlds(self) -> list[World]:
        host = [self.project.world(None, toolkit) for toolkit in self.toolkits(Target(0))]
        return [*host[:1], *(world for worlds in self._worlds.values() for world in worlds[:1]), *host[1:],
                *(world for worlds in self._worlds.values() for world in worlds[1:])]  # fmt: skip

    def is_live(self, unit: CppFile, offset: int, conditions: Sequence[Condition] = ()) -> bool:
        """Whether the host or some target can compile a place; only what is certainly dead is not."""
        guard = unit.guard_at(offset)
        known = self._live.get(guard)
        if known is None:
            known = self._live[guard] = any(not _certainly_false(w.holds(guard)) for w in self._all_worlds)
        if not known or not conditions:
            return known
        everything = [(guard, True), *conditions]
        return any(not _certainly_false(world.all_hold(everything)) for world in self._all_worlds)

    def targets_of(self, conditions: Sequence[Condition]) -> dict[str, str]:
        """compiled, excluded or unknown per target."""
        found = {}
        for target, worlds in self._worlds.items():
            verdict = "excluded"
            for world in worlds:
                value = world.all_hold(conditions)
                if value.truth:
                    verdict = "compiled"
                    break
                if self._may_hold(value, target, world.toolkit, conditions):
                    verdict = "unknown"
            if verdict == "unknown" and self._holds_in_a_build(target, conditions):
                verdict = "compiled"
            found[target.name] = verdict
        return found

    def in_older_ptx(self, conditions: Sequence[Condition]) -> dict[str, str]:
        """Virtual arch -> compiled or unknown, for those of older targets whose PTX can hold a place."""
        found = {}
        for target in _PTX_FOR_LATER:
            values = {
                version: self.project.world(target, version).all_hold(conditions)
                for version in self.toolkits(target)
            }
            if any(value.truth for value in values.values()):
                found[f"compute_{target.number}"] = "compiled"
            elif any(self._may_hold(values[version], target, version, conditions) for version in values):
                found[f"compute_{target.number}"] = "unknown"
        return found

    def compiles(self, target: Target, conditions: Sequence[Condition]) -> bool:
        """Whether any supported toolkit compiles a place for a target, one of those asked for or not."""
        worlds = (self.project.world(target, toolkit) for toolkit in self.toolkits(target))
        return any(world.all_hold(conditions).truth for world in worlds)

    def _may_hold(
        self, value: Value, target: Target, toolkit: tuple[int, int], conditions: Sequence[Condition]
    ) -> bool:
        """Whether guards that do not hold may do so where macros are defined that nobody defines.

        `defined(NAME)` around `!defined(NAME)` holds in no build, whatever NAME is.
        """
        if value.truth is None or not value.assumed:
            return value.truth is None
        names = sorted(value.assumed)
        if len(names) > _MAX_TRIED:
            return True
        for count in range(1, len(names) + 1):
            for chosen in combinations(names, count):
                defined: dict[str, str | None] = dict.fromkeys(chosen, UNKNOWN_VALUE)
                tried = self.project.world(target, toolkit, defined).all_hold(conditions)
                if tried.truth is not False or not value.assumed.issuperset(tried.assumed):
                    return True
        return False

    def _holds_in_a_build(self, target: Target, conditions: Sequence[Condition]) -> bool:
        """Whether guards hold with those macros that the project's own build files define by `-D`."""
        defines: dict[str, str | None] = {}
        for world in self._worlds[target]:
            for name in world.all_hold(conditions).assumed:
                given = self.project.builds.define(name)
                if given is not None:
                    defines[name] = given[0]
        if not defines:
            return False
        worlds = [self.project.world(target, toolkit, defines) for toolkit in self.toolkits(target)]
        if not any(world.all_hold(conditions).truth for world in worlds):
            return False
        self._build_defines.update(defines)
        return True

    def of_statement(self, statement: AsmStatement) -> dict[str, str]:
        """Verdict of all guards of a statement."""
        return self.targets_of(self.conditions_of(statement))

    def conditions_of(self, statement: AsmStatement) -> list[Condition]:
        """Guards around a statement and inside it."""
        return [(statement.unit.guard_at(statement.offset), True), *statement.conditions]

    def doubt(self, statement: AsmStatement) -> str:
        """Where no target compiles a statement by itself: `with NAME defined`; else empty."""
        names: set[str] = set()
        for worlds in self._worlds.values():
            for world in worlds:
                value = world.all_hold(self.conditions_of(statement))
                if value.truth:
                    return ""
                names |= value.assumed
        return f"with {' or '.join(sorted(names))} defined" if names else ""

    def evidence(self, statement: AsmStatement) -> list[Evidence]:
        """Guards and macro values that make a statement what it is."""
        found: list[Evidence] = []
        for macro in statement.macros:
            text = f"#define {macro.name} {macro.value}"
            found.append(Evidence("macro", macro.unit.file.path, macro.line, text))
        return [*found, *self.evidence_of(self.conditions_of(statement))]

    def evidence_of(self, conditions: Iterable[Condition]) -> list[Evidence]:
        """The guards that were asked, outer ones included."""
        found: list[Evidence] = []
        seen: set[int] = set()
        for guard, wanted in conditions:
            inner = guard
            while inner is not None and id(inner) not in seen:
                seen.add(id(inner))
                text = inner.text if wanted else f"not taken: {inner.text}"
                if not inner.is_include_guard:
                    found.append(Evidence("guard", inner.unit.file.path, inner.line, text))
                    found.extend(self._build_evidence(text))
                inner = inner.parent if wanted else None
        return found

    def _build_evidence(self, text: str) -> Iterator[Evidence]:
        """Where a build defines a macro of a guard."""
        for name in re.findall(r"[A-Za-z_]\w*", text):
            given = self.project.builds.define(name) if name in self._build_defines else None
            if given is not None:
                yield given[1]

    def cta_form_missing_below(self, statement: AsmStatement, copy: BulkCopy) -> tuple[int, int] | None:
        """Newest supported toolkit that compiles a cta form it does not have; None where there is none."""
        needed = forms.first_toolkit(copy)
        if self.cuda_min is None or self.cuda_min >= needed or not copy.destination_space.endswith("cta"):
            return None
        conditions = self.conditions_of(statement)
        older = [version for version in (self.cuda_min, *TOOLKITS) if self.cuda_min <= version < needed]
        for version in sorted(set(older), reverse=True):
            if self.project.world(Target(90, "a"), version).all_hold(conditions).truth:
                return version
        return None


def _certainly_false(value: Value) -> bool:
    return value.truth is False and not value.assumed

"""Conditions that compare `__CUDA_ARCH__` with a hand-kept list by `==`, and the targets that they miss."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ptxguard.location import Span
from ptxguard.model import ArchList

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.arch import Target
    from ptxguard.finding import Evidence
    from ptxguard.flags import Built
    from ptxguard.source.guards import CppFile, Guard
    from ptxguard.source.guardverdict import GuardVerdicts

_DIRECTIVE = re.compile(r"^[ \t]*(#[ \t]*(?:el)?if\b(?:[^\\\n]|\\\r?\n|\\.)*)", re.MULTILINE)
_EQUAL = re.compile(r"__CUDA_ARCH__\s*==\s*(\d{3,4})\b")


def arch_lists(unit: CppFile, guards: GuardVerdicts) -> Iterator[ArchList]:
    """Every condition of a file with two or more values that misses a target between them."""
    for match in _DIRECTIVE.finditer(unit.file.text):
        listed = tuple(sorted({int(value) for value in _EQUAL.findall(match[1])}))
        guard = unit.guard_at(match.end()) if len(listed) > 1 else None
        if guard is None or guard.offset != match.start(1):  # no list, or text in a comment
            continue
        branches = unit.other_branches(guard)
        if branches and branches[-1].text[1:].split()[:1] == ["else"]:  # what the list misses is thought of
            continue
        covered, missed = _sorted_out(guard, listed, guards.targets, guards)
        built = guards.project.builds.targets_of(unit.file.path)
        targets = tuple(dict.fromkeys(one.target for one in built))
        built_covered, built_missed = _sorted_out(guard, listed, targets, guards)
        if missed or built_missed:
            span = Span(
                unit.file, match.start(1), match.start(1) + len(match[1].split("\n", 1)[0].rstrip("\\ \r"))
            )
            yield ArchList(
                span, listed, covered, missed, built_covered, built_missed, _lines(built, built_missed)
            )


def _sorted_out(
    guard: Guard, listed: Sequence[int], targets: Sequence[Target], guards: GuardVerdicts
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Targets for which a condition holds, and those in between for which it certainly does not.

    A list of one generation is meant for that generation: only targets from the generation of its first value
    to that of its last count as missed, and a listed one that other macros exclude does not.
    """
    covered, missed = [], []
    low, high = listed[0] // 100, listed[-1] // 100
    for target in targets:
        world = guards.newest_world(target)
        value, around = guard.own_value(world), world.holds(guard.parent)
        elsewhere = any(other.own_value(world).truth for other in guard.unit.other_branches(guard))
        if around.truth is False or elsewhere:
            continue
        if value.truth:
            covered.append(target.name)
            continue
        value_of = target.arch_macro
        between = value_of > listed[0] and low <= value_of // 100 <= high and value_of not in listed
        if between and value.truth is False and not value.assumed:
            missed.append(target.name)
    return tuple(covered), tuple(missed)


def _lines(built: Sequence[Built], names: Sequence[str]) -> tuple[Evidence, ...]:
    return tuple(dict.fromkeys(one.evidence for one in built if one.target.name in names))

"""Helpers around a copy: what each of their calls passes, and a twin that is the same for `shared::cta`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard import forms
from ptxguard.arch import Target
from ptxguard.errors import ParseError
from ptxguard.helper import HelperCall, Twin
from ptxguard.location import Span
from ptxguard.source.asmsites import StatementFlow
from ptxguard.source.flowbase import Frame
from ptxguard.source.ptx import parse_asm
from ptxguard.source.tokens import DIRECTIVE, STRING, directive_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.model import BulkCopy, Instruction
    from ptxguard.source.cuda import Function
    from ptxguard.source.guards import CppFile
    from ptxguard.source.lexer import AsmStatement
    from ptxguard.source.sites import SiteFinder
    from ptxguard.source.uses import Use

_CLUSTER, _CTA, _COPY = "shared::cluster", "shared::cta", "cp.async.bulk"
# One of each architecture that has the copies.
_TARGETS = tuple(map(Target.parse, ("sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a")))
# More calls than that are a library's; each is a walk through the tree.
_MAX_CALLS = 100


@dataclass(frozen=True, eq=False)
class Helpers:
    """Looks at the helper around a copy.

    Attributes:
        finder: call graph, addresses, statements.
    """

    finder: SiteFinder
    _candidates: dict[CppFile, list[AsmStatement]] = field(default_factory=dict, repr=False)
    _skeletons: dict[Function, tuple[list[str], list[str]]] = field(default_factory=dict, repr=False)

    def calls(
        self, statement: AsmStatement, instructions: tuple[Instruction, ...], copy: BulkCopy, owner: Function
    ) -> tuple[HelperCall, ...]:
        """Calls of the helper, each with the owner of the destination that it passes."""
        callers = self.finder.graph.callers(owner)
        if owner.is_kernel or not 0 < len(callers.calls) <= _MAX_CALLS:
            return ()
        return tuple(
            HelperCall(
                Span(use.unit.file, use.offset, use.tokens.end(use.index)),
                self._destination(use, statement, instructions, copy, owner) if sure else "unknown",
            )
            for use, sure in callers.calls
        )

    def _destination(
        self,
        use: Use,
        statement: AsmStatement,
        instructions: tuple[Instruction, ...],
        copy: BulkCopy,
        owner: Function,
    ) -> str:
        if use.owner is None or use.kind != "call":
            return "unknown"
        home = Frame(use.owner)
        names = (parameter.name for parameter in owner.parameters)
        frame = Frame(owner, {n: (a, home) for n, a in zip(names, use.arguments, strict=False)})
        flow = StatementFlow(statement, instructions, owner, self.finder.flow, frame)
        return flow.address(copy).destination

    def twin(self, statement: AsmStatement, copy: BulkCopy, owner: Function) -> Twin | None:
        """A function of the same file that differs only in its name, its guards and the spelling."""
        for other in self._spelled_for_cta(statement.unit):
            if _respelled(statement) != _respelled(other):
                continue
            function = self.finder.graph.owner_at(other.unit, other.offset)
            if function is None or function.scope != owner.scope:
                continue
            if self._skeleton(function) != self._skeleton(owner):
                continue
            if not self._compiled_alike(statement, other):
                continue
            place = _place_of(other, copy.opcode.replace(_CLUSTER, _CTA, 1))
            if place is not None:
                return Twin(function.name, function.qualified, *place)
        return None

    def _spelled_for_cta(self, unit: CppFile) -> list[AsmStatement]:
        """Statements of functions of a file that hold a copy for the own CTA's window."""
        known = self._candidates.get(unit)
        if known is None:
            known = self._candidates[unit] = [
                other
                for other in self.finder.statements(unit)
                if other.owner is None and _CTA in other.template.text and _COPY in other.template.text
            ]
        return known

    def _skeleton(self, function: Function) -> tuple[list[str], list[str]]:
        """Types and names of the parameters, and the body less literals and what other targets get."""
        known = self._skeletons.get(function)
        if known is None:
            types = [f"{parameter.type_text} {parameter.name}" for parameter in function.parameters]
            known = self._skeletons[function] = (types, list(_body(function)))
        return known

    def _compiled_alike(self, statement: AsmStatement, other: AsmStatement) -> bool:
        """Whether the other statement is compiled wherever the first one is."""
        guards = self.finder.guards
        here, there = guards.conditions_of(statement), guards.conditions_of(other)
        return all(guards.compiles(target, there) for target in _TARGETS if guards.compiles(target, here))


def _respelled(statement: AsmStatement) -> str:
    return statement.template.text.replace(_CLUSTER, _CTA)


def _place_of(statement: AsmStatement, opcode: str) -> tuple[str, int, int] | None:
    """(path, line, column) of a copy of a statement."""
    try:
        instructions = parse_asm(statement.template.text)
    except ParseError:
        return None
    for instruction in instructions:
        if instruction.opcode == opcode and forms.read_bulk_copy(instruction) is not None:
            span = statement.template.spans(instruction.start, instruction.mnemonic_end)[0]
            return (span.path, span.line, span.column)
    return None


def _body(function: Function) -> Iterator[str]:
    """Tokens of the branches that stand first: an `#else` holds an error message for other targets."""
    tokens, other = function.unit.tokens, 0
    for index in range(*function.body):
        kind, text = tokens.kinds[index], tokens.texts[index]
        if kind == DIRECTIVE:
            name = directive_name(text)
            if other and name in ("if", "ifdef", "ifndef"):
                other += 1
            elif name in ("else", "elif") and other < 2:
                other = 1
            elif name == "endif":
                other = max(other - 1, 0)
        elif kind != STRING and not other:
            yield text

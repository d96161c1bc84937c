"""Asm statements whose operands deserve a closer look, picked by cheap looks at their text."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ptxguard.asmnames import is_balanced, names_outside_braces
from ptxguard.errors import ParseError
from ptxguard.model import AsmArgument, AsmCode
from ptxguard.semantics import address_space, first_address, may_write
from ptxguard.source.asmflow import operand_node
from ptxguard.source.cuda import Function
from ptxguard.source.ptx import parse_asm
from ptxguard.source.window import Window, Windows

if TYPE_CHECKING:
    from ptxguard.asmnames import DeclaredName
    from ptxguard.model import Instruction
    from ptxguard.source.lexer import AsmOperand, AsmStatement
    from ptxguard.source.sites import SiteFinder

_PLACEHOLDER = re.compile(r"(?<!%)%(\d+)")
# An opcode with a placeholder, or a vector of them, in the place of a result.
_RESULT = re.compile(
    r"([a-z]\w*)((?:\.[\w:]+)*)\s+(?:(?<!%)%(\d+|\[\w+\])|\{\s*((?<!%)%(?:\d+|\[\w+\])[^{}]*)\})\s*,"
)
_NAMES = re.compile(r"(?<!%)%(\d+|\[\w+\])")
# An instruction that takes an address of the shared window or a generic one, up to its first address.
_ADDRESSED = re.compile(
    r"(?<![\w.])(?:ldu?|st|atom|red|ldmatrix|stmatrix|mbarrier|cp\.async)\.([\w.:]+)[^;\[]*\[\s*%(\d+|\[\w+\])"
)
_OTHER_SPACES = re.compile(r"\b(?:global|local|const|param|bulk)\b")


@dataclass(eq=False)
class AsmCodes:
    """Picks and reads statements for a finder.

    Attributes:
        finder: owners, guards, callers.
    """

    finder: SiteFinder

    def of(self, statement: AsmStatement) -> AsmCode | None:
        """The statement with its operands, or None where a look at it finds nothing to ask."""
        names = self._names_outside_braces(statement)
        if statement.unresolved or not (names or (statement.operands and self._is_odd(statement))):
            return None
        if not self.finder.guards.is_live(statement.unit, statement.offset, statement.conditions):
            return None
        try:
            instructions = parse_asm(statement.template.text)
        except ParseError:  # said of the statement elsewhere, where it is device code
            return None
        owner = self.finder.owner(statement)
        return AsmCode(
            template=statement.template,
            instructions=instructions,
            arguments=tuple(
                self._argument(operand, statement, instructions) for operand in statement.operands
            ),
            complete=statement.complete,
            function=owner.qualified if owner is not None else None,
            targets=self.finder.guards.of_statement(statement),
            evidence=tuple(self.finder.guards.evidence(statement)),
            names=names,
            in_kernel=isinstance(owner, Function) and owner.is_kernel,
        )

    def _names_outside_braces(self, statement: AsmStatement) -> tuple[DeclaredName, ...]:
        """Names of a statement in a function; none where a brace of another statement may stand around it."""
        names = names_outside_braces(statement.template.text)
        if not names or self.finder.owner(statement) is None:
            return ()
        others = self.finder.statements(statement.unit)
        return names if all(is_balanced(other.template.text) for other in others) else ()

    def _is_odd(self, statement: AsmStatement) -> bool:
        text, operands = statement.template.text, statement.operands
        if any(operand.output and operand.constraint[:1] not in ("=", "+", "") for operand in operands):
            return True
        if any(int(number) >= len(operands) for number in _PLACEHOLDER.findall(text)):
            return True
        for base, modifiers, first, group in _RESULT.findall(text):
            names = [first] if first else _NAMES.findall(group)
            written = any(_bound(statement, name, output=False) is not None for name in names)
            if written and may_write(base, modifiers):
                return True
        return any(
            self._may_mismatch(statement, modifiers, name) for modifiers, name in _ADDRESSED.findall(text)
        )

    def _may_mismatch(self, statement: AsmStatement, modifiers: str, name: str) -> bool:
        """Whether the size of an address register speaks against its instruction."""
        operand = _bound(statement, name, output=None)
        if operand is None or _OTHER_SPACES.search(modifiers.split("shared")[0]):
            return False
        return operand.constraint.endswith("l" if "shared" in modifiers else "r")

    def _argument(
        self, operand: AsmOperand, statement: AsmStatement, instructions: tuple[Instruction, ...]
    ) -> AsmArgument:
        window = self._window(operand, statement, instructions)
        return replace(plain_argument(operand), window=window.kind, evidence=window.evidence)

    def _window(
        self, operand: AsmOperand, statement: AsmStatement, instructions: tuple[Instruction, ...]
    ) -> Window:
        """What an operand's address is, for those that some instruction takes as one."""
        owner = self.finder.owner(statement)
        if owner is None:
            return Window("")
        for instruction in instructions:
            address = first_address(instruction)
            if address is None or address.kind != "placeholder" or address_space(instruction) is None:
                continue
            if _bound(statement, address.text[1:], output=None) is operand:
                return Windows(self.finder.graph).of(operand_node(operand, owner), owner)
        return Window("")


def plain_argument(operand: AsmOperand) -> AsmArgument:
    """An operand as it is written; nothing is said about an address in it."""
    tokens, indices = operand.tokens, operand.indices
    text = tokens.source(indices[0], indices[-1] + 1) if indices else ""
    return AsmArgument(operand.name, operand.constraint, operand.output, text)


def _bound(statement: AsmStatement, name: str, *, output: bool | None) -> AsmOperand | None:
    """The operand of `%0` or `%[name]`, if it stands in the list asked for (None: in either)."""
    operands = statement.operands
    plain = name.strip("[]")
    if plain.isdigit():
        found = operands[int(plain)] if int(plain) < len(operands) else None
    else:
        found = next((operand for operand in operands if operand.name == plain), None)
    return found if found is not None and output in (None, found.output) else None

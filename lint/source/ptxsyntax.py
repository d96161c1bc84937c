"""What PTX text holds beside instructions (declarations, labels, scopes), and how all of it is printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ptxguard.model import Instruction


@dataclass(frozen=True)
class Directive:
    """A declaration (`.reg .b32 x;`) or another dotted statement (`.pragma "nounroll";`, `.loc 1 2 3`).

    Attributes:
        words: its tokens in order, the first one with its dot, without what ends it.
        terminator: `;`, or "" where none is there.
        start: offset of the first character.
        end: offset behind the terminator.
    """

    words: tuple[str, ...]
    terminator: str
    start: int
    end: int


@dataclass(frozen=True)
class Label:
    """A jump target, its name without the colon."""

    name: str
    start: int
    end: int


@dataclass(frozen=True)
class Scope:
    """A brace that opens or closes a block; one template may hold only half of a pair."""

    text: str
    start: int
    end: int


def render(statements: Iterable[Instruction | Directive | Label | Scope]) -> str:
    """Statements as PTX text, one a line: the same tokens in the same order as were parsed."""
    return "\n".join(render_statement(statement) for statement in statements)


def render_statement(statement: Instruction | Directive | Label | Scope) -> str:
    """One statement as PTX text."""
    if isinstance(statement, Directive):
        return " ".join(statement.words) + statement.terminator
    if isinstance(statement, Label):
        return f"{statement.name}:"
    if isinstance(statement, Scope):
        return statement.text
    guard = f"{statement.predicate} " if statement.predicate else ""
    operands = ", ".join(operand.text for operand in statement.operands)
    return f"{guard}{statement.opcode}{' ' if operands else ''}{operands};"

"""What inline asm does to addresses that pass through it: keeps them, maps them to a peer, or hides them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.source.cuda import Function
from ptxguard.source.exprs import Node, parse_expression
from ptxguard.source.variables import body_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.source.lexer import AsmOperand, AsmStatement
    from ptxguard.source.uses import Owner

_OPCODE = re.compile(r"(?:^|[;{}]|\n)\s*(?:@!?%{0,2}[\w\[\]]+\s+)?([a-z][\w]*(?:\.[\w:]+)*)")
# Opcodes that move or offset an address inside its owner's window (PTX ISA, "cvta", "mov", "add").
_KEEPS = frozenset(["cvta", "mov", "cvt", "add", "sub", "selp", "mad", "lea"])
_HARMLESS = frozenset({"", ".reg", "setp"})


@dataclass(frozen=True, eq=False)
class AsmBinding:
    """An asm statement that writes a variable.

    Attributes:
        statement: the statement.
        effect: keep (owner of the inputs), map (peer), opaque, or number (reads a special register).
        inputs: expressions whose owner is kept.
        rank: the rank operand of a `mapa`, or None.
    """

    statement: AsmStatement
    effect: str
    inputs: tuple[Node, ...] = ()
    rank: Node | None = None


def asm_bindings(
    statements: list[AsmStatement], owner: Owner, name: str, through: str = ""
) -> Iterator[AsmBinding]:
    """Statements of a function that write a variable (or `*variable`), with what they do to an address."""
    for statement in statements_in(statements, owner):
        written = [
            operand
            for operand in statement.operands
            if operand.output and _root(operand.tokens.texts, operand.indices, through) == name
        ]
        if not written:
            continue
        inputs = [
            operand_node(operand, owner)
            for operand in statement.operands
            if not operand.output or "+" in operand.constraint
        ]
        yield _effect(statement, owner, tuple(inputs), name)


def operand_node(operand: AsmOperand, owner: Owner) -> Node:
    """The expression of an operand, in the token stream of the function or macro around it."""
    stream, _, _ = body_of(owner)
    indices = [stream.at(operand.tokens.starts[index]) for index in operand.indices]
    return parse_expression(stream, indices)


def statements_in(statements: list[AsmStatement], owner: Owner) -> Iterator[AsmStatement]:
    """Statements inside a function's body or a macro's replacement."""
    if isinstance(owner, Function):
        tokens = owner.unit.tokens
        if owner.body[1] <= owner.body[0]:
            return
        low, high = tokens.starts[owner.body[0]], tokens.starts[min(owner.body[1], len(tokens) - 1)]
        for statement in statements:
            if statement.owner is None and low <= statement.offset <= high:
                yield statement
        return
    for statement in statements:
        if statement.owner is owner.definition:
            yield statement


def _root(texts: list[str], indices: tuple[int, ...], through: str = "") -> str:
    if through:
        return texts[indices[1]] if len(indices) == 2 and texts[indices[0]] == through else ""
    return texts[indices[0]] if len(indices) == 1 else ""


def opcodes(text: str) -> list[str]:
    """Dotted opcodes of an asm text, roughly: enough to know what passes an address on."""
    return [found for found in _OPCODE.findall(text) if found not in _HARMLESS]


def _effect(statement: AsmStatement, owner: Owner, inputs: tuple[Node, ...], name: str) -> AsmBinding:
    text = statement.template.text
    names = opcodes(text)
    bases = {opcode.split(".")[0] for opcode in names}
    if "mapa" in bases:
        return AsmBinding(statement, "map", inputs, _mapa_rank(statement, owner, name))
    if "%%cluster_ctarank" in text or "%%ctaid" in text or "%%cluster_ctaid" in text or "elect" in bases:
        return AsmBinding(statement, "number")
    if bases and bases <= _KEEPS and ("cvta" in bases or "mov" in bases or "cvt" in bases or "add" in bases):
        real = tuple(node for node in inputs if not (node.kind == "name" and node.text == name))
        return AsmBinding(statement, "keep", real or inputs)
    return AsmBinding(statement, "opaque")


_MAPA = re.compile(r"mapa[\w.:]*\s+([^,;]+),\s*([^,;]+),\s*([^,;]+?)\s*;")


def _mapa_rank(statement: AsmStatement, owner: Owner, name: str) -> Node | None:
    """The expression of the rank operand of the `mapa` that writes a variable."""
    for destination, _, rank in _MAPA.findall(statement.template.text):
        target = _operand(statement, owner, destination.strip())
        if target is not None and target.text != name:
            continue
        return _operand(statement, owner, rank.strip())
    return None


def _operand(statement: AsmStatement, owner: Owner, reference: str) -> Node | None:
    for number, operand in enumerate(statement.operands):
        if reference in (f"%{number}", f"%[{operand.name}]"):
            return operand_node(operand, owner)
    return None


def reads_own_rank(statements: list[AsmStatement], owner: Owner, name: str) -> bool:
    """Whether a variable is written by asm that reads the CTA's own rank."""
    for statement in statements_in(statements, owner):
        if "%%cluster_ctarank" not in statement.template.text:
            continue
        for operand in statement.operands:
            if operand.output and _root(operand.tokens.texts, operand.indices) == name:
                return True
    return False

"""Every text that a Python expression can have: literals, operators, names, helpers and callers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.source.literals import Piece
from ptxguard.source.pythoncontainers import text_of_subscript
from ptxguard.source.pythonformat import filled
from ptxguard.source.pythonliterals import hole, literal_parts, percent_fields
from ptxguard.source.pythonparts import MAX_TEXTS, Text, Texts, either, joined, pairs
from ptxguard.source.pythontextcalls import text_of_call
from ptxguard.source.pythontextnames import text_of_attribute, text_of_name

if TYPE_CHECKING:
    from tree_sitter import Node

    from ptxguard.source.pythoncalls import PythonCalls
    from ptxguard.source.pythonframe import Frame
    from ptxguard.source.pythonvalues import PythonValues

_MAX_DEPTH = 24
_MAX_STEPS = 6000


@dataclass(eq=False)
class PythonTexts:
    """Reads texts.

    Attributes:
        calls: callers and names of the tree.
        values: numbers in fields.
    """

    calls: PythonCalls
    values: PythonValues
    _steps: int = 0
    _active: set[tuple[int, int]] = field(default_factory=set, repr=False)

    def of(self, node: Node, frame: Frame) -> Texts:
        """Every text of an expression, or None where there are too many."""
        self._steps = 0
        return self.read(node, frame, 0)

    def read(self, node: Node | None, frame: Frame, depth: int) -> Texts:
        """Every text of an expression that is part of the one asked for."""
        self._steps += 1
        if node is None:
            return []
        key = (node.id, id(frame.scope))
        if depth > _MAX_DEPTH or self._steps > _MAX_STEPS or key in self._active:
            return [self.hole(node, frame, "the chain of definitions is too deep to follow")]
        self._active.add(key)
        try:
            found = self._text(node, frame, depth)
        finally:
            self._active.discard(key)
        return found if found is None or len(found) <= MAX_TEXTS else None

    def hole(self, node: Node, frame: Frame, reason: str) -> Text:
        """A text that is not in sight, with the reason."""
        return Text((hole(node, frame.scope.unit, reason),))

    def _text(self, node: Node, frame: Frame, depth: int) -> Texts:
        kind = node.type
        if kind == "string":
            return self._literal(node, frame, depth)
        if kind == "concatenated_string":
            return joined([self.read(child, frame, depth + 1) for child in node.named_children])
        if kind in ("parenthesized_expression", "await"):
            return self.read(node.named_children[0], frame, depth + 1)
        if kind == "binary_operator":
            return self._operator(node, frame, depth)
        if kind == "conditional_expression":
            first, _, last = node.named_children
            return either([self.read(first, frame, depth + 1), self.read(last, frame, depth + 1)])
        if kind == "boolean_operator":
            parts = (node.child_by_field_name("left"), node.child_by_field_name("right"))
            return either([self.read(part, frame, depth + 1) for part in parts])
        if kind == "identifier":
            return text_of_name(self, node, frame, depth)
        if kind == "attribute":
            return text_of_attribute(self, node, frame, depth)
        if kind == "subscript":
            return text_of_subscript(self, node, frame, depth)
        if kind == "call":
            return text_of_call(self, node, frame, depth)
        return self.number(node, frame)

    def number(self, node: Node, frame: Frame) -> Texts:
        """A number or constant written into the text."""
        found = []
        start, end = frame.scope.unit.offset(node.start_byte), frame.scope.unit.offset(node.end_byte)
        for value in self.values.of(node, frame):
            if isinstance(value, int | str):
                found.append(Text((Piece(str(value), frame.scope.unit.file, start, end - start),)))
            else:
                found.append(self.hole(node, frame, f"{frame.scope.unit.text(node)} is not known"))
        return found

    # Literals and operators -----------------------------------------------------------------------

    def _literal(self, node: Node, frame: Frame, depth: int) -> Texts:
        parts: list[Texts] = []
        for part in literal_parts(node, frame.scope.unit):
            if isinstance(part, Piece):
                parts.append([Text((part,))])
                continue
            expression = part.child_by_field_name("expression")
            special = any(child.type in ("format_specifier", "type_conversion") for child in part.children)
            if special or expression is None:
                parts.append(
                    [self.hole(part, frame, f"the field {frame.scope.unit.text(part)} is formatted")]
                )
            else:
                parts.append(self.read(expression, frame, depth + 1))
        return joined(parts)

    def _operator(self, node: Node, frame: Frame, depth: int) -> Texts:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        sign = node.child_by_field_name("operator")
        written = frame.scope.unit.text(sign) if sign is not None else ""
        if written == "+":
            return joined([self.read(left, frame, depth + 1), self.read(right, frame, depth + 1)])
        if written == "%" and right is not None:
            given = right.named_children if right.type == "tuple" else [right]
            values: dict[str, Node] = {str(place): one for place, one in enumerate(given)}
            if right.type == "dictionary":
                values = dict(pairs(right, frame))
            return filled(self, self.read(left, frame, depth + 1), percent_fields, values, frame, depth)
        return self.number(node, frame)

    # Names ----------------------------------------------------------------------------------------

    # Containers and calls -------------------------------------------------------------------------

"""Integers, strings and tuples that a Python expression can have, followed through variables and callers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ptxguard.source.pythonarith import applied, integer, reason_of, short
from ptxguard.source.pythonattributes import value_of_attribute
from ptxguard.source.pythoncalls import argument
from ptxguard.source.pythonframe import Frame, Unknown, Values
from ptxguard.source.pythonmade import value_of_call, value_of_comprehension
from ptxguard.source.pythonnames import value_of_name

if TYPE_CHECKING:
    from tree_sitter import Node

    from ptxguard.source.pythoncalls import PythonCalls
    from ptxguard.source.pythonscope import Scope

_MAX_DEPTH = 24
_MAX_VALUES = 16
_MAX_STEPS = 3000


@dataclass(eq=False)
class PythonValues:
    """Evaluates expressions.

    Attributes:
        calls: callers, classes and names of the tree.
        assumed: defaults of command-line options that the last answer rests on.
    """

    calls: PythonCalls
    assumed: list[str] = field(default_factory=list)
    _steps: int = 0
    _active: set[tuple[int, int]] = field(default_factory=set, repr=False)

    def of(self, node: Node, frame: Frame) -> Values:
        """Every value that an expression can have; `Unknown` stands for those that cannot be told."""
        self._steps = 0
        self.assumed = []
        return self.read(node, frame, 0)

    def read(self, node: Node | None, frame: Frame, depth: int) -> Values:
        """Values of an expression that is part of the one asked for."""
        self._steps += 1
        if node is None:
            return [Unknown("an expression is missing")]
        if depth > _MAX_DEPTH or self._steps > _MAX_STEPS:
            return [Unknown(f"the chain of definitions is too deep to follow ({frame.place(node)})")]
        key = (node.id, id(frame.scope))
        if key in self._active:
            return []
        self._active.add(key)
        try:
            found = self._value(node, frame, depth)
        finally:
            self._active.discard(key)
        unique: Values = []
        for value in found:
            if value not in unique:
                unique.append(value)
        if len(unique) > _MAX_VALUES:
            return [Unknown(f"there are too many values ({frame.place(node)})")]
        return unique

    def _value(self, node: Node, frame: Frame, depth: int) -> Values:
        unit, kind = frame.scope.unit, node.type
        if kind == "integer":
            return [integer(unit.text(node))]
        if kind in ("true", "false", "none"):
            return [{"true": True, "false": False, "none": None}[kind]]
        if kind == "string":
            return self._string(node, frame)
        if kind in ("tuple", "list"):
            return self._sequence(node, frame, depth)
        if kind == "parenthesized_expression":
            return self.read(node.named_children[0], frame, depth + 1)
        if kind == "identifier":
            return value_of_name(self, node, frame, depth)
        if kind == "attribute":
            return value_of_attribute(self, node, frame, depth)
        if kind == "subscript":
            return self._subscript(node, frame, depth)
        if kind == "conditional_expression":
            first, _, last = node.named_children
            return self.read(first, frame, depth + 1) + self.read(last, frame, depth + 1)
        if kind in ("binary_operator", "boolean_operator"):
            return self._operator(node, frame, depth)
        if kind == "unary_operator" and node.children[0].type == "-":
            inner = self.read(node.named_children[0], frame, depth + 1)
            return [-value if isinstance(value, int) else value for value in inner]
        if kind == "call":
            return value_of_call(self, node, frame, depth)
        if kind in ("generator_expression", "list_comprehension"):
            return value_of_comprehension(self, node, frame, depth)
        return [Unknown(f"{short(unit.text(node))} is not a constant in sight ({frame.place(node)})")]

    def _string(self, node: Node, frame: Frame) -> Values:
        text = frame.scope.unit.text(node)
        quote = text[-1]
        if (
            text[0] == quote
            and "\\" not in text
            and not any(c.type == "interpolation" for c in node.children)
        ):
            return [text.strip(quote)]
        return [Unknown(f"a string that is built ({frame.place(node)})")]

    def _sequence(self, node: Node, frame: Frame, depth: int) -> Values:
        rows: list[tuple[Any, ...]] = [()]
        for child in node.named_children:
            if child.type == "comment":
                continue
            splat = child.type == "list_splat"
            values = self.read(child.named_children[0] if splat else child, frame, depth + 1)
            if splat:
                values = [
                    value if isinstance(value, tuple) else Unknown(reason_of(value)) for value in values
                ]
                if any(isinstance(value, Unknown) for value in values):
                    return [value for value in values if isinstance(value, Unknown)][:1]
            rows = [
                (*row, *(value if splat else (value,))) for row in rows for value in values or [Unknown("")]
            ]
            if len(rows) > _MAX_VALUES:
                return [Unknown(f"there are too many values ({frame.place(node)})")]
        return list(rows)

    # Names ----------------------------------------------------------------------------------------

    # Operators and calls --------------------------------------------------------------------------

    def _subscript(self, node: Node, frame: Frame, depth: int) -> Values:
        base, index = node.child_by_field_name("value"), node.child_by_field_name("subscript")
        found: Values = []
        for place in self.read(index, frame, depth + 1):
            for value in self.read(base, frame, depth + 1):
                if isinstance(value, tuple) and isinstance(place, int) and -len(value) <= place < len(value):
                    found.append(value[place])
                else:
                    found.append(Unknown(reason_of(value)))
        return found

    def _operator(self, node: Node, frame: Frame, depth: int) -> Values:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        sign = node.child_by_field_name("operator")
        written = frame.scope.unit.text(sign) if sign is not None else ""
        found: Values = []
        for one in self.read(left, frame, depth + 1):
            for other in self.read(right, frame, depth + 1):
                found.append(applied(written, one, other))
        return found

    def bound(self, function: Scope, call: Node, frame: Frame, skip: int) -> dict[str, tuple[Node, Frame]]:
        """Parameters of a function bound to the arguments of one call."""
        from ptxguard.source.pythoncalls import Call

        made = Call(call, frame.scope, frame.classes, sure=True, skip=skip)
        bound = {}
        for parameter in function.parameters:
            node, why = argument(made, function, parameter)
            if node is not None:
                bound[parameter.name] = (node, frame)
            elif why == "default" and parameter.default is not None:
                bound[parameter.name] = (parameter.default, Frame(function.parent or function))
        return bound

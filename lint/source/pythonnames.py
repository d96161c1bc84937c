"""Values of a Python name: assignments, imports, loops, and parameters over every caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ptxguard.source.pythonarith import at
from ptxguard.source.pythoncalls import argument
from ptxguard.source.pythonframe import Frame, Unknown, Values, binder, caller_frame

if TYPE_CHECKING:
    from tree_sitter import Node

    from ptxguard.source.pythonscope import Binding, Scope
    from ptxguard.source.pythonvalues import PythonValues


def value_of_name(reader: PythonValues, node: Node, frame: Frame, depth: int) -> Values:
    """Values of a name over everything that binds it."""
    name = frame.scope.unit.text(node)
    bound = reader.calls.tree.bindings(name, frame.scope)
    if not bound:
        return [Unknown(f"{name} has no value in this file ({frame.place(node)})")]
    found: Values = []
    for binding in bound:
        found.extend(_binding(reader, binding, name, node, frame, depth))
    return found


def _binding(
    reader: PythonValues, binding: Binding, name: str, node: Node, frame: Frame, depth: int
) -> Values:
    if binding.kind == "parameter":
        return _parameter(reader, name, node, frame, depth)
    if binding.kind == "assign" and binding.value is not None:
        inner = frame if binding.scope is frame.scope else Frame(binding.scope, frame.classes)
        return at(reader.read(binding.value, inner, depth + 1), binding.path)
    if binding.imported is not None:
        found: Values = []
        for unit, others in reader.calls.tree.imported(binding):
            for other in others:
                found.extend(_binding(reader, other, name, node, Frame(unit.module), depth + 1))
        return found or [Unknown(f"{name} is imported from outside of the tree ({frame.place(node)})")]
    if binding.kind == "loop" and binding.value is not None:
        return _looped(reader, binding, name, node, frame, depth)
    return [Unknown(f"{name} is changed at {frame.place(binding.node)}")]


def _looped(
    reader: PythonValues, binding: Binding, name: str, node: Node, frame: Frame, depth: int
) -> Values:
    found: Values = []
    for value in reader.read(binding.value, frame, depth + 1):
        if not isinstance(value, tuple):
            return [Unknown(f"{name} runs over values that are not in sight ({frame.place(node)})")]
        found.extend(at(list(value), binding.path))
    return found


def _parameter(reader: PythonValues, name: str, node: Node, frame: Frame, depth: int) -> Values:
    function = binder(name, frame.scope)
    forced = _forced(reader, name, function, frame, depth)
    if forced is not None:
        return [forced]
    if name in frame.arguments and function is frame.scope:
        given, outer = frame.arguments[name]
        return reader.read(given, outer, depth + 1)
    parameter = next(one for one in function.parameters if one.name == name)
    classes = frame.classes if function.owner is not None else None
    callers = reader.calls.callers(function, classes)
    if callers.escapes:
        unit, place = callers.escapes[0]
        where = f"{unit.file.path}:{unit.line(place)}"
        return [Unknown(f"{function.qualified} is passed on as a value ({where})")]
    found: Values = []
    for call in callers.calls:
        given_node, why = argument(call, function, parameter)
        if given_node is not None:
            found.extend(reader.read(given_node, caller_frame(call), depth + 1))
        elif why == "default" and parameter.default is not None:
            found.extend(reader.read(parameter.default, Frame(function.parent or function), depth + 1))
        else:
            where = f"{call.unit.file.path}:{call.line}"
            found.append(Unknown(f"{name} is not written out in the call at {where}"))
    if not callers.calls:
        return [Unknown(f"nobody in the tree calls {function.qualified} ({frame.place(function.node)})")]
    return found


def _forced(reader: PythonValues, name: str, function: Scope, frame: Frame, depth: int) -> Any:
    """The only value with which a function does not raise: `if name != (1, 1, 1): raise …`."""
    body = function.node.child_by_field_name("body")
    for statement in body.named_children if body is not None else ():
        test = _demanded(statement)
        for node in _alternatives(test, "or" if statement.type == "if_statement" else "and"):
            operator = "!=" if statement.type == "if_statement" else "=="
            if node.type != "comparison_operator" or node.child_count != 3:
                continue
            left, sign, right = node.children
            unit = function.unit
            if unit.text(left) == name and unit.text(sign) == operator:
                values = reader.read(right, Frame(function, frame.classes), depth + 1)
                if len(values) == 1 and not isinstance(values[0], Unknown):
                    return values[0]
    return None


def _demanded(statement: Node) -> Node | None:
    """The test of `if test: raise …` or `assert test`, else None."""
    if statement.type == "assert_statement" and statement.named_children:
        return statement.named_children[0]
    if statement.type != "if_statement" or statement.child_by_field_name("alternative") is not None:
        return None
    body = statement.child_by_field_name("consequence")
    last = body.named_children[-1] if body is not None and body.named_children else None
    return (
        statement.child_by_field_name("condition")
        if last is not None and last.type == "raise_statement"
        else None
    )


def _alternatives(test: Node | None, word: str) -> list[Node]:
    """Parts of `a or b or c` (each alone makes the test hold), or of `a and b` of an assert."""
    if test is None:
        return []
    if test.type == "parenthesized_expression" and test.named_children:
        return _alternatives(test.named_children[0], word)
    sign = test.child_by_field_name("operator")
    if test.type == "boolean_operator" and sign is not None and sign.type == word:
        left, right = test.child_by_field_name("left"), test.child_by_field_name("right")
        return _alternatives(left, word) + _alternatives(right, word)
    return [test]

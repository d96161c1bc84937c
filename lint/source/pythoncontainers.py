"""Texts that a Python list, tuple or dict holds, and the one that a subscript takes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.source.pythonframe import Frame, inner_frame
from ptxguard.source.pythonparts import Texts, either, pairs

if TYPE_CHECKING:
    from tree_sitter import Node

    from ptxguard.source.pythonscope import Binding
    from ptxguard.source.pythontext import PythonTexts

_MAX_DEPTH = 24


def elements_of(reader: PythonTexts, node: Node, frame: Frame, depth: int) -> list[Texts] | None:
    """Texts of each element of a list, tuple or dict, in order; None where it is not in sight."""
    if depth > _MAX_DEPTH:
        return None
    if node.type in ("list", "tuple", "set"):
        return [
            reader.read(child, frame, depth + 1) for child in node.named_children if child.type != "comment"
        ]
    if node.type == "dictionary":
        return [reader.read(value, frame, depth + 1) for _, value in pairs(node, frame)]
    if node.type == "parenthesized_expression":
        return elements_of(reader, node.named_children[0], frame, depth + 1)
    if node.type in ("list_comprehension", "generator_expression"):
        return [reader.read(node.child_by_field_name("body"), frame, depth + 1)]
    if node.type == "call" and frame.scope.unit.callee(node) in ("values", "items", "keys"):
        function = node.child_by_field_name("function")
        holder = function.child_by_field_name("object") if function is not None else None
        return elements_of(reader, holder, frame, depth + 1) if holder is not None else None
    if node.type not in ("identifier", "attribute"):
        return None
    found: list[Texts] = []
    known = False
    for binding in reader.calls.tree.bindings(frame.scope.unit.text(node), frame.scope):
        inner = inner_frame(binding, frame)
        if binding.kind in ("assign", "augment") and binding.value is not None:
            listed = elements_of(reader, binding.value, inner, depth + 1)
            known = known or listed is not None
            found.extend(listed or [])
        elif binding.kind in ("append", "item"):
            found.append(reader.read(binding.value, inner, depth + 1))
        elif binding.imported is not None:
            listed = _imported_elements(reader, binding, depth)
            known = known or listed is not None
            found.extend(listed or [])
    return found if known else None


def _imported_elements(reader: PythonTexts, binding: Binding, depth: int) -> list[Texts] | None:
    for unit, bound in reader.calls.tree.imported(binding):
        for other in bound:
            if other.kind == "assign" and other.value is not None:
                return elements_of(reader, other.value, Frame(unit.module), depth + 1)
    return None


def text_of_subscript(reader: PythonTexts, node: Node, frame: Frame, depth: int) -> Texts:
    """Texts of `container[index]`, chosen by the index where it is known."""
    base, index = node.child_by_field_name("value"), node.child_by_field_name("subscript")
    literal = _container(reader, base, frame)
    if literal is not None and literal[0].type == "dictionary" and index is not None:
        holder, inner = literal
        keys = reader.values.of(index, frame)
        rows = list(pairs(holder, inner))
        chosen = [value for key, value in rows if key in {str(one) for one in keys}]
        if len(keys) == len(chosen) and chosen:
            return either([reader.read(value, inner, depth + 1) for value in chosen])
    elements = elements_of(reader, base, frame, depth + 1) if base is not None else None
    if elements is None:
        return [reader.hole(node, frame, f"{frame.scope.unit.text(node)} is not a text in sight")]
    places = reader.values.of(index, frame) if index is not None else []
    if places and all(isinstance(one, int) and 0 <= one < len(elements) for one in places):
        elements = [elements[one] for one in places]
    return either(elements)


def _container(reader: PythonTexts, node: Node | None, frame: Frame) -> tuple[Node, Frame] | None:
    """The literal that a name stands for, where it is assigned once and never changed."""
    if node is not None and node.type == "dictionary":
        return node, frame
    if node is None or node.type != "identifier":
        return None
    bound = reader.calls.tree.bindings(frame.scope.unit.text(node), frame.scope)
    if len(bound) != 1 or bound[0].kind != "assign" or bound[0].value is None or bound[0].path:
        return None
    return bound[0].value, inner_frame(bound[0], frame)

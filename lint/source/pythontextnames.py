"""Texts of a Python name or attribute: assignments, additions, imports, parameters over every caller."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ptxguard.source.pythoncalls import argument
from ptxguard.source.pythoncontainers import elements_of
from ptxguard.source.pythonframe import Frame, caller_frame, inner_frame
from ptxguard.source.pythonparts import Text, Texts, either, element, joined
from ptxguard.source.pythonscope import Scope

if TYPE_CHECKING:
    from tree_sitter import Node

    from ptxguard.source.pythonscope import Binding
    from ptxguard.source.pythontext import PythonTexts


def text_of_name(reader: PythonTexts, node: Node, frame: Frame, depth: int) -> Texts:
    """Texts of a name over everything that binds it."""
    name = frame.scope.unit.text(node)
    bound = reader.calls.tree.bindings(name, frame.scope)
    return text_of_bindings(reader, bound, name, node, frame, depth)


def text_of_bindings(
    reader: PythonTexts, bound: list[Binding], name: str, node: Node, frame: Frame, depth: int
) -> Texts:
    """Texts of a name: each assignment is one, what is added later is added to all."""
    if not bound:
        return [reader.hole(node, frame, f"{name} has no value in this file")]
    bases: list[Texts] = []
    added: list[Texts] = []
    for binding in bound:
        if binding.kind == "augment":
            added.append(reader.read(binding.value, inner_frame(binding, frame), depth + 1))
        elif binding.kind not in ("append", "item"):
            bases.append(_binding(reader, binding, name, node, frame, depth))
    base = either(bases) if bases else [Text(())]
    return joined([base, *added]) if added else base


def _binding(reader: PythonTexts, binding: Binding, name: str, node: Node, frame: Frame, depth: int) -> Texts:
    if binding.kind == "parameter":
        return _parameter(reader, name, node, frame, depth)
    if binding.kind == "assign" and binding.value is not None:
        inner = inner_frame(binding, frame)
        value = element(binding.value, binding.path)
        if value is None:
            return [reader.hole(node, frame, f"{name} is unpacked from a value that is not in sight")]
        texts = reader.read(value, inner, depth + 1)
        return None if texts is None else [replace(t, branches=(*t.branches, binding.node)) for t in texts]
    if binding.imported is not None:
        return _imported(reader, binding, name, node, frame, depth)
    if binding.kind == "loop" and binding.value is not None and not binding.path:
        elements = elements_of(reader, binding.value, inner_frame(binding, frame), depth + 1)
        if elements is not None:
            return either(elements)
    return [reader.hole(node, frame, f"{name} is not a text in sight")]


def _imported(
    reader: PythonTexts, binding: Binding, name: str, node: Node, frame: Frame, depth: int
) -> Texts:
    found = [
        text_of_bindings(reader, bound, name, bound[0].node, Frame(unit.module), depth + 1)
        for unit, bound in reader.calls.tree.imported(binding)
    ]
    return either(found) or [reader.hole(node, frame, f"{name} is imported from outside of the tree")]


def _parameter(reader: PythonTexts, name: str, node: Node, frame: Frame, depth: int) -> Texts:
    function: Scope | None = frame.scope
    while function is not None and all(one.name != name for one in function.parameters):
        function = function.parent
    if function is None:
        return [reader.hole(node, frame, f"{name} has no value in sight")]
    if name in frame.arguments and function is frame.scope:
        given, outer = frame.arguments[name]
        return reader.read(given, outer, depth + 1)
    parameter = next(one for one in function.parameters if one.name == name)
    callers = reader.calls.callers(function, frame.classes if function.owner is not None else None)
    found: list[Texts] = []
    for call in callers.calls:
        given_node, why = argument(call, function, parameter)
        if given_node is not None:
            texts = reader.read(given_node, caller_frame(call), depth + 1)
            found.append(None if texts is None else [replace(t, via=(call, *t.via)) for t in texts])
        elif why == "default":
            found.append(reader.read(parameter.default, Frame(function.parent or function), depth + 1))
    if callers.escapes or not found:
        found.append([reader.hole(node, frame, f"{name} is given by a caller that is not in sight")])
    return either(found)


def text_of_attribute(reader: PythonTexts, node: Node, frame: Frame, depth: int) -> Texts:
    """`reader.X`, `Class.X` and `module.X`."""
    tree, unit = reader.calls.tree, frame.scope.unit
    holder, attribute = node.child_by_field_name("object"), node.child_by_field_name("attribute")
    if holder is None or attribute is None:
        return []
    name = unit.text(attribute)
    found: list[Texts] = []
    for target in tree.targets(holder, frame.scope):
        for one in getattr(target, "units", ()):
            bound = one.module.bindings.get(name, [])
            found.append(
                text_of_bindings(reader, bound, name, node, Frame(one.module), depth + 1) if bound else []
            )
    classes = reader.calls.types(holder, frame.scope) or frozenset(
        one for one in tree.targets(holder, frame.scope) if isinstance(one, Scope) and one.kind == "class"
    )
    for record in sorted(classes, key=lambda one: (one.unit.file.path, one.line)):
        for binding, scope in tree.attribute(record, name):
            inner = Frame(scope, frozenset({record}) if scope.kind == "function" else None)
            texts = reader.read(binding.value, inner, depth + 1) if not binding.path else []
            found.append(texts)
    return either(found) or [reader.hole(node, frame, f"{unit.text(node)} is not a text in sight")]

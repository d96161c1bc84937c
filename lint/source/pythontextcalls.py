"""Texts that a Python call makes: join, format, white space, helpers of the tree."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ptxguard.source.pythoncontainers import elements_of
from ptxguard.source.pythonformat import filled
from ptxguard.source.pythonframe import Frame
from ptxguard.source.pythonliterals import (
    brace_fields,
    template_fields,
)
from ptxguard.source.pythonparts import Texts, either, joined, keywords
from ptxguard.source.pythonscope import Scope

if TYPE_CHECKING:
    from tree_sitter import Node

    from ptxguard.source.pythontext import PythonTexts

# Methods and functions that change nothing but white space, or nothing at all that PTX minds.
_SAME = frozenset("strip lstrip rstrip encode decode dedent cleandoc expandtabs removesuffix str".split())


def text_of_call(reader: PythonTexts, node: Node, frame: Frame, depth: int) -> Texts:
    """Texts of a call; one that is not followed is a number or a hole."""
    unit = frame.scope.unit
    name, function = unit.callee(node), node.child_by_field_name("function")
    holder = function.child_by_field_name("object") if function is not None else None
    listed = node.child_by_field_name("arguments")
    given = [one for one in listed.named_children if one.type != "comment"] if listed is not None else []
    plain = [one for one in given if one.type not in ("keyword_argument", "dictionary_splat")]
    if name == "join" and holder is not None and plain:
        return _join(reader, node, holder, plain[0], frame, depth)
    if name in ("format", "format_map", "substitute", "safe_substitute", "render") and holder is not None:
        values = {str(place): one for place, one in enumerate(plain)}
        values.update(keywords(given, frame))
        fields = brace_fields if name.startswith("format") else template_fields
        return filled(reader, reader.read(holder, frame, depth + 1), fields, values, frame, depth)
    if name in ("get", "pop") and holder is not None:
        elements = elements_of(reader, holder, frame, depth + 1)
        rest = [reader.read(one, frame, depth + 1) for one in plain[1:2]]
        if elements is not None:
            return either(elements + rest)
    if name in _SAME or name in ("replace", "Template", "indent", "from_string"):
        source = holder if holder is not None and _is_method(name) else plain[0] if plain else holder
        return reader.read(source, frame, depth + 1)
    return _helper(reader, node, frame, depth)


def _is_method(name: str) -> bool:
    return name not in ("dedent", "cleandoc", "str", "Template", "indent", "from_string")


def _join(reader: PythonTexts, node: Node, holder: Node, listed: Node, frame: Frame, depth: int) -> Texts:
    elements = elements_of(reader, listed, frame, depth + 1)
    between = reader.read(holder, frame, depth + 1)
    if elements is None:
        return [reader.hole(node, frame, "a list is joined that is not in sight")]
    parts: list[Texts] = elements[:1]
    for _, element in pairwise(elements):
        parts.extend([between, element])
    return joined(parts)


def _helper(reader: PythonTexts, node: Node, frame: Frame, depth: int) -> Texts:
    """What a function of the tree returns for these arguments."""
    found: list[Texts] = []
    for target in reader.calls.tree.targets(node.child_by_field_name("function"), frame.scope):
        if isinstance(target, Scope) and target.kind != "class" and target.returned:
            inner = Frame(target, None, reader.values.bound(target, node, frame, skip=0))
            found.extend(reader.read(value, inner, depth + 1) for value in target.returned)
    if found:
        return either(found)
    return reader.number(node, frame)

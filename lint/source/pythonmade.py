"""Values that a Python call or comprehension makes: conversions, helpers of the tree, classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ptxguard.source.pythonarith import reason_of
from ptxguard.source.pythonframe import Frame, Instance, Unknown, Values
from ptxguard.source.pythonscope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from tree_sitter import Node

    from ptxguard.source.pythonvalues import PythonValues

# Calls that leave a number or a tuple as it is (CuTe DSL, Triton and builtin conversions).
_CONVERSIONS = frozenset(
    "int tuple list Int8 Int16 Int32 Int64 Uint8 Uint16 Uint32 Uint64 const_expr constexpr dim3".split()
)
# A `range` with more elements than this is no shape.
_MAX_RANGE = 16


def value_of_call(reader: PythonValues, node: Node, frame: Frame, depth: int) -> Values:
    """Values of a call: a conversion, an object of a class in sight, what a helper returns."""
    unit = frame.scope.unit
    name = unit.callee(node)
    listed = node.child_by_field_name("arguments")
    given = [one for one in listed.named_children if one.type != "comment"] if listed is not None else []
    if listed is not None and listed.type == "generator_expression":
        given = [listed]
    if name in _CONVERSIONS and len(given) == 1:
        return reader.read(given[0], frame, depth + 1)
    if name == "dim3" or (name == "range" and len(given) == 1):
        rows = [reader.read(one, frame, depth + 1) for one in given]
        if name == "dim3":
            return [tuple(values[0] if len(values) == 1 else Unknown(name) for values in rows)]
        return [
            tuple(range(value)) if isinstance(value, int) and value <= _MAX_RANGE else Unknown("a range")
            for value in rows[0]
        ]
    if name == "split" and len(given) <= 1:
        return _split(reader, node, given, frame, depth)
    found: Values = []
    for target in reader.calls.tree.targets(node.child_by_field_name("function"), frame.scope):
        if isinstance(target, Scope) and target.kind == "class":
            found.append(Instance(target, node, frame))
        elif isinstance(target, Scope) and target.returned:
            inner = Frame(target, None, reader.bound(target, node, frame, skip=0))
            for value in target.returned:
                found.extend(reader.read(value, inner, depth + 1))
        else:
            found.append(Unknown(f"what {name}() returns is not in sight ({frame.place(node)})"))
    return found


def _split(reader: PythonValues, node: Node, given: list[Node], frame: Frame, depth: int) -> Values:
    function = node.child_by_field_name("function")
    holder = function.child_by_field_name("object") if function is not None else None
    marks = reader.read(given[0], frame, depth + 1) if given else [None]
    found: Values = []
    for text in reader.read(holder, frame, depth + 1):
        for mark in marks:
            whole = isinstance(text, str) and (mark is None or (isinstance(mark, str) and mark))
            found.append(tuple(text.split(mark)) if whole else Unknown(reason_of(text)))
    return found


def value_of_comprehension(reader: PythonValues, node: Node, frame: Frame, depth: int) -> Values:
    """`int(part) for part in text.split(",")` and its like: one clause, a body that converts or keeps."""
    unit = frame.scope.unit
    body = node.child_by_field_name("body")
    clauses = [child for child in node.named_children if child.type == "for_in_clause"]
    plain = body is not None and len(clauses) == 1 and len(node.named_children) == 2
    if not plain or body is None:
        return [Unknown(f"a comprehension that is not followed ({frame.place(node)})")]
    variable = clauses[0].child_by_field_name("left")
    name = unit.text(variable) if variable is not None else ""
    written = unit.text(body).replace(" ", "")
    known: dict[str, Callable[[str], Any]] = {
        name: str,
        f"int({name})": int,
        f"int({name}.strip())": int,
        f"{name}.strip()": str.strip,
    }
    if written not in known:
        return [Unknown(f"a comprehension that is not followed ({frame.place(node)})")]
    found: Values = []
    for row in reader.read(clauses[0].child_by_field_name("right"), frame, depth + 1):
        try:
            found.append(tuple(known[written](one) if isinstance(one, str) else one for one in row))
        except (TypeError, ValueError):
            found.append(Unknown(reason_of(row)))
    return found

"""Values of a Python attribute: of `self`, of an object made in sight, of command-line options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.source.pythonarith import at
from ptxguard.source.pythonframe import Frame, Instance, Unknown, Values, self_name

if TYPE_CHECKING:
    from tree_sitter import Node

    from ptxguard.source.pythonvalues import PythonValues


def value_of_attribute(reader: PythonValues, node: Node, frame: Frame, depth: int) -> Values:
    """Values of `self.x`, `args.x` or `made.x`."""
    holder, attribute = node.child_by_field_name("object"), node.child_by_field_name("attribute")
    unit = frame.scope.unit
    if holder is None or attribute is None:
        return [Unknown(f"an attribute without a name ({frame.place(node)})")]
    name = unit.text(attribute)
    first = self_name(frame.scope)
    if first and unit.text(holder) == first and frame.classes is not None:
        return _own_attribute(reader, name, node, frame, depth)
    option = _option(reader, holder, name, frame, depth)
    if option is not None:
        return option
    found: Values = []
    for value in reader.read(holder, frame, depth + 1):
        if isinstance(value, Instance):
            found.extend(_made_attribute(reader, name, value, depth))
        else:
            why = value.reason if isinstance(value, Unknown) else f"{unit.text(node)} is not followed"
            found.append(Unknown(why))
    return found or [Unknown(f"{unit.text(node)} has no value in sight ({frame.place(node)})")]


def _option(reader: PythonValues, holder: Node, name: str, frame: Frame, depth: int) -> Values | None:
    """Default of a command-line option: `args.name` where `args` comes from `parse_args()`; else None."""
    unit = frame.scope.unit
    bound = reader.calls.tree.bindings(unit.text(holder), frame.scope) if holder.type == "identifier" else []
    if len(bound) != 1 or bound[0].value is None or bound[0].value.type != "call":
        return None
    if unit.callee(bound[0].value) not in ("parse_args", "parse_known_args"):
        return None
    spelled = {f"--{name}", f"--{name.replace('_', '-')}"}
    for call in unit.calls.get("add_argument", ()):
        listed = call.child_by_field_name("arguments")
        given = listed.named_children if listed is not None else []
        if not any(one.type == "string" and unit.text(one).strip("'\"") in spelled for one in given):
            continue
        for one in given:
            key = one.child_by_field_name("name") if one.type == "keyword_argument" else None
            if key is not None and unit.text(key) == "default":
                where = f"{unit.file.path}:{unit.line(one)}"
                reader.assumed.append(f"the default of --{name} ({where})")
                return reader.read(one.child_by_field_name("value"), Frame(unit.module), depth + 1)
    return [Unknown(f"--{name} of the command line has no default in sight ({frame.place(holder)})")]


def _own_attribute(reader: PythonValues, name: str, node: Node, frame: Frame, depth: int) -> Values:
    found: Values = []
    for record in sorted(frame.classes or (), key=lambda one: (one.unit.file.path, one.line)):
        bound = reader.calls.tree.attribute(record, name)
        for binding, scope in bound:
            if binding.kind != "assign" or binding.value is None:
                found.append(Unknown(f"{name} is changed at {Frame(scope).place(binding.node)}"))
                continue
            classes = frozenset({record}) if scope.kind == "function" else None
            inner = Frame(scope, classes)
            found.extend(at(reader.read(binding.value, inner, depth + 1), binding.path))
        if not bound:
            method = reader.calls.tree.method(record, name)
            for value in method.returned if method is not None else ():
                inner = Frame(method or frame.scope, frozenset({record}))
                found.extend(reader.read(value, inner, depth + 1))
    return found or [Unknown(f"{frame.scope.unit.text(node)} has no value in sight ({frame.place(node)})")]


def _made_attribute(reader: PythonValues, name: str, made: Instance, depth: int) -> Values:
    """An attribute of an object whose constructor call is in sight."""
    tree = reader.calls.tree
    initial = tree.method(made.record, "__init__")
    if initial is not None:
        arguments = reader.bound(initial, made.call, made.frame, skip=1)
        inner = Frame(initial, frozenset({made.record}), arguments)
        written = f"{self_name(initial)}.{name}"
        found: Values = []
        for binding in initial.bindings.get(written, ()):
            found.extend(at(reader.read(binding.value, inner, depth + 1), binding.path))
        return found or [Unknown(f"{made.record.name} has no attribute {name} in sight")]
    if not any("dataclass" in one for one in made.record.decorators):
        return [Unknown(f"{made.record.name} has no attribute {name} in sight")]
    listed = made.call.child_by_field_name("arguments")
    for node in listed.named_children if listed is not None else ():
        keyword = node.child_by_field_name("name") if node.type == "keyword_argument" else None
        if keyword is not None and made.frame.scope.unit.text(keyword) == name:
            return reader.read(node.child_by_field_name("value"), made.frame, depth + 1)
    return [Unknown(f"{name} of {made.record.name} is not written out ({made.frame.place(made.call)})")]

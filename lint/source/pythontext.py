"""Every text that a Python expression can have: literals joined over operators, names, helpers and callers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from ptxguard.source.literals import Piece
from ptxguard.source.python import Scope
from ptxguard.source.pythoncalls import Call, argument
from ptxguard.source.pythonliterals import (
    Hole,
    brace_fields,
    cut,
    hole,
    literal_parts,
    percent_fields,
    template_fields,
    text_of,
)
from ptxguard.source.pythonvalues import Frame, caller_frame

if TYPE_CHECKING:
    from tree_sitter import Node

    from ptxguard.source.python import Binding
    from ptxguard.source.pythoncalls import PythonCalls
    from ptxguard.source.pythonliterals import Field, Pieces
    from ptxguard.source.pythonvalues import PythonValues

MAX_TEXTS = 128
_MAX_DEPTH = 24
_MAX_STEPS = 6000
# Methods and functions that change nothing but white space, or nothing at all that PTX minds.
_SAME = frozenset("strip lstrip rstrip encode decode dedent cleandoc expandtabs removesuffix str".split())


@dataclass(frozen=True, eq=False)
class Text:
    """One text that an expression can have.

    Attributes:
        pieces: characters with their places; a field whose value is not in sight is a `Hole`.
        branches: assignments that were taken on the way, so that operands assigned beside them are found.
        via: calls through whose arguments the text came, the innermost first.
    """

    pieces: Pieces
    branches: tuple[Node, ...] = ()
    via: tuple[Call, ...] = ()

    def plus(self, other: Text) -> Text:
        """This text followed by another."""
        return Text(self.pieces + other.pieces, self.branches + other.branches, self.via or other.via)


# None stands for more texts than are enumerated.
Texts = list[Text] | None


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
        return self._texts(node, frame, 0)

    def _texts(self, node: Node | None, frame: Frame, depth: int) -> Texts:
        self._steps += 1
        if node is None:
            return []
        key = (node.id, id(frame.scope))
        if depth > _MAX_DEPTH or self._steps > _MAX_STEPS or key in self._active:
            return [self._hole(node, frame, "the chain of definitions is too deep to follow")]
        self._active.add(key)
        try:
            found = self._text(node, frame, depth)
        finally:
            self._active.discard(key)
        return found if found is None or len(found) <= MAX_TEXTS else None

    def _hole(self, node: Node, frame: Frame, reason: str) -> Text:
        return Text((hole(node, frame.scope.unit, reason),))

    def _text(self, node: Node, frame: Frame, depth: int) -> Texts:
        kind = node.type
        if kind == "string":
            return self._literal(node, frame, depth)
        if kind == "concatenated_string":
            return self._joined([self._texts(child, frame, depth + 1) for child in node.named_children])
        if kind in ("parenthesized_expression", "await"):
            return self._texts(node.named_children[0], frame, depth + 1)
        if kind == "binary_operator":
            return self._operator(node, frame, depth)
        if kind == "conditional_expression":
            first, _, last = node.named_children
            return _either([self._texts(first, frame, depth + 1), self._texts(last, frame, depth + 1)])
        if kind == "boolean_operator":
            parts = (node.child_by_field_name("left"), node.child_by_field_name("right"))
            return _either([self._texts(part, frame, depth + 1) for part in parts])
        if kind == "identifier":
            return self._name(node, frame, depth)
        if kind == "attribute":
            return self._attribute(node, frame, depth)
        if kind == "subscript":
            return self._subscript(node, frame, depth)
        if kind == "call":
            return self._call(node, frame, depth)
        return self._number(node, frame)

    def _number(self, node: Node, frame: Frame) -> Texts:
        """A number or constant written into the text."""
        found = []
        start, end = frame.scope.unit.offset(node.start_byte), frame.scope.unit.offset(node.end_byte)
        for value in self.values.of(node, frame):
            if isinstance(value, int | str):
                found.append(Text((Piece(str(value), frame.scope.unit.file, start, end - start),)))
            else:
                found.append(self._hole(node, frame, f"{frame.scope.unit.text(node)} is not known"))
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
                    [self._hole(part, frame, f"the field {frame.scope.unit.text(part)} is formatted")]
                )
            else:
                parts.append(self._texts(expression, frame, depth + 1))
        return self._joined(parts)

    @staticmethod
    def _joined(parts: list[Texts]) -> Texts:
        found = [Text(())]
        for part in parts:
            if part is None or len(found) * len(part) > MAX_TEXTS:
                return None
            found = [left.plus(right) for left in found for right in part] if part else found
        return found

    def _operator(self, node: Node, frame: Frame, depth: int) -> Texts:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        sign = node.child_by_field_name("operator")
        written = frame.scope.unit.text(sign) if sign is not None else ""
        if written == "+":
            return self._joined([self._texts(left, frame, depth + 1), self._texts(right, frame, depth + 1)])
        if written == "%" and right is not None:
            given = right.named_children if right.type == "tuple" else [right]
            values: dict[str, Node] = {str(place): one for place, one in enumerate(given)}
            if right.type == "dictionary":
                values = dict(_pairs(right, frame))
            return self._filled(self._texts(left, frame, depth + 1), percent_fields, values, frame, depth)
        return self._number(node, frame)

    def _filled(  # type: ignore[no-untyped-def]
        self, texts: Texts, fields_of, values: dict[str, Node], frame: Frame, depth: int
    ) -> Texts:
        """Format strings with their fields replaced by what the arguments can be."""
        if texts is None:
            return None
        found: list[Text] = []
        for text in texts:
            fields = fields_of(text_of(text.pieces))
            if fields is None:
                found.append(text)
                continue
            filled = self._fill_one(text, fields, values, frame, depth)
            if filled is None:
                return None
            found.extend(filled)
        return found

    def _fill_one(
        self, text: Text, fields: list[Field], values: dict[str, Node], frame: Frame, depth: int
    ) -> Texts:
        parts: list[Texts] = []
        place = 0
        for one in fields:
            parts.append([Text(cut(text.pieces, place, one.start))])
            pieces = cut(text.pieces, one.start, one.end)
            file, offset = pieces[0].file, pieces[0].offset
            length = pieces[-1].offset + pieces[-1].source_length - offset
            if one.literal:
                parts.append([Text((Piece(one.literal, file, offset, length),))])
            elif one.key in values:
                parts.append(self._texts(values[one.key], frame, depth + 1))
            else:
                reason = f"the field {one.key} has no value in sight ({file.path}:{file.position(offset)[0]})"
                parts.append([Text((Hole("\ue000", file, offset, length, reason),))])
            place = one.end
        parts.append([Text(cut(text.pieces, place, len(text_of(text.pieces))))])
        filled = self._joined(parts)
        return (
            None
            if filled is None
            else [replace(one, branches=text.branches + one.branches) for one in filled]
        )

    # Names ----------------------------------------------------------------------------------------

    def _name(self, node: Node, frame: Frame, depth: int) -> Texts:
        name = frame.scope.unit.text(node)
        bound = self.calls.tree.bindings(name, frame.scope)
        return self._bound(bound, name, node, frame, depth)

    def _bound(self, bound: list[Binding], name: str, node: Node, frame: Frame, depth: int) -> Texts:
        """Texts of a name: each assignment is one, what is added later is added to all."""
        if not bound:
            return [self._hole(node, frame, f"{name} has no value in this file")]
        bases: list[Texts] = []
        added: list[Texts] = []
        for binding in bound:
            if binding.kind == "augment":
                added.append(self._texts(binding.value, self._inner(binding, frame), depth + 1))
            elif binding.kind not in ("append", "item"):
                bases.append(self._binding(binding, name, node, frame, depth))
        base = _either(bases) if bases else [Text(())]
        return self._joined([base, *added]) if added else base

    @staticmethod
    def _inner(binding: Binding, frame: Frame) -> Frame:
        return frame if binding.scope is frame.scope else Frame(binding.scope, frame.classes)

    def _binding(self, binding: Binding, name: str, node: Node, frame: Frame, depth: int) -> Texts:
        if binding.kind == "parameter":
            return self._parameter(name, node, frame, depth)
        if binding.kind == "assign" and binding.value is not None:
            inner = self._inner(binding, frame)
            value = _element(binding.value, binding.path)
            if value is None:
                return [self._hole(node, frame, f"{name} is unpacked from a value that is not in sight")]
            texts = self._texts(value, inner, depth + 1)
            return (
                None if texts is None else [replace(t, branches=(*t.branches, binding.node)) for t in texts]
            )
        if binding.imported is not None:
            return self._imported(binding, name, node, frame, depth)
        if binding.kind == "loop" and binding.value is not None and not binding.path:
            elements = self._elements(binding.value, self._inner(binding, frame), depth + 1)
            if elements is not None:
                return _either(elements)
        return [self._hole(node, frame, f"{name} is not a text in sight")]

    def _imported(self, binding: Binding, name: str, node: Node, frame: Frame, depth: int) -> Texts:
        assert binding.imported is not None
        dotted, level, original = binding.imported
        module = self.calls.tree.module(dotted, level, binding.scope.unit)
        found: list[Texts] = []
        for unit in getattr(module, "units", ()):
            bound = unit.module.bindings.get(original or "", [])
            if bound:
                found.append(self._bound(bound, name, bound[0].node, Frame(unit.module), depth + 1))
        return _either(found) or [self._hole(node, frame, f"{name} is imported from outside of the tree")]

    def _parameter(self, name: str, node: Node, frame: Frame, depth: int) -> Texts:
        function: Scope | None = frame.scope
        while function is not None and all(one.name != name for one in function.parameters):
            function = function.parent
        if function is None:
            return [self._hole(node, frame, f"{name} has no value in sight")]
        if name in frame.arguments and function is frame.scope:
            given, outer = frame.arguments[name]
            return self._texts(given, outer, depth + 1)
        parameter = next(one for one in function.parameters if one.name == name)
        callers = self.calls.callers(function, frame.classes if function.owner is not None else None)
        found: list[Texts] = []
        for call in callers.calls:
            given_node, why = argument(call, function, parameter)
            if given_node is not None:
                texts = self._texts(given_node, caller_frame(call), depth + 1)
                found.append(None if texts is None else [replace(t, via=(call, *t.via)) for t in texts])
            elif why == "default":
                found.append(self._texts(parameter.default, Frame(function.parent or function), depth + 1))
        if callers.escapes or not found:
            found.append([self._hole(node, frame, f"{name} is given by a caller that is not in sight")])
        return _either(found)

    def _attribute(self, node: Node, frame: Frame, depth: int) -> Texts:
        """`self.X`, `Class.X` and `module.X`."""
        tree, unit = self.calls.tree, frame.scope.unit
        holder, attribute = node.child_by_field_name("object"), node.child_by_field_name("attribute")
        if holder is None or attribute is None:
            return []
        name = unit.text(attribute)
        found: list[Texts] = []
        for target in tree.targets(holder, frame.scope):
            for one in getattr(target, "units", ()):
                bound = one.module.bindings.get(name, [])
                found.append(self._bound(bound, name, node, Frame(one.module), depth + 1) if bound else [])
        classes = self.calls.types(holder, frame.scope) or frozenset(
            one for one in tree.targets(holder, frame.scope) if isinstance(one, Scope) and one.kind == "class"
        )
        for record in sorted(classes, key=lambda one: (one.unit.file.path, one.line)):
            for binding, scope in tree.attribute(record, name):
                inner = Frame(scope, frozenset({record}) if scope.kind == "function" else None)
                texts = self._texts(binding.value, inner, depth + 1) if not binding.path else []
                found.append(texts)
        return _either(found) or [self._hole(node, frame, f"{unit.text(node)} is not a text in sight")]

    # Containers and calls -------------------------------------------------------------------------

    def _elements(self, node: Node, frame: Frame, depth: int) -> list[Texts] | None:
        """Texts of each element of a list, tuple or dict, in order; None where it is not in sight."""
        if depth > _MAX_DEPTH:
            return None
        if node.type in ("list", "tuple", "set"):
            return [
                self._texts(child, frame, depth + 1)
                for child in node.named_children
                if child.type != "comment"
            ]
        if node.type == "dictionary":
            return [self._texts(value, frame, depth + 1) for _, value in _pairs(node, frame)]
        if node.type == "parenthesized_expression":
            return self._elements(node.named_children[0], frame, depth + 1)
        if node.type in ("list_comprehension", "generator_expression"):
            return [self._texts(node.child_by_field_name("body"), frame, depth + 1)]
        if node.type == "call" and frame.scope.unit.callee(node) in ("values", "items", "keys"):
            function = node.child_by_field_name("function")
            holder = function.child_by_field_name("object") if function is not None else None
            return self._elements(holder, frame, depth + 1) if holder is not None else None
        if node.type not in ("identifier", "attribute"):
            return None
        found: list[Texts] = []
        known = False
        for binding in self.calls.tree.bindings(frame.scope.unit.text(node), frame.scope):
            inner = self._inner(binding, frame)
            if binding.kind in ("assign", "augment") and binding.value is not None:
                listed = self._elements(binding.value, inner, depth + 1)
                known = known or listed is not None
                found.extend(listed or [])
            elif binding.kind in ("append", "item"):
                found.append(self._texts(binding.value, inner, depth + 1))
            elif binding.imported is not None:
                listed = self._imported_elements(binding, depth)
                known = known or listed is not None
                found.extend(listed or [])
        return found if known else None

    def _imported_elements(self, binding: Binding, depth: int) -> list[Texts] | None:
        assert binding.imported is not None
        dotted, level, original = binding.imported
        module = self.calls.tree.module(dotted, level, binding.scope.unit)
        for unit in getattr(module, "units", ()):
            for other in unit.module.bindings.get(original or "", ()):
                if other.kind == "assign" and other.value is not None:
                    return self._elements(other.value, Frame(unit.module), depth + 1)
        return None

    def _subscript(self, node: Node, frame: Frame, depth: int) -> Texts:
        base, index = node.child_by_field_name("value"), node.child_by_field_name("subscript")
        literal = self._container(base, frame)
        if literal is not None and literal[0].type == "dictionary" and index is not None:
            holder, inner = literal
            keys = self.values.of(index, frame)
            rows = list(_pairs(holder, inner))
            chosen = [value for key, value in rows if key in {str(one) for one in keys}]
            if len(keys) == len(chosen) and chosen:
                return _either([self._texts(value, inner, depth + 1) for value in chosen])
        elements = self._elements(base, frame, depth + 1) if base is not None else None
        if elements is None:
            return [self._hole(node, frame, f"{frame.scope.unit.text(node)} is not a text in sight")]
        places = self.values.of(index, frame) if index is not None else []
        if places and all(isinstance(one, int) and 0 <= one < len(elements) for one in places):
            elements = [elements[one] for one in places]
        return _either(elements)

    def _container(self, node: Node | None, frame: Frame) -> tuple[Node, Frame] | None:
        """The literal that a name stands for, where it is assigned once and never changed."""
        if node is not None and node.type == "dictionary":
            return node, frame
        if node is None or node.type != "identifier":
            return None
        bound = self.calls.tree.bindings(frame.scope.unit.text(node), frame.scope)
        if len(bound) != 1 or bound[0].kind != "assign" or bound[0].value is None or bound[0].path:
            return None
        return bound[0].value, self._inner(bound[0], frame)

    def _call(self, node: Node, frame: Frame, depth: int) -> Texts:
        unit = frame.scope.unit
        name, function = unit.callee(node), node.child_by_field_name("function")
        holder = function.child_by_field_name("object") if function is not None else None
        listed = node.child_by_field_name("arguments")
        given = [one for one in listed.named_children if one.type != "comment"] if listed is not None else []
        plain = [one for one in given if one.type not in ("keyword_argument", "dictionary_splat")]
        if name == "join" and holder is not None and plain:
            return self._join(node, holder, plain[0], frame, depth)
        if name in ("format", "format_map", "substitute", "safe_substitute", "render") and holder is not None:
            values = {str(place): one for place, one in enumerate(plain)}
            values.update(_keywords(given, frame))
            fields = brace_fields if name.startswith("format") else template_fields
            return self._filled(self._texts(holder, frame, depth + 1), fields, values, frame, depth)
        if name in ("get", "pop") and holder is not None:
            elements = self._elements(holder, frame, depth + 1)
            rest = [self._texts(one, frame, depth + 1) for one in plain[1:2]]
            if elements is not None:
                return _either(elements + rest)
        if name in _SAME or name in ("replace", "Template", "indent", "from_string"):
            source = holder if holder is not None and self._is_method(name) else plain[0] if plain else holder
            return self._texts(source, frame, depth + 1)
        return self._helper(node, frame, depth)

    @staticmethod
    def _is_method(name: str) -> bool:
        return name not in ("dedent", "cleandoc", "str", "Template", "indent", "from_string")

    def _join(self, node: Node, holder: Node, listed: Node, frame: Frame, depth: int) -> Texts:
        elements = self._elements(listed, frame, depth + 1)
        between = self._texts(holder, frame, depth + 1)
        if elements is None:
            return [self._hole(node, frame, "a list is joined that is not in sight")]
        parts: list[Texts] = elements[:1]
        for _, element in pairwise(elements):
            parts.extend([between, element])
        return self._joined(parts)

    def _helper(self, node: Node, frame: Frame, depth: int) -> Texts:
        """What a function of the tree returns for these arguments."""
        found: list[Texts] = []
        for target in self.calls.tree.targets(node.child_by_field_name("function"), frame.scope):
            if isinstance(target, Scope) and target.kind != "class" and target.returned:
                inner = Frame(target, None, self.values.bound(target, node, frame, skip=0))
                found.extend(self._texts(value, inner, depth + 1) for value in target.returned)
        if found:
            return _either(found)
        return self._number(node, frame)


def _either(parts: list[Texts]) -> Texts:
    found: list[Text] = []
    for part in parts:
        if part is None:
            return None
        found.extend(part)
    return found if len(found) <= MAX_TEXTS else None


def _element(value: Node, path: tuple[int, ...]) -> Node | None:
    """The expression at a place of an unpacked literal."""
    for place in path:
        if value.type not in ("tuple", "list", "expression_list") or place >= len(value.named_children):
            return None
        value = value.named_children[place]
    return value


def _pairs(node: Node, frame: Frame) -> list[tuple[str, Node]]:
    """Keys (as text without quotes) and values of a dict literal."""
    found = []
    for pair in node.named_children:
        key, value = pair.child_by_field_name("key"), pair.child_by_field_name("value")
        if key is not None and value is not None:
            found.append((frame.scope.unit.text(key).strip("'\""), value))
    return found


def _keywords(given: list[Node], frame: Frame) -> list[tuple[str, Node]]:
    found = []
    for one in given:
        name, value = one.child_by_field_name("name"), one.child_by_field_name("value")
        if one.type == "keyword_argument" and name is not None and value is not None:
            found.append((frame.scope.unit.text(name), value))
    return found

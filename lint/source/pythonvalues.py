"""Integers, strings and tuples that a Python expression can have, followed through variables and callers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ptxguard.source.python import Scope
from ptxguard.source.pythoncalls import argument

if TYPE_CHECKING:
    from tree_sitter import Node

    from ptxguard.source.python import Binding
    from ptxguard.source.pythoncalls import Call, Classes, PythonCalls

_MAX_DEPTH = 24
_MAX_VALUES = 16
_MAX_STEPS = 3000
# Calls that leave a number or a tuple as it is (CuTe DSL, Triton and builtin conversions).
_CONVERSIONS = frozenset(
    "int tuple list Int8 Int16 Int32 Int64 Uint8 Uint16 Uint32 Uint64 const_expr constexpr dim3".split()
)


@dataclass(frozen=True)
class Unknown:
    """A value that cannot be told, with the reason."""

    reason: str


@dataclass(frozen=True, eq=False)
class Instance:
    """An object made by a call in sight.

    Attributes:
        record: its class.
        call: the constructor call.
        frame: the frame in which the call's arguments are to be read.
    """

    record: Scope
    call: Node
    frame: Frame


@dataclass(frozen=True, eq=False)
class Frame:
    """A scope in which expressions are read.

    Attributes:
        scope: the function, class or module.
        classes: what `self` can be, None where there is no `self`.
        arguments: parameter -> (expression, frame of the caller); missing ones are read at every caller.
    """

    scope: Scope
    classes: Classes | None = None
    arguments: dict[str, tuple[Node, Frame]] = field(default_factory=dict)

    def place(self, node: Node) -> str:
        """`path:line` of an expression."""
        return f"{self.scope.unit.file.path}:{self.scope.unit.line(node)}"


def caller_frame(call: Call) -> Frame:
    """The frame in which the arguments of a call are to be read."""
    return Frame(call.scope, call.classes)


Values = list[Any]


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
        return self._values(node, frame, 0)

    def _values(self, node: Node | None, frame: Frame, depth: int) -> Values:
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
            return [_integer(unit.text(node))]
        if kind in ("true", "false", "none"):
            return [{"true": True, "false": False, "none": None}[kind]]
        if kind == "string":
            return self._string(node, frame)
        if kind in ("tuple", "list"):
            return self._sequence(node, frame, depth)
        if kind == "parenthesized_expression":
            return self._values(node.named_children[0], frame, depth + 1)
        if kind == "identifier":
            return self._name(node, frame, depth)
        if kind == "attribute":
            return self._attribute(node, frame, depth)
        if kind == "subscript":
            return self._subscript(node, frame, depth)
        if kind == "conditional_expression":
            first, _, last = node.named_children
            return self._values(first, frame, depth + 1) + self._values(last, frame, depth + 1)
        if kind in ("binary_operator", "boolean_operator"):
            return self._operator(node, frame, depth)
        if kind == "unary_operator" and node.children[0].type == "-":
            inner = self._values(node.named_children[0], frame, depth + 1)
            return [-value if isinstance(value, int) else value for value in inner]
        if kind == "call":
            return self._call(node, frame, depth)
        if kind in ("generator_expression", "list_comprehension"):
            return self._comprehension(node, frame, depth)
        return [Unknown(f"{_short(unit.text(node))} is not a constant in sight ({frame.place(node)})")]

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
            values = self._values(child.named_children[0] if splat else child, frame, depth + 1)
            if splat:
                values = [value if isinstance(value, tuple) else Unknown(_reason(value)) for value in values]
                if any(isinstance(value, Unknown) for value in values):
                    return [value for value in values if isinstance(value, Unknown)][:1]
            rows = [
                (*row, *(value if splat else (value,))) for row in rows for value in values or [Unknown("")]
            ]
            if len(rows) > _MAX_VALUES:
                return [Unknown(f"there are too many values ({frame.place(node)})")]
        return list(rows)

    # Names ----------------------------------------------------------------------------------------

    def _name(self, node: Node, frame: Frame, depth: int) -> Values:
        name = frame.scope.unit.text(node)
        bound = self.calls.tree.bindings(name, frame.scope)
        if not bound:
            return [Unknown(f"{name} has no value in this file ({frame.place(node)})")]
        found: Values = []
        for binding in bound:
            found.extend(self._binding(binding, name, node, frame, depth))
        return found

    def _binding(self, binding: Binding, name: str, node: Node, frame: Frame, depth: int) -> Values:
        if binding.kind == "parameter":
            return self._parameter(name, node, frame, depth)
        if binding.kind == "assign" and binding.value is not None:
            inner = frame if binding.scope is frame.scope else Frame(binding.scope, frame.classes)
            return _at(self._values(binding.value, inner, depth + 1), binding.path)
        if binding.imported is not None:
            dotted, level, original = binding.imported
            module = self.calls.tree.module(dotted, level, binding.scope.unit)
            found: Values = []
            for unit in getattr(module, "units", ()):
                for other in unit.module.bindings.get(original or "", ()):
                    found.extend(self._binding(other, name, node, Frame(unit.module), depth + 1))
            return found or [Unknown(f"{name} is imported from outside of the tree ({frame.place(node)})")]
        if binding.kind == "loop" and binding.value is not None:
            return self._looped(binding, name, node, frame, depth)
        return [Unknown(f"{name} is changed at {frame.place(binding.node)}")]

    def _looped(self, binding: Binding, name: str, node: Node, frame: Frame, depth: int) -> Values:
        assert binding.value is not None
        found: Values = []
        for value in self._values(binding.value, frame, depth + 1):
            if not isinstance(value, tuple):
                return [Unknown(f"{name} runs over values that are not in sight ({frame.place(node)})")]
            found.extend(_at(list(value), binding.path))
        return found

    def _parameter(self, name: str, node: Node, frame: Frame, depth: int) -> Values:
        function = _binder(name, frame.scope)
        forced = self._forced(name, function, frame, depth)
        if forced is not None:
            return [forced]
        if name in frame.arguments and function is frame.scope:
            given, outer = frame.arguments[name]
            return self._values(given, outer, depth + 1)
        parameter = next(one for one in function.parameters if one.name == name)
        classes = frame.classes if function.owner is not None else None
        callers = self.calls.callers(function, classes)
        if callers.escapes:
            unit, place = callers.escapes[0]
            where = f"{unit.file.path}:{unit.line(place)}"
            return [Unknown(f"{function.qualified} is passed on as a value ({where})")]
        found: Values = []
        for call in callers.calls:
            given_node, why = argument(call, function, parameter)
            if given_node is not None:
                found.extend(self._values(given_node, caller_frame(call), depth + 1))
            elif why == "default" and parameter.default is not None:
                found.extend(self._values(parameter.default, Frame(function.parent or function), depth + 1))
            else:
                where = f"{call.unit.file.path}:{call.line}"
                found.append(Unknown(f"{name} is not written out in the call at {where}"))
        if not callers.calls:
            return [Unknown(f"nobody in the tree calls {function.qualified} ({frame.place(function.node)})")]
        return found

    def _forced(self, name: str, function: Scope, frame: Frame, depth: int) -> Any:
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
                    values = self._values(right, Frame(function, frame.classes), depth + 1)
                    if len(values) == 1 and not isinstance(values[0], Unknown):
                        return values[0]
        return None

    def _attribute(self, node: Node, frame: Frame, depth: int) -> Values:
        holder, attribute = node.child_by_field_name("object"), node.child_by_field_name("attribute")
        unit = frame.scope.unit
        if holder is None or attribute is None:
            return [Unknown(f"an attribute without a name ({frame.place(node)})")]
        name = unit.text(attribute)
        first = _self_name(frame.scope)
        if first and unit.text(holder) == first and frame.classes is not None:
            return self._own_attribute(name, node, frame, depth)
        option = self._option(holder, name, frame, depth)
        if option is not None:
            return option
        found: Values = []
        for value in self._values(holder, frame, depth + 1):
            if isinstance(value, Instance):
                found.extend(self._made_attribute(name, value, depth))
            else:
                why = value.reason if isinstance(value, Unknown) else f"{unit.text(node)} is not followed"
                found.append(Unknown(why))
        return found or [Unknown(f"{unit.text(node)} has no value in sight ({frame.place(node)})")]

    def _option(self, holder: Node, name: str, frame: Frame, depth: int) -> Values | None:
        """Default of a command-line option: `args.name` where `args` comes from `parse_args()`; else None."""
        unit = frame.scope.unit
        bound = (
            self.calls.tree.bindings(unit.text(holder), frame.scope) if holder.type == "identifier" else []
        )
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
                    self.assumed.append(f"the default of --{name} ({where})")
                    return self._values(one.child_by_field_name("value"), Frame(unit.module), depth + 1)
        return [Unknown(f"--{name} of the command line has no default in sight ({frame.place(holder)})")]

    def _own_attribute(self, name: str, node: Node, frame: Frame, depth: int) -> Values:
        found: Values = []
        for record in sorted(frame.classes or (), key=lambda one: (one.unit.file.path, one.line)):
            bound = self.calls.tree.attribute(record, name)
            for binding, scope in bound:
                if binding.kind != "assign" or binding.value is None:
                    found.append(Unknown(f"{name} is changed at {Frame(scope).place(binding.node)}"))
                    continue
                classes = frozenset({record}) if scope.kind == "function" else None
                inner = Frame(scope, classes)
                found.extend(_at(self._values(binding.value, inner, depth + 1), binding.path))
            if not bound:
                method = self.calls.tree.method(record, name)
                for value in method.returned if method is not None else ():
                    inner = Frame(method or frame.scope, frozenset({record}))
                    found.extend(self._values(value, inner, depth + 1))
        return found or [
            Unknown(f"{frame.scope.unit.text(node)} has no value in sight ({frame.place(node)})")
        ]

    def _made_attribute(self, name: str, made: Instance, depth: int) -> Values:
        """An attribute of an object whose constructor call is in sight."""
        tree = self.calls.tree
        initial = tree.method(made.record, "__init__")
        if initial is not None:
            arguments = self.bound(initial, made.call, made.frame, skip=1)
            inner = Frame(initial, frozenset({made.record}), arguments)
            written = f"{_self_name(initial)}.{name}"
            found: Values = []
            for binding in initial.bindings.get(written, ()):
                found.extend(_at(self._values(binding.value, inner, depth + 1), binding.path))
            return found or [Unknown(f"{made.record.name} has no attribute {name} in sight")]
        if not any("dataclass" in one for one in made.record.decorators):
            return [Unknown(f"{made.record.name} has no attribute {name} in sight")]
        listed = made.call.child_by_field_name("arguments")
        for node in listed.named_children if listed is not None else ():
            keyword = node.child_by_field_name("name") if node.type == "keyword_argument" else None
            if keyword is not None and made.frame.scope.unit.text(keyword) == name:
                return self._values(node.child_by_field_name("value"), made.frame, depth + 1)
        return [Unknown(f"{name} of {made.record.name} is not written out ({made.frame.place(made.call)})")]

    # Operators and calls --------------------------------------------------------------------------

    def _subscript(self, node: Node, frame: Frame, depth: int) -> Values:
        base, index = node.child_by_field_name("value"), node.child_by_field_name("subscript")
        found: Values = []
        for place in self._values(index, frame, depth + 1):
            for value in self._values(base, frame, depth + 1):
                if isinstance(value, tuple) and isinstance(place, int) and -len(value) <= place < len(value):
                    found.append(value[place])
                else:
                    found.append(Unknown(_reason(value)))
        return found

    def _operator(self, node: Node, frame: Frame, depth: int) -> Values:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        sign = node.child_by_field_name("operator")
        written = frame.scope.unit.text(sign) if sign is not None else ""
        found: Values = []
        for one in self._values(left, frame, depth + 1):
            for other in self._values(right, frame, depth + 1):
                found.append(_applied(written, one, other))
        return found

    def _comprehension(self, node: Node, frame: Frame, depth: int) -> Values:
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
        known = {name: str, f"int({name})": int, f"int({name}.strip())": int, f"{name}.strip()": str.strip}
        if written not in known:
            return [Unknown(f"a comprehension that is not followed ({frame.place(node)})")]
        found: Values = []
        for row in self._values(clauses[0].child_by_field_name("right"), frame, depth + 1):
            try:
                found.append(tuple(known[written](one) if isinstance(one, str) else one for one in row))
            except (TypeError, ValueError):
                found.append(Unknown(_reason(row)))
        return found

    def _call(self, node: Node, frame: Frame, depth: int) -> Values:
        unit = frame.scope.unit
        name = unit.callee(node)
        listed = node.child_by_field_name("arguments")
        given = [one for one in listed.named_children if one.type != "comment"] if listed is not None else []
        if listed is not None and listed.type == "generator_expression":
            given = [listed]
        if name in _CONVERSIONS and len(given) == 1:
            return self._values(given[0], frame, depth + 1)
        if name == "dim3" or (name == "range" and len(given) == 1):
            rows = [self._values(one, frame, depth + 1) for one in given]
            if name == "dim3":
                return [tuple(values[0] if len(values) == 1 else Unknown(name) for values in rows)]
            return [
                tuple(range(value)) if isinstance(value, int) and value <= _MAX_VALUES else Unknown("a range")
                for value in rows[0]
            ]
        if name == "split" and len(given) <= 1:
            return self._split(node, given, frame, depth)
        found: Values = []
        for target in self.calls.tree.targets(node.child_by_field_name("function"), frame.scope):
            if isinstance(target, Scope) and target.kind == "class":
                found.append(Instance(target, node, frame))
            elif isinstance(target, Scope) and target.returned:
                inner = Frame(target, None, self.bound(target, node, frame, skip=0))
                for value in target.returned:
                    found.extend(self._values(value, inner, depth + 1))
            else:
                found.append(Unknown(f"what {name}() returns is not in sight ({frame.place(node)})"))
        return found

    def _split(self, node: Node, given: list[Node], frame: Frame, depth: int) -> Values:
        function = node.child_by_field_name("function")
        holder = function.child_by_field_name("object") if function is not None else None
        marks = self._values(given[0], frame, depth + 1) if given else [None]
        found: Values = []
        for text in self._values(holder, frame, depth + 1):
            for mark in marks:
                whole = isinstance(text, str) and (mark is None or (isinstance(mark, str) and mark))
                found.append(tuple(text.split(mark)) if whole else Unknown(_reason(text)))
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


def _integer(text: str) -> Any:
    try:
        return int(text.replace("_", ""), 0)
    except ValueError:
        return Unknown(f"{text} is no integer")


def _short(text: str) -> str:
    bare = " ".join(text.split())
    return bare if len(bare) <= 60 else bare[:57] + "..."


def _reason(value: Any) -> str:
    return value.reason if isinstance(value, Unknown) else f"{value!r} has no such element"


def _at(values: Values, path: tuple[int, ...]) -> Values:
    """The element at a place inside each value."""
    for place in path:
        values = [
            value[place]
            if isinstance(value, tuple) and place < len(value)
            else value
            if isinstance(value, Unknown)
            else Unknown("a value that is unpacked is not a tuple in sight")
            for value in values
        ]
    return values


def _applied(sign: str, left: Any, right: Any) -> Any:
    for value in (left, right):
        if isinstance(value, Unknown):
            return value
    if sign == "+" and type(left) is type(right) and isinstance(left, tuple | str):
        return left + right
    if not (isinstance(left, int) and isinstance(right, int)):
        return Unknown(f"{sign} of values that are no numbers")
    if sign in ("//", "%") and right == 0:
        return Unknown("a division by zero")
    operations = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "//": lambda: left // right,
        "%": lambda: left % right,
        "<<": lambda: left << right if 0 <= right < 64 else Unknown("a shift out of range"),
        ">>": lambda: left >> right if 0 <= right < 64 else Unknown("a shift out of range"),
        "&": lambda: left & right,
        "|": lambda: left | right,
        "^": lambda: left ^ right,
    }
    return operations[sign]() if sign in operations else Unknown(f"{sign} is not followed")


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


def _binder(name: str, scope: Scope) -> Scope:
    """The function whose parameter a name is."""
    place: Scope | None = scope
    while place is not None and name not in place.bindings:
        place = place.parent
    return place or scope


def _self_name(scope: Scope) -> str:
    """What a method calls its object, "" elsewhere; inner functions see the name of the method."""
    place: Scope | None = scope
    while place is not None:
        if place.owner is not None and place.parameters and "staticmethod" not in place.decorators:
            return place.parameters[0].name
        place = place.parent
    return ""

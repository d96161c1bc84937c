"""Who calls a Python function, by name over the tree, and which kernels that leads to.

A call through an object counts for every class that the object can be; where that is not known, the
call may be one, and what rests on it is not sure. The classes that `self` can be are carried along: a hook
that only one subclass overrides is not reached from its sisters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.source.pythonscope import Scope
from ptxguard.source.pythontree import External, Module, PythonTree

if TYPE_CHECKING:
    from tree_sitter import Node

    from ptxguard.source.python import PythonFile
    from ptxguard.source.pythonscope import Parameter

Classes = frozenset[Scope]
_MAX_DEPTH = 8
# Places where a class or function is named without being used as a value.
_NAMING = ("type", "argument_list", "dotted_name", "aliased_import", "import_from_statement")
_CHECKS = frozenset({"isinstance", "issubclass", "hasattr", "getattr", "cast", "super", "print"})


@dataclass(frozen=True, eq=False)
class Call:
    """A call of a function in the tree.

    Attributes:
        node: the call.
        scope: the function, class or module in which it stands.
        classes: what `self` can be in that function, None where it is no method.
        sure: False where the receiver's class is not known.
        skip: parameters that the call does not write (`self` of a bound call or a constructor).
    """

    node: Node
    scope: Scope
    classes: Classes | None
    sure: bool
    skip: int

    @property
    def unit(self) -> PythonFile:
        """The file of the call."""
        return self.scope.unit

    @property
    def line(self) -> int:
        """1-based line."""
        return self.scope.unit.line(self.node)


@dataclass(eq=False)
class Callers:
    """Calls of a function, and places where it is passed on as a value."""

    calls: list[Call] = field(default_factory=list)
    escapes: list[tuple[PythonFile, Node]] = field(default_factory=list)


@dataclass(eq=False)
class PythonCalls:
    """Callers over the Python files of a tree, computed once for each function and receiver.

    Attributes:
        tree: the Python files.
    """

    tree: PythonTree
    _known: dict[tuple[Scope, Classes | None], Callers] = field(default_factory=dict, repr=False)

    def classes(self, function: Scope) -> Classes | None:
        """Classes whose objects run a method, None for a plain function."""
        owner = function.owner
        if owner is None:
            return None
        return frozenset(
            one for one in self.tree.subclasses(owner) if self.tree.method(one, function.name) is function
        ) or frozenset({owner})

    def callers(self, function: Scope, classes: Classes | None) -> Callers:
        """Calls of a function, made on objects of the given classes."""
        key = (function, classes)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Callers()
            self._search(function, classes, known)
        return known

    def _search(self, function: Scope, classes: Classes | None, found: Callers) -> None:
        if function.kind == "lambda" or function.parent is None:
            found.escapes.append((function.unit, function.node))
            return
        if function.name == "__init__" and function.owner is not None:
            for record in sorted(classes or (), key=lambda one: (one.unit.file.path, one.line)):
                if self.tree.method(record, "__init__") is function:
                    self._constructions(record, found)
        for unit in self.tree.users(function):
            names = self._aliases(function, unit)
            for node in [call for alias in sorted(names) for call in unit.calls.get(alias, ())]:
                call = self._matched(node, function, classes, unit)
                if call is not None:
                    found.calls.append(call)
            self._escapes(function, unit, names, found)

    def _aliases(self, function: Scope, unit: PythonFile) -> set[str]:
        """Names under which a file can call a function: its own, `import … as`, `name = module.function`."""
        names = {function.name}
        if function.owner is not None:
            return names
        for scope in unit.scopes:
            for name, bindings in scope.bindings.items():
                for binding in bindings:
                    original = binding.imported[2] if binding.imported is not None else None
                    if original == function.name and name != original:
                        names.add(name)
                    value = binding.value
                    if (
                        binding.kind == "assign"
                        and value is not None
                        and value.type in ("identifier", "attribute", "conditional_expression")
                        and unit.text(value).find(function.name) >= 0
                        and function in self.tree.targets(value, binding.scope)
                    ):
                        names.add(name)
        return names

    def _matched(self, node: Node, function: Scope, classes: Classes | None, unit: PythonFile) -> Call | None:
        callee = node.child_by_field_name("function")
        scope = unit.scope_at(node)
        while callee is not None and callee.type == "subscript":
            callee = callee.child_by_field_name("value")
        if callee is None:
            return None
        own = self._own_classes(scope)
        if callee.type != "attribute" or function.owner is None:
            targets = self.tree.targets(callee, scope)
            if function in targets:
                return Call(node, scope, own, len(targets) == 1, 0)
            unknown = None in targets and callee.type == "identifier" and function.owner is None
            return Call(node, scope, own, sure=False, skip=0) if unknown else None
        return self._method_call(node, callee, function, classes, scope)

    def _method_call(
        self, node: Node, callee: Node, function: Scope, classes: Classes | None, scope: Scope
    ) -> Call | None:
        receiver = callee.child_by_field_name("object")
        method = _method_around(scope)
        text = scope.unit.text(receiver) if receiver is not None else ""
        owner = method.owner if method is not None else None
        if (
            method is not None
            and owner is not None
            and method.parameters
            and text == method.parameters[0].name
        ):
            possible = self._self_classes(owner, function, classes)
            return Call(node, scope, possible, sure=True, skip=1) if possible else None
        if owner is not None and text.startswith("super("):
            possible = self._super_classes(owner, function, classes)
            return Call(node, scope, possible, sure=True, skip=1) if possible else None
        targets = self.tree.targets(receiver, scope)
        records = [one for one in targets if isinstance(one, Scope) and one.kind == "class"]
        own = self._own_classes(scope)
        if records:
            named = any(self.tree.method(one, function.name) is function for one in records)
            if named and own is not None and classes is not None:
                own = frozenset(own & classes) or own
            return Call(node, scope, own, sure=True, skip=0) if named else None
        if any(isinstance(one, Module | External) for one in targets):
            return None
        types = self.types(receiver, scope)
        if types is None:
            return Call(node, scope, own, sure=False, skip=1)
        wanted = classes or frozenset()
        fits = any(self.tree.method(one, function.name) is function and one in wanted for one in types)
        return Call(node, scope, own, sure=True, skip=1) if fits else None

    def _own_classes(self, scope: Scope) -> Classes | None:
        method = _method_around(scope)
        return self.classes(method) if method is not None else None

    def _self_classes(self, owner: Scope, function: Scope, classes: Classes | None) -> Classes:
        """Classes of which `self.function()` inside a method of `owner` runs this very function."""
        return frozenset(
            one
            for one in self.tree.subclasses(owner)
            if self.tree.method(one, function.name) is function and (classes is None or one in classes)
        )

    def _super_classes(self, owner: Scope, function: Scope, classes: Classes | None) -> Classes:
        found = []
        for one in self.tree.subclasses(owner):
            order = self.tree.mro(one)
            behind = order[order.index(owner) + 1 :]
            first = next((base for base in behind if function.name in base.bindings), None)
            if first is function.owner and (classes is None or one in classes):
                found.append(one)
        return frozenset(found)

    # Constructors ---------------------------------------------------------------------------------

    def _constructions(self, record: Scope, found: Callers) -> None:
        """Calls that make an object of a class, also through a variable that holds the class."""
        for unit in self.tree.users(record):
            names = self._aliases(record, unit)
            for node in [call for name in sorted(names) for call in unit.calls.get(name, ())]:
                scope = unit.scope_at(node)
                targets = self.tree.targets(node.child_by_field_name("function"), scope)
                if record in targets:
                    found.calls.append(Call(node, scope, self._own_classes(scope), sure=True, skip=1))
            self._escapes(record, unit, names, found)

    def _escapes(self, target: Scope, unit: PythonFile, names: set[str], found: Callers) -> None:
        """Places where a function or class is passed on as a value."""
        for name in sorted(names):
            for node in unit.names(name):
                if not self._is_value(node, unit):
                    continue
                scope = unit.scope_at(node)
                attribute = (
                    node.parent if node.parent is not None and node.parent.type == "attribute" else None
                )
                if attribute is not None and attribute.child_by_field_name("attribute") == node:
                    if target.owner is not None and not self._may_be(attribute, target, scope):
                        continue
                    if target.owner is None and target not in self.tree.targets(attribute, scope):
                        continue
                elif target.owner is not None or target not in self.tree.targets(node, scope):
                    continue
                found.escapes.append((unit, node))

    def _may_be(self, attribute: Node, target: Scope, scope: Scope) -> bool:
        """Whether `x.method` without a call can name this method."""
        receiver = attribute.child_by_field_name("object")
        method = _method_around(scope)
        owner = method.owner if method is not None and method.parameters else None
        own = method.parameters[0].name if method is not None and owner is not None else None
        if owner is not None and receiver is not None and scope.unit.text(receiver) == own:
            return any(self.tree.method(one, target.name) is target for one in self.tree.subclasses(owner))
        types = self.types(receiver, scope)
        return types is not None and any(self.tree.method(one, target.name) is target for one in types)

    @staticmethod
    def _is_value(node: Node, unit: PythonFile) -> bool:
        """Whether a name stands as a value: not called, defined, imported, annotated or checked for."""
        inner, around = node, node.parent
        if around is not None and around.type == "attribute":
            inner, around = around, around.parent
        while (
            around is not None and around.type == "subscript" and around.child_by_field_name("value") == inner
        ):
            inner, around = around, around.parent
        if around is None or around.type in _NAMING[2:] or around.type == "type":
            return False
        if around.child_by_field_name("name") == inner or around.child_by_field_name("left") == inner:
            return False
        if around.type == "call" and around.child_by_field_name("function") == inner:
            return False
        if around.type == "argument_list":
            call = around.parent
            if call is None or call.type == "class_definition":
                return False
            return unit.callee(call) not in _CHECKS
        if around.type in (
            "assignment",
            "conditional_expression",
            "attribute",
            "decorator",
            "comparison_operator",
        ):
            return False  # aliases are followed; `Class.attribute` and `x is f` use no value
        return around.type not in ("expression_statement", "except_clause", "as_pattern", "tuple_pattern")

    # Types ----------------------------------------------------------------------------------------

    def types(self, node: Node | None, scope: Scope, depth: int = 0) -> Classes | None:
        """Classes of the tree of which a value can be an object; None where that cannot be told."""
        if node is None or depth > _MAX_DEPTH:
            return None
        if node.type in ("none", "integer", "float", "string", "true", "false"):
            return frozenset()
        if node.type == "call":
            return self._made(node, scope, depth)
        if node.type == "identifier":
            return self._name_types(node, scope, depth)
        if node.type == "attribute":
            return self._attribute_types(node, scope, depth)
        if node.type == "conditional_expression":
            first, _, last = node.named_children
            return _joined([self.types(first, scope, depth + 1), self.types(last, scope, depth + 1)])
        return None

    def _made(self, node: Node, scope: Scope, depth: int) -> Classes | None:
        found: list[Classes | None] = []
        for target in self.tree.targets(node.child_by_field_name("function"), scope):
            if isinstance(target, Scope) and target.kind == "class":
                found.append(frozenset({target}))
            elif isinstance(target, Scope):
                found.extend(self.types(value, target, depth + 1) for value in target.returned)
            else:
                found.append(frozenset() if isinstance(target, External) else None)
        return _joined(found)

    def _name_types(self, node: Node, scope: Scope, depth: int) -> Classes | None:
        name = scope.unit.text(node)
        method = _method_around(scope)
        if method is not None and method.parameters and name == method.parameters[0].name:
            return self.classes(method)
        found: list[Classes | None] = []
        for binding in self.tree.bindings(name, scope):
            if binding.kind in ("assign", "with") and not binding.path:
                found.append(self.types(binding.value, binding.scope, depth + 1))
            elif binding.kind == "parameter":
                found.append(self._annotated(name, binding.node, scope))
            elif binding.kind not in ("augment", "append", "item"):
                found.append(None)
        return _joined(found)

    def _annotated(self, name: str, node: Node, scope: Scope) -> Classes | None:
        """The class that a parameter's annotation names, with its subclasses."""
        owner = next((one for one in scope.unit.scopes if one.node == node), None)
        parameter = next((p for p in owner.parameters if p.name == name), None) if owner is not None else None
        if owner is None or owner.parent is None or parameter is None or parameter.annotation is None:
            return None
        written = parameter.annotation.named_children[0] if parameter.annotation.named_children else None
        for target in self.tree.targets(written, owner.parent):
            if isinstance(target, Scope) and target.kind == "class":
                return frozenset(self.tree.subclasses(target))
        return None

    def _attribute_types(self, node: Node, scope: Scope, depth: int) -> Classes | None:
        attribute = node.child_by_field_name("attribute")
        holders = self.types(node.child_by_field_name("object"), scope, depth + 1)
        if holders is None or attribute is None:
            return None
        found: list[Classes | None] = []
        for holder in holders:
            for binding, _ in self.tree.attribute(holder, scope.unit.text(attribute)):
                found.append(
                    self.types(binding.value, binding.scope, depth + 1) if not binding.path else None
                )
        return _joined(found) if found else None


def _method_around(scope: Scope) -> Scope | None:
    """The method in which a scope stands, inner functions and lambdas included."""
    place: Scope | None = scope
    while place is not None:
        if place.owner is not None and place.kind == "function":
            return place if "staticmethod" not in place.decorators else None
        place = place.parent
    return None


def _joined(found: list[Classes | None]) -> Classes | None:
    if not found or any(one is None for one in found):
        return None
    return frozenset().union(*(one for one in found if one is not None))


def argument(call: Call, function: Scope, parameter: Parameter) -> tuple[Node | None, str]:
    """The expression that a call gives to a parameter, or None with "default", "unknown" or "missing"."""
    listed = call.node.child_by_field_name("arguments")
    positional: list[Node] = []
    for node in listed.named_children if listed is not None else ():
        if node.type == "keyword_argument":
            name = node.child_by_field_name("name")
            if name is not None and call.unit.text(name) == parameter.name:
                return node.child_by_field_name("value"), ""
        elif node.type in ("list_splat", "dictionary_splat"):
            return _behind_splat(call, parameter)
        elif node.type != "comment":
            positional.append(node)
    plain = [one.name for one in function.parameters if one.kind == "plain"]
    if parameter.kind == "plain":
        place = plain.index(parameter.name) - call.skip
        if 0 <= place < len(positional):
            return positional[place], ""
    return (None, "default") if parameter.default is not None else (None, "missing")


def _behind_splat(call: Call, parameter: Parameter) -> tuple[Node | None, str]:
    """With `*args` or `**kwargs` in a call only a keyword written out is sure."""
    listed = call.node.child_by_field_name("arguments")
    for node in listed.named_children if listed is not None else ():
        if node.type == "keyword_argument":
            name = node.child_by_field_name("name")
            if name is not None and call.unit.text(name) == parameter.name:
                return node.child_by_field_name("value"), ""
    return None, "unknown"

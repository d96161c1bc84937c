"""Collects the scopes of one Python file and every way in which a name in them gets its value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.source.pythonscope import Binding, Parameter, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from ptxguard.source.python import PythonFile

_FUNCTIONS = ("function_definition", "lambda")
_LISTS = ("pattern_list", "tuple_pattern", "list_pattern", "tuple", "list", "expression_list")


class ScopeBuilder:
    """Collects the scopes of one file and what they bind."""

    def __init__(self, unit: PythonFile) -> None:
        self.unit = unit
        self.scopes = [Scope(unit, unit.root, "module", "", None)]
        unit.__dict__["scopes"] = self.scopes  # `scope_at` serves while the list grows

    def build(self) -> list[Scope]:
        """All scopes with their bindings."""
        captures = self.unit.captures
        self._add_scopes(captures.get("scope", []))
        for node in captures.get("assign", ()):
            self._bind(node.child_by_field_name("left"), node.child_by_field_name("right"), "assign", node)
        for node in captures.get("augment", ()):
            self._bind(node.child_by_field_name("left"), node.child_by_field_name("right"), "augment", node)
        for node in captures.get("named", ()):
            self._bind(node.child_by_field_name("name"), node.child_by_field_name("value"), "assign", node)
        for node in captures.get("loop", ()):
            self._bind(node.child_by_field_name("left"), node.child_by_field_name("right"), "loop", node)
        for node in captures.get("alias", ()):
            target = node.child_by_field_name("alias")
            if target is not None and target.named_children:
                self._bind(target.named_children[0], node.named_children[0], "with", node)
        for node in captures.get("call", ()):
            self._append(node)
        for node in captures.get("import", []) + captures.get("from", []):
            self._import(node)
        for scope in self.scopes:
            for bindings in scope.bindings.values():
                bindings.sort(key=lambda binding: binding.node.start_byte)
        return self.scopes

    def _add_scopes(self, nodes: list[Node]) -> None:
        stack = [self.scopes[0]]
        for node in nodes:
            while stack[-1].parent is not None and stack[-1].node.end_byte <= node.start_byte:
                stack.pop()
            kind = {"class_definition": "class", "lambda": "lambda"}.get(node.type, "function")
            name_node = node.child_by_field_name("name")
            name = self.unit.text(name_node) if name_node is not None else "<lambda>"
            outer = stack[-1]
            parameters = tuple(self._parameters(node)) if node.type in _FUNCTIONS else ()
            scope = Scope(self.unit, node, kind, name, outer, parameters, self._decorators(node))
            self.scopes.append(scope)
            self._note(outer, name, Binding("scope", node, None, outer, target=scope))
            for parameter in parameters:
                binding = Binding("parameter", node, parameter.default, outer)
                self._note(scope, parameter.name, binding)
            stack.append(scope)
        self.unit.__dict__.pop("_starts", None)

    def _decorators(self, node: Node) -> tuple[str, ...]:
        around = node.parent
        if around is None or around.type != "decorated_definition":
            return ()
        return tuple(
            self.unit.text(child)[1:].strip() for child in around.children if child.type == "decorator"
        )

    def _parameters(self, node: Node) -> Iterator[Parameter]:
        listed = node.child_by_field_name("parameters")
        kind = "plain"
        for child in listed.named_children if listed is not None else ():
            inner = child
            default = child.child_by_field_name("value")
            annotation = child.child_by_field_name("type")
            if child.type == "typed_parameter":
                inner = child.named_children[0]
            elif child.type in ("default_parameter", "typed_default_parameter"):
                inner = child.child_by_field_name("name") or child
            if inner.type == "keyword_separator":
                kind = "keyword"
            elif inner.type == "list_splat_pattern":
                yield Parameter(self.unit.text(inner).lstrip("*"), "list")
                kind = "keyword"
            elif inner.type == "dictionary_splat_pattern":
                yield Parameter(self.unit.text(inner).lstrip("*"), "dict")
            elif inner.type == "identifier":
                yield Parameter(self.unit.text(inner), kind, default, annotation)

    @staticmethod
    def _note(scope: Scope, name: str, binding: Binding) -> None:
        scope.bindings.setdefault(name, []).append(binding)

    def _bind(
        self, target: Node | None, value: Node | None, kind: str, node: Node, path: tuple[int, ...] = ()
    ) -> None:
        if target is None or (value is None and kind == "assign"):
            return
        if target.type == "identifier":
            scope = self.unit.scope_at(node)
            self._note(scope, self.unit.text(target), Binding(kind, node, value, scope, path))
        elif target.type == "attribute":
            scope = self.unit.scope_at(node)
            # Attributes are kept under their dotted text: `self.shape`.
            self._note(scope, self.unit.text(target), Binding(kind, node, value, scope, path))
        elif target.type in _LISTS:
            for index, child in enumerate(target.named_children):
                self._bind(child, value, kind, node, (*path, index))
        elif target.type == "subscript":
            base = target.child_by_field_name("value")
            if base is not None and base.type in ("identifier", "attribute"):
                scope = self.unit.scope_at(node)
                self._note(scope, self.unit.text(base), Binding("item", node, value, scope, path))

    def _append(self, call: Node) -> None:
        """`x.append(value)` and `x.extend(values)` add to what `x` is bound to."""
        function = call.child_by_field_name("function")
        arguments = call.child_by_field_name("arguments")
        if function is None or arguments is None or function.type != "attribute":
            return
        method, base = function.child_by_field_name("attribute"), function.child_by_field_name("object")
        if method is None or base is None or base.type not in ("identifier", "attribute"):
            return
        if self.unit.data[method.start_byte : method.end_byte] not in (b"append", b"extend"):
            return
        kind = (
            "append"
            if method.end_byte - method.start_byte == len("append") and (self.unit.text(method) == "append")
            else "augment"
        )
        if arguments.named_children:
            scope = self.unit.scope_at(call)
            binding = Binding(kind, call, arguments.named_children[0], scope)
            self._note(scope, self.unit.text(base), binding)

    def _import(self, node: Node) -> None:
        scope = self.unit.scope_at(node)
        module, level = "", 0
        if node.type == "import_from_statement":
            source = node.child_by_field_name("module_name")
            written = self.unit.text(source) if source is not None else ""
            module = written.lstrip(".")
            level = len(written) - len(module)
        for child in node.children_by_field_name("name"):
            alias = child.child_by_field_name("alias")
            original = child.child_by_field_name("name") or child
            name = self.unit.text(original)
            if node.type == "import_from_statement":
                imported: tuple[str, int, str | None] = (module.strip(), level, name)
                bound = self.unit.text(alias) if alias is not None else name
            elif alias is not None:
                imported, bound = (name, 0, None), self.unit.text(alias)
            else:
                # `import a.b` binds `a`; what is reached through it is named in full.
                bound = name.split(".")[0]
                imported = (bound, 0, None)
            self._note(scope, bound, Binding("import", node, None, scope, imported=imported))
        if any(child.type == "wildcard_import" for child in node.children):
            binding = Binding("import", node, None, scope, imported=(module.strip(), level, "*"))
            self._note(scope, "*", binding)

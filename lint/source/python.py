"""One Python file as a syntax tree: scopes, what each name is bound to, calls by name.

The grammar of tree-sitter reads newer and broken syntax too; only files that hold PTX, or that a chain of
calls leads to, are ever parsed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node, Parser, Query

    from ptxguard.location import SourceFile

_QUERY = """
(call) @call
(assignment) @assign
(augmented_assignment) @augment
(named_expression) @named
(function_definition) @scope
(class_definition) @scope
(lambda) @scope
(import_statement) @import
(import_from_statement) @from
(for_statement) @loop
(for_in_clause) @loop
(as_pattern) @alias
(return_statement) @return
(string) @string
"""
_FUNCTIONS = ("function_definition", "lambda")
_LISTS = ("pattern_list", "tuple_pattern", "list_pattern", "tuple", "list", "expression_list")


@cache
def _grammar() -> tuple[Parser, Query]:
    """The parser and the one query, loaded with the first Python file."""
    import tree_sitter_python
    from tree_sitter import Language, Parser, Query

    language = Language(tree_sitter_python.language())
    return Parser(language), Query(language, _QUERY)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a function.

    Attributes:
        name: its name.
        kind: "plain", "keyword" (behind `*`), "list" (`*args`) or "dict" (`**kwargs`).
        default: expression of the default value, or None.
        annotation: type expression, or None.
    """

    name: str
    kind: str
    default: Node | None = None
    annotation: Node | None = None


@dataclass(frozen=True)
class Binding:
    """One way in which a name gets its value.

    Attributes:
        kind: assign, augment, append, loop, with, import, scope, parameter.
        node: the syntax node that binds.
        value: expression of the value, or None.
        path: place inside the value where it is unpacked (`a, b = value`).
        scope: the scope in which `value` is to be read.
        target: for `scope` the function or class itself.
        imported: (module, level, name) of an import; the name is None for a module.
    """

    kind: str
    node: Node
    value: Node | None
    scope: Scope
    path: tuple[int, ...] = ()
    target: Scope | None = None
    imported: tuple[str, int, str | None] | None = None


@dataclass(eq=False)
class Scope:
    """A module, class, function or lambda.

    Attributes:
        unit: its file.
        node: its syntax node.
        kind: module, class, function or lambda.
        name: its name; "" for a module.
        parent: the scope around it, None for a module.
        parameters: in order; empty unless a function.
        decorators: decorator expressions as text, without "@".
        bindings: name -> ways in which it gets a value here.
    """

    unit: PythonFile
    node: Node
    kind: str
    name: str
    parent: Scope | None
    parameters: tuple[Parameter, ...] = ()
    decorators: tuple[str, ...] = ()
    bindings: dict[str, list[Binding]] = field(default_factory=dict)

    @property
    def qualified(self) -> str:
        """Dotted name inside the module: `Kernel.load`."""
        outer = self.parent.qualified if self.parent is not None else ""
        return f"{outer}.{self.name}" if outer else self.name

    @property
    def line(self) -> int:
        """1-based line of the definition's name."""
        name = self.node.child_by_field_name("name")
        return (name or self.node).start_point.row + 1

    @property
    def owner(self) -> Scope | None:
        """The class whose method this is, or None."""
        return self.parent if self.parent is not None and self.parent.kind == "class" else None

    @cached_property
    def returned(self) -> list[Node]:
        """Expressions that it returns, those of inner functions left out."""
        if self.kind == "lambda":
            body = self.node.child_by_field_name("body")
            return [body] if body is not None else []
        found = []
        for node in self.unit.captures.get("return", ()):
            inside = self.node.start_byte <= node.start_byte < self.node.end_byte
            if inside and self.unit.scope_at(node) is self and node.named_children:
                found.append(node.named_children[0])
        return found


@dataclass(eq=False)
class PythonFile:
    """A Python file; everything is computed when asked for.

    Attributes:
        file: decoded text.
    """

    file: SourceFile

    @cached_property
    def data(self) -> bytes:
        """The text as the parser sees it."""
        return self.file.text.encode("utf-8", "surrogatepass")

    @cached_property
    def root(self) -> Node:
        """The syntax tree."""
        parser, _ = _grammar()
        return parser.parse(self.data).root_node

    @cached_property
    def captures(self) -> dict[str, list[Node]]:
        """Nodes by what they do, each list in file order."""
        from tree_sitter import QueryCursor

        _, query = _grammar()
        found = QueryCursor(query).captures(self.root)
        return {name: sorted(nodes, key=lambda node: node.start_byte) for name, nodes in found.items()}

    @cached_property
    def _wide(self) -> list[int]:
        """Byte offsets behind each continuation byte, where offsets in text and bytes drift apart."""
        if self.file.text.isascii():
            return []
        return [place for place, byte in enumerate(self.data) if byte & 0xC0 == 0x80]

    def offset(self, byte: int) -> int:
        """Offset in code points of a byte offset."""
        return byte - bisect_right(self._wide, byte - 1) if self._wide else byte

    def text(self, node: Node) -> str:
        """Source text of a node."""
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "surrogatepass")

    def line(self, node: Node) -> int:
        """1-based line of a node."""
        return node.start_point.row + 1

    # Scopes ---------------------------------------------------------------------------------------

    @cached_property
    def scopes(self) -> list[Scope]:
        """The module, then every class and function in file order, with their bindings."""
        return ScopeBuilder(self).build()

    @property
    def module(self) -> Scope:
        """The module's own scope."""
        return self.scopes[0]

    @cached_property
    def _starts(self) -> list[int]:
        return [scope.node.start_byte for scope in self.scopes]

    def scope_at(self, node: Node) -> Scope:
        """The innermost scope around a node; decorators and default values belong to the scope outside."""
        place = node.start_byte
        scope = self.scopes[max(bisect_right(self._starts, place) - 1, 0)]
        while scope.parent is not None and not (_body_start(scope.node) <= place < scope.node.end_byte):
            scope = scope.parent
        return scope

    @cached_property
    def calls(self) -> dict[str, list[Node]]:
        """Calls by the last name of what is called: `f(x)`, `a.f(x)`, `f[grid](x)`."""
        found: dict[str, list[Node]] = {}
        for node in self.captures.get("call", ()):
            name = self.callee(node)
            if name:
                found.setdefault(name, []).append(node)
        return found

    def callee(self, call: Node) -> str:
        """Last name of what a call calls, "" where that has none."""
        function = call.child_by_field_name("function")
        while function is not None and function.type in ("subscript", "parenthesized_expression"):
            value = function.child_by_field_name("value")
            function = value if value is not None else function.named_children[0]
        if function is None:
            return ""
        if function.type == "attribute":
            function = function.child_by_field_name("attribute")
        return self.text(function) if function is not None and function.type == "identifier" else ""

    def names(self, name: str) -> Iterator[Node]:
        """Identifier nodes with a name."""
        for found in re.finditer(rb"\b" + re.escape(name.encode()) + rb"\b", self.data):
            node = self.root.descendant_for_byte_range(found.start(), found.end())
            if node is not None and node.type == "identifier":
                yield node


def _body_start(node: Node) -> int:
    """Where the inside of a scope begins: its parameters, else its body."""
    inner = node.child_by_field_name("parameters") or node.child_by_field_name("body")
    return inner.start_byte if inner is not None else node.start_byte


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

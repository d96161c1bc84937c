"""One Python file as a syntax tree: scopes, what each name is bound to, calls by name.

The grammar of tree-sitter reads newer and broken syntax too; only files that hold PTX, or that a chain of
calls leads to, are ever parsed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

from ptxguard.source.pythonbindings import ScopeBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node, Parser, Query

    from ptxguard.location import SourceFile
    from ptxguard.source.pythonscope import Scope

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
(comment) @comment
"""


@cache
def _grammar() -> tuple[Parser, Query]:
    """The parser and the one query, loaded with the first Python file."""
    import tree_sitter_python
    from tree_sitter import Language, Parser, Query

    language = Language(tree_sitter_python.language())
    return Parser(language), Query(language, _QUERY)


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

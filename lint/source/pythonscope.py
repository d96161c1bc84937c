"""A module, class or function of a Python file, its parameters, and what each name in it is bound to."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

    from ptxguard.source.python import PythonFile


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

"""Every integer that an expression in host code can be, over locals, arguments and callers in sight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.source.cuda import Function
from ptxguard.source.exprs import Node
from ptxguard.source.variables import bindings

if TYPE_CHECKING:
    from ptxguard.source.callgraph import CallGraph, Owner
    from ptxguard.source.constants import Constants

# Parameter or template parameter -> (expression of the caller, function of the caller).
Bound = dict[str, tuple[Node, "Owner | None"]]
_MAX_DEPTH = 10


@dataclass(eq=False)
class Values:
    """Sets of possible values; None in a set means "something else too".

    Attributes:
        graph: the call graph.
        constants: evaluates constants.
    """

    graph: CallGraph
    constants: Constants

    def of(self, node: Node, owner: Owner | None, bound: Bound, depth: int = 0) -> set[int | None]:
        """Possible values of an expression inside a function."""
        if depth > _MAX_DEPTH or owner is None:
            return {None}
        direct = self.constants.value(node, owner.unit)
        if direct is not None:
            return {direct}
        if node.kind == "name":
            return self._name(node.text, owner, bound, depth)
        if node.kind == "cond":
            chosen = self.of(node.parts[0], owner, bound, depth + 1)
            branches = [
                part
                for truth, part in ((True, node.parts[1]), (False, node.parts[2]))
                if _may_be(chosen, truth)
            ]
            return set().union(*(self.of(part, owner, bound, depth + 1) for part in branches))
        if node.kind == "cast" or (node.kind == "init" and len(node.parts) == 1):
            return self.of(node.parts[0], owner, bound, depth + 1)
        if (
            node.kind == "call"
            and len(node.parts) == 2
            and node.text in ("int", "unsigned", "uint32_t", "size_t")
        ):
            return self.of(node.parts[1], owner, bound, depth + 1)
        if node.kind in ("binary", "unary"):
            return self._operation(node, owner, bound, depth)
        if node.kind == "member":
            return self._member(node, owner, bound, depth)
        return {None}

    def _operation(self, node: Node, owner: Owner, bound: Bound, depth: int) -> set[int | None]:
        sides = [self.of(part, owner, bound, depth + 1) for part in node.parts]
        if any(None in side or len(side) > 8 for side in sides):
            return {None}
        found: set[int | None] = set()
        for left in sides[0]:
            for right in sides[-1]:
                parts = (Node("number", str(left)), Node("number", str(right)))
                found.add(
                    self.constants.value(Node(node.kind, node.text, parts[: len(node.parts)]), owner.unit)
                )
        return found

    def _name(self, name: str, owner: Owner, bound: Bound, depth: int) -> set[int | None]:
        local = [
            b for b in bindings(owner, name) if b.kind in ("init", "assign", "update", "declare", "range")
        ]
        values = [b.node for b in local if b.kind in ("init", "assign")]
        if any(b.kind in ("update", "range") for b in local):
            return {None}
        if values:
            return set().union(*(self.of(v, owner, bound, depth + 1) for v in values if v is not None))
        if name in bound:
            node, home = bound[name]
            return self.of(node, home, {}, depth + 1)
        return self._over_callers(name, owner, depth)

    def _over_callers(self, name: str, owner: Owner, depth: int) -> set[int | None]:
        """A parameter or template parameter over every call in the tree."""
        if not isinstance(owner, Function):
            return {None}
        ordinary = [parameter.name for parameter in owner.parameters]
        if name not in ordinary and name not in owner.template_names:
            return {None}
        found: set[int | None] = set()
        for use, _ in self.graph.callers(owner).calls:
            if name in ordinary:
                position = ordinary.index(name)
                given = use.arguments[position] if position < len(use.arguments) else None
            else:
                position = owner.template_names.index(name)
                texts = use.template_arguments
                given = Node("name", texts[position]) if position < len(texts) else None
                if given is not None and given.text.isdigit():
                    given = Node("number", given.text)
            found |= {None} if given is None else self.of(given, use.owner, {}, depth + 1)
        return found or {None}

    def _member(self, node: Node, owner: Owner, bound: Bound, depth: int) -> set[int | None]:
        """`dims.x` of a local `dim3 dims(2, 1, 1)`."""
        base = node.parts[0]
        place = {"x": 0, "y": 1, "z": 2}.get(node.text)
        if base.kind != "name" or place is None:
            return {None}
        found: set[int | None] = set()
        for binding in bindings(owner, base.text):
            if binding.kind == "member" and binding.extra == node.text and binding.node is not None:
                found |= self.of(binding.node, owner, bound, depth + 1)
            elif binding.kind == "init" and binding.node is not None:
                parts = binding.node.parts if binding.node.kind in ("init",) else (binding.node,)
                parts = parts[1:] if binding.node.kind == "call" else parts
                found |= self.of(parts[place], owner, bound, depth + 1) if place < len(parts) else {1}
        if not found and base.text in bound:
            given, home = bound[base.text]
            return self.of(Node("member", node.text, (given,)), home, {}, depth + 1)
        return found or {None}


def _may_be(values: set[int | None], truth: bool) -> bool:  # noqa: FBT001
    return None in values or any(bool(value) == truth for value in values)

"""Addresses of objects: where a variable, an element or a member lies, and what a member holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.source import variables
from ptxguard.source.cuda import Function
from ptxguard.source.flowfacts import Flow, union
from ptxguard.source.flowvars import VariableFlow

if TYPE_CHECKING:
    from ptxguard.source.exprs import Node
    from ptxguard.source.flowbase import Frame


class ObjectFlow(VariableFlow):
    """Follows an object to the storage that it is part of."""

    def address(self, node: Node, frame: Frame) -> Flow:
        """Owner of the memory in which an object lies."""
        kind = node.kind
        if kind == "name":
            return self._object(node, frame)
        if kind == "index":
            base = node.parts[0]
            if base.kind in ("name", "index", "member", "arrow"):
                return self._element_address(base, frame)
            return self.value(base, frame)
        if kind in ("member", "arrow"):
            return (
                self.address(node.parts[0], frame) if kind == "member" else self.value(node.parts[0], frame)
            )
        if kind == "unary" and node.text == "*":
            return self.value(node.parts[0], frame)
        if kind == "cast":
            inner = node.parts[0]
            return (
                self.address(inner, frame) if node.text.rstrip().endswith("&") else self.value(inner, frame)
            )
        if kind == "call":
            return self.value(node, frame)
        if kind == "cond":
            return union([self.address(part, frame) for part in node.parts[1:]])
        return self.unknown("an object that is not followed", node, frame)

    def _element_address(self, base: Node, frame: Frame) -> Flow:
        if base.kind == "name":
            rank, elements = self._array(base, frame)
            array = (rank and not elements) or self._is_array_reference(base.text, frame)
            return self.address(base, frame) if array else self.value(base, frame)
        if base.kind == "index":
            return self._element_address(base.parts[0], frame)
        return self._member_value(base, frame)

    def _is_array_reference(self, name: str, frame: Frame) -> bool:
        """`auto &tile = *reinterpret_cast<Tile *>(p);`: subscripts of a reference stay in its object."""
        found = [b for b in variables.bindings(frame.owner, name) if b.kind in ("init", "declare")]
        return bool(found) and all(b.reference and "*" not in b.type_text.split() for b in found)

    def _object(self, node: Node, frame: Frame) -> Flow:
        """Owner of the object that a name stands for."""
        if node.text == "this":
            return self._this(frame)
        inner = self.lambda_of(node, frame)
        if inner is not None:
            return self.lambda_parameter(node.text, inner, frame, by_address=True)
        flows = [flow for b in self.all_bindings(node.text, frame) if (flow := self._storage(b, node, frame))]
        if flows:
            return union(flows)
        parameter = self._parameter(node, frame, by_address=True)
        if parameter is None:
            return self._this_member(node, frame)
        if self._is_reference(frame.owner, node.text) or not isinstance(frame.owner, Function):
            return parameter
        return self.unknown(f"{node.text} is a parameter passed by value", node, frame)

    def _storage(self, binding: variables.Binding, node: Node, frame: Frame) -> Flow | None:
        """Where the object of one declaration lies; None for what declares nothing."""
        if binding.kind == "shared":
            return self.root(node.text, binding, frame)
        if binding.kind in ("init", "range") and binding.reference and binding.node is not None:
            return self.address(binding.node, frame)
        if binding.kind in ("declare", "init", "range"):
            return self.unknown(f"{node.text} is a variable in local memory", node, frame)
        return None

    def _this_member(self, node: Node, frame: Frame) -> Flow:
        if self._own_member_shape(node.text, frame) in ("array", "object"):
            return self._this(frame)
        return self.unknown(f"no definition of {node.text} is in sight", node, frame)

    def _member_value(self, node: Node, frame: Frame) -> Flow:
        """Value of `x.m`: an array member decays to its address; a pointer member holds what was stored."""
        base = node.parts[0]
        assigned = self._member_assignments(node, frame)
        if assigned:
            return union([self.value(value, frame) for value in assigned])
        if self.graph.member_shape(node.text, frame.owner.unit) in ("array", "object"):
            return self.address(base, frame) if node.kind == "member" else self.value(base, frame)
        return self.unknown(f"member {node.text} holds an address that is not followed", node, frame)

    def _member_assignments(self, node: Node, frame: Frame) -> list[Node]:
        names, base = [node.text], node.parts[0]
        while base.kind in ("member", "arrow"):
            names.append(base.text)
            base = base.parts[0]
        if base.kind != "name":
            return []
        wanted = ".".join(reversed(names))
        return [
            binding.node
            for binding in variables.bindings(frame.owner, base.text)
            if binding.kind == "member" and binding.extra == wanted and binding.node is not None
        ]

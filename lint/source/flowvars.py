"""Addresses through variables: declarations, assignments, helpers that change them, inline asm."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ptxguard.finding import Evidence
from ptxguard.source import variables
from ptxguard.source.asmflow import asm_bindings, reads_own_rank
from ptxguard.source.exprs import Node, parse_expression
from ptxguard.source.flowbase import NEUTRAL, Frame
from ptxguard.source.flowfacts import CONVERSIONS, OWN_RANK, Flow, union
from ptxguard.source.flowparams import ParameterFlow
from ptxguard.source.types import classify_type

if TYPE_CHECKING:
    from ptxguard.source.cuda import Function


_ALIGNMENT = re.compile(r"\b(?:alignas|__align__) \( .*? \)")


class VariableFlow(ParameterFlow):
    """Follows a variable to everything that gives it a value."""

    def all_bindings(self, name: str, frame: Frame) -> list[variables.Binding]:
        """Bindings of a variable in the function, or at namespace scope where the function has none."""
        found = variables.bindings(frame.owner, name)
        if any(binding.kind in ("shared", "declare", "init", "range") for binding in found):
            return found
        unit = frame.owner.unit
        structure = self.graph.structure(unit)
        outside = variables.global_bindings(unit.tokens, name.rsplit("::", 1)[-1], structure)
        # A member is a variable of its own only if it is static.
        return found + [
            b for b in outside if structure.record_at(b.index) is None or "static" in b.type_text.split()
        ]

    def variable(self, node: Node, frame: Frame) -> Flow:
        """Owner of what a variable's value points to; an array decays to its own address."""
        inner = self.lambda_of(node, frame)
        if inner is not None:
            return self.lambda_parameter(node.text, inner, frame, by_address=False)
        key = (frame if frame.arguments else frame.owner, node.text, "value")
        return self.once(key, lambda: self._variable(node, frame))

    def _variable(self, node: Node, frame: Frame) -> Flow:
        flows: list[Flow] = []
        found = self.all_bindings(node.text, frame)
        for binding in found:
            if binding.kind == "shared" or (binding.rank and binding.kind in ("declare", "init")):
                flow: Flow | None = self._array_value(binding, node, frame)
            else:
                flow = self._bound_value(binding, node, frame)
            if flow is not None:
                flows.append(flow)
        declared = any(binding.kind in ("declare", "init", "range") for binding in found)
        flows.extend(self._asm_outputs(node.text, frame))
        if not declared:
            parameter = self._parameter(node, frame, by_address=False)
            if parameter is not None:
                flows.append(parameter)
        real = [flow for flow in flows if flow.owner != "none"]
        if real:
            return union(real)
        if flows or self.constant(node, frame) is not None:
            return NEUTRAL
        if any(binding.rank for binding in found):
            return self.unknown(f"{node.text} is an array in local memory", node, frame)
        if not declared and self._own_member_shape(node.text, frame) == "array":
            return self._this(frame)
        return self.unknown(f"no definition of {node.text} is in sight", node, frame)

    def _array_value(self, binding: variables.Binding, node: Node, frame: Frame) -> Flow:
        """An array decays to its own address; a word in shared memory holds an address that was stored."""
        if binding.kind != "shared":
            return self.unknown(f"{node.text} is an array in local memory", node, frame)
        if binding.rank or _is_record(binding.type_text):
            return self.root(node.text, binding, frame)
        return self.unknown("the address is itself loaded from shared memory", node, frame)

    def root(self, name: str, binding: variables.Binding, frame: Frame) -> Flow:
        """The `__shared__` object that proves an address local."""
        tokens, first, last = variables.body_of(frame.owner)
        if not first <= binding.index < last:
            tokens = frame.owner.unit.tokens
        unit = frame.owner.unit
        line = unit.file.position(tokens.starts[binding.index])[0]
        text = f"{binding.type_text} {name}"
        reason = f"{name} is __shared__ memory of the CTA ({unit.file.path}:{line})"
        return Flow("local", reason, (Evidence("address", unit.file.path, line, text),))

    def _bound_value(self, binding: variables.Binding, node: Node, frame: Frame) -> Flow | None:
        if binding.kind == "update" and binding.node is not None:
            pair = Node("binary", binding.extra[:-1], (node, binding.node), binding.index)
            return self.value(pair, frame)
        if binding.kind == "pass":
            return self._changed_by_call(binding, frame)
        if binding.kind in ("init", "assign") and binding.node is not None and not binding.rank:
            return self.value(binding.node, frame)
        if binding.kind == "range" and binding.node is not None:
            return self.unknown("the address comes from a range", node, frame)
        return None

    def _changed_by_call(self, binding: variables.Binding, frame: Frame) -> Flow | None:
        """What a function in the tree writes into a variable passed by reference or by address."""
        flows: list[Flow] = []
        if binding.extra in CONVERSIONS or binding.extra.endswith("_cast"):
            return None
        for function in self.graph.functions_named(binding.extra):
            if binding.position >= len(function.parameters):
                continue
            parameter = function.parameters[binding.position]
            by_reference = "&" in parameter.type_text.split() and "const" not in parameter.type_text.split()
            if not self.graph.project.connected(frame.owner.unit, function.unit):
                continue
            inner = Frame(function, {parameter.name: (Node("number", "0"), frame)})
            if by_reference and not binding.rank:
                flows.extend(self._asm_outputs(parameter.name, inner))
                for change in variables.bindings(function, parameter.name):
                    if change.kind in ("assign", "update") and change.node is not None:
                        flows.append(self.value(change.node, inner))
            elif binding.rank and "*" in parameter.type_text:
                flows.extend(self._written_through(function, parameter.name, inner))
        real = [flow for flow in flows if flow.owner != "none"]
        return union(real) if real else None

    def _written_through(self, function: Function, name: str, inner: Frame) -> list[Flow]:
        """Values stored by `*p = …` and asm outputs `*p` in a callee."""
        tokens, (first, last) = function.unit.tokens, function.body
        flows = self._asm_outputs(name, inner, through="*")
        for index in tokens.positions.get(name, ()):
            if first <= index < last and tokens.texts[index - 1] == "*" and tokens.texts[index + 1] == "=":
                stop = index + 2
                while stop < last and tokens.texts[stop] != ";":
                    stop += 1
                flows.append(self.value(parse_expression(tokens, range(index + 2, stop)), inner))
        return flows

    def _asm_outputs(self, name: str, frame: Frame, through: str = "") -> list[Flow]:
        """What asm statements of the function write into a variable, or `through` a pointer (`*`)."""
        flows = []
        for found in asm_bindings(self.statements(frame.owner.unit), frame.owner, name, through):
            path, line = found.statement.unit.file.path, found.statement.line
            doubt = self.doubt(found.statement)
            if doubt and found.effect == "map":
                flows.append(Flow("unknown", f"mapa at {path}:{line} is compiled only {doubt}"))
                continue
            if found.effect == "map":
                if found.rank is not None and self.is_own_rank(found.rank, frame):
                    flows.append(Flow("unknown", f"mapa of the own rank at {path}:{line}"))
                else:
                    text = "mapa maps the address to another CTA of the cluster"
                    flows.append(
                        Flow("peer", f"{text} at {path}:{line}", (Evidence("address", path, line, text),))
                    )
            elif found.effect == "keep":
                flows.extend(self.value(node, frame) for node in found.inputs)
            elif found.effect == "opaque":
                flows.append(Flow("unknown", f"written by inline asm at {path}:{line}"))
        return flows

    def is_own_rank(self, node: Node, frame: Frame, depth: int = 0) -> bool:
        """Whether a rank is the CTA's own."""
        if depth > 6:
            return False
        if node.kind == "call" and node.text.rsplit("::", 1)[-1] in OWN_RANK:
            return True
        if node.kind == "cast":
            return self.is_own_rank(node.parts[0], frame, depth + 1)
        if node.kind == "name":
            if reads_own_rank(self.statements(frame.owner.unit), frame.owner, node.text):
                return True
            values = [b.node for b in variables.bindings(frame.owner, node.text) if b.node is not None]
            return bool(values) and all(self.is_own_rank(value, frame, depth + 1) for value in values)
        return False

    def _array(self, base: Node, frame: Frame) -> tuple[int, list[Node]]:
        """Declared rank of an array, and the values its elements get."""
        rank = 0
        elements: list[Node] = []
        shared = False
        for binding in self.all_bindings(base.text, frame):
            if binding.kind in ("shared", "declare", "init"):
                rank = max(rank, binding.rank)
                shared |= binding.kind == "shared"
                if binding.node is not None and binding.rank:
                    elements.extend(binding.node.parts if binding.node.kind == "init" else (binding.node,))
            elif binding.kind == "element" and binding.node is not None:
                elements.append(binding.node)
        return rank, [] if shared else elements


def _is_record(type_text: str) -> bool:
    """Whether a shared variable is an object of class type (its value is the object, not an address).

    A name that ends in `_t` may stand for an integer.
    """
    kind, _, name = classify_type(_ALIGNMENT.sub("", type_text)).partition(":")
    return kind == "class" and not name.endswith("_t")

"""Whose shared memory an operand names: followed back through variables, helpers and callers to a root.

`local` comes only from a `__shared__` object of the kernel; `peer` from a mapping to another rank; everything
that cannot be followed is `unknown` with the place where the trail ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.finding import Evidence
from ptxguard.source import variables
from ptxguard.source.cuda import Function
from ptxguard.source.exprs import Node, parse_expression
from ptxguard.source.flowbase import CIRCLE, NEUTRAL, Frame
from ptxguard.source.flowfacts import (
    CONVERSIONS,
    OWNER_METHODS,
    RANK_BIT,
    RANK_MAPPINGS,
    SECOND_ARGUMENT,
    Flow,
    mask_effect,
    union,
)
from ptxguard.source.flowobjects import ObjectFlow

if TYPE_CHECKING:
    from ptxguard.source.guards import MacrosAt

_MAX_DEPTH = 60
# Work for one operand. Real chains take tens of steps; generic code (operator(), get<>) branches without end.
_MAX_STEPS = 4000
_MAX_HELPERS = 6


class AddressFlow(ObjectFlow):
    """Follows addresses over the call graph: the entry, expressions, arithmetic, calls."""

    def operand(self, node: Node, frame: Frame) -> Flow:
        """Owner of the memory that an operand of an asm statement in a function names."""
        self._steps = 0
        return self.value(node, frame)

    def value(self, node: Node, frame: Frame) -> Flow:
        """Owner of the memory that the value of an expression points to."""
        self._depth += 1
        self._steps += 1
        try:
            if self._depth > _MAX_DEPTH or self._steps > _MAX_STEPS:
                return self.unknown("the chain of definitions is too deep to follow", node, frame)
            return self._value(node, frame)
        finally:
            self._depth -= 1

    def _value(self, node: Node, frame: Frame) -> Flow:
        kind = node.kind
        if kind == "number":
            return NEUTRAL
        if kind == "name":
            return self.variable(node, frame)
        if kind == "cast":
            inner = node.parts[0]
            return (
                self.address(inner, frame) if node.text.rstrip().endswith("&") else self.value(inner, frame)
            )
        if kind == "unary":
            return self._unary(node, frame)
        if kind == "binary":
            return self._binary(node, frame)
        if kind == "cond":
            return union([self.value(part, frame) for part in node.parts[1:]])
        if kind == "assign":
            return self.value(node.parts[1], frame)
        if kind == "index":
            return self._indexed(node, frame)
        if kind in ("member", "arrow"):
            return self._member_value(node, frame)
        if kind == "call":
            return self._call(node, frame)
        if kind == "init" and node.parts:
            return union([self.value(part, frame) for part in node.parts])
        return self.unknown("an expression that is not followed", node, frame)

    def _unary(self, node: Node, frame: Frame) -> Flow:
        inner = node.parts[0]
        if node.text == "&":
            return self.address(inner, frame)
        if node.text == "*":
            return self.unknown("the address is itself loaded from memory", node, frame)
        return self.value(inner, frame) if node.text in ("++", "--", "+") else NEUTRAL

    def _binary(self, node: Node, frame: Frame) -> Flow:
        operator = node.text
        if operator == ",":
            return self.value(node.parts[1], frame)
        if operator not in ("+", "-", "&", "|", "^"):
            return self._scaled(node, frame)
        left, right = (self.value(part, frame) for part in node.parts)
        for side in (left, right):
            if side.owner == "peer":
                return side
        if operator in ("&", "|", "^"):
            return self._masked(node, left, right, frame)
        if operator == "-" and left.owner == right.owner == "local":
            return NEUTRAL
        owner, other = (left, node.parts[1]) if _is_address(left) else (right, node.parts[0])
        if not _is_address(owner):
            return union([left, right]) if "unknown" in (left.owner, right.owner) else NEUTRAL
        if self.has_rank_bits(other, frame):
            return self._peer_bits("added", node, frame)
        if self._steps > _MAX_STEPS:
            return self.unknown("the chain of definitions is too deep to follow", node, frame)
        return owner

    def _scaled(self, node: Node, frame: Frame) -> Flow:
        flows = [self.value(part, frame) for part in node.parts]
        if any(_is_address(flow) or flow.owner == "peer" for flow in flows) and node.text in (
            "<<",
            ">>",
            "*",
            "/",
            "%",
        ):
            return self.unknown(f"the address is changed by {node.text}", node, frame)
        return NEUTRAL

    def _masked(self, node: Node, left: Flow, right: Flow, frame: Frame) -> Flow:
        if not _is_address(left) and not _is_address(right):
            return union([left, right]) if "unknown" in (left.owner, right.owner) else NEUTRAL
        address, mask = (left, node.parts[1]) if _is_address(left) else (right, node.parts[0])
        value = self.constant(mask, frame)
        effect = mask_effect(node.text, value, mask)
        if effect == "peer" or (value is None and self.has_rank_bits(mask, frame)):
            verb = {"&": "masked", "|": "set", "^": "xor-ed"}[node.text]
            return self._peer_bits(verb, node, frame)
        if effect == "keep":
            return address
        if effect == "offset":
            return NEUTRAL
        return self.unknown("the address is combined with a value that is not known", node, frame)

    def _peer_bits(self, verb: str, node: Node, frame: Frame) -> Flow:
        path, line = self.place(node, frame)
        text = f"rank bits of the address are {verb}"
        return Flow("peer", f"{text} at {path}:{line}", (Evidence("address", path, line, text),))

    def has_rank_bits(self, node: Node, frame: Frame, depth: int = 0) -> bool:
        """Whether an offset reaches bit 24 or above, where the CTA rank of a shared::cluster address lies."""
        self._steps += 1
        if depth > 6 or self._steps > _MAX_STEPS:
            return False
        for part in node.walk():
            if part.kind in ("number", "binary", "unary", "name"):
                value = self.constant(part, frame)
                if value is not None and abs(value) >= RANK_BIT:
                    return True
            if part.kind == "binary" and part.text == "<<":
                shift = self.constant(part.parts[1], frame)
                if shift is not None and shift >= 24:
                    return True
            if part.kind == "name" and self._origin_has_rank_bits(part, frame, depth):
                return True
            if part.kind == "call" and self._result_has_rank_bits(part, frame, depth):
                return True
        return False

    def _origin_has_rank_bits(self, part: Node, frame: Frame, depth: int) -> bool:
        """The same for the values that a variable gets in its function, or a parameter at its calls."""
        if part.text in frame.arguments:
            return self.has_rank_bits(*frame.arguments[part.text], depth + 1)
        found = variables.bindings(frame.owner, part.text)
        if any(b.node is not None and self.has_rank_bits(b.node, frame, depth + 1) for b in found):
            return True
        owner = frame.owner
        if any(b.kind in ("declare", "init", "range") for b in found) or not isinstance(owner, Function):
            return False
        names = [parameter.name for parameter in owner.parameters]
        if part.text not in names or owner.is_kernel:
            return False
        position = names.index(part.text)
        return any(
            use.owner is not None
            and position < len(use.arguments)
            and self.has_rank_bits(use.arguments[position], Frame(use.owner), depth + 1)
            for use, _ in self.graph.callers(owner).calls
        )

    def _result_has_rank_bits(self, part: Node, frame: Frame, depth: int) -> bool:
        """The same for what a helper of the tree returns."""
        arguments = part.parts[1:]
        fitting = self._fitting(part.text.rsplit("::", 1)[-1], len(arguments), frame)
        for function in fitting[:_MAX_HELPERS]:
            names = [parameter.name for parameter in function.parameters]
            inner = Frame(function, {k: (v, frame) for k, v in zip(names, arguments, strict=False)})
            if any(self.has_rank_bits(value, inner, depth + 1) for value in returned(function)):
                return True
        return False

    def _indexed(self, node: Node, frame: Frame) -> Flow:
        """Value of `x[i]`: a row of a bigger array decays to its address, an element is a value."""
        base, count = node.parts[0], 1
        while base.kind == "index":
            base, count = base.parts[0], count + 1
        if base.kind == "name":
            rank, elements = self._array(base, frame)
            if rank > count:
                return self.address(base, frame)
            if elements:
                return union([self.value(element, frame) for element in elements])
        return self.unknown("the address is itself loaded from memory", node, frame)

    def _call(self, node: Node, frame: Frame) -> Flow:
        callee = node.parts[0]
        name = callee.text.rsplit("::", 1)[-1]
        arguments = node.parts[1:]
        if name in RANK_MAPPINGS:
            return self._mapping(node, frame)
        if callee.kind in ("member", "arrow") and name in OWNER_METHODS and not arguments:
            base = callee.parts[0]
            return self.address(base, frame) if callee.kind == "member" else self.value(base, frame)
        if name in CONVERSIONS and arguments:
            return self.value(arguments[0], frame)
        if name == "addressof" and arguments:
            return self.address(arguments[0], frame)
        if name in SECOND_ARGUMENT and len(arguments) > 1:
            return self.value(arguments[1], frame)
        return self._helper(node, name, arguments, frame)

    def _mapping(self, node: Node, frame: Frame) -> Flow:
        path, line = self.place(node, frame)
        if any(self.is_own_rank(argument, frame) for argument in node.parts[1:]):
            return Flow("unknown", f"mapped to the own rank at {path}:{line}")
        text = f"{node.text} maps the address to another CTA of the cluster"
        return Flow("peer", f"{text} at {path}:{line}", (Evidence("address", path, line, text),))

    def _helper(self, node: Node, name: str, arguments: tuple[Node, ...], frame: Frame) -> Flow:
        """What a function of the tree returns for these arguments."""
        flows: list[Flow] = []
        fitting = self._fitting(name, len(arguments), frame)
        if len(fitting) > _MAX_HELPERS:
            return self.unknown(f"{name}() has {len(fitting)} definitions", node, frame)
        for function in fitting:
            names = [parameter.name for parameter in function.parameters]
            bound = {key: (value, frame) for key, value in zip(names, arguments, strict=False)}
            inner = Frame(function, bound or {"": (node, frame)})
            flows.extend(self.value(value, inner) for value in returned(function))
        for definition in self.graph.project.macros.candidates(name, self._here(frame)):
            if definition.parameters is not None and len(definition.parameters) == len(arguments):
                macro = self.graph.macro(definition)
                body = definition.tokens
                bound = {
                    key: (value, frame) for key, value in zip(definition.parameters, arguments, strict=False)
                }
                flows.append(self.value(parse_expression(body, range(len(body))), Frame(macro, bound)))
        real = [flow for flow in flows if flow.owner != "none"]
        if real:
            return union(real)
        return NEUTRAL if flows else self.unknown(f"the result of {name}() is not followed", node, frame)

    def _fitting(self, name: str, count: int, frame: Frame) -> list[Function]:
        """Functions of the tree that a call in a frame can mean."""
        unit = frame.owner.unit
        named = [function for function in self.graph.functions_named(name) if function.accepts(count)]
        return [function for function in named if self.graph.project.connected(unit, function.unit)]

    def _here(self, frame: Frame) -> MacrosAt:
        world = self.graph.project.world(None, (13, 0))
        return world.macros_at(frame.owner.unit, 1 << 60)


def returned(function: Function) -> list[Node]:
    """Expressions of every `return` of a function."""
    tokens = function.unit.tokens
    found = []
    for index in tokens.positions.get("return", ()):
        if function.body[0] <= index < function.body[1]:
            stop = index + 1
            while stop < function.body[1] and tokens.texts[stop] != ";":
                stop = tokens.match.get(stop, stop) + 1 if tokens.texts[stop] in ("(", "[", "{") else stop + 1
            found.append(parse_expression(tokens, range(index + 1, stop)))
    return found


def _is_address(flow: Flow) -> bool:
    """Whether arithmetic on a value is arithmetic on an address of the own CTA, as far as is known."""
    return flow.owner == "local" or flow is CIRCLE

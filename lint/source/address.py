"""Whose shared memory an operand names: followed back through variables, helpers and callers to a root.

`local` comes only from a `__shared__` object of the kernel; `peer` from a mapping to another rank; everything
that cannot be followed is `unknown` with the place where the trail ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.finding import Evidence
from ptxguard.source import variables
from ptxguard.source.asmflow import asm_bindings, reads_own_rank
from ptxguard.source.cuda import Function
from ptxguard.source.exprs import Node, parse_expression
from ptxguard.source.flowfacts import (
    CONVERSIONS,
    OWN_RANK,
    OWNER_METHODS,
    RANK_BIT,
    RANK_MAPPINGS,
    SECOND_ARGUMENT,
    Flow,
    mask_effect,
    union,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxguard.source.callgraph import CallGraph, Owner, Use
    from ptxguard.source.constants import Constants
    from ptxguard.source.guards import CppFile
    from ptxguard.source.lexer import AsmStatement

_MAX_DEPTH = 60
# Work for one operand. Real chains take tens of steps; generic code (operator(), get<>) branches without end.
_MAX_STEPS = 4000
_MAX_HELPERS = 6

NEUTRAL = Flow("none", "a number that is no address")


@dataclass(frozen=True, eq=False)
class Frame:
    """A function in which an expression stands, with the arguments of the call it was entered by.

    Attributes:
        owner: the function or macro.
        arguments: parameter name -> (expression, frame of the caller); empty when entered by every caller.
    """

    owner: Owner
    arguments: dict[str, tuple[Node, Frame]] = field(default_factory=dict)


@dataclass(eq=False)
class AddressFlow:
    """Follows addresses over the call graph.

    Attributes:
        graph: the call graph.
        constants: evaluates masks and offsets.
        statements: asm statements of a file.
    """

    graph: CallGraph
    constants: Constants
    statements: Callable[[CppFile], list[AsmStatement]]
    _memo: dict[tuple[object, str, str], Flow] = field(default_factory=dict, repr=False)
    _depth: int = 0
    _steps: int = 0

    def operand(self, node: Node, owner: Owner) -> Flow:
        """Owner of the memory that an operand of an asm statement in a function names."""
        self._steps = 0
        return self.value(node, Frame(owner))

    # Values ---------------------------------------------------------------------------------------

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
        owner, other = (left, node.parts[1]) if left.owner == "local" else (right, node.parts[0])
        if owner.owner == "local":
            return self._peer_bits("added", node, frame) if self.has_rank_bits(other, frame) else owner
        return union([left, right]) if "unknown" in (left.owner, right.owner) else NEUTRAL

    def _scaled(self, node: Node, frame: Frame) -> Flow:
        flows = [self.value(part, frame) for part in node.parts]
        if any(flow.owner in ("local", "peer") for flow in flows) and node.text in (
            "<<",
            ">>",
            "*",
            "/",
            "%",
        ):
            return self.unknown(f"the address is changed by {node.text}", node, frame)
        return NEUTRAL

    def _masked(self, node: Node, left: Flow, right: Flow, frame: Frame) -> Flow:
        if "local" not in (left.owner, right.owner):
            return union([left, right]) if "unknown" in (left.owner, right.owner) else NEUTRAL
        address, mask = (left, node.parts[1]) if left.owner == "local" else (right, node.parts[0])
        effect = mask_effect(node.text, self.constant(mask, frame), mask)
        if effect == "keep":
            return address
        if effect == "offset":
            return NEUTRAL
        if effect == "peer" or self.has_rank_bits(mask, frame):
            verb = {"&": "masked", "|": "set", "^": "xor-ed"}[node.text]
            return self._peer_bits(verb, node, frame)
        return self.unknown("the address is combined with a value that is not known", node, frame)

    def _peer_bits(self, verb: str, node: Node, frame: Frame) -> Flow:
        path, line = self.place(node, frame)
        text = f"rank bits of the address are {verb}"
        return Flow("peer", f"{text} at {path}:{line}", (Evidence("address", path, line, text),))

    def has_rank_bits(self, node: Node, frame: Frame, depth: int = 0) -> bool:
        """Whether an offset reaches bit 24 or above, where the CTA rank of a shared::cluster address lies."""
        if depth > 6:
            return False
        for part in node.walk():
            value = self.constant(part, frame) if part.kind in ("number", "binary", "unary", "name") else None
            if value is not None and abs(value) >= RANK_BIT:
                return True
            if part.kind == "binary" and part.text == "<<":
                shift = self.constant(part.parts[1], frame)
                if shift is not None and shift >= 24:
                    return True
            if part.kind == "name":
                for binding in variables.bindings(frame.owner, part.text):
                    inner = binding.node
                    if (
                        inner is not None
                        and inner is not node
                        and self.has_rank_bits(inner, frame, depth + 1)
                    ):
                        return True
        return False

    def constant(self, node: Node, frame: Frame) -> int | None:
        """Integer value of an expression in a frame."""
        return self.constants.value(node, frame.owner.unit)

    def _indexed(self, node: Node, frame: Frame) -> Flow:
        """Value of `x[i]`: a row of a bigger array decays to its address, an element of pointers is a value."""
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

    def _array(self, base: Node, frame: Frame) -> tuple[int, list[Node]]:
        """Declared rank of an array, and the values its elements get."""
        rank, elements = 0, []
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

    # Variables ------------------------------------------------------------------------------------

    def all_bindings(self, name: str, frame: Frame) -> list[variables.Binding]:
        """Bindings of a variable in the function, or at namespace scope where the function has none."""
        found = variables.bindings(frame.owner, name)
        if any(binding.kind in ("shared", "declare", "init", "range") for binding in found):
            return found
        unit = frame.owner.unit
        bodies = [(f.header[0], f.body[1]) for f in self.graph.structure(unit).functions]
        return found + variables.global_bindings(unit.tokens, name.rsplit("::", 1)[-1], bodies)

    def variable(self, node: Node, frame: Frame) -> Flow:
        """Owner of what a variable's value points to; an array decays to its own address."""
        key = (frame if frame.arguments else frame.owner, node.text, "value")
        known = self._memo.get(key)
        if known is None:
            self._memo[key] = NEUTRAL  # a variable defined by itself adds nothing (`p = p + 1`)
            known = self._memo[key] = self._variable(node, frame)
        return known

    def _variable(self, node: Node, frame: Frame) -> Flow:
        flows: list[Flow] = []
        found = self.all_bindings(node.text, frame)
        for binding in found:
            if binding.kind == "shared" or (binding.rank and binding.kind in ("declare", "init")):
                if binding.kind == "shared" and (binding.rank or _is_record(binding.type_text)):
                    return self.address(node, frame)
                if binding.kind == "shared":
                    return self.unknown("the address is itself loaded from shared memory", node, frame)
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
        return self.unknown(f"no definition of {node.text} is in sight", node, frame)

    def _bound_value(self, binding: variables.Binding, node: Node, frame: Frame) -> Flow | None:
        if binding.kind == "update" and binding.node is not None:
            pair = Node("binary", binding.extra[:-1], (node, binding.node), binding.index)
            return self._binary(pair, frame)
        if binding.kind == "pass":
            return self._changed_by_call(binding, frame)
        if binding.kind in ("init", "assign") and binding.node is not None and not binding.rank:
            return self.value(binding.node, frame)
        if binding.kind == "range" and binding.node is not None:
            return self.unknown("the address comes from a range", node, frame)
        return None

    def _changed_by_call(self, binding: variables.Binding, frame: Frame) -> Flow | None:
        """What a function in the tree writes into a variable passed by reference or by address."""
        flows = []
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
        tokens = function.unit.tokens
        flows = []
        for index in tokens.positions.get(name, ()):
            if function.body[0] <= index < function.body[1] and tokens.texts[index - 1] == "*":
                if tokens.texts[index + 1] == "=":
                    stop = index + 2
                    while stop < function.body[1] and tokens.texts[stop] != ";":
                        stop += 1
                    flows.append(self.value(parse_expression(tokens, range(index + 2, stop)), inner))
        return flows

    def _asm_outputs(self, name: str, frame: Frame) -> list[Flow]:
        """What asm statements of the function write into a variable."""
        flows = []
        for found in asm_bindings(self.statements(frame.owner.unit), frame.owner, name):
            path, line = found.statement.unit.file.path, found.statement.line
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

    # Parameters -----------------------------------------------------------------------------------

    def _parameter(self, node: Node, frame: Frame, *, by_address: bool) -> Flow | None:
        """Owner of a parameter (of the function, a lambda or a macro) over the calls that enter it."""
        name, owner = node.text, frame.owner
        if name in frame.arguments:
            given, home = frame.arguments[name]
            return self._argument(given, home, self._is_reference(owner, name), by_address=by_address)
        inner = variables.lambda_around(owner, node.index) if node.index >= 0 else None
        if inner is not None and any(parameter.name == name for parameter in inner.parameters):
            return self._lambda_parameter(name, inner, frame, by_address=by_address)
        names = (
            [p.name for p in owner.parameters] if isinstance(owner, Function) else list(owner.parameter_names)
        )
        if name not in names:
            return None
        if isinstance(owner, Function) and owner.is_kernel:
            return self.unknown(f"{name} is a parameter of kernel {owner.name}", node, frame)
        return self._over_callers(owner, names.index(name), name, by_address=by_address)

    def _is_reference(self, owner: Owner, name: str) -> bool:
        if not isinstance(owner, Function):
            return False
        return any(p.name == name and p.type_text.split()[-1:] in (["&"], ["&&"]) for p in owner.parameters)

    def _argument(self, node: Node, frame: Frame, reference: bool, *, by_address: bool) -> Flow:  # noqa: FBT001
        if by_address:
            return self.address(node, frame)
        return self.value(node, frame) if not reference else self.value(node, frame)

    def _over_callers(self, owner: Owner, position: int, name: str, *, by_address: bool) -> Flow:
        key = (owner, name, f"callers {by_address}")
        known = self._memo.get(key)
        if known is not None:
            return known
        self._memo[key] = NEUTRAL
        callers = self.graph.callers(owner)
        flows: list[Flow] = []
        for use, sure in callers.calls:
            flow = self._at_call(use, owner, position, by_address=by_address)
            if flow is None:
                continue
            if not sure and flow.owner == "peer":
                flow = Flow(
                    "unknown", f"an overload cannot be told apart at {use.path}:{use.line}", flow.evidence
                )
            if flow.owner != "none":
                step = Evidence("call", use.path, use.line, f"{owner.name} called with {name}")
                flow = Flow(flow.owner, flow.reason, (*flow.evidence, step))
            flows.append(flow)
        for use in callers.escapes:
            flows.append(
                Flow("unknown", f"{owner.qualified} is passed on as a value at {use.path}:{use.line}")
            )
        if not flows:
            place = f"{owner.unit.file.path}:{owner.line}"
            flows.append(Flow("unknown", f"no caller of {owner.qualified} ({place}) is in the tree"))
        real = [flow for flow in flows if flow.owner != "none"]
        known = self._memo[key] = union(real) if real else NEUTRAL
        return known

    def _at_call(self, use: Use, owner: Owner, position: int, *, by_address: bool) -> Flow | None:
        """Owner of one argument at one call; None where that code runs in no kernel at all."""
        if use.owner is None:
            return Flow("unknown", f"called outside of a function at {use.path}:{use.line}")
        if position >= len(use.arguments):
            default = isinstance(owner, Function) and owner.parameters[position].has_default
            return NEUTRAL if default else Flow("unknown", f"argument not readable at {use.path}:{use.line}")
        name = owner.parameters[position].name if isinstance(owner, Function) else ""
        reference = self._is_reference(owner, name)
        return self._argument(use.arguments[position], Frame(use.owner), reference, by_address=by_address)

    def _lambda_parameter(
        self, name: str, inner: variables.Lambda, frame: Frame, *, by_address: bool
    ) -> Flow:
        position = [parameter.name for parameter in inner.parameters].index(name)
        flows = []
        for use in self.graph.uses(inner.name) if inner.name else ():
            if use.owner is frame.owner and use.kind == "call" and position < len(use.arguments):
                flows.append(
                    self._argument(use.arguments[position], frame, reference=False, by_address=by_address)
                )
        if not flows:
            return Flow("unknown", f"no call of the lambda {inner.name} is in sight")
        return union(flows)

    # Addresses ------------------------------------------------------------------------------------

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
            return self._call(node, frame)
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
        for binding in self.all_bindings(node.text, frame):
            if binding.kind == "shared":
                return self._root(node.text, binding, frame)
            if binding.kind in ("init", "range") and binding.reference and binding.node is not None:
                return self.address(binding.node, frame)
            if binding.kind in ("declare", "init", "range"):
                return self.unknown(f"{node.text} is a variable in local memory", node, frame)
        parameter = self._parameter(node, frame, by_address=True)
        if parameter is None:
            return self._this_member(node, frame)
        reference = self._is_reference(frame.owner, node.text) or not isinstance(frame.owner, Function)
        return (
            parameter
            if reference
            else self.unknown(f"{node.text} is a parameter passed by value", node, frame)
        )

    def _root(self, name: str, binding: variables.Binding, frame: Frame) -> Flow:
        tokens, first, last = variables.body_of(frame.owner)
        if not first <= binding.index < last:
            tokens = frame.owner.unit.tokens
        unit = frame.owner.unit
        line = unit.file.position(tokens.starts[binding.index])[0]
        text = f"{binding.type_text} {name}"
        reason = f"{name} is __shared__ memory of the CTA ({unit.file.path}:{line})"
        return Flow("local", reason, (Evidence("address", unit.file.path, line, text),))

    def _this(self, frame: Frame) -> Flow:
        """Objects on which a member function is called."""
        owner = frame.owner
        if not isinstance(owner, Function):
            return self.unknown("an object that is not followed", Node("name", "this"), frame)
        key = (owner, "this", "object")
        if key not in self._memo:
            self._memo[key] = NEUTRAL
            flows = []
            for use, _ in self.graph.callers(owner).calls:
                if use.receiver is not None and use.owner is not None:
                    arrow = use.tokens.texts[use.index - 1] == "->"
                    follow = self.value if arrow else self.address
                    flows.append(follow(use.receiver, Frame(use.owner)))
                elif use.owner is not None and use.owner is not owner and isinstance(use.owner, Function):
                    flows.append(self._this(Frame(use.owner)))
            real = [flow for flow in flows if flow.owner != "none"]
            self._memo[key] = (
                union(real) if real else Flow("unknown", f"no object of {owner.qualified} is in sight")
            )
        return self._memo[key]

    def _this_member(self, node: Node, frame: Frame) -> Flow:
        owner = frame.owner
        if isinstance(owner, Function) and owner.in_record:
            shape = self.graph.member_shape(node.text, owner.unit, owner.scope[-1] if owner.scope else "")
            if shape in ("array", "object"):
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

    # Calls ----------------------------------------------------------------------------------------

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
        flows = []
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

    def _here(self, frame: Frame):  # type: ignore[no-untyped-def]  # noqa: ANN202
        world = self.graph.project.world(None, (13, 0))
        return world.macros_at(frame.owner.unit, 1 << 60)

    # Places ---------------------------------------------------------------------------------------

    def place(self, node: Node, frame: Frame) -> tuple[str, int]:
        """Path and line of an expression, or of its function where it has no token of its own."""
        tokens, first, last = variables.body_of(frame.owner)
        unit = frame.owner.unit
        if first <= node.index < last:
            return unit.file.path, unit.file.position(tokens.starts[node.index])[0]
        return unit.file.path, frame.owner.line

    def unknown(self, reason: str, node: Node, frame: Frame) -> Flow:
        """An unknown owner with the place where the trail ends."""
        path, line = self.place(node, frame)
        return Flow("unknown", f"{reason} ({path}:{line})", (Evidence("address", path, line, reason),))


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


def _is_record(type_text: str) -> bool:
    """Whether a shared variable is an object of class type (its value is the object, not an address)."""
    words = type_text.replace("__shared__", "").split()
    return bool(words) and "*" not in words and "uint64_t" not in words and "uint32_t" not in words

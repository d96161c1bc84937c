"""Whose shared memory a Python operand names, followed back to an allocation or to a mapping to a peer."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.finding import Evidence
from ptxguard.source.flowfacts import RANK_BIT, Flow, union
from ptxguard.source.pythoncalls import argument
from ptxguard.source.pythonconditions import contradicts, path_conditions
from ptxguard.source.pythonframe import Frame, caller_frame
from ptxguard.source.pythonscope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from tree_sitter import Node

    from ptxguard.source.pythoncalls import Classes, PythonCalls
    from ptxguard.source.pythonconditions import Condition
    from ptxguard.source.pythonscope import Binding
    from ptxguard.source.pythonvalues import PythonValues

_MAX_DEPTH = 40
_MAX_STEPS = 3000
NEUTRAL = Flow("none", "a number that is no address")

# CuTe DSL: allocations in the shared memory of the own CTA ("cutlass.utils.SmemAllocator", "cute.arch").
_ALLOCATOR = "SmemAllocator"
_ALLOCATES = frozenset({"allocate", "allocate_array", "allocate_tensor"})
_ROOTS = frozenset({"alloc_smem", "get_dyn_smem"})
# Mappings to another CTA of the cluster (PTX ISA "mapa"; CuTe DSL `map_dsmem_ptr`).
_MAPPING = re.compile(r"(?:^|_)(?:mapa|map_dsmem|map_shared|set_block_rank|map_to_peer)(?:_|$)|peer_smem")
# Methods and functions whose result lies where their first operand lies.
_KEEPS = frozenset(
    "toint ir_value to_int data_ptr iterator llvm_ptr value align recast recast_ptr recast_tensor "
    "make_tensor make_ptr slice_ local_tile flat_divide group_modes get_tensor cast assume reinterpret_cast "
    "ptrtoint inttoptr addrspacecast producer_get_barrier zipped_divide logical_divide filter_zeros".split()
)
_NUMBERS = frozenset("Int8 Int16 Int32 Int64 Uint8 Uint16 Uint32 Uint64 int".split())
# Attributes that name the place of a value, not another object.
_PLACES = frozenset({"iterator", "llvm_ptr", "value", "ir_value", "ptr"})


@dataclass(eq=False)
class PythonAddresses:
    """Follows addresses through Python.

    Attributes:
        calls: callers, types and names.
        values: masks and offsets.
        asm: for a call of an asm: `keep` with its operands, `map`, or `opaque`; None for another call.
    """

    calls: PythonCalls
    values: PythonValues
    asm: Callable[[Node, Scope], tuple[str, list[Node]] | None]
    _known: dict[tuple[int, Scope, Classes | None], Flow] = field(default_factory=dict, repr=False)
    _active: set[tuple[int, int]] = field(default_factory=set, repr=False)
    _conditions: tuple[Condition, ...] = ()
    _steps: int = 0

    def of(self, node: Node, frame: Frame, conditions: tuple[Condition, ...] = ()) -> Flow:
        """Owner of the memory that an operand names; never `none`.

        `conditions` are tests that hold where the operand is used; definitions under their opposite in the
        same function do not count.
        """
        self._steps = 0
        self._conditions = conditions
        found = self._flow(node, frame, 0)
        if found.owner == "none":
            return self._unknown("the address is a plain number", node, frame)
        return found

    def _unknown(self, reason: str, node: Node, frame: Frame) -> Flow:
        path, line = frame.scope.unit.file.path, frame.scope.unit.line(node)
        return Flow("unknown", f"{reason} ({path}:{line})", (Evidence("address", path, line, reason),))

    def _root(self, owner: str, text: str, node: Node, frame: Frame) -> Flow:
        path, line = frame.scope.unit.file.path, frame.scope.unit.line(node)
        return Flow(owner, f"{text} ({path}:{line})", (Evidence("address", path, line, text),))

    def _flow(self, node: Node | None, frame: Frame, depth: int) -> Flow:
        if node is None:
            return Flow("unknown", "an operand is missing")
        self._steps += 1
        if depth > _MAX_DEPTH or self._steps > _MAX_STEPS:
            return self._unknown("the chain of definitions is too deep to follow", node, frame)
        key = (node.id, id(frame.scope))
        if key in self._active:
            return NEUTRAL  # a circle of definitions adds nothing
        self._active.add(key)
        try:
            return self._expression(node, frame, depth)
        finally:
            self._active.discard(key)

    def _expression(self, node: Node, frame: Frame, depth: int) -> Flow:
        kind = node.type
        if kind in ("integer", "float", "string", "none", "true", "false", "comparison_operator"):
            return NEUTRAL
        if kind == "parenthesized_expression":
            return self._flow(node.named_children[0], frame, depth + 1)
        if kind == "identifier":
            return self._name(node, frame, depth)
        if kind == "attribute":
            return self._attribute(node, frame, depth)
        if kind == "call":
            return self._call(node, frame, depth)
        if kind == "binary_operator":
            return self._operator(node, frame, depth)
        if kind == "conditional_expression":
            first, _, last = node.named_children
            return union([self._flow(first, frame, depth + 1), self._flow(last, frame, depth + 1)])
        if kind == "subscript":
            return self._subscript(node, frame, depth)
        if kind in ("tuple", "list"):
            return _settled([self._flow(child, frame, depth + 1) for child in node.named_children])
        return self._unknown("an expression that is not followed", node, frame)

    # Names ----------------------------------------------------------------------------------------

    def _name(self, node: Node, frame: Frame, depth: int) -> Flow:
        name = frame.scope.unit.text(node)
        bound = self.calls.tree.bindings(name, frame.scope)
        if not bound:
            return self._unknown(f"{name} has no value in this file", node, frame)
        flows = []
        for binding in bound:
            here = path_conditions(binding.node, binding.scope) if self._conditions else ()
            if not contradicts(here, self._conditions):
                flows.append(self._binding(binding, name, node, frame, depth))
        return _settled(flows)

    def _binding(self, binding: Binding, name: str, node: Node, frame: Frame, depth: int) -> Flow:
        if binding.kind == "parameter":
            return self._parameter(name, node, frame, depth)
        if binding.kind in ("assign", "augment", "with", "append", "item"):
            inner = frame if binding.scope is frame.scope else Frame(binding.scope, frame.classes)
            value = _element(binding.value, binding.path)
            if value is None:
                return self._unpacked(binding, name, inner, depth)
            return self._flow(value, inner, depth + 1)
        if binding.imported is not None:
            return NEUTRAL  # a module-level object is host data: a number or a type
        if binding.kind == "loop":
            return self._unknown(f"{name} runs over values that are not followed", node, frame)
        return NEUTRAL

    def _unpacked(self, binding: Binding, name: str, frame: Frame, depth: int) -> Flow:
        """`a, b = value` where the value is no literal: every part lies where the value lies, if known."""
        flow = self._flow(binding.value, frame, depth + 1)
        if flow.owner in ("local", "none"):
            return self._unknown(f"{name} is unpacked from a value that is not followed", binding.node, frame)
        return flow

    def _parameter(self, name: str, node: Node, frame: Frame, depth: int) -> Flow:
        function: Scope | None = frame.scope
        while function is not None and all(one.name != name for one in function.parameters):
            function = function.parent
        if function is None:
            return self._unknown(f"{name} has no value in sight", node, frame)
        if name in frame.arguments and function is frame.scope:
            given, outer = frame.arguments[name]
            return self._flow(given, outer, depth + 1)
        classes = frame.classes if function.owner is not None else None
        parameter = next(one for one in function.parameters if one.name == name)
        if _self_parameter(function, name):
            return NEUTRAL
        callers = self.calls.callers(function, classes)
        conditions, self._conditions = self._conditions, ()
        flows = []
        for call in callers.calls:
            given_node, why = argument(call, function, parameter)
            if given_node is not None:
                flows.append(self._flow(given_node, caller_frame(call), depth + 1))
            elif why == "default":
                flows.append(self._flow(parameter.default, Frame(function.parent or function), depth + 1))
            else:
                reason = f"{name} is not written out in a call"
                flows.append(self._unknown(reason, call.node, Frame(call.scope)))
        self._conditions = conditions
        if callers.escapes:
            unit, place = callers.escapes[0]
            where = Frame(unit.module)
            flows.append(self._unknown(f"{function.qualified} is passed on as a value", place, where))
        if not flows:
            reason = f"{name} is a parameter of {function.qualified}, which nobody in the tree calls"
            return self._unknown(reason, function.node, frame)
        return union(flows)

    def _attribute(self, node: Node, frame: Frame, depth: int) -> Flow:
        holder, attribute = node.child_by_field_name("object"), node.child_by_field_name("attribute")
        if holder is None or attribute is None:
            return self._unknown("an attribute without a name", node, frame)
        name = frame.scope.unit.text(attribute)
        types = self.calls.types(holder, frame.scope)
        if types:
            own = frame.classes if self._is_self(holder, frame) else None
            return self._field(name, types if own is None else types & own, node, frame, depth)
        base = self._flow(holder, frame, depth + 1)
        if base.owner == "none":
            return base if name in _PLACES else NEUTRAL
        # A field of a structure in shared memory lies there too; reading it takes a method or an index.
        return base

    @staticmethod
    def _is_self(holder: Node, frame: Frame) -> bool:
        return frame.classes is not None and frame.scope.unit.text(holder) == "self"

    def _field(self, name: str, types: Classes, node: Node, frame: Frame, depth: int) -> Flow:
        """A field of an object of the tree: everything that is assigned to it."""
        flows = []
        for record in sorted(types, key=lambda one: (one.unit.file.path, one.line)):
            for binding, scope in self.calls.tree.attribute(record, name):
                inner = Frame(scope, frozenset({record}) if scope.kind == "function" else None)
                flows.append(self._binding(binding, name, node, inner, depth))
        return _settled(flows) if flows else self._unknown(f"{name} is never assigned in sight", node, frame)

    # Calls and operators --------------------------------------------------------------------------

    def _call(self, node: Node, frame: Frame, depth: int) -> Flow:
        unit = frame.scope.unit
        name, function = unit.callee(node), node.child_by_field_name("function")
        holder = function.child_by_field_name("object") if function is not None else None
        listed = node.child_by_field_name("arguments")
        given = [one for one in listed.named_children if one.type != "comment"] if listed is not None else []
        asm = self.asm(node, frame.scope)
        if asm is not None:
            return self._through_asm(asm, node, frame, depth)
        if _MAPPING.search(name):
            return self._root("peer", f"{name} maps the address to another CTA of the cluster", node, frame)
        if name in _ROOTS:
            return self._root("local", f"{name}() is shared memory of the own CTA", node, frame)
        if name in _ALLOCATES and holder is not None and self._is_allocator(holder, frame):
            return self._root(
                "local", f"{name}() of a {_ALLOCATOR} is shared memory of the own CTA", node, frame
            )
        if name == "create":
            storage = self._keyword(given, "barrier_storage", frame)
            if storage is not None:  # a pipeline hands out the barriers of the storage that it got
                return self._flow(storage, frame, depth + 1)
        if name in _NUMBERS and len(given) == 1:
            return self._flow(given[0], frame, depth + 1)
        if name in _KEEPS:
            if holder is not None and not self._is_module(holder, frame):
                return self._flow(holder, frame, depth + 1)
            if given:
                return self._flow(given[0], frame, depth + 1)
        return self._helper(node, name, frame, depth)

    @staticmethod
    def _keyword(given: list[Node], wanted: str, frame: Frame) -> Node | None:
        for one in given:
            key = one.child_by_field_name("name") if one.type == "keyword_argument" else None
            if key is not None and frame.scope.unit.text(key) == wanted:
                return one.child_by_field_name("value")
        return None

    def _through_asm(self, asm: tuple[str, list[Node]], node: Node, frame: Frame, depth: int) -> Flow:
        effect, operands = asm
        if effect == "map":
            return self._root("peer", "mapa maps the address to another CTA of the cluster", node, frame)
        if effect == "keep":
            return _dominant([self._flow(operand, frame, depth + 1) for operand in operands])
        return self._unknown("the address is computed by an asm that is not followed", node, frame)

    def _is_module(self, holder: Node, frame: Frame) -> bool:
        targets = self.calls.tree.targets(holder, frame.scope)
        return any(one is not None and not (isinstance(one, Scope)) for one in targets)

    def _is_allocator(self, holder: Node, frame: Frame, depth: int = 0) -> bool:
        """Whether a value can only be a `SmemAllocator`."""
        unit = frame.scope.unit
        if holder.type == "call":
            return unit.callee(holder) == _ALLOCATOR
        if holder.type != "identifier" or depth > 4:
            return False
        name = unit.text(holder)
        answers = []
        for binding in self.calls.tree.bindings(name, frame.scope):
            if binding.kind == "assign" and binding.value is not None and not binding.path:
                answers.append(self._is_allocator(binding.value, Frame(binding.scope), depth + 1))
            elif binding.kind == "parameter":
                answers.append(self._is_allocator_parameter(name, frame, depth))
            else:
                answers.append(False)
        return bool(answers) and all(answers)

    def _is_allocator_parameter(self, name: str, frame: Frame, depth: int) -> bool:
        function = frame.scope
        parameter = next((one for one in function.parameters if one.name == name), None)
        if parameter is None:
            return False
        if parameter.annotation is not None and function.unit.text(parameter.annotation).endswith(_ALLOCATOR):
            return True
        callers = self.calls.callers(function, frame.classes if function.owner is not None else None)
        answers = []
        for call in callers.calls:
            given, _ = argument(call, function, parameter)
            answers.append(given is not None and self._is_allocator(given, caller_frame(call), depth + 1))
        return bool(answers) and all(answers) and not callers.escapes

    def _helper(self, node: Node, name: str, frame: Frame, depth: int) -> Flow:
        """What a function of the tree returns for these arguments."""
        flows: list[Flow] = []
        function = node.child_by_field_name("function")
        for target in self.calls.tree.targets(function, frame.scope):
            if isinstance(target, Scope) and target.kind != "class":
                inner = Frame(target, None, self.values.bound(target, node, frame, skip=0))
                flows.extend(self._flow(value, inner, depth + 1) for value in target.returned)
        if flows:
            return _settled(flows)
        return self._unknown(f"what {name}() returns is not followed", node, frame)

    def _operator(self, node: Node, frame: Frame, depth: int) -> Flow:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        sign = node.child_by_field_name("operator")
        written = frame.scope.unit.text(sign) if sign is not None else ""
        flows = [self._flow(left, frame, depth + 1), self._flow(right, frame, depth + 1)]
        address = _dominant(flows)
        if address.owner not in ("local", "peer"):
            # A product or a quotient is an offset, whatever it is made of.
            return address if written in ("+", "-", "&", "|", "^") else NEUTRAL
        if address.owner == "peer":
            return address
        other = right if flows[0].owner == "local" else left
        return self._changed(written, address, other, node, frame)

    def _changed(self, sign: str, address: Flow, other: Node | None, node: Node, frame: Frame) -> Flow:
        """An address of the own CTA plus, minus or masked with something."""
        if sign not in ("+", "-", "&", "|", "^"):
            return self._unknown(f"the address is changed by {sign}", node, frame)
        if other is None:
            return self._unknown("the address is combined with a value that is missing", node, frame)
        given = self.values.of(other, frame)
        constants = [one for one in given if isinstance(one, int)]
        for value in constants:
            bits = value & 0xFFFFFFFF
            if sign == "&" and bits >> 24 == 0xFF:
                continue
            if (sign == "&" and value >= 0 and bits >= 1 << 18) or (sign == "&" and value < 0):
                return self._root("peer", "the rank bits of the address are masked", node, frame)
            if sign != "&" and abs(value) >= RANK_BIT:
                return self._root("peer", "the rank bits of the address are changed", node, frame)
        if sign in ("&", "|", "^") and not constants:
            return self._unknown("the address is combined with a value that is not known", node, frame)
        return self._ranked(address, other, node, frame)

    def _ranked(self, address: Flow, other: Node, node: Node, frame: Frame) -> Flow:
        """An offset that holds a shift into the rank bits leads to a peer."""
        text = frame.scope.unit.text(other)
        if re.search(r"<<\s*24|0x0?1000000\b|\b16777216\b", text):
            return self._root("peer", "the rank bits of the address are changed", node, frame)
        return address

    def _subscript(self, node: Node, frame: Frame, depth: int) -> Flow:
        """A slice of a tensor lies where the tensor lies; an element is a value loaded from it."""
        base = self._flow(node.child_by_field_name("value"), frame, depth + 1)
        indices = node.children_by_field_name("subscript")
        parts = [part for one in indices for part in ([one] if one.type != "tuple" else one.named_children)]
        if base.owner == "none" or any(part.type in ("none", "slice", "ellipsis") for part in parts):
            return base
        if base.owner == "local":
            return self._unknown("the address is itself loaded from memory", node, frame)
        return base


def _dominant(flows: list[Flow]) -> Flow:
    """An address plus an offset: a peer decides, else the side that is an address in sight."""
    for owner in ("peer", "local", "unknown"):
        for flow in flows:
            if flow.owner == owner:
                return flow
    return flows[0] if flows else NEUTRAL


def _settled(flows: list[Flow]) -> Flow:
    """One owner for several definitions; those that are no address (None, a number) leave it as it is."""
    real = [flow for flow in flows if flow.owner != "none"]
    return union(real) if real else NEUTRAL


def _element(value: Node | None, path: tuple[int, ...]) -> Node | None:
    for place in path:
        if value is None or value.type not in ("tuple", "list", "expression_list"):
            return None
        value = value.named_children[place] if place < len(value.named_children) else None
    return value


def _self_parameter(function: Scope, name: str) -> bool:
    first = function.parameters[0].name if function.parameters else ""
    return function.owner is not None and name == first and "staticmethod" not in function.decorators

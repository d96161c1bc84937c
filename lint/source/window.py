"""Whether a C++ expression is a generic address (a pointer) or an offset in the shared window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.finding import Evidence
from ptxguard.source import variables
from ptxguard.source.address import returned
from ptxguard.source.uses import MacroBody

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ptxguard.source.callgraph import CallGraph
    from ptxguard.source.cuda import Function
    from ptxguard.source.exprs import Node
    from ptxguard.source.uses import Owner

# Functions that turn a pointer into an offset in the shared window (CUDA C++ guide, "Address Space Conversion
# Functions"; CUTLASS; libdevice).
_TO_SHARED = frozenset(
    {"__cvta_generic_to_shared", "cast_smem_ptr_to_uint", "__nvvm_get_smem_pointer", "__cvta_to_shared"}
)
_TO_GENERIC = frozenset({"__cvta_shared_to_generic"})
_MAX_DEPTH = 12
_MAX_HELPERS = 4


@dataclass(frozen=True)
class Window:
    """Result.

    Attributes:
        kind: shared, generic, or "" where nothing tells.
        evidence: what decided it.
    """

    kind: str
    evidence: tuple[Evidence, ...] = ()


_NOTHING = Window("")


@dataclass(eq=False)
class Windows:
    """Follows expressions to what made them an address.

    Attributes:
        graph: the call graph.
    """

    graph: CallGraph

    def of(self, node: Node, owner: Owner, depth: int = 0) -> Window:
        """Window of the address that an expression is."""
        if depth > _MAX_DEPTH:
            return _NOTHING
        kind = node.kind
        if kind == "cast":
            return self._cast(node, owner, depth)
        if kind == "call":
            return self._call(node, owner, depth)
        if kind == "unary" and node.text == "&":
            return Window("generic", (self._link(node, owner, "the address of an object"),))
        if kind == "binary" and node.text in ("+", "-", "&", "|", "^"):
            return _agreed([self.of(part, owner, depth + 1) for part in node.parts], partly=True)
        if kind == "cond":
            return _agreed([self.of(part, owner, depth + 1) for part in node.parts[1:]])
        return self._name(node, owner, depth) if kind == "name" else _NOTHING

    def _cast(self, node: Node, owner: Owner, depth: int) -> Window:
        """A cast keeps what an address is, but an integer that becomes a pointer may be either."""
        inner = self.of(node.parts[0], owner, depth + 1)
        return inner if "*" not in node.text or inner.kind == "generic" else _NOTHING

    def _call(self, node: Node, owner: Owner, depth: int) -> Window:
        name = node.parts[0].text.rsplit("::", 1)[-1]
        if name in _TO_SHARED or name in _TO_GENERIC:
            kind = "shared" if name in _TO_SHARED else "generic"
            return Window(kind, (self._link(node, owner, f"{name}() makes it one"),))
        functions = [f for f in self.graph.functions_named(name) if f.accepts(len(node.parts) - 1)]
        connected = [f for f in functions if self.graph.project.connected(owner.unit, f.unit)]
        if not 0 < len(connected) <= _MAX_HELPERS:
            return _NOTHING
        values = [self.of(value, f, depth + 1) for f in connected for value in returned(f)]
        return _agreed(values)

    def _name(self, node: Node, owner: Owner, depth: int) -> Window:
        """A variable: its type where that is a pointer or an array, else the values that it gets."""
        if isinstance(owner, MacroBody):
            return _NOTHING
        found = variables.bindings(owner, node.text)
        declared = [binding for binding in found if binding.kind in ("shared", "declare", "init", "range")]
        for binding in declared:
            if "*" in binding.type_text or (binding.rank and binding.kind == "shared"):
                return Window("generic", (self._link(node, owner, f"declared {binding.type_text}"),))
        values = [binding.node for binding in found if binding.kind in ("init", "assign") and binding.node]
        if declared:
            return _agreed([self.of(value, owner, depth + 1) for value in values])
        parameter = next((p for p in owner.parameters if p.name == node.text), None)
        if parameter is None:
            return _NOTHING
        if "*" in parameter.type_text or "[" in parameter.type_text:
            return Window("generic", (self._link(node, owner, f"declared {parameter.type_text}"),))
        if values:  # a parameter that is written is no longer what the callers give
            return _NOTHING
        return self._given(owner, owner.parameters.index(parameter), depth)

    def _given(self, owner: Function, position: int, depth: int) -> Window:
        """What every caller in the tree gives for a parameter."""
        callers = self.graph.callers(owner)
        if owner.is_kernel or callers.escapes or not callers.calls:
            return _NOTHING
        given = []
        for use, sure in callers.calls:
            if not sure or use.owner is None or position >= len(use.arguments):
                return _NOTHING
            given.append(self.of(use.arguments[position], use.owner, depth + 1))
        return _agreed(given)

    def _link(self, node: Node, owner: Owner, text: str) -> Evidence:
        tokens, first, last = variables.body_of(owner)
        unit = owner.unit
        inside = first <= node.index < last
        line = unit.file.position(tokens.starts[node.index])[0] if inside else owner.line
        return Evidence("address", unit.file.path, line, f"{node.text or 'it'}: {text}")


def _agreed(found: Iterable[Window], *, partly: bool = False) -> Window:
    """One answer of several; `partly`: where some say nothing (an offset), the others decide."""
    windows = list(found)
    telling = [window for window in windows if window.kind]
    if not telling or len({window.kind for window in telling}) > 1:
        return _NOTHING
    return telling[0] if partly or len(telling) == len(windows) else _NOTHING

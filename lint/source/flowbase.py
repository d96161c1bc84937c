"""The frame in which an address is followed, and what every part of the flow shares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.finding import Evidence
from ptxguard.source import variables
from ptxguard.source.flowfacts import Flow

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxguard.source.callgraph import CallGraph
    from ptxguard.source.constants import Constants
    from ptxguard.source.exprs import Node
    from ptxguard.source.guards import CppFile
    from ptxguard.source.lexer import AsmStatement
    from ptxguard.source.uses import Owner

NEUTRAL = Flow("none", "a number that is no address")
# The value that is being followed, met again inside its own definition (`p |= rank << 24`).
CIRCLE = Flow("none", "the address itself")


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
class FlowBase:
    """Fields and places; `value` and `address` are what the parts call of each other.

    Attributes:
        graph: the call graph.
        constants: evaluates masks and offsets.
        statements: asm statements of a file.
        doubt: "with NAME defined" where a statement is compiled only then, "" where it surely is.
    """

    graph: CallGraph
    constants: Constants
    statements: Callable[[CppFile], list[AsmStatement]]
    doubt: Callable[[AsmStatement], str]
    _memo: dict[tuple[object, str, str], Flow] = field(default_factory=dict, repr=False)
    _active: dict[tuple[object, str, str], int] = field(default_factory=dict, repr=False)
    _lambdas: dict[Owner, list[variables.Lambda]] = field(default_factory=dict, repr=False)
    _low: int = 1 << 60
    _depth: int = 0
    _steps: int = 0

    def once(self, key: tuple[object, str, str], compute: Callable[[], Flow]) -> Flow:
        """Compute a flow once; inside a circle of definitions the one in progress adds nothing.

        A result that rests on one still in progress is not kept: seen from outside the circle it can be
        more (two pointers that are swapped in a loop).
        """
        known = self._memo.get(key)
        if known is not None:
            return known
        if key in self._active:
            self._low = min(self._low, self._active[key])
            return CIRCLE
        place = self._active[key] = len(self._active)
        outer, self._low = self._low, 1 << 60
        try:
            result = compute()
        finally:
            del self._active[key]
        if self._low >= place:
            self._memo[key] = result
            self._low = outer
        else:
            self._low = min(self._low, outer)
        return result

    def value(self, node: Node, frame: Frame) -> Flow:
        """Owner of the memory that the value of an expression points to."""
        raise NotImplementedError

    def address(self, node: Node, frame: Frame) -> Flow:
        """Owner of the memory in which an object lies."""
        raise NotImplementedError

    def constant(self, node: Node, frame: Frame) -> int | None:
        """Integer value of an expression in a frame."""
        return self.constants.value(node, frame.owner.unit)

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

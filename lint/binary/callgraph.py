"""Which functions a kernel can reach: `.nv.callgraph` closed over device functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Markers: a pair (0, marker) says what the pairs behind it are.
_DIRECT, _PROTOTYPE, _INDIRECT, _ADDRESS = -1, -2, -3, -4


@dataclass(frozen=True, slots=True)
class CallGraph:
    """Calls between symbols of one image.

    Attributes:
        calls: caller -> callees called directly.
        prototypes: prototype -> functions that have it and whose address is taken.
        indirect: caller -> prototypes it calls through a pointer.
    """

    calls: dict[int, list[int]] = field(default_factory=dict)
    prototypes: dict[int, list[int]] = field(default_factory=dict)
    indirect: dict[int, list[int]] = field(default_factory=dict)

    def callees(self, caller: int) -> Iterable[int]:
        """Everything a function can call, through pointers too."""
        yield from self.calls.get(caller, ())
        for prototype in self.indirect.get(caller, ()):
            yield from self.prototypes.get(prototype, ())

    def reach(self, start: int) -> dict[int, None]:
        """The function itself and all it can reach, in order of discovery."""
        seen = {start: None}
        waiting = [start]
        while waiting:
            for callee in self.callees(waiting.pop()):
                if callee not in seen:
                    seen[callee] = None
                    waiting.append(callee)
        return seen

    def recursive(self, start: int) -> bool:
        """Whether a function that `start` can reach can reach itself (depth-first search for a back edge)."""
        active, done = {start}, set()
        stack = [(start, iter(tuple(self.callees(start))))]
        while stack:
            function, callees = stack[-1]
            for callee in callees:
                if callee in active:
                    return True
                if callee not in done:
                    active.add(callee)
                    stack.append((callee, iter(tuple(self.callees(callee)))))
                    break
            else:
                stack.pop()
                active.discard(function)
                done.add(function)
        return False


def deepest_bytes(graph: CallGraph, start: int, frames: dict[int, int]) -> int:
    """Bytes of stack on the deepest path from a function that does not recurse: the sum of its frames.

    Equal to what nvlink 13.0 writes as MIN_STACK_SIZE of a linked kernel.
    """
    done: dict[int, int] = {}
    active = {start}
    stack = [(start, iter(tuple(graph.callees(start))))]
    while stack:
        function, callees = stack[-1]
        for callee in callees:
            if callee not in done and callee not in active:
                active.add(callee)
                stack.append((callee, iter(tuple(graph.callees(callee)))))
                break
        else:
            stack.pop()
            active.discard(function)
            below = (done.get(callee, 0) for callee in graph.callees(function))
            done[function] = frames.get(function, 0) + max(below, default=0)
    return done[start]


def read_callgraph(words: memoryview) -> CallGraph:
    """Decode a call graph section (pairs of i32: caller, callee)."""
    graph = CallGraph()
    pairs = words[: len(words) & ~1].cast("B").cast("i").tolist()
    tables = {_DIRECT: graph.calls, _INDIRECT: graph.indirect}
    kind = _DIRECT
    for caller, callee in zip(pairs[0::2], pairs[1::2], strict=True):
        if callee < 0:
            kind = callee
        elif kind in tables:
            tables[kind].setdefault(caller, []).append(callee)
        elif kind == _PROTOTYPE:
            graph.prototypes.setdefault(callee, []).append(caller)
    return graph

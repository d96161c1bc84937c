"""Whether a kernel hands registers over at run time: `setmaxnreg` of its own, of helpers, or behind macros.

ptxas ignores it in a kernel that calls a driver function for a copy (info C7506).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.source.callgraph import CallGraph
    from ptxguard.source.cuda import Function
    from ptxguard.source.guards import CppFile

_WORD = "setmaxnreg"
# Names of libraries that stand outside most trees (CUTLASS, CCCL).
_LIBRARY = ("warpgroup_reg_alloc", "warpgroup_reg_dealloc", "setmaxnreg_inc", "setmaxnreg_dec")


class Resizing:
    """Finds kernels that resize; helpers and macros of the whole tree are looked up once."""

    def __init__(self, graph: CallGraph) -> None:
        self._graph = graph

    def resizes(self, kernel: Function) -> bool:
        """Whether the kernel, or a helper or macro that it names, uses `setmaxnreg`."""
        if _WORD in _text(kernel):
            return True
        first, last = kernel.body
        tokens = kernel.unit.tokens
        named = set(tokens.texts[first:last])
        if not named.isdisjoint(_LIBRARY):
            return True
        return any(
            home is kernel.unit or self._graph.project.connected(kernel.unit, home)
            for name in named & self._names.keys()
            for home in self._names[name]
        )

    @cached_property
    def _names(self) -> dict[str, list[CppFile]]:
        """Function or macro that leads to `setmaxnreg` -> files that define it so."""
        found: dict[str, list[CppFile]] = {}
        for unit in self._graph.project.with_word(_WORD):
            words = {_WORD, *_LIBRARY}
            # A helper of a helper, or a macro that calls one, in the same file.
            for _ in range(3):
                more = {name for name in self._leading(unit, words) if name not in words}
                if not more:
                    break
                words |= more
                for name in more:
                    found.setdefault(name, []).append(unit)
        return found

    def _leading(self, unit: CppFile, words: set[str]) -> Iterator[str]:
        for function in self._graph.structure(unit).functions:
            first, last = function.body
            texts = unit.tokens.texts[first:last]
            if not function.is_kernel and (_WORD in _text(function) or not words.isdisjoint(texts)):
                yield function.name
        for definition in unit.definitions:
            if definition.value is not None and any(word in definition.value for word in words):
                yield definition.name


def _text(function: Function) -> str:
    """The body as it stands in the file, literals included."""
    tokens = function.unit.tokens
    first, last = function.body
    return function.unit.file.text[tokens.starts[first - 1] : tokens.starts[min(last, len(tokens) - 1)]]

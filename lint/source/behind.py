"""Whether code leads to a word of PTX or of a library: in its own text, through helpers, or behind macros."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.source.callgraph import CallGraph
    from ptxguard.source.cuda import Function
    from ptxguard.source.guards import CppFile

# What ptxas ignores in a kernel that calls a driver function for a copy (info C7506), and its names in
# libraries that stand outside most trees (CUTLASS, CCCL).
RESIZING = ("setmaxnreg",)
RESIZING_LIBRARY = ("warpgroup_reg_alloc", "warpgroup_reg_dealloc", "setmaxnreg_inc", "setmaxnreg_dec")
# What maps an address to another CTA of the cluster: PTX, the built-in and cooperative groups, CUTLASS.
MAPPING = ("mapa", "map_shared_rank", "set_block_rank")
# The rank of a CTA (0 to 15) stands from bit 24 on in a shared::cluster address: a value of such bits only, a
# mask of all others, a shift. Not 0xffffffff and 0x80000000, which lane masks and signs are.
RANK_NUMBER = (
    r"(?:\b0x[0']*(?:[1-9a-f]|10|ff)(?:'?0){6}u?l*\b|\b0xf[0-9a-e](?:'?f){6}u?l*\b"
    r"|\b16777216u?l*\b|<<\s*24\b)"
)
# A macro or a constant of such a value; a variable that is shifted somewhere is none.
_NAMED_NUMBER = re.compile(
    r"(?:#[ \t]*define[ \t]+|\bconst(?:expr)?\b[^;(){}=\n]*?\b)([a-z_]\w*)(?:[ \t]+|\s*[={]\s*)[({]*\s*"
    rf"(?:1u?l*\s*)?{RANK_NUMBER}",
    re.IGNORECASE,
)
_NUMBER_PARTS = ("000000", "0'000", "FFFFFF", "ffffff", "16777216", "<< 24", "<<24")


class Behind:
    """Finds functions that lead to some words; helpers and macros of the tree are looked up once."""

    def __init__(self, graph: CallGraph, words: tuple[str, ...], library: tuple[str, ...] = ()) -> None:
        r"""Prepare; nothing is looked up yet.

        Args:
            graph: the call graph.
            words: sought in all text, literals included (`\tmapa` holds `mapa`).
            library: names of functions that lead there and need not be in the tree.
        """
        self._graph = graph
        self._words = words
        self._library = library

    def leads(self, function: Function) -> bool:
        """Whether the function, or a helper or macro that it names, uses one of the words."""
        if self._written(function):
            return True
        first, last = function.body
        named = set(function.unit.tokens.texts[first:last])
        if not named.isdisjoint(self._library):
            return True
        return any(
            home is function.unit or self._graph.project.connected(function.unit, home)
            for name in named & self._names.keys()
            for home in self._names[name]
        )

    def _written(self, function: Function) -> bool:
        text = _text(function)
        return any(word in text for word in self._words)

    @cached_property
    def _names(self) -> dict[str, list[CppFile]]:
        """Function or macro that leads to one of the words -> files that define it so."""
        found: dict[str, list[CppFile]] = {}
        project = self._graph.project
        for unit in dict.fromkeys(unit for word in self._words for unit in project.with_word(word)):
            words = {*self._words, *self._library}
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
            if not function.is_kernel and (self._written(function) or not words.isdisjoint(texts)):
                yield function.name
        for definition in unit.definitions:
            if definition.value is not None and any(word in definition.value for word in words):
                yield definition.name


class RankNumbers:
    """Finds functions that use a constant of the tree whose value changes the rank in an address."""

    def __init__(self, graph: CallGraph) -> None:
        self._graph = graph

    def used(self, function: Function) -> str:
        """Name of such a constant in the body, "" where there is none."""
        first, last = function.body
        named = self._names.keys() & set(function.unit.tokens.texts[first:last])
        connected = self._graph.project.connected
        for name in sorted(named):
            if any(home is function.unit or connected(function.unit, home) for home in self._names[name]):
                return name
        return ""

    @cached_property
    def _names(self) -> dict[str, list[CppFile]]:
        """Constant or macro -> files that give it such a value."""
        project = self._graph.project
        found: dict[str, list[CppFile]] = {}
        for unit in dict.fromkeys(unit for part in _NUMBER_PARTS for unit in project.with_word(part)):
            for match in _NAMED_NUMBER.finditer(unit.file.text):
                found.setdefault(match[1], []).append(unit)
        return found


def _text(function: Function) -> str:
    """The body as it stands in the file, literals included."""
    tokens = function.unit.tokens
    first, last = function.body
    return function.unit.file.text[tokens.starts[first - 1] : tokens.starts[min(last, len(tokens) - 1)]]

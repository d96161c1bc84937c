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
_HEX = (
    r"(?:\b0x[0']*(?:[1-9a-f]|10|ff)(?:'?0){6}u?l*\b|\b0xf[0-9a-e](?:'?f){6}u?l*\b"
    r"|\b16777216u?l*\b)"
)
_HEX_NUMBER = re.compile(_HEX, re.IGNORECASE)
_HEX_PARTS = ("000000", "0'000", "FFFFFF", "ffffff", "16777216")
_SHIFT = re.compile(r"<<\s*24\b")
_SHIFT_PARTS = ("<< 24", "<<24")
# A constant of such a value; a variable that is shifted somewhere is none.
_CONSTANT = re.compile(
    r"\bconst(?:expr)?\b[^;(){}=\n]*?\b([a-z_]\w*)\s*[={]\s*[({]*\s*(?:1u?l*\s*<<\s*24\b|" + _HEX + ")",
    re.IGNORECASE,
)


class Behind:
    """Finds functions that lead to some words; helpers and macros of the tree are looked up once."""

    def __init__(
        self, graph: CallGraph, words: tuple[str, ...], library: tuple[str, ...] = (), *, ranks: bool = False
    ) -> None:
        r"""Prepare; nothing is looked up yet.

        Args:
            graph: the call graph.
            words: sought in all text, literals included (`\tmapa` holds `mapa`).
            library: names of functions that lead there and need not be in the tree.
            ranks: numbers that change the rank in an address lead there too.
        """
        self._graph = graph
        self._words = words
        self._library = library
        self._ranks = ranks
        self._names_of: dict[CppFile, set[str]] = {}

    def leads(self, function: Function) -> str:
        """What in the function leads to one of the words: a name or the word itself; "" for nothing."""
        written = self.written(_text(function))
        if written:
            return written
        first, last = function.body
        named = set(function.unit.tokens.texts[first:last])
        for name in self._library:
            if name in named:
                return name
        connected = self._graph.project.connected
        for home in self._homes:
            if home is function.unit or connected(function.unit, home):
                used = named & self._names(home)
                if used:
                    return min(used)
        return ""

    def written(self, text: str) -> str:
        """The first of the words, or such a number, that stands in a text; "" for nothing."""
        number = _rank_number(text) if self._ranks else ""
        return number or next((word for word in self._words if word in text), "")

    @cached_property
    def _homes(self) -> list[CppFile]:
        """Files in which one of the words stands, or a part of such a number."""
        sought = (*self._words, *((*_HEX_PARTS, *_SHIFT_PARTS) if self._ranks else ()))
        found = dict.fromkeys(unit for word in sought for unit in self._graph.project.with_word(word))
        return [unit for unit in found if self.written(unit.file.text)]

    def _names(self, unit: CppFile) -> set[str]:
        """Functions, macros and constants of a file that lead to one of the words."""
        known = self._names_of.get(unit)
        if known is not None:
            return known
        words = {*self._words, *self._library}
        if self._ranks:
            words.update(match[1] for match in _CONSTANT.finditer(unit.file.text))
        names = words.difference(self._words, self._library)
        # A helper of a helper, or a macro that calls one, in the same file.
        for _ in range(3):
            more = {name for name in self._leading(unit, words) if name not in words}
            if not more:
                break
            words |= more
            names |= more
        self._names_of[unit] = names
        return names

    def _leading(self, unit: CppFile, words: set[str]) -> Iterator[str]:
        for function in self._graph.structure(unit).functions:
            first, last = function.body
            texts = unit.tokens.texts[first:last]
            if not function.is_kernel and (self.written(_text(function)) or not words.isdisjoint(texts)):
                # A functor or a conversion is used by the name of its class.
                member = function.scope and function.name.startswith(("operator()", "operator "))
                yield function.scope[-1] if member else function.name
        for definition in unit.definitions:
            value = definition.value
            if value is not None and (self.written(value) or any(word in value for word in words)):
                yield definition.name


def _rank_number(text: str) -> str:
    """The first number that changes the rank in an address; cheap where there is none."""
    found = _SHIFT.search(text)
    if found is None and any(part in text for part in _HEX_PARTS):
        found = _HEX_NUMBER.search(text)
    return found[0] if found is not None else ""


def _text(function: Function) -> str:
    """The body as it stands in the file, literals included."""
    tokens = function.unit.tokens
    first, last = function.body
    return function.unit.file.text[tokens.starts[first - 1] : tokens.starts[min(last, len(tokens) - 1)]]

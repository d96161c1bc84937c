"""What the arguments of a wrapper say: the window a tag names, the rank of an array, barrier or pipeline."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.source.condition import evaluate
from ptxguard.source.cuda import Function
from ptxguard.source.exprs import split_arguments
from ptxguard.source.tokens import IDENT
from ptxguard.source.variables import bindings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ptxguard.source.guards import World
    from ptxguard.source.uses import Use

# Names of the tags of `cuda::ptx` (libcu++, "PTX state spaces") -> the window they stand for.
_TAGS = {
    "space_cluster": "cluster",
    "space_cluster_t": "cluster",
    "space_shared": "cta",
    "space_shared_t": "cta",
    "space_global": "global",
    "space_global_t": "global",
}
_CONDITIONAL = re.compile(r"\bconditional(?:_t)?\s*<")
_MAX_ALIASES = 4
_MIN_ALIGNMENT = 16  # bulk copies move multiples of 16 bytes (PTX ISA, "cp.async.bulk")


@dataclass(frozen=True)
class Argument:
    """One argument as text, white space folded."""

    text: str

    @property
    def words(self) -> list[str]:
        """Its names."""
        return re.findall(r"[A-Za-z_]\w*", self.text)


def arguments_of(use: Use) -> list[Argument]:
    """The arguments of a call as text."""
    tokens = use.tokens
    close = tokens.match.get(use.after)
    if close is None:
        return []
    parts = split_arguments(tokens, use.after + 1, close)
    return [Argument(tokens.source(part[0], part[-1] + 1)) for part in parts if part]


def tag_token(use: Use) -> int | None:
    """Index of the one `space_cluster` in the first argument of a call; None where it is not there."""
    tokens = use.tokens
    close = tokens.match.get(use.after)
    parts = split_arguments(tokens, use.after + 1, close) if close is not None else []
    found = [i for i in parts[0] if tokens.kinds[i] == IDENT and tokens.texts[i] in _TAGS] if parts else []
    is_one = len(found) == 1 and _TAGS[tokens.texts[found[0]]] == "cluster"
    return found[0] if is_one else None


def window(argument: Argument, use: Use, worlds: Iterable[World]) -> frozenset[str]:
    """Windows that a tag may stand for in the worlds given: several where they differ, none where unknown."""
    text = argument.text
    for _ in range(_MAX_ALIASES):
        named = {_TAGS[word] for word in Argument(text).words if word in _TAGS}
        if len(named) == 1:
            return frozenset(named)
        if len(named) > 1:
            return _chosen(text, use, worlds)
        text = _defined(text, use)
        if not text:
            break
    return frozenset()


def _chosen(text: str, use: Use, worlds: Iterable[World]) -> frozenset[str]:
    """`conditional_t<condition, A, B>`, in each world."""
    match = _CONDITIONAL.search(text)
    parts = _template_arguments(text, match.end()) if match is not None else []
    if len(parts) != 3:
        return frozenset()
    found: set[str] = set()
    for world in worlds:
        truth = evaluate(parts[0], world.macros_at(use.unit, use.offset)).truth
        for wanted, part in ((True, parts[1]), (False, parts[2])):
            if truth is wanted or truth is None:
                found.update(_TAGS[word] for word in Argument(part).words if word in _TAGS)
    return frozenset(found)


def _template_arguments(text: str, start: int) -> list[str]:
    """Top-level arguments behind `<`; a `>` of `>=` or inside parentheses closes nothing."""
    parts, depth, begin = [], 0, start
    for match in re.compile(r"[<>]=|<<|[<>(),]").finditer(text, start):
        mark = match[0]
        if mark in ("<", "("):
            depth += 1
        elif mark in (">", ")") and depth:
            depth -= 1
        elif mark in (",", ">") and not depth:
            parts.append(text[begin : match.start()].strip())
            begin = match.end()
            if mark == ">":
                return parts
    return []


def _defined(text: str, use: Use) -> str:
    """The text behind `name =` or `name{` of the file, for the last name of a tag; "" where there is none."""
    words = Argument(text).words
    if not words:
        return ""
    pattern = re.compile(rf"\b{re.escape(words[-1])}\s*(?:=(?!=)\s*([^;]+);|\{{([^;{{}}]+)\}}\s*;)")
    found = {match[1] or match[2] for match in pattern.finditer(use.unit.file.text)}
    return found.pop() if len(found) == 1 else ""


def rank_of(argument: Argument, use: Use) -> int:
    """Elements of an array of coordinates, written in place or declared in the function; 0 where unknown."""
    text = argument.text
    if "{" not in text and argument.words:
        name = argument.words[-1]
        pattern = re.compile(rf"\b{re.escape(name)}\s*\[\s*(\d*)\s*\]\s*(?:=\s*)?(\{{[^{{}}]*\}})?")
        for match in pattern.finditer(use.unit.file.text):
            if match[1]:
                return int(match[1])
            if match[2]:
                text = match[2]
    inner = text[text.find("{") + 1 : text.rfind("}")] if "{" in text else ""
    return _count(inner)


def _count(text: str) -> int:
    """Items of a list, parentheses respected."""
    depth = 0
    count = 1 if text.strip() else 0
    for char in text:
        depth += (char in "([{<") - (char in ")]}>")
        count += char == "," and depth == 0
    return count


def completion(argument: Argument, use: Use) -> str:
    """What completes a `memcpy_async`, by its last argument: barrier, pipeline, or "" where nothing tells."""
    words = argument.words
    declared = ""
    if isinstance(use.owner, Function) and words:
        kinds = [binding.type_text for binding in bindings(use.owner, words[0])]
        kinds += [parameter.type_text for parameter in use.owner.parameters if parameter.name == words[0]]
        kinds += [binding.node.text for binding in bindings(use.owner, words[0]) if binding.node is not None]
        declared = " ".join(kinds)
    for text in (declared, argument.text):
        for kind in ("pipeline", "barrier"):
            if kind in text.lower():
                return kind
    return ""


def is_aligned(arguments: list[Argument]) -> bool | None:
    """Whether a size says that 16-byte blocks move (`aligned_size_t<16>`); None where only types tell."""
    for argument in arguments:
        match = re.search(r"\baligned_size_t\s*<\s*(\d+)\s*>", argument.text)
        if match is not None:
            return int(match[1]) >= _MIN_ALIGNMENT
    return None

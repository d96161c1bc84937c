"""A PTX opcode explained word by word, as the PTX ISA has it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_COPY = "cp.async.bulk"
_SECTION = 'PTX ISA, "Data Movement and Conversion Instructions"'
# Word of a bulk copy -> what it says.
_WORDS = {
    "cp": "copy",
    "async": "asynchronous: the thread goes on, completion is signalled later",
    "bulk": "done by the copy engine (TMA) in one piece, not by the threads",
    "tensor": "a tile of a tensor that a tensor map (CUtensorMap) describes",
    "shared::cta": "shared memory of the CTA that executes the instruction",
    "shared::cluster": "shared memory of any CTA in the cluster: on sm_12x that adds a driver call",
    "shared": "shared memory; without a suffix it means shared::cta",
    "global": "global memory",
    "tile": "elements keep the layout of the tensor",
    "tile::gather4": "four rows of a 2-D tensor, named one by one, become one tile",
    "tile::scatter4": "a tile goes to four rows of a 2-D tensor, named one by one",
    "im2col": "elements are laid out as columns for a convolution",
    "im2col::w": "im2col along the W dimension",
    "im2col::w::128": "im2col along the W dimension, 128 pixels at a time",
    "im2col_no_offs": "im2col without offsets, on the way back to global memory",
    "mbarrier::complete_tx::bytes": "completion: the bytes that arrived are counted on an mbarrier object",
    "bulk_group": "completion: waited for with cp.async.bulk.wait_group",
    "multicast::cluster": "the same bytes go to every CTA that a mask names; software on sm_12x",
    "L2::cache_hint": "an operand says how the L2 cache should treat the lines",
    "cta_group::1": "the barrier is that of this CTA",
    "cta_group::2": "the barrier may be that of the other CTA of a pair; sm_100 family only",
    "ignore_oob": "bytes outside the source are left out",
    "cp_mask": "a mask says which bytes of each 16 are written",
    "prefetch": "into the L2 cache only",
    "commit_group": "closes a group of copies that can be waited for",
    "wait_group": "waits for groups of copies",
    "reduce": "combines with what is in memory instead of replacing it",
}
_RANK = re.compile(r"([1-5])d\Z")
_TYPE = re.compile(r"(?:[bsuf](?:8|16|32|64)|f16x2|bf16|bf16x2|tf32|pred|b128)\Z")
_STATE_SPACES = {
    "local": "memory of the thread",
    "const": "constant memory",
    "param": "parameter memory",
    "reg": "registers",
}


@dataclass(frozen=True)
class Part:
    """A word of an opcode with its meaning; `known` is False where the ISA's word is not in our list."""

    text: str
    meaning: str
    known: bool


@dataclass(frozen=True)
class Explained:
    """An instruction part by part.

    Attributes:
        opcode: the whole.
        parts: its words.
        operands: what stands behind it, in order; empty where the form is not a bulk copy.
        section: where the ISA describes it.
    """

    opcode: str
    parts: tuple[Part, ...]
    operands: tuple[str, ...]
    section: str


def explain_opcode(opcode: str) -> Explained:
    """The words of a dotted opcode."""
    words = opcode.split(".")
    return Explained(opcode, tuple(map(_part, words)), tuple(_operands(words)), f"{_SECTION}: {_base(words)}")


def _part(word: str) -> Part:
    meaning = _WORDS.get(word) or _STATE_SPACES.get(word)
    rank = _RANK.match(word)
    if meaning is None and rank:
        meaning = f"the tensor has {rank[1]} dimension{'' if rank[1] == '1' else 's'}"
    if meaning is None and _TYPE.match(word):
        meaning = "type of the operands"
    return Part(word, meaning or "a modifier; the section of the ISA describes it", meaning is not None)


def _base(words: list[str]) -> str:
    if words[:3] != _COPY.split("."):
        return words[0]
    return f"{_COPY}.tensor" if words[3:4] == ["tensor"] else _COPY


def _operands(words: list[str]) -> list[str]:
    """Roles of the operands of a bulk copy, in the order of the syntax."""
    if words[:3] != _COPY.split(".") or {"prefetch", "commit_group", "wait_group"} & set(words):
        return []
    spaces = [word for word in words if word in ("shared::cta", "shared::cluster", "shared", "global")]
    if len(spaces) != 2:
        return []
    tensor = "tensor" in words
    box = "[tensor map, coordinates]"
    found = [
        f"[{spaces[0]} address]" if spaces[0] != "global" or not tensor else box,
        f"[{spaces[1]} address]" if spaces[1] != "global" or not tensor else box,
    ]
    if not tensor:
        found.append("size in bytes")
    if "mbarrier::complete_tx::bytes" in words:
        found.append("[mbarrier]")
    if any(word.startswith("im2col") for word in words) and spaces[0] != "global":
        found.append("im2col offsets")
    if "multicast::cluster" in words:
        found.append("mask of CTAs")
    if "L2::cache_hint" in words:
        found.append("cache policy")
    return found

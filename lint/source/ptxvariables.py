"""Variable declarations of PTX text: name, state space, linkage."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARIABLE = re.compile(
    r"(?:\.(?P<linkage>visible|extern|weak|common)\s+)?\.(?P<space>shared|global|const|local|param)\b"
    r"(?:::\w+)?(?P<type>(?:\s*\.attribute\s*\((?:[^()]|\([^()]*\))*\)|\s*\.align\s+\d+|\s*\.\w+)*)(?P<names>.*)",
    re.DOTALL,
)
_NAME = re.compile(r"[A-Za-z_$%][\w$]*")


@dataclass(frozen=True)
class Variable:
    """A variable of a state space (`.shared .align 16 .b8 buffer[1024];`).

    Attributes:
        name: as written.
        space: shared, global, const, local or param.
        is_extern: whether another module or the launch gives it its size.
        offset: of its declaration in the module's text.
    """

    name: str
    space: str
    is_extern: bool
    offset: int


def declared_variables(text: str, base: int) -> Iterator[Variable]:
    """Variables that one declaration without comments makes; nothing where it is no such declaration."""
    match = _VARIABLE.match(text)
    if match is None:
        return
    for piece in match["names"].split("=", 1)[0].split(","):
        name = _NAME.search(piece)
        if name is not None:
            yield Variable(name[0], match["space"], match["linkage"] == "extern", base)

"""Sets of positions as whole numbers: bit `i` stands for the row at position `i`."""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# From one position in this many on, looking at each bit is shorter than searching for the next one.
_DENSE = 16


def masks_of(values: Sequence[str]) -> dict[str, int]:
    """Value -> the positions that have it."""
    places: dict[str, list[int]] = {}
    for position, value in enumerate(values):
        places.setdefault(value, []).append(position)
    return {value: mask_of(positions, len(values)) for value, positions in places.items()}


def mask_of(positions: Iterable[int], size: int) -> int:
    """The set of some positions below `size`."""
    bits = bytearray((size + 7) // 8)
    for position in positions:
        bits[position >> 3] |= 1 << (position & 7)
    return int.from_bytes(bits, "little")


def everything(size: int) -> int:
    """The set of all positions below `size`."""
    return (1 << size) - 1


def positions_of(mask: int) -> list[int]:
    """The positions of a set, ascending."""
    text = bin(mask)[:1:-1]  # lowest bit first
    if mask.bit_count() * _DENSE > len(text):
        return list(compress(range(len(text)), map("1".__eq__, text)))
    found, at = [], text.find("1")
    while at >= 0:
        found.append(at)
        at = text.find("1", at + 1)
    return found

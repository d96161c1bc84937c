"""Arithmetic on what is known of a value: address plus offset, masks, bits that hold a cluster rank.

None stands for a register in the middle of its own definition (a loop): it adds nothing to what the other
definitions say, as long as the operation would keep an address in place.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# A shared window address holds the CTA's rank in its cluster from bit 24 on: `mapa` returns such, and kernels
# for CTA pairs clear or toggle bit 24 to reach the other CTA.
RANK_SHIFT = 24
_OFFSET_LIMIT = 1 << RANK_SHIFT
_RANK_MASK = 0xFF << RANK_SHIFT
# A value with more constants than this is any number.
_CONSTANT_LIMIT = 16


class Owner(enum.Enum):
    """What a value is, as far as its definitions show."""

    LOCAL = "an address of the own CTA's shared memory"
    PEER = "an address of another CTA's shared memory"
    RANK_BITS = "a number that reaches the bits of the cluster rank"
    NUMBER = "a number"
    INPUT = "a parameter or a loaded value: an offset or an address"
    UNKNOWN = "a value that cannot be followed"


_ADDRESSES = frozenset({Owner.LOCAL, Owner.PEER})
# Where values meet, the one furthest in front decides.
_WORST_FIRST = (Owner.PEER, Owner.UNKNOWN, Owner.RANK_BITS, Owner.INPUT, Owner.NUMBER, Owner.LOCAL)


@dataclass(frozen=True)
class Value:
    """A value with the words that explain it.

    Attributes:
        owner: what it is.
        reason: completes "the destination is …".
        roots: (module offset, text) of the symbols, mappings and loads it comes from.
        constants: all numbers that it can be; empty where that is not known.
        scale: bits by which constant factors and shifts have enlarged it.
    """

    owner: Owner
    reason: str
    roots: tuple[tuple[int, str], ...] = ()
    constants: frozenset[int] = frozenset()
    scale: int = 0


def union(values: Iterable[Value | None]) -> Value | None:
    """One of several, nobody knows which: local only if all are, a peer's if one is."""
    found = [value for value in values if value is not None]
    if len(found) < 2:
        return found[0] if found else None
    mixed = _mixed(found)
    owners = {value.owner for value in found}
    if Owner.LOCAL in owners and len(owners) > 1:
        owner = mixed.owner if mixed.owner is Owner.PEER else Owner.UNKNOWN
        return replace(mixed, owner=owner, reason=f"{mixed.reason} on one of several ways")
    constants = frozenset(number for value in found for number in value.constants)
    if all(value.constants for value in found) and len(constants) <= _CONSTANT_LIMIT:
        return replace(mixed, constants=constants)
    far = mixed.owner in {Owner.NUMBER, Owner.INPUT} and any(map(_is_far, constants))
    return replace(mixed, owner=Owner.RANK_BITS) if far else mixed


def add(left: Value | None, right: Value | None) -> Value | None:
    """Address plus distance keeps the owner, unless the distance reaches the rank."""
    return _offset(left, right, _is_far)


def combine_bits(left: Value | None, right: Value | None) -> Value | None:
    """`or` and `xor`: like `add`, the constant being a pattern."""
    return _offset(left, right, lambda number: bool(number & _RANK_MASK))


def subtract(left: Value | None, right: Value | None) -> Value | None:
    """Address minus distance; a difference of addresses is none, and nothing is known of it."""
    if right is None:
        return left and _worse(left, Owner.UNKNOWN if left.owner in _ADDRESSES else left.owner)
    if right.owner in _ADDRESSES:
        return Value(Owner.UNKNOWN, "computed from the difference to an address", right.roots)
    return add(left, right)


def mask(left: Value | None, right: Value | None) -> Value | None:
    """`and`: an alignment keeps the owner; a pattern that clears bits of the rank names a peer."""
    swap = left is not None and (right is None or right.owner is Owner.LOCAL)
    address, pattern = (right, left) if swap else (left, right)
    if pattern is None:
        return None
    aligns = bool(pattern.constants) and all(
        number & _RANK_MASK == _RANK_MASK for number in pattern.constants
    )
    if address is None:
        return None if aligns else replace(pattern, constants=frozenset())
    if address.owner is not Owner.LOCAL:
        return _bounded((address, pattern))
    if aligns:
        return address
    if not pattern.constants:
        return _worse(address, Owner.UNKNOWN, "behind a mask that is no constant")
    return _worse(address, Owner.PEER, "with bits of the cluster rank masked")


def multiply(left: Value | None, right: Value | None) -> Value | None:
    """The low part of a product: a number; a factor that is a multiple of 2^24 makes bits of the rank.

    Other large factors are the reciprocals by which compilers divide: a right shift follows.
    """
    factors = [value for value in (left, right) if value is not None and value.constants]
    growth = sum(max(abs(number).bit_length() for number in value.constants) - 1 for value in factors)
    ranks = any(number and number % _OFFSET_LIMIT == 0 for value in factors for number in value.constants)
    return _scaled((left, right), max(growth, 0), ranks=ranks)


def shift_left(left: Value | None, right: Value | None) -> Value | None:
    """A shift by 24 or more makes bits of the rank; one by an unknown amount may."""
    if right is None or not right.constants:
        return Value(Owner.UNKNOWN, "computed by a shift whose amount is no constant")
    amount = max(right.constants)
    return _scaled((left,), amount, ranks=amount >= RANK_SHIFT)


def shift_right(left: Value | None, right: Value | None) -> Value | None:
    """A shift takes back what a factor has enlarged."""
    number = arithmetic((left,), "shr")
    amount = min(right.constants, default=0) if right is not None else 0
    scale = max(number.scale - amount, 0)
    small = number.owner is Owner.RANK_BITS and scale < RANK_SHIFT
    return replace(number, scale=scale, owner=Owner.NUMBER if small else number.owner)


def arithmetic(values: Iterable[Value | None], opcode: str) -> Value:
    """Any other operation: numbers give a number, an address is not one any more."""
    found = [value for value in values if value is not None]
    if not found:
        return Value(Owner.NUMBER, f"the result of `{opcode}`")
    mixed = _mixed(found)
    if any(value.owner in _ADDRESSES for value in found):
        return Value(Owner.UNKNOWN, f"computed from an address by `{opcode}`", mixed.roots)
    return replace(mixed, owner=Owner.NUMBER) if mixed.owner is Owner.INPUT else mixed


def _offset(left: Value | None, right: Value | None, reaches: Callable[[int], bool]) -> Value | None:
    if left is None or right is None:
        return _loop_offset(left or right, reaches)
    base, distance = (right, left) if right.owner is Owner.LOCAL else (left, right)
    if base.owner is not Owner.LOCAL:
        return _enlarged(_mixed((left, right)), left.constants | right.constants, reaches)
    roots = _roots((base, distance))
    if distance.owner is Owner.RANK_BITS or any(map(reaches, distance.constants)):
        return replace(_worse(base, Owner.PEER, "with bits of a cluster rank in the address"), roots=roots)
    if _is_plain(distance):
        return base
    if distance.owner in {Owner.NUMBER, Owner.INPUT}:
        return _worse(base, Owner.UNKNOWN, "plus a number that may reach the rank's bits")
    if distance.owner is Owner.LOCAL:
        return Value(Owner.UNKNOWN, "the sum of two addresses", roots)
    return replace(distance, roots=roots)


def _loop_offset(distance: Value | None, reaches: Callable[[int], bool]) -> Value | None:
    """What a register becomes that a loop moves by a distance."""
    if distance is None:
        return None
    moved = _enlarged(replace(distance, constants=frozenset()), distance.constants, reaches)
    return None if _is_plain(moved) else moved


def _is_plain(value: Value) -> bool:
    return value.owner in {Owner.NUMBER, Owner.INPUT} and value.scale < RANK_SHIFT


def _enlarged(number: Value, constants: frozenset[int], reaches: Callable[[int], bool]) -> Value:
    """A number to which constants have been added, with those that reach the rank not forgotten."""
    far = [constant for constant in constants if reaches(constant)]
    if not far or not _is_plain(number):
        return number
    if all(constant % _OFFSET_LIMIT == 0 for constant in far):
        return replace(number, owner=Owner.RANK_BITS, scale=RANK_SHIFT)
    return replace(number, scale=RANK_SHIFT)


def _scaled(values: Iterable[Value | None], growth: int, *, ranks: bool) -> Value:
    product = arithmetic(values, "mul or shl")
    owner = Owner.RANK_BITS if ranks and product.owner is Owner.NUMBER else product.owner
    return replace(product, owner=owner, scale=product.scale + growth)


def _bounded(values: tuple[Value, Value]) -> Value:
    """`and` of two numbers: below 2^24 if one of them is."""
    mixed = _mixed(values)
    if mixed.owner in _ADDRESSES or not any(
        value.constants and all(0 <= number < _OFFSET_LIMIT for number in value.constants) for value in values
    ):
        return mixed
    return replace(mixed, owner=Owner.NUMBER, scale=0)


def _worse(value: Value, owner: Owner, why: str = "") -> Value:
    """The value with another owner and the reason for it."""
    reason = f"{value.reason}, {why}" if why else value.reason
    return replace(value, owner=owner, reason=reason, constants=frozenset())


def _mixed(values: Iterable[Value]) -> Value:
    """What several values have in common, named by the worst of them."""
    found = list(values)
    chosen = min(found, key=lambda value: _WORST_FIRST.index(value.owner))
    scale = max(value.scale for value in found)
    return replace(chosen, roots=_roots(found), constants=frozenset(), scale=scale)


def _roots(values: Iterable[Value]) -> tuple[tuple[int, str], ...]:
    return tuple(dict.fromkeys(root for value in values for root in value.roots))


def _is_far(number: int) -> bool:
    """Whether a distance, written signed or as its 32-bit pattern, is 16 MiB or more."""
    signed = (number + (1 << 31)) % (1 << 32) - (1 << 31) if 0 <= number < 1 << 32 else number
    return abs(signed) >= _OFFSET_LIMIT

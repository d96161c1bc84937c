"""Arithmetic on values that a Python expression can have, where any of them may be unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ptxguard.source.pythonframe import Unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxguard.source.pythonframe import Values


def integer(text: str) -> Any:
    """The number of an integer literal."""
    try:
        return int(text.replace("_", ""), 0)
    except ValueError:
        return Unknown(f"{text} is no integer")


def short(text: str) -> str:
    """Source text on one line, cut for a message."""
    bare = " ".join(text.split())
    return bare if len(bare) <= 60 else bare[:57] + "..."


def reason_of(value: Any) -> str:
    """Why no element can be taken out of a value."""
    return value.reason if isinstance(value, Unknown) else f"{value!r} has no such element"


def at(values: Values, path: tuple[int, ...]) -> Values:
    """The element at a place inside each value."""
    for place in path:
        values = [
            value[place]
            if isinstance(value, tuple) and place < len(value)
            else value
            if isinstance(value, Unknown)
            else Unknown("a value that is unpacked is not a tuple in sight")
            for value in values
        ]
    return values


def applied(sign: str, left: Any, right: Any) -> Any:
    """The value of a binary operator; `Unknown` where a side or the operator is."""
    for value in (left, right):
        if isinstance(value, Unknown):
            return value
    if sign == "+" and type(left) is type(right) and isinstance(left, tuple | str):
        return left + right
    if not (isinstance(left, int) and isinstance(right, int)):
        return Unknown(f"{sign} of values that are no numbers")
    if sign in ("//", "%") and right == 0:
        return Unknown("a division by zero")
    operations: dict[str, Callable[[], Any]] = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "//": lambda: left // right,
        "%": lambda: left % right,
        "<<": lambda: left << right if 0 <= right < 64 else Unknown("a shift out of range"),
        ">>": lambda: left >> right if 0 <= right < 64 else Unknown("a shift out of range"),
        "&": lambda: left & right,
        "|": lambda: left | right,
        "^": lambda: left ^ right,
    }
    return operations[sign]() if sign in operations else Unknown(f"{sign} is not followed")

"""Preprocessor expressions: values as the C++ standard (cpp.cond) has them, and the third value."""

from __future__ import annotations

import pytest

from ptxguard.source.condition import UNKNOWN, Value, both, either, evaluate, negate

TRUE, FALSE = Value(1), Value(0)
MAYBE_FALSE = Value(0, frozenset({"A"}))
MAYBE_TRUE = Value(1, frozenset({"B"}))


class Macros:
    """SET is 1200, EMPTY is 0, SUM(a, b) adds; HIDDEN cannot be known; every other name is absent."""

    def defined(self, name):
        if name == "HIDDEN":
            return UNKNOWN
        return TRUE if name in ("SET", "EMPTY", "SUM") else Value(0, frozenset({name}))

    def expand(self, name, arguments):
        if name == "SUM" and arguments is not None:
            return Value(sum(int(argument) for argument in arguments))
        if name.startswith(("__has_", "HIDDEN")):
            return UNKNOWN
        return {"SET": Value(1200), "EMPTY": FALSE}.get(name, Value(0, frozenset({name})))


def value(text: str) -> Value:
    return evaluate(text, Macros())


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        ("0x10", 16),
        ("0X1fUL", 31),
        ("0b101", 5),
        ("010", 8),
        ("1'000'000", 1_000_000),
        ("201103L", 201103),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("7 % -2", 1),
        ("1 << 4", 16),
        ("256 >> 4", 16),
        ("1 << 2 + 1", 8),
        ("6 & 3 | 8", 10),
        ("6 ^ 3", 5),
        ("~0 == -1", 1),
        ("!5", 0),
        ("!!5", 1),
        ("- -3", 3),
        ("+3", 3),
        ("1 < 2 == 1", 1),
        ("3 > 2 > 1", 0),
        ("1 || 0 && 0", 1),
        ("(1 || 0) && 0", 0),
        ("1 ? 2 : 3", 2),
        ("0 ? 2 : 0 ? 4 : 5", 5),
        ("1 and not 0", 1),
        ("0 or 2", 1),
        ("6 bitand 3", 2),
        ("6 xor 3", 5),
        ("1 not_eq 2", 1),
        ("true && !false", 1),
        ("SET >= 900 && SET < 1300", 1),
        ("SET/10 == 120", 1),
        ("defined SET", 1),
        ("defined(SET)", 1),
        ("defined ( SET ) && SET", 1),
        ("!defined(SET)", 0),
        ("SUM(1, 2) == 3", 1),
        ("SUM(1,2)*2", 6),
        ("9223372036854775807 > 0", 1),
    ],
)
def test_value(text, number):
    assert value(text) == Value(number)


@pytest.mark.parametrize(
    ("text", "number", "assumed"),
    [
        ("OTHER", 0, {"OTHER"}),
        ("OTHER >= 900", 0, {"OTHER"}),
        ("!defined(OTHER)", 1, {"OTHER"}),
        ("OTHER || ANOTHER", 0, {"OTHER", "ANOTHER"}),
        ("SET && !OTHER", 1, {"OTHER"}),
        ("0 && OTHER", 0, set()),
        ("OTHER && 0", 0, set()),
        ("1 || OTHER", 1, set()),
        ("OTHER || 1", 1, set()),
        ("OTHER ? 1 : 2", 2, {"OTHER"}),
        ("1 ? SET : OTHER", 1200, set()),
        ("HIDDEN && 0", 0, set()),
        ("1 || HIDDEN", 1, set()),
        ("HIDDEN && OTHER", 0, {"OTHER"}),
    ],
)
def test_value_that_rests_on_absence(text, number, assumed):
    assert value(text) == Value(number, frozenset(assumed))


@pytest.mark.parametrize(
    "text",
    [
        "HIDDEN",
        "!HIDDEN",
        "HIDDEN && 1",
        "HIDDEN || 0",
        "HIDDEN + 1",
        "-HIDDEN",
        "HIDDEN ? 1 : 2",
        "defined(HIDDEN)",
        "__has_include(<cuda/ptx>)",
        '__has_include("a/b.h")',
        "1 / 0",
        "1 % 0",
    ],
)
def test_what_cannot_be_known(text):
    assert value(text) is UNKNOWN


@pytest.mark.parametrize(
    "text",
    [
        "", "(", ")", "1 +", "+ * 2", "1 2", "(1", "1)", "defined", "defined(", "defined()", "defined(1)", "SUM(1",
        "1 ? 2", "1 ? : 2", "a b", '"text"', "1.5", "1e5", "0x", "0x'", "0b'", "0b", "'", "@", "1'", "\\", "ä",
        "1 << -1 <", "? :", "&&", "!",
    ],
)  # fmt: skip
def test_what_is_no_expression_is_unknown(text):
    assert value(text) is UNKNOWN


def test_depth_is_bounded():
    assert value("(" * 20_000 + "1" + ")" * 20_000) is UNKNOWN
    assert value("!" * 20_000 + "1") is UNKNOWN


def test_a_long_chain_is_no_depth():
    assert value(" && ".join(["SET"] * 20_000)) == TRUE


def test_numbers_have_64_bits():
    """Operands are of type intmax_t (C++ standard, cpp.cond); ours must not grow without end either."""
    assert value("(1 << 62) * 4") == FALSE
    assert value("9223372036854775807 + 1 < 0") == TRUE
    assert value("1" + " << 63 << 63" * 5000) == FALSE


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (TRUE, TRUE, TRUE),
        (TRUE, FALSE, FALSE),
        (FALSE, UNKNOWN, FALSE),
        (UNKNOWN, FALSE, FALSE),
        (TRUE, UNKNOWN, UNKNOWN),
        (MAYBE_FALSE, UNKNOWN, MAYBE_FALSE),
        (MAYBE_FALSE, FALSE, FALSE),
        (MAYBE_FALSE, TRUE, MAYBE_FALSE),
        (TRUE, MAYBE_TRUE, MAYBE_TRUE),
        (MAYBE_TRUE, Value(2, frozenset({"C"})), Value(1, frozenset({"B", "C"}))),
    ],
)
def test_both_and_its_mirror_image(left, right, expected):
    assert both(left, right) == expected
    assert both(right, left) == expected
    assert negate(either(negate(left), negate(right))).truth == expected.truth


@pytest.mark.parametrize(
    ("given", "truth"), [(TRUE, True), (FALSE, False), (UNKNOWN, None), (Value(-1), True)]
)
def test_truth(given, truth):
    assert given.truth is truth

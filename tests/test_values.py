"""Integers that an expression can have, by constants, variables and callers in sight."""

from __future__ import annotations

import pytest

from ptxguard.source.exprs import parse_expression
from ptxguard.source.tokens import tokenize
from ptxguard.source.values import Values
from sourcekit import graph_of

VALUE_TEXT = """#define MACRO 3
constexpr int c = 5;
enum class E : int { first = 7 };
void f(int parameter, int other) {
  int local = 2; int changed = 1; changed += 1; int both = 1; both = 4; dim3 d(8, 9); int from = parameter;
  EXPRESSION
}
void g() { f(10, x); f(11, y); }
"""


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("1 + 2 * 3", {7}),
        ("-7 / 2", {-3}),
        ("1 << 3 | 1", {9}),
        ("true ? 4 : 5", {4}),
        ("MACRO", {3}),
        ("c * MACRO", {15}),
        ("E::first", {7}),
        ("local", {2}),
        ("local + c", {7}),
        ("both", {1, 4}),
        ("both * 2", {2, 8}),
        ("changed", {None}),
        ("parameter", {10, 11}),
        ("from + 1", {11, 12}),
        ("other", {None}),
        ("nothing", {None}),
        ("call(1)", {None}),
        ("d.x", {8}),
        ("d.y", {9}),
        ("d.z", {1}),
        ("parameter > 1 ? 2 : 1", {2}),
        ("other ? 2 : 1", {1, 2}),
        ("(int)local", {2}),
        ("static_cast<unsigned>(c)", {5}),
        ("int(local)", {2}),
        ("cute::Int<4>{}", {4}),
        ("cute::_2{}", {2}),
        ("1 / 0", {None}),
    ],
)
def test_possible_values(tmp_path, expression, values):
    kit = graph_of(tmp_path, VALUE_TEXT)
    tokens = tokenize(expression)
    node = parse_expression(tokens, range(len(tokens)))
    assert Values(kit.graph, kit.constants).of(node, kit.function("f"), {}) == values

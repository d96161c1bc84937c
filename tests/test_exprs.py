"""Expressions from tokens: precedence, casts, templates, calls as the C++ grammar (expr) groups them."""

from __future__ import annotations

import pytest

from ptxguard.source.exprs import Node, constant, parse_expression, split_arguments, template_close
from ptxguard.source.tokens import tokenize


def parse(text: str) -> Node:
    tokens = tokenize(text)
    return parse_expression(tokens, range(len(tokens)))


def shown(node: Node) -> str:
    """A node in prefix form, `(+ a (* b c))`."""
    parts = [shown(part) for part in node.parts]
    arguments = f"<{','.join(node.arguments)}>" if node.arguments else ""
    match node.kind:
        case "name" | "number" | "string":
            return node.text + arguments
        case "call":
            return f"{parts[0]}({', '.join(parts[1:])})"
        case "index":
            return f"{parts[0]}[{', '.join(parts[1:])}]"
        case "member" | "arrow":
            return f"{parts[0]}{'.' if node.kind == 'member' else '->'}{node.text}{arguments}"
        case "cast":
            return f"(as {node.text}: {parts[0]})"
        case "init":
            return f"{node.text}{arguments}{{{', '.join(parts)}}}"
        case "lambda":
            return "lambda"
    return f"({node.text} {' '.join(parts)})" if node.kind != "unknown" else f"unknown<{node.text}>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * c", "(+ a (* b c))"),
        ("a * b + c", "(+ (* a b) c)"),
        ("a - b - c", "(- (- a b) c)"),
        ("(a + b) * c", "(* (+ a b) c)"),
        ("a + b << c", "(<< (+ a b) c)"),
        ("a << b & c", "(& (<< a b) c)"),
        ("a & b == c", "(& a (== b c))"),
        ("a | b ^ c & d", "(| a (^ b (& c d)))"),
        ("a && b || c", "(|| (&& a b) c)"),
        ("a and b or c", "(|| (&& a b) c)"),
        ("a < b == c > d", "(== (< a b) (> c d))"),
        ("a >> b", "(>> a b)"),
        ("a > > b", "unknown"),
        ("a ? b : c ? d : e", "(? a b (? c d e))"),
        ("a = b = c", "(= a (= b c))"),
        ("a += b + c", "(+= a (+ b c))"),
        ("a ? b : c = d", "(? a b (= c d))"),
        ("a, b", "(, a b)"),
        ("-a + b", "(+ (- a) b)"),
        ("-a.b", "(- a.b)"),
        ("!a && ~b", "(&& (! a) (~ b))"),
        ("&a[1]", "(& a[1])"),
        ("*a++", "(* a)"),
        ("++a", "(++ a)"),
        ("&a->b.c", "(& a->b.c)"),
        ("a[i][j]", "a[i][j]"),
        ("f(a)(b)", "f(a)(b)"),
        ("f()", "f()"),
        ("f(a, g(b, c))", "f(a, g(b, c))"),
        ("a.f(b).g()", "a.f(b).g()"),
        ("a::b::f(c)", "a::b::f(c)"),
        ("::f(c)", "::f(c)"),
        ("f<int>(a)", "f<int>(a)"),
        ("f<int, 2>(a)", "f<int,2>(a)"),
        ("f<S<int>>(a)", "f<S<int>>(a)"),
        ("a.template f<2>(b)", "a.f<2>(b)"),
        ("a < b", "(< a b)"),
        ("a < b && c > d", "(&& (< a b) (> c d))"),
        ("f(a < b, c > d)", "f((< a b), (> c d))"),
        ("S{a, b}", "S{a, b}"),
        ("{a, b}", "{a, b}"),
        ("dim3(2, 1)", "dim3(2, 1)"),
        ("(int)a", "(as int: a)"),
        ("(unsigned long)a + b", "(+ (as unsigned long: a) b)"),
        ("(uint32_t)f(a)", "(as uint32_t: f(a))"),
        ("(uint32_t)(a + b)", "(as uint32_t: (+ a b))"),
        ("(const float *)p", "(as const float *: p)"),
        ("(T &)x", "(as T &: x)"),
        ("(int)-1", "(as int: (- 1))"),
        ("(a) + b", "(+ a b)"),
        ("(a) - b", "(- a b)"),
        ("(a) & b", "(& a b)"),
        ("(a) * b", "(* a b)"),
        ("(a)(b)", "a(b)"),
        ("(*f)(a)", "(* f)(a)"),
        ("static_cast<uint32_t>(a)", "(as uint32_t: a)"),
        ("static_cast<const float *>(a)", "(as const float *: a)"),
        ("reinterpret_cast<S<int> *>(a)", "(as S < int > *: a)"),
        ("sizeof(int) * 2", "(* sizeof 2)"),
        ('"a" "b"', '"a"'),
        ("1'000u", "1'000u"),
        ("'a'", "'a'"),
        ("[&](int i) { return i; }", "lambda"),
        ("[] { }", "lambda"),
        ("[=](auto x) mutable -> int { return x; }(3)", "lambda(3)"),
        ("true", "true"),
        ("this->a", "this->a"),
    ],
)
def test_groups(text, expected):
    found = shown(parse(text))
    assert found == expected if expected != "unknown" else "unknown" in found


def test_directives_inside_an_expression_are_no_operands():
    assert shown(parse("f(a\n#ifdef X\n, b\n#endif\n)")) == "f(a, b)"


@pytest.mark.parametrize("text", ["", "+", "a +", "(", ")", "a b", "f(", "[", "{", "<", "a ?", "a ? b", "::", "...",
                                  "a.", "a->", "#", "a @ b", "if (x)", "(int)", "static_cast<int>", "\"",
                                  "static_cast<int>("])  # fmt: skip
def test_what_is_no_expression_becomes_a_node_all_the_same(text):
    assert isinstance(parse(text), Node)


@pytest.mark.parametrize("text", ["(" * 3000 + "a" + ")" * 3000, "-" * 3000 + "a", "f(" * 3000, "a[" * 3000,
                                  "{" * 3000, "a ? " * 3000, "a = " * 3000, "(int)" * 3000 + "a"])  # fmt: skip
def test_depth_is_bounded(text):
    assert isinstance(parse(text), Node)


def test_walk_gives_every_node():
    assert [n.text for n in parse("f(a + 1)").walk()] == ["f", "f", "+", "a", "1"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("f(a, b)", ["a", "b"]),
        ("f()", []),
        ("f(a, g(b, c), {d, e}, h[i, j])", ["a", "g(b, c)", "{d, e}", "h[i, j]"]),
        ("f(a<b, c>(d), e)", ["a<b, c>(d)", "e"]),
        ("f(a < b, c)", ["a < b", "c"]),
        ("f(a, )", ["a", ""]),
    ],
)
def test_split_arguments(text, parts):
    tokens = tokenize(text)
    found = split_arguments(tokens, 2, len(tokens) - 1)
    assert [tokens.source(p[0], p[-1] + 1) if p else "" for p in found] == parts


@pytest.mark.parametrize(
    ("text", "closes"),
    [
        ("f<1>(a)", True),
        ("f<A<B>>(a)", True),
        ("f<(1 > 2)>(a)", True),
        ("f<&g>(a)", True),
        ("f<T &&>(a)", True),
        ("f<1><<<2, 3>>>(a)", True),
        ("f<1>::g", True),
        ("f<1>{}", True),
        ("f < 1 || g > (2)", False),
        ("f < g; h > (2)", False),
        ("f < 1", False),
        ("2 < 3 > (4)", False),
    ],
)
def test_template_arguments_or_comparison(text, closes):
    tokens = tokenize(text)
    assert (template_close(tokens, tokens.texts.index("<"), len(tokens)) is not None) is closes


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("42", 42), ("0x1F", 31), ("0b11", 3), ("017", 15), ("1'024u", 1024), ("5ULL", 5), ("2z", 2),
     ("0xFEFFFFFF", 0xFEFFFFFF), ("1.5", None), ("'a'", None), ("x", None), ("0x", None), ("08", None), ("", None)],
)  # fmt: skip
def test_constant(text, value):
    assert constant(text) == value

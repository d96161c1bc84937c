"""One use of a name: call, launch or mention, and what stands around it."""

from __future__ import annotations

import pytest

from sourcekit import graph_of


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("void f() { g(1); }", "call"),
        ("void f() { n::g(1); }", "call"),
        ("void f() { x.g(1); }", "call"),
        ("void f() { x.template g<1>(1); }", "call"),
        ("void f() { g{}; }", "call"),
        ("void f() { g{}(1); }", "call"),
        ("#define M g(1)\n", "call"),
        ("int x = g(1);", "call"),
        ("void f() { n::g<2 + 1, T><<<dim3(1), 2, 0, s>>>(1); }", "launch"),
        ("void f() { if (g < 2 && 3 > x) h(); }", "name"),
        ("void f() { h(&n::g); }", "name"),
        ("void (*table[])() = {g};", "name"),
        ("#define M g\n", "name"),
        ("void f() { g<2>(1); }", "call"),
        ("void f() { g<<<1, 2>>>(1); }", "launch"),
        ("void f() { g<2><<<1, 2>>>(1); }", "launch"),
        ("void f() { h(g); }", "name"),
        ("void f() { auto x = g; }", "name"),
        ("void f() { auto x = &g<2>; }", "name"),
    ],
)
def test_kinds_of_use(tmp_path, text, kind):
    (use,) = graph_of(tmp_path, text).graph.uses("g")
    assert use.kind == kind


@pytest.mark.parametrize("text", ["void g();", "extern void g(int);", "using a::g;", "struct g { int a; };"])
def test_declarations_are_no_uses(tmp_path, text):
    assert graph_of(tmp_path, text).graph.uses("g") == []


def test_what_a_use_knows(tmp_path):
    (use,) = graph_of(tmp_path, "void f() {\n  a::b::g<2, T>(x, y + 1);\n}").graph.uses("g")
    assert (use.qualifiers, use.template_arguments, len(use.arguments)) == (("a", "b"), ("2", "T"), 2)
    assert (use.path, use.line, use.owner.name, use.receiver) == ("a.cu", 2, "f", None)


@pytest.mark.parametrize(
    ("text", "receiver"),
    [("void f() { s.g(); }", "s"), ("void f() { p->g(); }", "p"), ("void f() { h(1).g(); }", "h"),
     ("void f() { a[1].g(); }", "[]"), ("void f() { a.b.g(); }", "b")],
)  # fmt: skip
def test_receivers(tmp_path, text, receiver):
    (use,) = graph_of(tmp_path, text).graph.uses("g")
    assert use.receiver.text == receiver


@pytest.mark.parametrize(
    "text",
    ["class g;", "namespace n { void g(int a); }", "// g(1)", 'auto x = "g(1)";', "struct S { void g(); };"],
)
def test_what_names_nothing_is_no_use(tmp_path, text):
    assert graph_of(tmp_path, text + "\n").graph.uses("g") == []


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("g()", []),
        ("g(a)", ["a"]),
        ("g(a, b)", ["a", "b"]),
        ("g((a, b), c)", [",", "c"]),
        ("g(h(a, b), c)", ["h", "c"]),
        ("g(a < b, c > d)", ["<", ">"]),
        ("g({a, b}, c)", ["", "c"]),
        ("g{}(a, b)", ["a", "b"]),
        ("g<a, b>(c)", ["c"]),
    ],
)
def test_arguments(tmp_path, text, arguments):
    (use,) = graph_of(tmp_path, f"void f() {{ {text}; }}").graph.uses("g")
    assert [node.text for node in use.arguments] == arguments


@pytest.mark.parametrize(
    ("text", "owners"),
    [
        ("void f() { g(1); }", ["f"]),
        ("void f() { g(1); }\nvoid h() { g(1); g(2); }", ["f", "h", "h"]),
        ("struct S { void m() { g(1); } };", ["m"]),
        ("#define M(x) g(x)\n", ["M"]),
        ("int x = g(1);", [None]),
        ("void f() { auto l = [] { g(1); }; }", ["f"]),
    ],
)
def test_the_function_or_macro_around_a_use(tmp_path, text, owners):
    uses = graph_of(tmp_path, text).graph.uses("g")
    assert [use.owner.name if use.owner else None for use in uses] == owners


def test_places_in_a_macro_are_those_of_the_define(tmp_path):
    (use,) = graph_of(tmp_path, "#define ONE 1\n#define CALL(x) \\\n  g(x, ONE)\n").graph.uses("g")
    assert (use.path, use.line, use.owner.line) == ("a.cu", 3, 2)
    assert use.owner.parameter_names == ("x",)

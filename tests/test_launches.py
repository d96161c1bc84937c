"""Launches of a kernel in sight: every way to write one, followed to where it happens; escapes with reasons."""

from __future__ import annotations

import pytest

from ptxguard.source.launches import find_launches
from sourcekit import graph_of

K = "__global__ void k(int a) { }\ntemplate <int N> __global__ void t(int a) { }\n"


def launches(folder, files, kernel: str = "k"):
    """(kind, line) of the launches of a kernel in `a.cu`, and reasons and lines of escapes."""
    kit = graph_of(folder, files if isinstance(files, dict) else K + files)
    found = find_launches(kit.graph, kit.function(kernel))
    return [(launch.kind, launch.line) for launch in found.found], [(r, line) for r, _, line in found.escapes]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        pytest.param("void f() { k<<<1, 2>>>(3); }", ["triple"], id="triple"),
        pytest.param("void f() { k<<<dim3(1, 2), g<3>(4), 0, stream>>>(3); }", ["triple"], id="four arguments"),
        pytest.param("void f() { ::k<<<1, 2>>>(3); }", ["triple"], id="qualified"),
        pytest.param("void f() { k<<<1, 2>>>(3); k<<<3, 4>>>(5); }", ["triple", "triple"], id="two"),
        pytest.param("void f() { // k<<<1, 2>>>(3);\n}", [], id="commented out"),
        pytest.param("void f() { /* k<<<1, 2>>>(3); */ }", [], id="commented out in a block"),
        pytest.param('void f() { log("k<<<1, 2>>>(3)"); }', [], id="in a string"),
        pytest.param("void f() { cudaLaunchKernel((const void *)k, 1, 2, args, 0, s); }", ["plain"], id="runtime"),
        pytest.param("void f() { cudaLaunchKernel((void *)&k, 1, 2, args, 0, s); }", ["plain"], id="address"),
        pytest.param("void f() { cudaLaunchKernel(reinterpret_cast<const void *>(k), 1, 2, a, 0, s); }", ["plain"],
                     id="reinterpret_cast"),
        pytest.param("void f() { CHECK(cudaLaunchKernel((void *)k, 1, 2, args, 0, s)); }", ["plain"], id="checked"),
        pytest.param("void f() { cudaLaunchCooperativeKernel((void *)k, 1, 2, args, 0, s); }", ["plain"],
                     id="cooperative"),
        pytest.param("void f() { cudaLaunchConfig_t c; cudaLaunchKernelEx(&c, k, 3); }", ["ex"], id="Ex"),
        pytest.param("void f() { cudaLaunchConfig_t c; cudaLaunchKernelExC(&c, (void *)k, args); }", ["ex"], id="ExC"),
        pytest.param("void f() { CUfunction h; cuModuleGetFunction(&h, m, \"k\");\n"
                     "cuLaunchKernel(h, 1, 1, 1, 2, 1, 1, 0, s, args, 0); }", ["plain"], id="driver, by name"),
        pytest.param("void f() { CUfunction h; cuModuleGetFunction(&h, m, \"k\");\ncuLaunchKernelEx(&c, h, a, 0); }",
                     ["ex"], id="driver Ex, by name"),
        pytest.param("void f() { CUfunction h; cudaGetFuncBySymbol(&h, (void *)k); k<<<1, 1>>>(0); }", ["triple"],
                     id="a question about the kernel launches nothing"),
        pytest.param("void f() { cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 16);\n"
                     "k<<<1, 2>>>(3); }", ["triple"], id="attribute set before"),
        pytest.param("void f() { auto p = k; p<<<1, 2>>>(3); }", ["triple"], id="pointer"),
        pytest.param("void f() { auto *p = &k; p<<<1, 2>>>(3); }", ["triple"], id="address in a pointer"),
        pytest.param("void f() { void (*p)(int) = k; p<<<1, 2>>>(3); }", ["triple"], id="typed pointer"),
        pytest.param("void f() { void (*p)(int); p = k; p<<<1, 2>>>(3); }", ["triple"], id="assigned pointer"),
        pytest.param("void f() { auto p = a ? k : l; p<<<1, 2>>>(3); }", ["triple"], id="one of two"),
        pytest.param("void f() { auto p = k; auto q = p; q<<<1, 2>>>(3); }", ["triple"], id="pointer to pointer"),
        pytest.param("template <class F> void go(F f) { f<<<1, 2>>>(3); } void f() { go(k); }", ["triple"],
                     id="helper"),
        pytest.param("template <class F> void go(F f, int n) { if (n) f<<<1, 2>>>(3); } void f() { go(&k, 2); }",
                     ["triple"], id="helper with more arguments"),
        pytest.param("template <class F> void in(F f) { f<<<1, 2>>>(3); } template <class F> void go(F f) { in(f); }"
                     " void f() { go(k); }", ["triple"], id="helper of a helper"),
        pytest.param("template <auto F> void go() { F<<<1, 2>>>(3); } void f() { go<k>(); }", ["triple"],
                     id="template argument"),
        pytest.param("template <void (*F)(int)> void go() { F<<<1, 2>>>(3); } void f() { go<&k>(); }", ["triple"],
                     id="pointer as a template argument"),
        pytest.param("#define GO(f, ...) f<<<1, 2>>>(__VA_ARGS__)\nvoid f() { GO(k, 3); }", ["triple"], id="macro"),
        pytest.param("#define GO k<<<1, 2>>>(3)\nvoid f() { GO; }", ["triple"], id="macro with the name"),
        pytest.param("#define SWITCH(n, ...) if (n) { __VA_ARGS__; }\nvoid f() { SWITCH(2, k<<<1, 2>>>(3)); }",
                     ["triple"], id="inside of a dispatch macro"),
        pytest.param("#define SWITCH(n, ...) [&] { return __VA_ARGS__(); }()\n"
                     "void f() { SWITCH(2, [&] { k<<<1, 2>>>(3); }); }", ["triple"], id="in a lambda in a macro"),
        pytest.param("auto pick() { return k; } void f() { auto p = pick(); p<<<1, 2>>>(3); }", ["triple"],
                     id="returned"),
        pytest.param("void f() { cudaKernelNodeParams p; p.func = (void *)k; cudaGraphAddKernelNode(&n, g, 0, 0, &p);"
                     " }", ["graph"], id="graph node"),
    ],
)  # fmt: skip
def test_launches_in_sight(tmp_path, text, kinds):
    found, escapes = launches(tmp_path, text)
    assert [kind for kind, _ in found] == kinds
    assert escapes == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("void f() { t<4><<<1, 2>>>(3); }", id="triple"),
        pytest.param("void f() { auto p = t<4>; p<<<1, 2>>>(3); }", id="pointer"),
        pytest.param(
            "void f() { auto p = &t<4>; cudaLaunchKernel((void *)p, 1, 2, a, 0, s); }", id="runtime"
        ),
        pytest.param(
            "template <class F> void go(F f) { f<<<1, 2>>>(3); } void f() { go(t<4>); }", id="helper"
        ),
        pytest.param(
            "template <auto F> void go() { F<<<1, 2>>>(3); } void f() { go<t<4>>(); }", id="template"
        ),
    ],
)
def test_template_arguments_travel_with_the_kernel(tmp_path, text):
    kit = graph_of(tmp_path, K + text)
    (launch,) = find_launches(kit.graph, kit.function("t")).found
    assert launch.template_arguments == ("4",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(
            "void f() { elsewhere(k); }", "given to elsewhere, whose body is not in sight", id="helper"
        ),
        pytest.param("void f() { run<k>(); }", "given to run, whose body is not in sight", id="template"),
        pytest.param("void (*table[])(int) = {k};", "kept in a variable at file scope", id="table"),
        pytest.param("auto p = k;", "kept in a variable at file scope", id="global"),
        pytest.param("void f(S &s) { s.kernel = k; }", "stored in member kernel", id="member"),
        pytest.param("auto pick() { return k; }", "returned by pick, which nobody calls here", id="returned"),
        pytest.param('void f() { auto h = get("k"); }', "fetched by name, launch not in sight", id="by name"),
    ],
)
def test_escapes(tmp_path, text, reason):
    found, escapes = launches(tmp_path, text)
    assert found == []
    assert [why for why, _ in escapes] == [reason]


@pytest.mark.parametrize(
    "text",
    [
        "template __global__ void k<2>(int);",
        "void f() { static_assert(sizeof(k) > 0); }",
        "void f() { if (p == k) g(); }",
        "__global__ void k(int a);",
        "extern __global__ void k(int);",
        "void f() { struct S { int k; } s; s.k = 1; }",
    ],
)
def test_mentions_that_launch_nothing(tmp_path, text):
    assert launches(tmp_path, text) == ([], [])


def test_a_launch_in_another_file_needs_a_declaration(tmp_path):
    files = {
        "k.cu": '#include "k.h"\n__global__ void k(int a) { }\n',
        "k.h": "__global__ void k(int a);\n",
        "a.cu": '#include "k.h"\nvoid f() { k<<<1, 2>>>(3); }\n',
        "b.cu": "namespace other { __global__ void k(int a) { } void f() { k<<<1, 2>>>(3); } }\n",
    }
    kit = graph_of(tmp_path, files)
    found = find_launches(kit.graph, kit.function("k")).found
    assert [(launch.path, launch.line) for launch in found] == [("a.cu", 2)]


def test_a_declaration_without_a_header_is_enough(tmp_path):
    files = {
        "k.cu": "__global__ void k(int a) { }\n",
        "a.cu": "__global__ void k(int a);\nvoid f() { k<<<1, 2>>>(3); }\n",
    }
    kit = graph_of(tmp_path, files)
    found = find_launches(kit.graph, kit.function("k")).found
    assert [(launch.path, launch.line) for launch in found] == [("a.cu", 2)]


def test_a_variable_holds_the_kernel_only_in_its_scope(tmp_path):
    text = "void f() { { auto p = k; g(p == k); } { auto p = other; p<<<1, 2>>>(3); } }"
    assert launches(tmp_path, text)[0] == []


def test_the_required_cluster_attribute_is_remembered(tmp_path):
    text = "void f() { cudaFuncSetAttribute(k, cudaFuncAttributeRequiredClusterWidth, 2); k<<<1, 2>>>(3); }"
    kit = graph_of(tmp_path, K + text)
    found = find_launches(kit.graph, kit.function("k"))
    assert [use.line for use in found.required_cluster] == [3]
    assert len(found.found) == 1


def test_helpers_that_call_each_other_end(tmp_path):
    text = (
        "template <class F> void b(F f); template <class F> void a(F f) { b(f); }\n"
        "template <class F> void b(F f) { a(f); f<<<1, 2>>>(3); }\nvoid f() { a(k); }"
    )
    assert {kind for kind, _ in launches(tmp_path, text)[0]} == {"triple"}

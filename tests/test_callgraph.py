"""From an asm statement to the kernels that reach it: overloads, scopes, macros, lambdas, values passed on."""

from __future__ import annotations

import pytest

from sourcekit import copy, graph_of, look, places

BODY = copy()
LOAD = f"__device__ void load(unsigned dst, const void *src, unsigned bar) {{ {BODY} }}\n"


def reached(folder, files, **options) -> list[str]:
    """Kernels that reach the one copy."""
    return [kernel.name for kernel in look(folder, files, **options).only.kernels]


@pytest.mark.parametrize(
    ("text", "kernels"),
    [
        pytest.param(LOAD + "__global__ void k() { load(1, 0, 2); }", ["k"], id="call"),
        pytest.param(LOAD + "__device__ void m() { load(1, 0, 2); } __global__ void k() { m(); }", ["k"],
                     id="through a helper"),
        pytest.param(LOAD + "__global__ void k() { load(1, 0, 2); } __global__ void l() { load(1, 0, 2); }",
                     ["k", "l"], id="two kernels"),
        pytest.param(LOAD + "__global__ void k() { f(); }", [], id="no call"),
        pytest.param(LOAD + "// load(1, 0, 2)\n__global__ void k() { /* load(1, 0, 2); */ f(\"load(1, 0, 2)\"); }",
                     [], id="comments and strings call nothing"),
        pytest.param(LOAD + "__global__ void k() {\n#if 0\n load(1, 0, 2);\n#endif\n}", [], id="dead call"),
        pytest.param(LOAD + "__global__ void k() {\n#ifdef __CUDA_ARCH__\n load(1, 0, 2);\n#endif\n}", ["k"],
                     id="call under a guard"),
        pytest.param(LOAD + "__global__ void k() { x.load(1, 0, 2); }", [], id="a member of that name"),
        pytest.param(LOAD + "__global__ void k() { int load = 1; f(load); }", [], id="a variable of that name"),
        pytest.param(LOAD + "__global__ void k() { load(1, 0); }", [], id="too few arguments"),
        pytest.param(f"template <int N> __device__ void load(void *src, unsigned dst, unsigned bar) {{ {BODY} }}\n"
                     "__global__ void k() { load<3>(0, 1, 2); }", ["k"], id="template arguments"),
        pytest.param(f"namespace a {{ {LOAD} }} __global__ void k() {{ a::load(1, 0, 2); }}", ["k"],
                     id="qualified"),
        pytest.param(f"namespace a {{ {LOAD} __global__ void k() {{ load(1, 0, 2); }} }}", ["a::k"],
                     id="same namespace"),
        pytest.param(f"namespace a {{ {LOAD} }} using namespace a; __global__ void k() {{ load(1, 0, 2); }}", ["k"],
                     id="using namespace"),
        pytest.param(f"struct S {{ static {LOAD} }}; __global__ void k() {{ S::load(1, 0, 2); }}", ["k"],
                     id="static member"),
        pytest.param(f"struct S {{ {LOAD} }}; __global__ void k() {{ S s; s.load(1, 0, 2); }}", ["k"],
                     id="member through an object"),
        pytest.param(f"struct S {{ {LOAD} }}; __global__ void k() {{ S *s; s->load(1, 0, 2); }}", ["k"],
                     id="member through a pointer"),
        pytest.param(f"struct S {{ {LOAD} __device__ void go() {{ load(1, 0, 2); }} }};\n"
                     "__global__ void k() { S s; s.go(); }", ["k"], id="member called by a member"),
        pytest.param(f"struct S {{ __device__ void operator()(unsigned dst, void *src, unsigned bar) {{ {BODY} }} }};"
                     "__global__ void k() { S{}(1, 0, 2); }", ["k"], id="operator()"),
        pytest.param(LOAD + "__global__ void k() { auto f = [&](int i) { load(i, 0, 2); }; f(1); }", ["k"],
                     id="inside of a lambda"),
        pytest.param(LOAD + "#define GET(x) load(x, 0, 2)\n__global__ void k() { GET(1); }", ["k"], id="in a macro"),
        pytest.param(LOAD + "#define INNER load(1, 0, 2)\n#define OUTER INNER\n__global__ void k() { OUTER; }", ["k"],
                     id="in a macro in a macro"),
        pytest.param(f"#define LOAD_(dst, src, bar) {copy()}\n__global__ void k(void *p) {{ LOAD_(1, p, 2); }}",
                     ["k"], id="a macro that holds the statement"),
        pytest.param(LOAD + "__device__ void r(int n) { if (n) r(n - 1); load(1, 0, 2); }"
                     " __global__ void k() { r(2); }", ["k"], id="recursion"),
        pytest.param(LOAD + "__device__ void b(int); __device__ void a(int n) { b(n); }"
                     "__device__ void b(int n) { a(n); load(1, 0, 2); } __global__ void k() { a(1); }", ["k"],
                     id="mutual recursion"),
        pytest.param(f"__global__ void k(unsigned dst, const void *src, unsigned bar) {{ {BODY} }}", ["k"],
                     id="the kernel itself"),
        pytest.param(LOAD + "template <class T> __global__ void k(T t) { load(1, 0, 2); }", ["k"], id="a template"),
    ],
)  # fmt: skip
def test_kernels_reached(tmp_path, text, kernels):
    assert reached(tmp_path, text) == kernels


OVERLOADS = f"""
__device__ void load(unsigned dst, const float *src, unsigned bar) {{ {BODY} }}
"""


@pytest.mark.parametrize(
    ("other", "call", "kernels"),
    [
        pytest.param("load(unsigned d, const float *s)", "load(1, p, 2)", ["k"], id="arity"),
        pytest.param("load(unsigned d, const float *s)", "load(1, p)", [], id="the other arity"),
        pytest.param("load(unsigned d, int s, unsigned b)", "load(1, p, 2)", ["k"], id="pointer and integer"),
        pytest.param("load(unsigned d, int s, unsigned b)", "load(1, 7, 2)", [], id="integer and pointer"),
        pytest.param("load(unsigned d, const int *s, unsigned b)", "load(1, p, 2)", ["k"], id="pointers"),
        pytest.param("load(unsigned d, const int *s, unsigned b)", "load(1, q, 2)", [], id="other pointers"),
        pytest.param("load(unsigned d, const int *s, unsigned b)", "load(1, static_cast<const float *>(v), 2)",
                     ["k"], id="cast"),
        pytest.param("load(unsigned d, const int *s, unsigned b)", "load(1, static_cast<const int *>(v), 2)",
                     [], id="other cast"),
        pytest.param("load(unsigned d, Map s, unsigned b)", "load(1, m, 2)", [], id="class by value"),
        pytest.param("load(unsigned d, int s, unsigned b)", "load(1, 0, 2)", [], id="zero is an integer first"),
        pytest.param("load(unsigned d, int s, unsigned b)", "load(1, nullptr, 2)", ["k"], id="nullptr"),
        pytest.param("load(unsigned d, const Map &s, unsigned b)", "load(1, m, 2)", [], id="class by reference"),
        pytest.param("load(unsigned d, const Map *s, unsigned b)", "load(1, &m, 2)", [], id="address of an object"),
    ],
)  # fmt: skip
def test_overloads_are_told_apart(tmp_path, other, call, kernels):
    rest = (
        f"__device__ void {other} {{ }}\n__global__ void k(float *p, int *q, void *v, Map m) {{ {call}; }}\n"
    )
    assert reached(tmp_path, OVERLOADS + rest) == kernels


def test_an_overload_that_cannot_be_told_apart_makes_the_answer_undecided(tmp_path):
    text = OVERLOADS + (
        "__device__ void load(unsigned d, const int *s, unsigned b) { }\n"
        "__global__ void k() { auto p = get(); load(1, p, 2); }\nvoid f() { k<<<1, 1>>>(); }\n"
    )
    site = look(tmp_path, text).only
    assert [kernel.name for kernel in site.kernels] == ["k"]
    assert site.cluster.verdict == "one"  # its one possible kernel is launched with one CTA all the same


def test_a_doubtful_overload_cannot_make_the_cluster_larger(tmp_path):
    text = OVERLOADS + (
        "__device__ void load(unsigned d, const int *s, unsigned b) { }\n"
        "__global__ void __cluster_dims__(2, 1, 1) k() { auto p = get(); load(1, p, 2); }\n"
        "void f() { k<<<2, 1>>>(); }\n"
    )
    site = look(tmp_path, text).only
    assert site.cluster.verdict == "undecided"
    assert "overload cannot be told apart" in site.cluster.reason


@pytest.mark.parametrize(
    ("call", "kernels"),
    [("a::load(1, 0, 2)", ["k"]), ("b::load(1, 0, 2)", []), ("load(1, 0, 2)", [])],
)
def test_namespaces_tell_functions_apart(tmp_path, call, kernels):
    text = (
        f"namespace a {{ {LOAD} }} namespace b {{ __device__ void load(unsigned, const void *, unsigned) {{}} }}\n"
        f"__device__ void load(unsigned, const void *, unsigned) {{}}\n__global__ void k() {{ {call}; }}\n"
    )
    assert reached(tmp_path, text) == kernels


@pytest.mark.parametrize(("call", "kernels"), [("A::load(1, 0, 2)", ["k"]), ("B::load(1, 0, 2)", [])])
def test_a_named_class_outranks_fitting_types(tmp_path, call, kernels):
    text = (
        f"template <class T> struct A {{ static __device__ void load(T dst, const void *src, unsigned bar) {{ {BODY} }} }};\n"
        "struct B { __device__ static void load(unsigned, const void *, unsigned) {} };\n"
        f"__global__ void k(unsigned u) {{ {call.replace('A', 'A<unsigned>').replace('1', 'u')}; }}\n"
    )
    assert reached(tmp_path, text) == kernels


@pytest.mark.parametrize(("call", "kernels"), [("A::load(1, 0, 2)", ["k"]), ("B::load(1, 0, 2)", [])])
def test_static_members_of_two_classes(tmp_path, call, kernels):
    text = (
        f"struct A {{ static {LOAD} }};\nstruct B {{ __device__ static void load(unsigned, const void *, unsigned) {{}}"
        f" }};\n__global__ void k() {{ {call}; }}\n"
    )
    assert reached(tmp_path, text) == kernels


@pytest.mark.parametrize(("call", "kernels"), [("load<2>(0, 1, 2)", ["k"]), ("load<3>(0, 1, 2)", [])])
def test_specialisations(tmp_path, call, kernels):
    text = (
        "template <int N> __device__ void load(void *src, unsigned dst, unsigned bar) {}\n"
        f"template <> __device__ void load<2>(void *src, unsigned dst, unsigned bar) {{ {BODY} }}\n"
        f"__global__ void k() {{ {call}; }}\n"
    )
    assert reached(tmp_path, text) == kernels


@pytest.mark.parametrize(
    ("body", "kernels"),
    [
        ("A x; x.go(1, 0, 2);", ["k"]),
        ("A *x = make(); x->go(1, 0, 2);", ["k"]),
        ("B x; x.go(1, 0, 2);", []),
        ("make().go(1, 0, 2);", ["k"]),
    ],
)
def test_the_class_of_the_object_decides(tmp_path, body, kernels):
    go = "__device__ void go(unsigned dst, const void *src, unsigned bar)"
    text = (
        f"struct A {{ {go} {{ {BODY} }} }};\n"
        f"struct B {{ {go} {{ }} }};\n"
        f"struct W {{ {go} {{ A x; x.go(dst, src, bar); }} }};\n"
    )
    assert reached(tmp_path, text + f"__global__ void k() {{ {body} }}\n") == kernels
    inside = text + "__global__ void k() { W w; w.go(1, 0, 2); }\n"
    assert reached(tmp_path, inside) == ["k"]


def test_calls_across_files_need_an_include(tmp_path):
    files = {
        "load.cuh": LOAD,
        "mid.cuh": '#include "load.cuh"\n__device__ void mid() { load(1, 0, 2); }\n',
        "a.cu": '#include "mid.cuh"\n__global__ void a() { mid(); }\n',
        "b.cu": "__device__ void mid(); __global__ void b() { mid(); }\n",
    }
    assert reached(tmp_path, files) == ["a"]


def test_the_chain_of_calls_is_evidence(tmp_path):
    files = {
        "load.cuh": LOAD,
        "a.cu": '#include "load.cuh"\n\n__device__ void mid() {\n  load(1, 0, 2);\n}\n__global__ void k() {\n  mid();\n}\n',
    }
    site = look(tmp_path, files).only
    assert list(dict.fromkeys(places(site, "call"))) == [("a.cu", 7), ("a.cu", 4)]
    assert places(site, "kernel")[:1] == [("a.cu", 6)]


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        pytest.param("__global__ void k(int i) { auto f = load; f(1, 0, 2); }", "passed on as a value", id="pointer"),
        pytest.param("__global__ void k() { run<load>(); }", "passed on as a value", id="template argument"),
        pytest.param("__device__ void (*p)(unsigned, const void *, unsigned) = load;", "passed on as a value",
                     id="global pointer"),
        pytest.param("__device__ F table[] = {other, load};", "passed on as a value", id="global table"),
        pytest.param("__device__ Table table{load};", "passed on as a value", id="global object"),
        pytest.param("namespace n { struct S { int load; }; }", "no kernel that calls load", id="a member's name"),
        pytest.param("__global__ void k() { run(load); }", "passed on as a value", id="argument"),
        pytest.param("", "no kernel that calls load (a.cu:1) is in the tree", id="nobody"),
        pytest.param("extern __device__ void load(unsigned, const void *, unsigned);", "no kernel that calls load",
                     id="declared again"),
        pytest.param("__device__ void m() { load(1, 0, 2); }", "no kernel that calls load", id="no kernel above"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_undecided_with_its_reason(tmp_path, rest, reason):
    site = look(tmp_path, LOAD + rest).only
    assert site.cluster.verdict == "undecided"
    assert reason in site.cluster.reason


def test_a_class_passed_as_a_type_is_undecided(tmp_path):
    text = f"struct S {{ static {LOAD} }};\n__global__ void k() {{ Run<S>::go(); }}\n"
    site = look(tmp_path, text).only
    assert site.cluster.verdict == "undecided"
    assert "S is used as a type or template argument (a.cu:3)" in site.cluster.reason


@pytest.mark.parametrize(
    ("mention", "reason"),
    [
        ("S::first(3);", "no kernel that calls S::load"),
        ("S s; s.first(3);", "no kernel that calls S::load"),
        ("S s(1); s.first(3); s.first(4);", "no kernel that calls S::load"),
        ("S s; s.first(3); run(s);", "S is used as a type or template argument"),
        ("S s; s.first(3); S *t = &s;", "S is used as a type or template argument"),
        ("S s; s.template first<2>(3);", "S is used as a type or template argument"),
        ("S::first(3); Run<S>::go();", "S is used as a type or template argument"),
        ("Box<S>::first(3);", "S is used as a type or template argument"),
        ("S::Inner x;", "S is used as a type or template argument"),
        ("S s; run(s);", "S is used as a type or template argument"),
    ],
)
def test_a_class_that_is_only_the_scope_of_another_call_is_not_passed_on(tmp_path, mention, reason):
    text = f"struct S {{ static {LOAD} static int first(int); }};\n__global__ void k() {{ {mention} }}\n"
    site = look(tmp_path, text).only
    assert site.cluster.verdict == "undecided"
    assert reason in site.cluster.reason


def test_the_scope_of_another_call_does_not_spoil_a_verdict_of_one(tmp_path):
    text = (
        f"struct S {{ static {LOAD} static int first(int n) {{ load(1, 0, 2); return n; }} }};\n"
        "__global__ void k() { S::first(3); }\nvoid f() { k<<<1, 1>>>(); }\n"
    )
    assert look(tmp_path, text).only.cluster.verdict == "one"


def test_one_escape_spoils_a_verdict_of_one(tmp_path):
    text = LOAD + "__global__ void k() { load(1, 0, 2); run(load); }\nvoid f() { k<<<1, 1>>>(); }\n"
    site = look(tmp_path, text).only
    assert (site.cluster.verdict, [k.name for k in site.kernels]) == ("undecided", ["k"])


@pytest.mark.parametrize(
    ("members", "shape"),
    [
        ("float m[4];", "array"),
        ("float *m;", "pointer"),
        ("Barrier m;", "object"),
        ("Box<2> m;", "object"),
        ("int m;", "scalar"),
        ("int m; }; struct T { float m[2];", "unknown"),
        ("int other;", "unknown"),
    ],
)
def test_member_shape(tmp_path, members, shape):
    kit = graph_of(tmp_path, f"struct S {{ {members} }};")
    assert kit.graph.member_shape("m", kit.unit()) == shape


@pytest.mark.parametrize(
    ("before", "body", "expected"),
    [
        ("", "", False),
        ("", 'asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");', True),
        (
            '#define GIVE(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(n))\n',
            "GIVE(40);",
            True,
        ),
        (
            '#define REG(op, n) asm volatile("setmaxnreg." #op ".sync.aligned.u32 %0;" :: "n"(n))\n#define GIVE(n) REG(dec, n)\n',
            "GIVE(40);",
            True,
        ),
        (
            'template <int N> __device__ void give() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(N)); }\n',
            "give<40>();",
            True,
        ),
        (
            '__device__ void give() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }\n__device__ void role() { give(); }\n',
            "role();",
            True,
        ),
        ('__device__ void give() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }\n', "", False),
        ("", "cutlass::arch::warpgroup_reg_dealloc<40>();", True),
        ('#define NOTE "no setmaxnreg here"\n', "", False),
    ],
)
def test_registers_handed_over_are_seen_behind_helpers_and_macros(tmp_path, before, body, expected):
    text = f"{before}{LOAD}__global__ void k() {{ {body} load(1, 0, 2); }}\nvoid f() {{ k<<<1, 1>>>(); }}\n"
    (site,) = [one for one in look(tmp_path, text).sites if one.copy is not None]
    assert site.uses_setmaxnreg is expected


def test_a_macro_of_a_file_that_is_not_included_says_nothing(tmp_path):
    (tmp_path / "other.cuh").write_text(
        '#define GIVE(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;")\n'
    )
    text = f"#define GIVE(n)\n{LOAD}__global__ void k() {{ GIVE(1); load(1, 0, 2); }}\n"
    assert look(tmp_path, text).only.uses_setmaxnreg is False
    assert look(
        tmp_path, '#include "other.cuh"\n' + text.replace("#define GIVE(n)\n", "")
    ).only.uses_setmaxnreg

"""Cluster size of a kernel: one, larger or undecided, each with the lines that say so."""

from __future__ import annotations

import pytest

from ptxguard.finding import Evidence
from ptxguard.model import ClusterVerdict
from ptxguard.source.cluster import merge
from ptxguard.source.sizes import sized
from sourcekit import copy, look, places

# A kernel whose destination is a parameter: only the cluster size speaks for it.
HEAD = "__global__ void k(unsigned dst, const void *src, unsigned bar)"
GO = "void f() { k<<<1, 2>>>(0, 0, 0); }\n"


def cluster(folder, files, name: str = "k", **options) -> ClusterVerdict:
    site = look(folder, files, **options).only
    assert [kernel.name for kernel in site.kernels] == [name]
    return site.cluster


def with_head(head: str) -> str:
    return f"{head} {{ {copy()} }}\n"


def attributed(attribute: str) -> str:
    """A kernel with an attribute before its name."""
    return with_head(HEAD.replace("void k", f"void {attribute} k"))


K = with_head(HEAD)
T = with_head("template <int N> " + HEAD.replace("void k", "void __cluster_dims__(N, 1, 1) k"))
EX = "cudaLaunchKernelEx(&c, k, 0u, nullptr, 0u);"


@pytest.mark.parametrize(
    ("text", "verdict", "reason"),
    [
        pytest.param(K + GO, "one", "launched by <<<>>> without a cluster attribute (a.cu:2)", id="triple"),
        pytest.param(K + "void f() { cudaLaunchKernel((void *)k, 1, 2, a, 0, s); }", "one",
                     "launched by a launch call without attributes (a.cu:2)", id="cudaLaunchKernel"),
        pytest.param(K + 'void f() { CUfunction h; cuModuleGetFunction(&h, m, "k");\n'
                     "cuLaunchKernel(h, 1, 1, 1, 2, 1, 1, 0, s, a, 0); }", "one", "launch call without attributes",
                     id="cuLaunchKernel"),
        pytest.param(K, "undecided", "no launch of kernel k is in the tree", id="no launch"),
        pytest.param(K + "// k<<<1, 2>>>(0, 0, 0);\n", "undecided", "no launch of kernel k", id="commented launch"),
        pytest.param(K + "#if 0\nvoid f() { k<<<1, 2>>>(0, 0, 0); }\n#endif\n", "undecided",
                     "no launch of kernel k", id="dead launch"),
        pytest.param(K + GO + "void g() { elsewhere(k); }", "undecided", "k is given to elsewhere",
                     id="one launch in sight, one out of sight"),
        pytest.param(K + "void f() { auto p = k; p<<<1, 2>>>(0, 0, 0); }", "one", "<<<>>>", id="pointer"),
        pytest.param(K + "template <class F> void go(F f) { f<<<1, 2>>>(0, 0, 0); } void f() { go(k); }", "one",
                     "<<<>>>", id="helper"),
    ],
)  # fmt: skip
def test_launches(tmp_path, text, verdict, reason):
    found = cluster(tmp_path, text)
    assert found.verdict == verdict
    assert reason in found.reason


@pytest.mark.parametrize(
    ("before", "attribute", "verdict"),
    [
        ("", "__cluster_dims__(1, 1, 1)", "one"),
        ("", "__cluster_dims__(1)", "one"),
        ("", "__cluster_dims__(2, 1, 1)", "larger"),
        ("", "__cluster_dims__(2)", "larger"),
        ("", "__cluster_dims__(1, 1, 2)", "larger"),
        ("", "__launch_bounds__(256) __cluster_dims__(4, 2)", "larger"),
        ("#define SIZE 2\n", "__cluster_dims__(SIZE, 1, 1)", "larger"),
        ("#define SIZE 1\n", "__cluster_dims__(SIZE, SIZE, SIZE)", "one"),
        ("#define DIMS __cluster_dims__(2, 1, 1)\n", "DIMS", "larger"),
        ("#define DIMS(n) __launch_bounds__(32) __cluster_dims__(n, 1, 1)\n", "DIMS(2)", "larger"),
        ("#define DIMS(n) __cluster_dims__(n, 1, 1)\n", "DIMS(1)", "one"),
        ("#define DIMS(n) __cluster_dims__(n, 1, 1)\n#define OTHER\n", "OTHER", "one"),
        ("#define INNER(n) __cluster_dims__(n)\n#define DIMS INNER(2)\n", "DIMS", "larger"),
        ("#define DIMS(n) INNER(n)\n#define INNER(n) __cluster_dims__(n)\n", "DIMS(1)", "one"),
        ("#define ONE TWO __cluster_dims__(2)\n#define TWO ONE\n", "TWO", "larger"),
        ("constexpr int size = 2;\n", "__cluster_dims__(size, 1, 1)", "larger"),
        ("constexpr int size = 4 / 4;\n", "__cluster_dims__(size, 1, 1)", "one"),
        ("static const unsigned size{2};\n", "__cluster_dims__(size)", "larger"),
        ("enum { size = 2 };\n", "__cluster_dims__(size)", "larger"),
        ("struct S { static constexpr int size = 2; };\n", "__cluster_dims__(S::size)", "larger"),
        ("constexpr int a = 2, b = a - 1;\n", "__cluster_dims__(b)", "one"),
        ("", "__cluster_dims__(1 << 1)", "larger"),
        ("", "__cluster_dims__(sizeof(int) > 2 ? 1 : 1)", "one"),
        ("", "__cluster_dims__(unknown_name)", "undecided"),
        ("extern const int size;\n", "__cluster_dims__(size)", "undecided"),
        ("", "__cluster_dims__()", "undecided"),
        ("", "__attribute__((cluster_dims(2, 1, 1)))", "larger"),
        ("", "__attribute__((cluster_dims(1)))", "one"),
        ("#define DIMS(n) __attribute__((cluster_dims(n)))\n", "DIMS(2)", "larger"),
        ("", "__block_size__((128, 1, 1), (2, 1, 1))", "larger"),
        ("", "__block_size__((128, 1, 1), (1, 1, 1))", "one"),
        ("", "__launch_bounds__(256, 1, 1)", "one"),
        ("", "__launch_bounds__(256, 1, 4)", "one"),
        ("", "__launch_bounds__(256, 1)", "one"),
    ],
)
def test_attributes_with_a_plain_launch(tmp_path, before, attribute, verdict):
    assert cluster(tmp_path, before + attributed(attribute) + GO).verdict == verdict


@pytest.mark.parametrize(
    ("attribute", "verdict"),
    [
        ("__cluster_dims__(1, 1, 1)", "one"),
        ("__cluster_dims__(2, 1, 1)", "larger"),
        ("__launch_bounds__(256, 1, 1)", "one"),
        ("__launch_bounds__(256, 1, 4)", "undecided"),
        ("__launch_bounds__(256, 1)", "undecided"),
    ],
)
def test_attributes_without_a_launch(tmp_path, attribute, verdict):
    """`.maxclusterrank 1` of the third launch bound allows no larger cluster; 4 allows one, but asks for none."""
    assert cluster(tmp_path, attributed(attribute)).verdict == verdict


@pytest.mark.parametrize(
    "head",
    [
        "__cluster_dims__(2, 1, 1) " + HEAD,
        HEAD.replace("void k", "__cluster_dims__(2, 1, 1) void k"),
        HEAD.replace("void k", "void __cluster_dims__(2, 1, 1) k"),
        HEAD.replace("__global__ void", 'extern "C" __cluster_dims__(2, 1, 1) __global__ void'),
        HEAD.replace("void k", "__launch_bounds__(1) void __cluster_dims__(\n2\n, 1, 1) k"),
    ],
)
def test_every_position_of_the_attribute(tmp_path, head):
    found = cluster(tmp_path, with_head(head) + GO)
    assert found.verdict == "larger"
    assert "__cluster_dims__" in found.reason


@pytest.mark.parametrize("place", ["before", "after"])
def test_the_attribute_of_a_declaration_counts(tmp_path, place):
    declaration = HEAD.replace("void k", "void __cluster_dims__(2, 1, 1) k") + ";\n"
    text = declaration + K if place == "before" else K + declaration
    assert cluster(tmp_path, text + GO).verdict == "larger"


@pytest.mark.parametrize(
    ("launch", "verdict"),
    [
        ("k<1><<<1, 2>>>(0, 0, 0);", "one"),
        ("k<2><<<1, 2>>>(0, 0, 0);", "larger"),
        ("k<1><<<1, 2>>>(0, 0, 0); k<4><<<1, 2>>>(0, 0, 0);", "larger"),
        ("constexpr int n = 2; k<n><<<1, 2>>>(0, 0, 0);", "larger"),
        ("constexpr int n = 1; k<n><<<1, 2>>>(0, 0, 0);", "one"),
        ("auto p = k<2>; p<<<1, 2>>>(0, 0, 0);", "larger"),
        ("k<N><<<1, 2>>>(0, 0, 0);", "undecided"),
    ],
)
def test_template_arguments(tmp_path, launch, verdict):
    assert cluster(tmp_path, T + f"template <int N> void f() {{ {launch} }}\n").verdict == verdict


def ex(body: str, before: str = "", head: str = "void f(int n)") -> str:
    """A launch with a configuration `c`; `body` fills it."""
    return before + K + f"{head} {{\n  cudaLaunchConfig_t c = {{}};\n  {body}\n  {EX}\n}}\n"


SET = (
    "cudaLaunchAttribute a[1]; a[0].id = cudaLaunchAttributeClusterDimension; a[0].val.clusterDim.x = {x};"
    " a[0].val.clusterDim.y = 1; a[0].val.clusterDim.z = 1; c.attrs = a; c.numAttrs = 1;"
)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        pytest.param(ex(""), "one", id="no attributes"),
        pytest.param(ex("cudaLaunchAttribute a[1]; a[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;"
                        " a[0].val.programmaticStreamSerializationAllowed = 1; c.attrs = a; c.numAttrs = 1;"), "one",
                     id="another attribute"),
        pytest.param(ex(SET.format(x=2)), "larger", id="two"),
        pytest.param(ex(SET.format(x=1)), "one", id="one"),
        pytest.param(ex(SET.format(x="n")), "undecided", id="parameter without a caller"),
        pytest.param(ex(SET.format(x="n")) + "void g() { f(1); }", "one", id="parameter of one caller"),
        pytest.param(ex(SET.format(x="n")) + "void g() { f(1); f(2); }", "larger", id="parameter of two callers"),
        pytest.param(ex(SET.format(x="n")) + "void g(int m) { f(m); }", "undecided", id="parameter of unknown value"),
        pytest.param(ex("int m = 1; if (n) m = 2;" + SET.format(x="m")), "larger", id="variable that may be two"),
        pytest.param(ex("const int m = 1;" + SET.format(x="m")), "one", id="constant variable"),
        pytest.param(ex(SET.format(x="SIZE"), "#define SIZE 2\n"), "larger", id="macro"),
        pytest.param(ex(SET.format(x="size"), "constexpr int size = 1;\n"), "one", id="constexpr"),
        pytest.param(ex(SET.format(x="n > 1 ? n : 1")) + "void g() { f(1); }", "one", id="conditional"),
        pytest.param(ex("if (n > 1) { " + SET.format(x="n") + " }") + "void g() { f(1); }", "one",
                     id="only if > 1, and it is one"),
        pytest.param(ex("if (n > 1) { " + SET.format(x="n") + " }") + "void g() { f(4); }", "larger",
                     id="only if > 1, and it is four"),
        pytest.param(ex("if (n > 1) { " + SET.format(x="n") + " }"), "undecided", id="only if > 1, not known"),
        pytest.param(ex("// " + SET.format(x=2)), "one", id="commented out"),
        pytest.param(ex("\n#if 0\n" + SET.format(x=2) + "\n#endif\n"), "one", id="dead"),
        pytest.param(ex(SET.format(x=2).replace("ClusterDimension", "PreferredClusterDimension")
                        .replace("clusterDim.", "preferredClusterDim.")), "larger", id="preferred"),
        pytest.param(ex("cudaLaunchAttribute a[] = {{cudaLaunchAttributeClusterDimension, {.clusterDim = {2, 1, 1}}}};"
                        " c.attrs = a; c.numAttrs = 1;"), "larger", id="initialiser"),
        pytest.param(ex("cudaLaunchAttribute a[] = {{cudaLaunchAttributeClusterDimension, {.clusterDim = {1, 1, 1}}}};"
                        " c.attrs = a; c.numAttrs = 1;"), "one", id="initialiser of one"),
        pytest.param(ex("cudaLaunchAttribute a[1]; a[0].id = cudaLaunchAttributeClusterDimension;"
                        " a[0].val.clusterDim = {2, 1, 1}; c.attrs = a; c.numAttrs = 1;"), "larger",
                     id="all three at once"),
        pytest.param(ex("dim3 d(2, 1, 1); cudaLaunchAttribute a[1]; a[0].id = cudaLaunchAttributeClusterDimension;"
                        " a[0].val.clusterDim.x = d.x; a[0].val.clusterDim.y = d.y; a[0].val.clusterDim.z = d.z;"
                        " c.attrs = a; c.numAttrs = 1;"), "larger", id="dim3"),
        pytest.param(ex("dim3 d(1); cudaLaunchAttribute a[1]; a[0].id = cudaLaunchAttributeClusterDimension;"
                        " a[0].val.clusterDim.x = d.x; a[0].val.clusterDim.y = d.y; a[0].val.clusterDim.z = d.z;"
                        " c.attrs = a; c.numAttrs = 1;"), "one", id="dim3 of one"),
        pytest.param(ex("auto a = std::make_unique<cudaLaunchAttribute>(); fill(a.get()); c.attrs = a.get();"
                        " c.numAttrs = 1;"), "undecided", id="filled out of sight"),
        pytest.param(ex("cudaLaunchAttribute a[1]; fill(a); c.attrs = a; c.numAttrs = 1;",
                        "void fill(cudaLaunchAttribute *a) { a[0].id = cudaLaunchAttributeClusterDimension;"
                        " a[0].val.clusterDim.x = 2; }\n"), "larger", id="filled by a helper"),
        pytest.param(ex("c = make(1);", "cudaLaunchConfig_t make(int n) { static cudaLaunchAttribute a;"
                        " a.id = cudaLaunchAttributeClusterDimension; a.val.clusterDim.x = n; a.val.clusterDim.y = 1;"
                        " a.val.clusterDim.z = 1; cudaLaunchConfig_t c; c.attrs = &a; c.numAttrs = 1; return c; }\n"),
                     "one", id="made by a helper"),
        pytest.param(ex("SET_CLUSTER(c, 2);", "#define SET_CLUSTER(c, n) cudaLaunchAttribute a; a.id ="
                        " cudaLaunchAttributeClusterDimension; a.val.clusterDim.x = n; a.val.clusterDim.y = 1;"
                        " a.val.clusterDim.z = 1; c.attrs = &a; c.numAttrs = 1\n"), "larger", id="set by a macro"),
        pytest.param(K + "void f(cudaLaunchConfig_t c) { " + EX + " }", "undecided", id="configuration from outside"),
        pytest.param(K + "void f(cudaLaunchConfig_t &c) { " + EX + " }\n"
                     "void g() { cudaLaunchConfig_t c{}; f(c); }", "one", id="configuration of the caller"),
    ],
)  # fmt: skip
def test_configurations(tmp_path, text, verdict):
    assert cluster(tmp_path, text).verdict == verdict


def test_an_attribute_on_the_kernel_and_a_configuration_without_one(tmp_path):
    text = ex("").replace("void k", "void __cluster_dims__(2, 1, 1) k")
    assert cluster(tmp_path, text).verdict == "larger"


@pytest.mark.parametrize(("width", "verdict"), [("2", "larger"), ("1", "one"), ("n", "undecided")])
def test_the_required_cluster_width(tmp_path, width, verdict):
    text = (
        f"{K}void f(int n) {{ cudaFuncSetAttribute(k, cudaFuncAttributeRequiredClusterWidth, {width});\n"
        "  k<<<1, 2>>>(0, 0, 0); }\n"
    )
    assert cluster(tmp_path, text).verdict == verdict


@pytest.mark.parametrize(("value", "verdict"), [("2", "larger"), ("1", "one")])
def test_driver_launches_with_attributes(tmp_path, value, verdict):
    text = f"""{K}void f() {{
  CUfunction h; cuModuleGetFunction(&h, m, "k");
  CUlaunchConfig c = {{}};
  CUlaunchAttribute a[1];
  a[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  a[0].value.clusterDim.x = {value}; a[0].value.clusterDim.y = 1; a[0].value.clusterDim.z = 1;
  c.attrs = a; c.numAttrs = 1;
  cuLaunchKernelEx(&c, h, args, 0);
}}
"""
    assert cluster(tmp_path, text).verdict == verdict


def test_evidence_in_both_directions(tmp_path):
    text = f"""{HEAD} {{
  {copy()}
}}
void f() {{
  k<<<1, 2>>>(0, 0, 0);
}}
void g() {{
  cudaLaunchConfig_t c = {{}};
  cudaLaunchAttribute a[1];
  a[0].id = cudaLaunchAttributeClusterDimension;
  a[0].val.clusterDim = {{2, 1, 1}};
  c.attrs = a;
  {EX}
}}
"""
    site = look(tmp_path, text).only
    assert site.cluster.verdict == "larger"
    assert "(a.cu:11)" in site.cluster.reason
    assert places(site, "kernel")[0] == ("a.cu", 1)
    assert set(places(site, "launch")) == {("a.cu", 5), ("a.cu", 13)}
    assert ("a.cu", 11) in places(site, "attribute")


@pytest.mark.parametrize(
    "body",
    [
        'asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(bar));',
        'asm("mapa.shared::cluster.u32 %0, %0, 1;" : "+r"(bar));',
        'asm volatile("barrier.cluster.arrive.aligned;");',
        "auto cluster = cooperative_groups::this_cluster();",
        "auto p = cluster.map_shared_rank(q, 1);",
    ],
)
def test_uses_of_a_cluster_are_evidence_where_no_launch_is(tmp_path, body):
    site = look(tmp_path, f"{HEAD} {{\n  {copy()}\n  {body}\n}}\n").only
    assert site.cluster.verdict == "undecided"
    assert ("kernel", "a.cu", 3) in {(e.kind, e.path, e.line) for e in site.cluster.evidence}


def test_several_kernels_share_a_verdict(tmp_path):
    helper = f"__device__ void load(unsigned dst, void *src, unsigned bar) {{ {copy()} }}\n"
    kernels = "".join(f"__global__ void k{i}(unsigned s) {{ load(s, 0, 0); }}\n" for i in range(3))
    launch = "void f() { k0<<<1, 2>>>(0); k1<<<1, 2>>>(0); k2<<<1, 2>>>(0); }\n"
    site = look(tmp_path, helper + kernels + launch).only
    assert (site.cluster.verdict, site.cluster.launches_in_sight) == ("one", True)
    assert site.cluster.reason.startswith("all 3 kernels that reach it")
    site = look(tmp_path, helper + kernels + launch.replace("k2<<<1, 2>>>(0);", "")).only
    assert (site.cluster.verdict, site.cluster.launches_in_sight) == ("undecided", False)
    assert "no launch of kernel k2" in site.cluster.reason
    site = look(tmp_path, helper + kernels.replace("void k1", "void __cluster_dims__(2) k1") + launch).only
    assert site.cluster.verdict == "larger"


def test_a_constant_differs_between_files(tmp_path):
    files = {
        "a.cu": "constexpr int size = 1;\n" + attributed("__cluster_dims__(size)") + GO,
        "b.cu": "constexpr int size = 2;\n",
    }
    assert cluster(tmp_path, files).verdict == "one"


# Parts -----------------------------------------------------------------------------------------------

ONE = ClusterVerdict("one", "one", (Evidence("launch", "a.cu", 1, "x"),), launches_in_sight=True)
LARGER = ClusterVerdict("larger", "larger", (), launches_in_sight=True)
UNDECIDED = ClusterVerdict("undecided", "unknown", ())


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([(ONE, True)], "one"),
        ([(ONE, True), (ONE, False)], "one"),
        ([(ONE, True), (LARGER, True)], "larger"),
        ([(ONE, True), (LARGER, False)], "undecided"),
        ([(LARGER, False)], "undecided"),
        ([(ONE, True), (UNDECIDED, True)], "undecided"),
        ([(UNDECIDED, True), (LARGER, True)], "larger"),
    ],
)
def test_merge(verdicts, expected):
    merged = merge(verdicts)
    assert merged.verdict == expected
    assert merged.launches_in_sight is all(verdict.launches_in_sight for verdict, _ in verdicts)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([1, 1, 1], "one"),
        ([2, 1, 1], "larger"),
        ([None, 1, 1], "undecided"),
        ([None, 2, 1], "larger"),
        ([1], "one"),
    ],
)
def test_sized(values, verdict):
    assert sized(values, "text", "a.cu:1", ()).verdict == verdict

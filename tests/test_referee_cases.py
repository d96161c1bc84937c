"""Small programs that generated ones were reduced to: each once had a wrong verdict."""

from __future__ import annotations

import pytest

from sourcekit import look

COPY = (
    'asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 64, [%2];"\n'
    '  :: "r"(d), "l"(s), "r"(b) : "memory");\n'
)
HELPER = "__device__ void load(unsigned d, const void* s, unsigned b) {\n" + COPY + "}\n"
LOCAL = (
    "__shared__ float tile[64]; __shared__ unsigned long long bar;\n"
    "load((unsigned)__cvta_generic_to_shared(tile), s, (unsigned)__cvta_generic_to_shared(&bar));\n"
)
KERNEL = HELPER + "__global__ void ATTRIBUTE k(const void* s) {\n" + LOCAL + "}\n"
EX = "cudaLaunchConfig_t c{}; ATTRS c.attrs = a; c.numAttrs = 1; cudaLaunchKernelEx(&c, k, s);"
FILL = (
    "void fill(cudaLaunchAttribute& a, int n) { a.id = cudaLaunchAttributeClusterDimension;\n"
    "  a.val.clusterDim.x = n; a.val.clusterDim.y = 1; a.val.clusterDim.z = 1; }\n"
    "cudaLaunchAttribute make(int n) { cudaLaunchAttribute a; fill(a, n); return a; }\n"
)


def ex(attributes: str) -> str:
    return (
        KERNEL.replace("ATTRIBUTE ", "")
        + FILL
        + "void host(const void* s) {"
        + EX.replace("ATTRS", attributes)
        + "}"
    )


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        pytest.param(
            ex("cudaLaunchAttribute a[1]; fill(a[0], 2);"), "larger", id="an element filled by a helper"
        ),
        pytest.param(ex("cudaLaunchAttribute a[1]; fill(a[0], 1);"), "one", id="an element filled with one"),
        pytest.param(
            ex("cudaLaunchAttribute* a = given(s);"), "undecided", id="attributes from out of sight"
        ),
        pytest.param(
            "#define PAIR(x) __cluster_dims__(x, 1, 1)\n"
            + KERNEL.replace("ATTRIBUTE", "PAIR(2)")
            + "void host(const void* s) { k<<<1, 1>>>(s); }",
            "larger",
            id="an attribute behind a macro",
        ),
        pytest.param(
            "#define PAIR(x) __cluster_dims__(x, 1, 1)\n"
            + KERNEL.replace("ATTRIBUTE", "PAIR(1)")
            + "void host(const void* s) { k<<<1, 1>>>(s); }",
            "one",
            id="an attribute of one behind a macro",
        ),
        pytest.param(
            "__global__ void __attribute__((cluster_dims(2, 1, 1))) k(const void* s);\n"
            + KERNEL.replace("ATTRIBUTE ", "")
            + "void host(const void* s) { k<<<1, 1>>>(s); }",
            "larger",
            id="an attribute on the declaration alone",
        ),
    ],
)
def test_cluster(tmp_path, text, verdict):
    assert look(tmp_path, {"main.cu": text}).only.cluster.verdict == verdict


def test_launches_prove_nothing_where_the_code_maps_to_peers(tmp_path):
    text = HELPER + (
        "struct box { unsigned d; };\n"
        "__global__ void k(const void* s, box* boxes) {\n"
        "  __shared__ float tile[64]; __shared__ unsigned long long bar;\n"
        "  boxes[0].d = (unsigned)__cvta_generic_to_shared(__cluster_map_shared_rank(tile, 1));\n"
        "  load(boxes[0].d, s, (unsigned)__cvta_generic_to_shared(&bar));\n"
        "}\nvoid host(const void* s, box* b) { k<<<1, 1>>>(s, b); }\n"
    )
    site = look(tmp_path, {"main.cu": text}).only
    assert site.cluster.verdict == "one"
    assert not (site.cluster.launches_in_sight and site.address.destination == "unknown")


@pytest.mark.parametrize(
    "change",
    [
        "d ^= 0x01000000u",
        "d += 0x0100'0000",
        "d |= 0x2000000",
        "d += 16777216",
        "d = TAB(d)",
        "d |= rank<<24",
        "d &= 0xfeFFFFFFu",
        "d ^= RANK_BIT",
        "d += rank * kPeer",
        "d = peer(d)",
        "d = PEER(d)",
        "d = FLIP(d)",
        "d = other_rank(d)",
        "Far f{d}; f.move(); d = f.a",
        "d = Across{}(d)",
    ],
)
def test_launches_prove_nothing_where_a_helper_maps_to_peers(tmp_path, change):
    kit = (
        "#pragma once\n"
        "__device__ inline unsigned peer(unsigned a) {\n"
        '  asm("mapa.shared::cluster.u32 %0, %0, 1;" : "+r"(a)); return a;\n}\n'
        "#define PEER(a) peer(a)\n"
        '__device__ inline unsigned tab(unsigned a) {\n  asm("\\n\\tmapa.shared::cluster.u32 %0, %0, 1;" : "+r"(a)); return a;\n}\n'
        "#define TAB(a) tab(a)\n#define RANK_BIT 0x1000000\nconstexpr unsigned kPeer{1u << 24};\n"
        "#define FLIP(a) ((a) ^ (1u << 24))\n"
        "__device__ inline unsigned other_rank(unsigned a) { return a ^ 0x1000000u; }\n"
        "struct Far { unsigned a; __device__ void move() { a |= 1u << 24; } };\n"
        "struct Across { __device__ unsigned operator()(unsigned a) const { return a + (1u << 24); } };\n"
    )
    text = (
        '#include "kit.cuh"\n'
        + HELPER
        + "__global__ void k(const void* s, unsigned* table, unsigned rank) {\n"
        "  __shared__ unsigned long long bar;\n"
        f"  unsigned d = table[0]; {change};\n"
        "  load(table[1], s, (unsigned)__cvta_generic_to_shared(&bar));\n"
        "}\nvoid host(const void* s, unsigned* t) { k<<<1, 1>>>(s, t, 1); }\n"
    )
    site = look(tmp_path, {"main.cu": text, "kit.cuh": kit}).only
    assert (site.cluster.verdict, site.address.destination) == ("one", "unknown")
    assert not site.cluster.launches_in_sight
    assert "the address is not followed" in site.cluster.reason


def test_launches_prove_what_no_mapping_puts_in_doubt(tmp_path):
    kit = (
        "#pragma once\ninline unsigned pack(unsigned d, unsigned table) {\n"
        "  unsigned s = 0x1000000; return 1 << 24 | d << 24 | table + s;\n}\n"
    )
    text = (
        '#include "kit.cuh"\n'
        + HELPER
        + (
            "__device__ unsigned mapArgs(unsigned a) { return a; }\n"
            "__global__ void k(const void* s, unsigned* table) {\n"
            "  __shared__ unsigned long long bar; unsigned d = mapArgs(0x100000u + 0x80000000) & 0xffffffffu & 0x00000000 << 2;\n"
            "  load(table[1], s, (unsigned)__cvta_generic_to_shared(&bar));\n"
            "}\nvoid host(const void* s, unsigned* t) { k<<<1, 1>>>(s, t); }\n"
        )
    )
    assert look(tmp_path, {"main.cu": text, "kit.cuh": kit}).only.cluster.launches_in_sight


def test_a_functor_made_and_called_in_place(tmp_path):
    text = (
        "struct Load {\n __device__ void operator()(unsigned d, const void* s, unsigned b) const {\n"
        + COPY
        + "}\n};\n"
        "__global__ void k(const void* s) {\n" + LOCAL.replace("load(", "Load{}(") + "}\n"
        "void host(const void* s) { k<<<1, 1>>>(s); }\n"
    )
    site = look(tmp_path, {"main.cu": text}).only
    assert (site.cluster.verdict, site.address.destination, site.address.mbarrier) == (
        "one",
        "local",
        "local",
    )


@pytest.mark.parametrize(
    ("macro", "call", "kernels"),
    [
        ("do { Load f; f(d, s, b); } while (0)", "LOAD(d, s, b);", ["k"]),
        ("{ auto f = Load{}; f(d, s, b); }", "LOAD(d, s, b)", ["k"]),
        ("Load f", "LOAD(d, s, b); f(d, s, b);", []),  # the object is the caller's: not followed
    ],
)
def test_a_functor_made_in_a_macro(tmp_path, macro, call, kernels):
    text = (
        "struct Load {\n __device__ void operator()(unsigned d, const void* s, unsigned b) const {\n"
        + COPY
        + "}\n};\n"
        f"#define LOAD(d, s, b) {macro}\n"
        f"__global__ void k(const void* s, unsigned d, unsigned b) {{ {call} }}\n"
        "void host(const void* s) { k<<<1, 1>>>(s, 0, 0); }\n"
    )
    site = look(tmp_path, {"main.cu": text}).only
    assert [place.name for place in site.kernels] == kernels
    assert site.cluster.verdict == ("one" if kernels else "undecided")


@pytest.mark.parametrize(
    ("outer", "inner", "verdict"),
    [
        ("defined(FAST)", "!defined(FAST)", "excluded"),
        ("!defined(FAST)", "defined(FAST)", "excluded"),
        ("defined(FAST)", "!FAST", "unknown"),  # -DFAST=0
        ("defined(FAST)", "!defined(WIDE)", "unknown"),
        ("defined(FAST) || defined(WIDE)", "!(defined(WIDE) || defined(FAST))", "excluded"),
        ("FAST >= 3", "FAST < 5", "unknown"),
    ],
)
def test_two_guards_on_a_macro_that_nobody_defines(tmp_path, outer, inner, verdict):
    copy = "__device__ void load(unsigned d, const void* s, unsigned b) {\n" + COPY + "}\n"
    site = look(tmp_path, {"main.cu": f"#if {outer}\n#if {inner}\n{copy}#endif\n#endif\n"}).only
    assert set(site.targets.values()) == {verdict}


@pytest.mark.parametrize(
    "change", ["d |= rank << 24;", "d = d | (rank << 24);", "d += rank << 24;", "d ^= 0x1000000;"]
)
def test_rank_bits_set_on_the_variable_itself(tmp_path, change):
    text = HELPER + (
        "__global__ void k(const void* s, unsigned rank) {\n"
        "  __shared__ float tile[64]; __shared__ unsigned long long bar;\n"
        "  unsigned d = (unsigned)__cvta_generic_to_shared(tile);\n"
        f"  {change}\n"
        "  load(d, s, (unsigned)__cvta_generic_to_shared(&bar));\n"
        "}\nvoid host(const void* s) { k<<<1, 1>>>(s, 1); }\n"
    )
    assert look(tmp_path, {"main.cu": text}).only.address.destination == "peer"


@pytest.mark.parametrize(
    "made", ["[=]() { return n; }()", "[&] { if (n) { return 1; } return n; }()", "(*pick)(n)", "pick[0](n)"]
)
def test_an_offset_that_a_call_without_a_name_makes(tmp_path, made):
    # A lambda called where it stands, as DeepEP's kernels choose roles; "" is found at every place of a text.
    text = HELPER + (
        "__global__ void k(const void* s, int n, int (**pick)(int)) {\n"
        "  __shared__ float tile[64]; __shared__ unsigned long long bar;\n"
        f"  int role = {made};\n"
        "  unsigned d = (unsigned)__cvta_generic_to_shared(tile + 8 * role) + 4 * role;\n"
        "  load(d, s, (unsigned)__cvta_generic_to_shared(&bar));\n"
        "}\nvoid host(const void* s, int (**p)(int)) { k<<<1, 1>>>(s, 1, p); }\n"
    )
    assert look(tmp_path, {"main.cu": text}).only.address.destination == "local"


def test_alignment_and_steps_keep_the_variable_local(tmp_path):
    text = HELPER + (
        "__global__ void k(const void* s, int n) {\n"
        "  __shared__ float tile[640]; __shared__ unsigned long long bar;\n"
        "  unsigned d = (unsigned)__cvta_generic_to_shared(tile);\n"
        "  d = (d + 127) & ~127u; d += 128 * n;\n"
        "  load(d, s, (unsigned)__cvta_generic_to_shared(&bar));\n"
        "}\nvoid host(const void* s) { k<<<1, 1>>>(s, 1); }\n"
    )
    assert look(tmp_path, {"main.cu": text}).only.address.destination == "local"

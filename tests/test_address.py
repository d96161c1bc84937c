"""Whose memory a copy writes: local only from a root, peer from a mapping, unknown with the place it ends."""

from __future__ import annotations

import pytest

from ptxguard.source.asmflow import opcodes
from ptxguard.source.exprs import Node, parse_expression
from ptxguard.source.flowfacts import Flow, mask_effect, union
from ptxguard.source.tokens import tokenize
from sourcekit import CLUSTER, copy, kernel, look, places

LOAD = f"__device__ void load(unsigned dst, const void *src, unsigned bar) {{ {copy()} }}\n"


def owner(folder, body: str, before: str = "", dst: str = "x", **options):
    """Verdict of `x` in a kernel that has `box`, `mb` and their shared addresses `s`, `b`."""
    site = look(folder, before + kernel(f"{body}\n  {copy(dst, 'b')}"), **options).only
    return site.address


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("unsigned x = s;", id="variable"),
        pytest.param("unsigned x; x = s;", id="assignment"),
        pytest.param("unsigned x(s);", id="constructor style"),
        pytest.param("unsigned x{s};", id="braces"),
        pytest.param("auto x = s, y = 1u;", id="first of two declarators"),
        pytest.param("auto y = 1u, x = s;", id="second of two declarators"),
        pytest.param("unsigned x = s + 64;", id="offset"),
        pytest.param("unsigned x = 64 + s;", id="offset first"),
        pytest.param("unsigned x = s + threadIdx.x * 16;", id="unknown offset"),
        pytest.param("unsigned x = s; x += 128;", id="update"),
        pytest.param("unsigned x = s; x++;", id="increment"),
        pytest.param("unsigned x = (s + 127) & ~127u;", id="alignment by complement"),
        pytest.param("unsigned x = (s + 1023) & 0xFFFFFC00;", id="alignment by mask"),
        pytest.param("unsigned x = (s + 127) & -128;", id="alignment by negative"),
        pytest.param("unsigned x = s ^ 16;", id="swizzle in the own window"),
        pytest.param("unsigned x = peer ? s : s + 64;", id="one of two locals"),
        pytest.param("unsigned x = (unsigned)__cvta_generic_to_shared(&box[0]);", id="first element"),
        pytest.param("unsigned x = (unsigned)__cvta_generic_to_shared(box + 16);", id="pointer offset"),
        pytest.param("unsigned x = static_cast<uint32_t>(__cvta_generic_to_shared(&box[threadIdx.x]));",
                     id="any element"),
        pytest.param("float *p = box; unsigned x = __cvta_generic_to_shared(p);", id="through a pointer"),
        pytest.param("float *p = &box[3]; p += 4; unsigned x = __cvta_generic_to_shared(p);", id="moved pointer"),
        pytest.param("auto *p = reinterpret_cast<int4 *>(box); unsigned x = __cvta_generic_to_shared(&p[2]);",
                     id="through a cast pointer"),
        pytest.param("char *p = (char *)(void *)box; unsigned x = __cvta_generic_to_shared(p + 4);", id="C casts"),
        pytest.param("extern __shared__ char raw[]; unsigned x = __cvta_generic_to_shared(raw);", id="dynamic"),
        pytest.param("extern __shared__ __align__(1024) uint8_t raw[]; auto *p = reinterpret_cast<float *>(raw);"
                     " unsigned x = __cvta_generic_to_shared(p + 8);", id="dynamic with alignment"),
        pytest.param("__shared__ struct { float c[4]; int d; } st; unsigned x = __cvta_generic_to_shared(st.c);",
                     id="member array of a shared object"),
        pytest.param("struct R { float c[4]; }; __shared__ R st; unsigned x = __cvta_generic_to_shared(st.c);",
                     id="member array of a class of the kernel"),
        pytest.param("__shared__ S st; unsigned x = __cvta_generic_to_shared(&st);", id="shared object"),
        pytest.param("__shared__ S st; unsigned x = __cvta_generic_to_shared(&st.a);", id="member of a shared object"),
        pytest.param("__shared__ S st; S &r = st; unsigned x = __cvta_generic_to_shared(&r.a);", id="reference"),
        pytest.param("__shared__ S st; S *p = &st; unsigned x = __cvta_generic_to_shared(&p->a);", id="arrow"),
        pytest.param("__shared__ S st; unsigned x = __cvta_generic_to_shared(st.data());", id="data()"),
        pytest.param("extern __shared__ char raw[]; S &r = *reinterpret_cast<S *>(raw);"
                     " unsigned x = __cvta_generic_to_shared(&r.a);", id="reference into dynamic memory"),
        pytest.param("__shared__ float two[2][64]; unsigned x = __cvta_generic_to_shared(two[1]);", id="a row"),
        pytest.param("__shared__ float two[2][64]; unsigned x = __cvta_generic_to_shared(&two[1][2]);",
                     id="an element of a row"),
        pytest.param("unsigned at[2] = {s, s + 64}; unsigned x = at[peer];", id="table of addresses"),
        pytest.param("unsigned at[2]; at[0] = s; at[1] = s + 64; unsigned x = at[peer];", id="filled table"),
        pytest.param("unsigned long long g = (unsigned long long)box; unsigned x;\n"
                     'asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(x) : "l"(g));',
                     id="cvta in asm"),
        pytest.param('unsigned x; asm("mov.u32 %0, %1;" : "=r"(x) : "r"(s));', id="mov in asm"),
        pytest.param('unsigned x; asm("add.u32 %0, %1, 16;" : "=r"(x) : "r"(s));', id="add in asm"),
        pytest.param("for (unsigned x = s; x < s + 256; x += 64)", id="loop variable"),
        pytest.param("unsigned x = __shfl_sync(0xffffffff, s, 0);", id="shuffle"),
        pytest.param("unsigned x = cute::cast_smem_ptr_to_uint(box);", id="cute"),
        pytest.param("unsigned x = (peer, s);", id="comma"),
        pytest.param("if (peer) { f(); } else { g(); } unsigned x = s;", id="behind a block"),
        pytest.param("do { f(); } while (peer); unsigned x = s;", id="behind a loop"),
        pytest.param("struct R { int i; }; unsigned x = s;", id="behind a class"),
        pytest.param("R r{1}; auto g = [] { return 1; }; unsigned x = s;", id="behind initialisers"),
        pytest.param("unsigned y = s; unsigned x = y = s + 1;", id="chained assignment"),
    ],
)  # fmt: skip
def test_local(tmp_path, body):
    address = owner(tmp_path, body, "struct S { float a; float b[4]; };\n")
    assert (address.destination, address.mbarrier) == ("local", "local")
    assert "is __shared__ memory of the CTA (a.cu:" in address.reason


@pytest.mark.parametrize(
    "body",
    [
        pytest.param('unsigned x; asm("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(x) : "r"(s));', id="mapa"),
        pytest.param('unsigned x; asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(x) : "r"(s), "r"(peer));',
                     id="mapa of a parameter"),
        pytest.param('unsigned x = s; asm("mapa.shared::cluster.u32 %0, %0, 1;" : "+r"(x));', id="mapa in place"),
        pytest.param('unsigned x = s; if (peer) asm("mapa.shared::cluster.u32 %0, %0, 1;" : "+r"(x));',
                     id="mapa under a condition"),
        pytest.param("unsigned x = __cvta_generic_to_shared(cluster.map_shared_rank(box, peer));", id="map_shared_rank"),
        pytest.param("auto *p = cg::this_cluster().map_shared_rank(box, 1); unsigned x = __cvta_generic_to_shared(p);",
                     id="map_shared_rank of this_cluster"),
        pytest.param("unsigned x = s | (1u << 24);", id="rank bit set"),
        pytest.param("unsigned x = s | 0x1000000;", id="rank bit set by number"),
        pytest.param("unsigned x = s ^ (peer << 24);", id="rank bits flipped"),
        pytest.param("unsigned x = s + (peer << 24);", id="rank added"),
        pytest.param("unsigned x = s & 0xFEFFFFFF;", id="rank bit masked off"),
        pytest.param("unsigned rank = peer << 24; unsigned x = s + rank;", id="rank in a variable"),
        pytest.param("unsigned far; asm(\"mapa.shared::cluster.u32 %0, %1, 1;\" : \"=r\"(far) : \"r\"(s));"
                     " unsigned x = peer ? s : far;", id="peer or local"),
        pytest.param("unsigned far; asm(\"mapa.shared::cluster.u32 %0, %1, 1;\" : \"=r\"(far) : \"r\"(s));"
                     " unsigned x = far + 64;", id="offset in a peer"),
    ],
)  # fmt: skip
def test_peer(tmp_path, body):
    address = owner(tmp_path, body)
    assert (address.destination, address.mbarrier) == ("peer", "local")
    assert "a.cu:5" in address.reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param("unsigned x = peer;", "peer is a parameter of kernel k", id="parameter of the kernel"),
        pytest.param("unsigned x = __cvta_generic_to_shared(src);", "src is a parameter of kernel k",
                     id="a conversion alone proves nothing"),
        pytest.param("unsigned x = elsewhere();", "the result of elsewhere() is not followed", id="call out of sight"),
        pytest.param("unsigned x = table[0];", "loaded from memory", id="loaded"),
        pytest.param("__shared__ unsigned kept; unsigned x = kept;", "loaded from shared memory", id="kept in shared"),
        pytest.param("__shared__ alignas(8) unsigned long long kept; unsigned x = kept;",
                     "loaded from shared memory", id="kept in aligned shared memory"),
        pytest.param("__shared__ addr_t kept; unsigned x = kept;", "loaded from shared memory",
                     id="kept under the name of a type"),
        pytest.param("__shared__ unsigned kept[2]; unsigned x = kept[1];", "loaded from memory",
                     id="kept in a shared table"),
        pytest.param("unsigned *p = 0; unsigned x = *p;", "loaded from memory", id="dereferenced"),
        pytest.param("float mine[4]; unsigned x = __cvta_generic_to_shared(mine);", "local memory", id="local array"),
        pytest.param("unsigned x = 4096;", "plain number", id="number"),
        pytest.param("unsigned x = s * 2;", "changed by *", id="scaled"),
        pytest.param("unsigned x = s >> 4;", "changed by >>", id="descriptor"),
        pytest.param("unsigned x = s ^ peer;", "not known", id="xor with anything"),
        pytest.param("unsigned x = peer ? s : elsewhere();", "elsewhere()", id="one of two"),
        pytest.param("unsigned x = nowhere;", "no definition of nowhere", id="undeclared"),
        pytest.param('unsigned x; asm("strange.op %0, %1;" : "=r"(x) : "r"(s));', "written by inline asm", id="asm"),
        pytest.param('unsigned r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); unsigned x;\n'
                     'asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(x) : "r"(s), "r"(r));', "own rank",
                     id="mapa of the own rank"),
        pytest.param("auto c = cg::this_cluster();"
                     " unsigned x = __cvta_generic_to_shared(c.map_shared_rank(box, c.block_rank()));", "own rank",
                     id="map_shared_rank of the own rank"),
        pytest.param("unsigned x = x + 1;", "", id="defined by itself"),
        pytest.param("unsigned y = x, x = y;", "", id="circle"),
    ],
)  # fmt: skip
def test_unknown(tmp_path, body, reason):
    address = owner(tmp_path, body)
    assert address.destination == "unknown"
    assert reason in address.reason


@pytest.mark.parametrize(
    ("before", "body", "verdict"),
    [
        pytest.param("", "load(s, src, b);", "local", id="parameter"),
        pytest.param("", "load(s, src, b); load(s + 64, src, b);", "local", id="two local callers"),
        pytest.param("", "load(s, src, b); load(peer, src, b);", "unknown", id="one caller is not proven"),
        pytest.param("", 'unsigned f; asm("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(f) : "r"(s));'
                     " load(s, src, b); load(f, src, b);", "peer", id="one caller passes a peer"),
        pytest.param("__device__ void mid(unsigned d, const void *p, unsigned m) { load(d + 16, p, m); }\n",
                     "mid(s, src, b);", "local", id="two levels"),
        pytest.param("template <int N> __device__ void mid(unsigned d, const void *p, unsigned m) {"
                     " if (N) load(d, p, m); }\n", "mid<2>(s, src, b);", "local", id="template"),
        pytest.param("__device__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }\n",
                     "load(at(box), src, b);", "local", id="conversion in a helper"),
        pytest.param("__device__ unsigned at(const void *p) { unsigned a; asm(\"{ .reg .u64 t; cvta.to.shared.u64 t,"
                     " %1; cvt.u32.u64 %0, t; }\" : \"=r\"(a) : \"l\"(p)); return a; }\n", "load(at(box), src, b);",
                     "local", id="conversion by asm in a helper"),
        pytest.param("__device__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }\n",
                     "load(at(src), src, b);", "unknown", id="conversion of anything"),
        pytest.param("#define AT(p) (unsigned)__cvta_generic_to_shared(p)\n", "load(AT(box), src, b);", "local",
                     id="conversion in a macro"),
        pytest.param("#define GO(d) load(d, src, b)\n", "GO(s);", "local", id="call in a macro"),
        pytest.param("__device__ unsigned far(unsigned a) { asm(\"mapa.shared::cluster.u32 %0, %0, 1;\" : \"+r\"(a));"
                     " return a; }\n", "load(far(s), src, b);", "peer", id="mapping in a helper"),
        pytest.param("__device__ void map(unsigned &a) { asm(\"mapa.shared::cluster.u32 %0, %0, 1;\" : \"+r\"(a)); }\n",
                     "unsigned f = s; map(f); load(f, src, b);", "peer", id="mapping through a reference"),
        pytest.param("__device__ void map(unsigned *a) { asm(\"mapa.shared::cluster.u32 %0, %0, 1;\" : \"+r\"(*a)); }\n",
                     "unsigned f = s; map(&f); load(f, src, b);", "peer", id="mapping through a pointer"),
        pytest.param("__device__ void skip(unsigned &a) { a += 64; }\n", "unsigned f = s; skip(f); load(f, src, b);",
                     "local", id="offset through a reference"),
        pytest.param("", "auto go = [&](unsigned d) { load(d, src, b); }; go(s);", "local", id="lambda"),
        pytest.param("", "auto go = [&](unsigned d) { load(d, src, b); }; go(peer);", "unknown", id="lambda, unknown"),
        pytest.param("", "auto go = [&] { load(s, src, b); }; go();", "local", id="captured"),
        pytest.param("struct P { unsigned base; __device__ void go(const void *p, unsigned m) { load(base, p, m); } };\n",
                     "P q; q.base = s; q.go(src, b);", "unknown", id="member variable"),
        pytest.param("struct P { float a[4]; __device__ void go(const void *p, unsigned m) {"
                     " load(__cvta_generic_to_shared(a), p, m); } };\n", "__shared__ P q; q.go(src, b);", "local",
                     id="member array of a shared object"),
        pytest.param("struct P { float a[4]; __device__ void go(const void *p, unsigned m) {"
                     " load(__cvta_generic_to_shared(a), p, m); } };\n", "P q; q.go(src, b);", "unknown",
                     id="member array of a local object"),
        pytest.param("struct P { float a[4]; };\n__device__ void go(P &q, const void *p, unsigned m) {"
                     " load(__cvta_generic_to_shared(q.a), p, m); }\n", "__shared__ P q; go(q, src, b);", "local",
                     id="shared object by reference"),
        pytest.param("struct P { float a[4]; };\n__device__ void go(P *q, const void *p, unsigned m) {"
                     " load(__cvta_generic_to_shared(q->a), p, m); }\n", "__shared__ P q; go(&q, src, b);", "local",
                     id="shared object by pointer"),
        pytest.param("__device__ void rec(unsigned d, const void *p, unsigned m, int n) {"
                     " if (n) rec(d + 16, p, m, n - 1); load(d, p, m); }\n", "rec(s, src, b, 3);", "local",
                     id="recursion"),
        pytest.param("__device__ unsigned pick(unsigned a, unsigned c, bool f) { if (f) return a; return c; }\n",
                     "load(pick(s, s + 64, peer), src, b);", "local", id="two returns"),
        pytest.param("__device__ unsigned pick(unsigned a, unsigned c, bool f) { if (f) return a; return c; }\n",
                     "load(pick(s, peer, peer), src, b);", "unknown", id="two returns, one unknown"),
    ],
)  # fmt: skip
def test_over_calls(tmp_path, before, body, verdict):
    site = look(tmp_path, LOAD + before + kernel(body)).only
    assert site.address.destination == verdict


def test_a_parameter_without_a_caller_is_unknown_with_the_place(tmp_path):
    address = look(tmp_path, LOAD).only.address
    assert (address.destination, address.reason) == ("unknown", "no caller of load (a.cu:1) is in the tree")


def test_a_function_passed_on_has_unknown_callers(tmp_path):
    address = look(tmp_path, LOAD + kernel("load(s, src, b); run(load);")).only.address
    assert address.destination == "unknown"
    assert "load is passed on as a value" in address.reason


def test_shared_memory_at_namespace_scope(tmp_path):
    text = "extern __shared__ char raw[];\n__shared__ float fixed[64];\n"
    for name in ("raw", "fixed"):
        site = look(tmp_path, text + kernel(copy(f"(unsigned)__cvta_generic_to_shared({name})", "b"))).only
        assert site.address.destination == "local"


@pytest.mark.parametrize(
    ("text", "destination", "mbarrier"),
    [
        pytest.param(copy("s", "b"), "local", "local", id="both"),
        pytest.param(copy("s", "peer"), "local", "unknown", id="mbarrier unknown"),
        pytest.param('unsigned f; asm("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(f) : "r"(b));' + copy("s", "f"),
                     "local", "peer", id="mbarrier of a peer"),
        pytest.param(f'asm volatile("{CLUSTER} [%[to]], [%[from]], 64, [%[when]];" :: [when] "r"(b), [to] "r"(s),'
                     ' [from] "l"(src) : "memory");', "local", "local", id="named operands"),
        pytest.param(f'asm volatile("{{ .reg .u32 a, c; mov.u32 a, %0; add.u32 a, a, 16; mov.u32 c, %2;'
                     f' {CLUSTER} [a], [%1], 64, [c]; }}" :: "r"(s), "l"(src), "r"(b));', "local", "local",
                     id="registers of the text"),
        pytest.param(f'asm volatile("{{ .reg .u32 a; mapa.shared::cluster.u32 a, %0, 1;'
                     f' {CLUSTER} [a], [%1], 64, [%2]; }}" :: "r"(s), "l"(src), "r"(b));', "peer", "local",
                     id="mapa in the text"),
        pytest.param(f'asm volatile("{CLUSTER} [%0 + 32], [%1], 64, [%2];" :: "r"(s), "l"(src), "r"(b));',
                     "local", "local", id="offset in the address"),
        pytest.param(f'asm volatile("{CLUSTER} [%7], [%1], 64, [%2];" :: "r"(s), "l"(src), "r"(b));',
                     "unknown", "local", id="an operand that is not there"),
    ],
)  # fmt: skip
def test_operands(tmp_path, text, destination, mbarrier):
    address = look(tmp_path, kernel(text)).only.address
    assert (address.destination, address.mbarrier) == (destination, mbarrier)


def test_a_mapping_that_only_an_unknown_macro_compiles_is_unknown(tmp_path):
    body = 'unsigned x = s;\n#if TWO\nasm("mapa.shared::cluster.u32 %0, %0, 1;" : "+r"(x));\n#endif\n'
    assert owner(tmp_path, body).destination == "unknown"
    assert owner(tmp_path, body, defines={"TWO": "1"}).destination == "peer"
    assert owner(tmp_path, body, defines={"TWO": "0"}).destination == "local"


def test_the_root_and_the_calls_are_evidence(tmp_path):
    text = f"""__device__ void load(unsigned dst, const void *src, unsigned bar) {{
  {copy()}
}}
__global__ void k(const void *src) {{
  __shared__ float box[64];
  __shared__ unsigned long long mb;
  load((unsigned)__cvta_generic_to_shared(box), src, (unsigned)__cvta_generic_to_shared(&mb));
}}
"""
    site = look(tmp_path, text).only
    assert ("a.cu", 5) in places(site, "address")
    assert ("a.cu", 7) in places(site, "call")
    assert site.address.reason == "box is __shared__ memory of the CTA (a.cu:5)"


# Parts -----------------------------------------------------------------------------------------------

LOCAL, PEER, UNKNOWN, NONE = (Flow(owner, owner) for owner in ("local", "peer", "unknown", "none"))


@pytest.mark.parametrize(
    ("flows", "expected"),
    [
        ([LOCAL, LOCAL], "local"),
        ([LOCAL, UNKNOWN], "unknown"),
        ([LOCAL, UNKNOWN, PEER], "peer"),
        ([NONE, LOCAL], "local"),
        ([NONE], "none"),
        ([], "unknown"),
    ],
)
def test_union(flows, expected):
    assert union(flows).owner == expected


@pytest.mark.parametrize(
    ("operator", "mask", "value", "effect"),
    [
        ("&", "m", 0xFFFFFF80, "keep"),
        ("&", "m", -128, "keep"),
        ("&", "~(n - 1)", None, "keep"),
        ("&", "~n", None, "unknown"),
        ("&", "-n", None, "keep"),
        ("&", "m", 0x7F, "offset"),
        ("&", "m", 0x3FFFF, "offset"),
        ("&", "m", 0xFEFFFFFF, "peer"),
        ("&", "m", 0x00FFFFFF, "peer"),
        ("&", "m", None, "unknown"),
        ("|", "m", 0x10, "keep"),
        ("|", "m", 1 << 24, "peer"),
        ("^", "m", 0x70, "keep"),
        ("^", "m", 3 << 24, "peer"),
        ("^", "m", None, "unknown"),
    ],
)
def test_mask_effect(operator, mask, value, effect):
    tokens = tokenize(mask)
    node: Node = parse_expression(tokens, range(len(tokens)))
    assert mask_effect(operator, value, node) == effect


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mov.u32 %0, %1;", ["mov.u32"]),
        ("{ .reg .u32 a; mapa.shared::cluster.u32 a, %0, 1; }", ["mapa.shared::cluster.u32"]),
        ("@p mov.u32 a, b;\n\tadd.u32 a, a, 1;", ["mov.u32", "add.u32"]),
        ("@!%%p cvta.to.shared.u64 a, b;", ["cvta.to.shared.u64"]),
        ("", []),
    ],
)
def test_opcodes(text, expected):
    assert opcodes(text) == expected

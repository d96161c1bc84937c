"""How a kernel comes by an address: roots and steps, each with what it does to the owner of the memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

# Types of the two kinds of expressions that carry an address.
TYPES = {"pointer": "float*", "shared": "uint32_t"}


@dataclass(frozen=True)
class Address:
    """An address in a function under construction.

    Attributes:
        top: declarations for a header.
        body: statements in front of its use.
        expression: the address.
        kind: pointer (generic, `float*`) or shared (`uint32_t` in the shared window).
        owner: local, peer or unknown.
    """

    top: str
    body: str
    expression: str
    kind: str
    owner: str

    def then(self, step: tuple[str, str, str, str], name: str) -> Address:
        """The address after a step; `@` in its text is the name, `{e}` the expression so far."""
        top, body, expression, kind = (
            part.replace("@", name).replace("{e}", self.expression) for part in step
        )
        return replace(
            self, top=self.top + top, body=self.body + body, expression=expression, kind=kind or self.kind
        )


Step = tuple[str, str, str, str]  # declarations, statements, expression, kind ("" keeps it)

_ARRAY = "__shared__ alignas(128) float @[1024];\n"
_STAGE = "struct @_t { float tile[2][256]; uint64_t full; };\n"
LOCAL_ROOTS: tuple[Step, ...] = (
    ("", _ARRAY, "@", "pointer"),
    ("", _ARRAY, "&@[n]", "pointer"),
    ("", _ARRAY, "(@ + 64 * n)", "pointer"),
    ("", "alignas(128) __shared__ float @[2][512];\n", "@[n & 1]", "pointer"),
    ("", "__shared__ __align__(128) float @[2][512];\n", "&@[1][0]", "pointer"),
    ("", "extern __shared__ float @[];\n", "@", "pointer"),
    ("", "extern __shared__ __align__(1024) unsigned char @[];\n",
     "reinterpret_cast<float*>(@ + 256)", "pointer"),
    ("", ("extern __shared__ unsigned char @[];\nauto @_raw = reinterpret_cast<uintptr_t>(@);\n"
     "float* @_p = reinterpret_cast<float*>((@_raw + 127) & ~static_cast<uintptr_t>(127));\n"),
     "@_p", "pointer"),
    (_STAGE, "__shared__ @_t @;\n", "@.tile[1]", "pointer"),
    (_STAGE, "__shared__ @_t @[3];\n", "&@[n].tile[0][4]", "pointer"),
    (_STAGE, "extern __shared__ char @_raw[];\n@_t& @ = *reinterpret_cast<@_t*>(@_raw);\n",
     "@.tile[0]", "pointer"),
    (_STAGE, "extern __shared__ char @_raw[];\nauto* @ = reinterpret_cast<@_t*>(@_raw);\n",
     "&@->tile[1][0]", "pointer"),
    ("__device__ inline float* @_get() { __shared__ float box[256]; return box; }\n", "", "@_get()", "pointer"),
    ("#define @_BUF(count) __shared__ alignas(128) float @[count]\n", "@_BUF(512);\n", "@", "pointer"),
    ("template <typename T, int N> struct @_box { alignas(128) T data[N]; };\n",
     "__shared__ @_box<float, 256> @;\n", "@.data", "pointer"),
    ("__device__ inline float* @_first(unsigned char* p) { return reinterpret_cast<float*>(p); }\n",
     "extern __shared__ unsigned char @[];\n", "@_first(@)", "pointer"),
)  # fmt: skip
UNKNOWN_ROOTS: tuple[Step, ...] = (
    ("", "", "given", "shared"),
    ("", "", "table[n]", "shared"),
    ("", "__shared__ uint32_t @;\nif (n == 0) @ = table[1];\n__syncthreads();\n", "@", "shared"),
    ("", "", "boxes[n]", "pointer"),
    ("", "uint32_t @ = given + 128u;\n", "@", "shared"),
    ("", "float* @ = boxes[0];\n", "(@ + 4)", "pointer"),
)

# Pointer to window address.
CONVERSIONS: tuple[Step, ...] = (
    ("", "", "(uint32_t)__cvta_generic_to_shared({e})", "shared"),
    ("", "uint32_t @ = static_cast<uint32_t>(__cvta_generic_to_shared({e}));\n", "@", "shared"),
    ("__device__ inline uint32_t @(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }\n",
     "", "@({e})", "shared"),
    ("", ('uint32_t @;\nasm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }"'
     ' : "=r"(@) : "l"({e}));\n'), "@", "shared"),
    (("template <typename T> __device__ inline uint32_t @(T* p)"
     " { return static_cast<uint32_t>(__cvta_generic_to_shared(reinterpret_cast<void*>(p))); }\n"),
     "", "@({e})", "shared"),
    ("#define @(p) static_cast<uint32_t>(__cvta_generic_to_shared(p))\n", "", "@({e})", "shared"),
    ("__device__ inline void @(uint32_t& to, const void* p) { to = (uint32_t)__cvta_generic_to_shared(p); }\n",
     "uint32_t @_a;\n@(@_a, {e});\n", "@_a", "shared"),
    ("__device__ inline void @(const void* p, uint32_t* to) { *to = (uint32_t)__cvta_generic_to_shared(p); }\n",
     "uint32_t @_a = 0;\n@({e}, &@_a);\n", "@_a", "shared"),
)  # fmt: skip
KEEPING: dict[str, tuple[Step, ...]] = {
    "pointer": (
        ("", "float* @ = {e};\n", "@", ""),
        ("", "auto @ = {e} + 16;\n", "@", ""),
        ("", "float* @;\n@ = {e};\n", "@", ""),
        ("", "float* @[2] = {{e}, {e} + 32};\n", "@[n & 1]", ""),
        ("", "float* @ = n > 3 ? {e} : {e} + 64;\n", "@", ""),
        ("", "float* @ = {e};\nif (n > 2) { @ += 8; }\n", "@", ""),
        ("", "__shared__ float @_b[64];\nfloat* @ = {e};\nif (n == 7) @ = @_b;\n", "@", ""),
        ("", "", "reinterpret_cast<float*>(reinterpret_cast<char*>({e}) + 512)", ""),
        ("", "", "(float*)(void*)({e})", ""),
        ("struct @_s { float* p; };\n", "@_s @{{e}};\n", "@.p", ""),
        ("struct @_s { float* p; int k; };\n", "@_s @;\n@.p = {e};\n", "@.p", ""),
        (("struct @_s { float* p; __device__ @_s(float* q) : p(q) {} __device__ float* at(int i) const"
         " { return p + i; } };\n"), "@_s @({e});\n", "@.at(2)", ""),
        ("", "auto @ = [&](int i) { return {e} + i; };\n", "@(4)", ""),
        ("__device__ inline float* @(float* p, int i) { return p + i; }\n", "", "@({e}, n)", ""),
        ("template <typename T> __device__ inline T* @(T* p) { return p; }\n", "", "@<float>({e})", ""),
        ("__device__ inline void @(float*& p) { p += 4; }\n", "float* @_p = {e};\n@(@_p);\n", "@_p", ""),
        ("", "uintptr_t @ = reinterpret_cast<uintptr_t>({e});\n", "reinterpret_cast<float*>(@ & ~uintptr_t(127))",
         ""),
        ("#define @(p, i) ((p) + (i))\n", "", "@({e}, 8)", ""),
    ),
    "shared": (
        ("", "uint32_t @ = {e};\n", "@", ""),
        ("", "const uint32_t @{{e} + 64u};\n", "@", ""),
        ("", "uint32_t @ = ({e} + 127u) & ~127u;\n", "@", ""),
        ("", "", "({e} & 0xFFFFFF80u)", ""),
        ("", "", "({e} ^ (uint32_t)(n & 1) * 64u)", ""),
        ("", "uint32_t @[2];\n@[0] = {e};\n@[1] = {e} + 256;\n", "@[n & 1]", ""),
        ("", "uint32_t @ = {e};\n@ += 1024u * (uint32_t)n;\n", "@", ""),
        ("", "uint32_t @ = __shfl_sync(0xffffffffu, {e}, 0);\n", "@", ""),
        ("", 'uint32_t @;\nasm volatile("mov.u32 %0, %1;" : "=r"(@) : "r"({e}));\n', "@", ""),
        ("", 'uint32_t @;\nasm("add.u32 %0, %1, %2;" : "=r"(@) : "r"({e}), "r"(64u));\n', "@", ""),
        ("struct @_s { uint32_t a; };\n", "@_s @ = {{e}};\n", "@.a", ""),
        (("struct @_s { uint32_t a; __device__ explicit @_s(uint32_t b) : a{b} {}"
         " __device__ uint32_t slot(int i) const { return a + 128u * i; } };\n"),
         "@_s @({e});\n", "@.slot(n)", ""),
        ("__device__ inline uint32_t @(uint32_t a, int i) { return a + 128u * i; }\n", "", "@({e}, n)", ""),
        ("", "auto @ = [=](uint32_t a) { return a + 32u; };\n", "@({e})", ""),
        ("", "auto @ = [&]() -> uint32_t { return {e}; };\n", "@()", ""),
        ("", "uint32_t @ = {e};\nfor (int i = 0; i < n; ++i) @ += 16u;\n", "@", ""),
        ("template <int S> __device__ inline uint32_t @(uint32_t a) { return a + S * 128; }\n",
         "", "@<1>({e})", ""),
    ),
}  # fmt: skip
PEER: dict[str, tuple[Step, ...]] = {
    "pointer": (
        ("", "", "static_cast<float*>(__cluster_map_shared_rank({e}, 1))", ""),
        ("", "auto @ = cooperative_groups::this_cluster();\n", "@.map_shared_rank({e}, n & 1)", ""),
        ("", "float* @ = {e};\nif (n > 1) @ = (float*)__cluster_map_shared_rank(@, n);\n", "@", ""),
        ("", "float* @[2] = {{e}, (float*)__cluster_map_shared_rank({e}, 1)};\n", "@[n & 1]", ""),
        ("", "float* @[2];\nfor (int r = 0; r < 2; ++r) @[r] = (float*)__cluster_map_shared_rank({e}, r);\n",
         "@[1]", ""),
        ("__device__ inline float* @(float* p, int r) { return (float*)__cluster_map_shared_rank(p, r); }\n",
         "", "@({e}, n)", ""),
        ("struct @_s { float* p; };\n", "@_s @{{e}};\n@.p = (float*)__cluster_map_shared_rank(@.p, 1);\n",
         "@.p", ""),
        ("", "auto @ = [&](int r) { return (float*)__cluster_map_shared_rank({e}, r); };\n", "@(n)", ""),
        ("__device__ inline void @(float*& p) { p = (float*)__cluster_map_shared_rank(p, 1); }\n",
         "float* @_p = {e};\n@(@_p);\n", "@_p", ""),
    ),
    "shared": (
        ("", 'uint32_t @;\nasm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(@) : "r"({e}), "r"(n));\n', "@", ""),
        (("__device__ inline uint32_t @(uint32_t a, uint32_t r) {\n  uint32_t to;\n"
         '  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\\n" : "=r"(to) : "r"(a), "r"(r));\n'
         "  return to;\n}\n"), "", "@({e}, n)", ""),
        ("", "", "({e} | (1u << 24))", ""),
        ("", "uint32_t @ = {e};\n@ |= (uint32_t)n << 24;\n", "@", ""),
        ("", "uint32_t @ = {e} ^ 0x01000000u;\n", "@", ""),
        ("", "", "({e} & 0xFEFFFFFFu)", ""),
        ("", "constexpr uint32_t @_mask = 0xFEFFFFFF;\nuint32_t @ = {e} & @_mask;\n", "@", ""),
        ("", "uint32_t @ = {e} + ((uint32_t)n << 24);\n", "@", ""),
        ("", 'uint32_t @ = {e};\nif (n & 1) asm("mapa.shared::cluster.u32 %0, %0, 1;" : "+r"(@));\n', "@", ""),
        (("__device__ inline void @(uint32_t& a) {"
         ' asm("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(a) : "r"(a)); }\n'),
         "uint32_t @_a = {e};\n@(@_a);\n", "@_a", ""),
        ("#define @(a, r) ((a) | ((r) << 24))\n", "", "@({e}, 1u)", ""),
        ("constexpr uint32_t @_bit = 0x1000000;\n", "", "({e} ^ @_bit)", ""),
        ("", "auto @ = [&](uint32_t r) { return {e} | (r << 24); };\n", "@(n)", ""),
        ("struct @_s { uint32_t a; __device__ void flip() { a ^= 1u << 24; } };\n",
         "@_s @{{e}};\n@.flip();\n", "@.a", ""),
    ),
}  # fmt: skip
OWN_RANK: tuple[Step, ...] = (
    ("", ('uint32_t @_r, @;\nasm("mov.u32 %0, %%cluster_ctarank;" : "=r"(@_r));\n'
     'asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(@) : "r"({e}), "r"(@_r));\n'), "@", ""),
    ("", "uint32_t @ = {e};\nif (n > 4) @ = table[n];\n", "@", ""),
    ("", "uint32_t @[2] = {{e}, given};\n", "@[n & 1]", ""),
    ("", "", "(n > 2 ? {e} : table[0])", ""),
    ("", "", "({e} & table[2])", ""),
)  # fmt: skip


def random_address(rng: Random, name: str, *, owner: str | None = None) -> Address:
    """An address built in a kernel by up to four steps; `owner` asks for one."""
    wanted = owner or rng.choices(("local", "peer", "unknown"), (6, 3, 2))[0]
    start = Address("", "", "", "pointer", "local")
    if wanted == "unknown" and rng.random() < 0.6:
        address = replace(start.then(rng.choice(UNKNOWN_ROOTS), f"{name}_u"), owner="unknown")
        return _kept(rng, address, name)
    address = _kept(rng, start.then(rng.choice(LOCAL_ROOTS), f"{name}_b"), name)
    if wanted == "peer":
        return _kept(rng, mapped(rng, address, f"{name}_p"), f"{name}_q")
    if wanted == "unknown":
        if address.kind == "pointer":
            address = address.then(rng.choice(CONVERSIONS), f"{name}_c")
        step = rng.choice(OWN_RANK)
        return _kept(rng, replace(address.then(step, f"{name}_o"), owner="unknown"), f"{name}_q")
    return address


def mapped(rng: Random, address: Address, name: str) -> Address:
    """The address of the same object in another CTA."""
    return replace(address.then(rng.choice(PEER[address.kind]), name), owner="peer")


def kept(rng: Random, address: Address, name: str) -> Address:
    """One step that keeps the owner."""
    return address.then(rng.choice(KEEPING[address.kind]), name)


def _kept(rng: Random, address: Address, name: str) -> Address:
    for number in range(rng.choice((0, 0, 1, 1, 2, 3))):
        step = rng.choice(KEEPING[address.kind])
        if address.kind == "pointer" and rng.random() < 0.4:
            step = rng.choice(CONVERSIONS)
        address = address.then(step, f"{name}_k{number}")
    return address

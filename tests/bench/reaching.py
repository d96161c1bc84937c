"""Helpers between a kernel and a copy: functions, templates, classes, macros, lambdas, overloads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from addresses import TYPES, Address, kept, mapped

if TYPE_CHECKING:
    from random import Random


@dataclass(frozen=True)
class Callee:
    """Something that does the copy.

    Attributes:
        kind: kind of its destination: pointer or shared.
        call: statement with `<dst>`, `<src>`, `<bar>`.
        maps: whether it maps the destination to a peer on the way.
        setup: statements in the caller before the call, with the same marks.
    """

    kind: str
    call: str
    maps: bool = False
    setup: str = ""

    def at(self, destination: str, source: str, mbarrier: str) -> str:
        """The statements of one call."""
        text = self.setup + self.call
        return text.replace("<dst>", destination).replace("<src>", source).replace("<bar>", mbarrier)


# (declaration, call, setup); `@` name, `#` type of the destination, `{b}` the body that does the copy.
_SHAPES = (
    ("__device__ __forceinline__ void @(# d, const void* s, uint32_t b) {\n{b}}\n", "@(<dst>, <src>, <bar>);", ""),
    ("template <int S>\n__device__ inline void @(# d, const void* s, uint32_t b) {\n{b}}\n",
     "@<4>(<dst>, <src>, <bar>);", ""),
    ("template <typename T>\n__device__ void @(T d, const void* s, uint32_t b) {\n{b}}\n",
     "@<#>(<dst>, <src>, <bar>);", ""),
    ("namespace @_ns {\nnamespace {\n__device__ void @(# d, const void* s, uint32_t b) {\n{b}}\n}\n}  // namespace\n",
     "@_ns::@(<dst>, <src>, <bar>);", ""),
    ("struct @ {\n  static __device__ void go(# d, const void* s, uint32_t b) {\n{b}  }\n};\n",
     "@::go(<dst>, <src>, <bar>);", ""),
    ("template <int S>\nstruct @ {\n  __device__ static inline void copy(# d, const void* s, uint32_t b) {\n{b}  }\n};\n",
     "@<2>::copy(<dst>, <src>, <bar>);", ""),
    ("struct @ {\n  __device__ void operator()(# d, const void* s, uint32_t b) const {\n{b}  }\n};\n",
     "@{}(<dst>, <src>, <bar>);", ""),
    ("struct @ {\n  __device__ void operator()(# d, const void* s, uint32_t b) const {\n{b}  }\n};\n",
     "@_f(<dst>, <src>, <bar>);", "@ @_f;\n"),
    (("struct @ {\n  # d;\n  uint32_t b;\n  __device__ @(# d_, uint32_t b_) : d(d_), b(b_) {}\n"
     "  __device__ void go(const void* s) {\n{b}  }\n};\n"), "@_o.go(<src>);", "@ @_o(<dst>, <bar>);\n"),
    (("class @ {\n public:\n  __device__ explicit @(# d) : d_{d} {}\n  __device__ void go(const void* s, uint32_t b) {\n"
     "    # d = d_;\n{b}  }\n private:\n  # d_;\n};\n"), "@_o.go(<src>, <bar>);", "@ @_o(<dst>);\n"),
    (("struct @_args { # d; uint32_t b; };\n__device__ void @(const @_args& a, const void* s) {\n  # d = a.d;\n"
     "  uint32_t b = a.b;\n{b}}\n"), "@(@_a, <src>);", "@_args @_a{<dst>, <bar>};\n"),
    (("struct @_args { # d; uint32_t b; };\n__device__ void @(@_args a, const void* s) {\n  # d = a.d;\n"
     "  uint32_t b = a.b;\n{b}}\n"), "@(@_a, <src>);", "@_args @_a;\n@_a.d = <dst>;\n@_a.b = <bar>;\n"),
    ("__device__ void @(uint32_t b, const void* s, # d) {\n{b}}\n", "@(<bar>, <src>, <dst>);", ""),
    ("__device__ void @(# const& d, const void* s, const uint32_t& b, int unused = 0) {\n{b}}\n",
     "@(<dst>, <src>, <bar>);", ""),
    (("template <typename F>\n__device__ void @_with(F f) { f(); }\n"
     "__device__ void @(# d, const void* s, uint32_t b) {\n{b}}\n"),
     "@_with([&]() { @(<dst>, <src>, <bar>); });", ""),
    ("__device__ void @(# d, const void* s, uint32_t b) {\n{b}}\n",
     "@_l(<dst>, <bar>);", "auto @_l = [&](# to, uint32_t full) { @(to, <src>, full); };\n"),
    (("__device__ void @(# d, const void* s) { *reinterpret_cast<volatile int*>(0) = 1; }\n"
     "__device__ void @(# d, const void* s, uint32_t b) {\n{b}}\n"), "@(<dst>, <src>, <bar>);", ""),
    ("template <bool P>\n__device__ void @(# d, const void* s, uint32_t b) {\n  if constexpr (P) {\n{b}  }\n}\n",
     "@<true>(<dst>, <src>, <bar>);", ""),
    (("template <int N, typename T>\nstruct @;\ntemplate <typename T>\nstruct @<2, T> {\n"
     "  static __device__ void go(T d, const void* s, uint32_t b) {\n{b}  }\n};\n"),
     "@<2, #>::go(<dst>, <src>, <bar>);", ""),
)  # fmt: skip


def wrap(rng: Random, body: str, kind: str, name: str) -> tuple[str, Callee]:
    """(declaration, callee) of a helper around statements that use `d`, `s` and `b`."""
    text, call, setup = (
        part.replace("@", name).replace("#", TYPES[kind]).replace("{b}", _indented(body))
        if number == 0
        else part.replace("@", name).replace("#", TYPES[kind])
        for number, part in enumerate(rng.choice(_SHAPES))
    )
    return text, Callee(kind, call, setup=setup)


def rewrap(rng: Random, callee: Callee, name: str) -> tuple[str, Callee]:
    """(declarations, callee) of a helper that calls another; it may change or map the address."""
    address = Address("", "", "d", callee.kind, "local")
    choice = rng.random()
    if choice < 0.1:
        address = mapped(rng, address, f"{name}_p")
    elif choice < 0.35:
        address = kept(rng, address, f"{name}_k")
    if rng.random() < 0.12 and not address.body and address.expression == "d":
        # Not `d`: members of that name stand in the text, and a parameter would replace those too.
        parameters = ("to_", "from_", "full_")
        text = callee.at("(to_)", "(from_)", "(full_)").strip().replace("\n", " \\\n  ")
        macro = f"#define {name}({', '.join(parameters)}) \\\n  do {{ {text} }} while (0)\n"
        return macro, Callee(callee.kind, f"{name}(<dst>, <src>, <bar>);", callee.maps)
    body = address.body + callee.at(address.expression, "s", "b") + "\n"
    if "n" in set(_words(address.body + address.expression)):
        body = "int n = threadIdx.x;\n" + body
    text, outer = wrap(rng, body, callee.kind, name)
    maps = callee.maps or address.owner == "peer"
    return address.top + text, Callee(outer.kind, outer.call, maps, outer.setup)


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())


def _indented(text: str) -> str:
    return "".join(
        f"  {line}\n" if line and not line.startswith("#") else f"{line}\n"
        for line in text.rstrip("\n").split("\n")
    )

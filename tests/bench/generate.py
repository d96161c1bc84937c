"""Random small CUDA programs with bulk copies and the truth about each of them.

A program is a chain: asm statements (form, spelling, guard), helpers around them, kernels that compute
addresses and call the helpers, and host code that launches the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from addresses import CONVERSIONS, Address, random_address
from copies import Spelled, random_form, spell
from guarding import always, negated, random_guard
from launching import KernelShape, random_shape
from program import Guard, Passage, Program, Site, mark_of, settle
from reaching import Callee, rewrap, wrap

_BASE = "#pragma once\n#include <cstdint>\n#include <cooperative_groups.h>\n"


@dataclass
class Builder:
    """A program under construction.

    Attributes:
        rng: source of all choices.
        name: prefix of every name.
        config: text of the header with macros.
        helpers: text of the header with device helpers.
        main: text of the file with kernels.
        host: text of host code.
        given: `-D`.
        sites: truth so far.
    """

    rng: Random
    name: str
    config: list[str] = field(default_factory=list)
    helpers: list[str] = field(default_factory=list)
    main: list[str] = field(default_factory=list)
    host: list[str] = field(default_factory=list)
    given: dict[str, str] = field(default_factory=dict)
    sites: list[Site] = field(default_factory=list)
    _count: int = 0

    def fresh(self, stem: str) -> str:
        """A name that occurs once."""
        self._count += 1
        return f"{self.name}_{stem}{self._count}"


def generate(seed: int) -> Program:
    """The program of a seed: the same text and truth in every run."""
    builder = Builder(Random(f"referee {seed}"), f"p{seed}")
    rng = builder.rng
    callees = [_callee(builder) for _ in range(rng.choice((1, 1, 2, 2, 3)))]
    kernels = rng.choice((1, 1, 2, 3))
    used = {place: [] for place in range(kernels)}
    for callee in callees:
        for place in range(kernels):
            if rng.random() < (0.75 if kernels > 1 else 0.95):
                used[place].append(callee)
    for place in range(kernels):
        _kernel(builder, used[place])
    return _finished(builder)


def _callee(builder: Builder) -> tuple[Callee, list[Site]]:
    """A statement with its helpers, and the sites that it holds."""
    rng = builder.rng
    name = builder.fresh("c")
    kind = rng.choice(("shared", "shared", "pointer"))
    body, sites, spelled = _statement(builder, name, kind)
    if rng.random() < 0.15 and _fits_macro(body):
        joined = body.rstrip("\n").replace("\n", " \\\n")
        names = ("d", "s", "b") if rng.random() < 0.5 else ("dst_", "src_", "bar_")
        text = _renamed(joined, names) if names[0] != "d" else joined
        builder.helpers.append(f"#define {name}_STMT({', '.join(names)}) \\\n  {text}\n")
        callee = Callee(kind, f"{name}_STMT((<dst>), (<src>), (<bar>));".replace(");", ")"), spelled.peer)
    else:
        text, callee = wrap(rng, body, kind, name)
        builder.helpers.append(text)
        callee = Callee(kind, callee.call, spelled.peer, callee.setup)
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
        text, callee = rewrap(rng, callee, builder.fresh("w"))
        builder.helpers.append(text)
    return callee, sites


def _fits_macro(body: str) -> bool:
    return not any(text in body for text in ('R"', "#if", "//", "\n\n"))


def _renamed(text: str, names: tuple[str, ...]) -> str:
    for old, new in zip(("(d)", "(s)", "(b)"), names, strict=True):
        text = text.replace(old, f"({new})")
    return text


def _statement(builder: Builder, name: str, kind: str) -> tuple[str, list[Site], Spelled]:
    """Statements over `d`, `s`, `b` under their guard."""
    rng = builder.rng
    form = random_form(rng)
    marks = (mark_of(2 * builder._count), mark_of(2 * builder._count + 1))
    spelled = spell(rng, form, marks, name)
    builder.config.append(spelled.before)
    builder.given.update(spelled.given)
    destination = "d"
    if kind == "pointer":
        top, body, destination, _ = rng.choice(CONVERSIONS[:3])
        destination = destination.replace("{e}", "d").replace("@", f"{name}_conv")
        builder.config.append(top.replace("@", f"{name}_conv"))
        body = body.replace("{e}", "d").replace("@", f"{name}_conv")
    else:
        body = ""
    text = spelled.text
    for role, value in (("dst", destination), ("src", "s"), ("bar", "b"), ("own", "b")):
        text = text.replace(f"<{role}>", value)
    text, guard = _guarded(builder, body, text, name)
    sites = [Site(v.mark, v.opcode, (guard, *v.guards)) for v in spelled.variants]
    builder.sites.extend(sites)
    return text, sites, spelled


def _guarded(builder: Builder, body: str, text: str, name: str) -> tuple[str, Guard]:
    rng = builder.rng
    if rng.random() < 0.5:
        return f"{body}{text}\n", always()
    before, guard, given = random_guard(rng, f"{name}_G")
    builder.config.append(before)
    builder.given.update(given)
    other = "  __trap();"
    kind = rng.choice(("if", "else", "elif", "nested"))
    if kind == "else":
        return f"{body}#if {guard.text}\n{other}\n#else\n{text}\n#endif\n", negated(guard)
    if kind == "elif":
        opening = (
            f"#if defined({name}_NEVER) && 0\n{other}\n#elif {guard.text}\n{text}\n#else\n{other}\n#endif\n"
        )
        return body + opening, guard
    if kind == "nested":
        opening = (
            f"#ifdef __CUDA_ARCH__\n#  if {guard.text}\n{text}\n#  else  // none\n{other}\n#  endif\n#endif\n"
        )
        return body + opening, guard
    return f"{body}#if {guard.text}\n{text}\n#endif\n", guard


def _kernel(builder: Builder, callees: list[tuple[Callee, list[Site]]]) -> None:
    """A kernel that calls the callees, with its launches; adds the ways to their sites."""
    rng = builder.rng
    name = builder.fresh("k")
    shape = random_shape(rng, name)
    body: list[str] = []
    for callee, sites in callees:
        address = random_address(rng, builder.fresh("a"))
        if address.kind != callee.kind:
            address = _converted(rng, address, callee.kind, builder)
        builder.config.append(address.top)
        bar, owner, setup = _mbarrier(rng, builder.fresh("m"))
        body += [address.body, setup, callee.at(address.expression, "src", bar) + "\n"]
        destination = "peer" if callee.maps else address.owner
        for site in sites:
            site.passages.append(Passage(name, destination, owner, shape.cluster, shape.in_sight))
    text = "".join(body)
    builder.config.append(shape.top)
    builder.main.append(_kernel_text(name, shape, text))
    builder.host.append(shape.host)


def _kernel_text(name: str, shape: KernelShape, body: str) -> str:
    from launching import PARAMETERS

    indented = "".join(f"  {line}\n" for line in body.split("\n") if line)
    return (
        f"{shape.forward}{shape.before}__global__ {shape.attribute} {name}({PARAMETERS}) {{\n{indented}}}\n"
    )


def _converted(rng: Random, address: Address, kind: str, builder: Builder) -> Address:
    name = builder.fresh("v")
    if kind == "shared":
        return address.then(rng.choice(CONVERSIONS), name)
    back = rng.choice(
        (
            "static_cast<float*>(__cvta_shared_to_generic({e}))",
            "(float*)__cvta_shared_to_generic({e})",
            "reinterpret_cast<float*>(__cvta_shared_to_generic({e}))",
        )
    )
    return address.then(("", "", back, "pointer"), name)


def _mbarrier(rng: Random, name: str) -> tuple[str, str, str]:
    """(expression, owner, statements) of the mbarrier's window address."""
    setup = f"__shared__ alignas(8) uint64_t {name};\n"
    bar = f"(uint32_t)__cvta_generic_to_shared(&{name})"
    if rng.random() < 0.1:
        setup += (
            f'uint32_t {name}_p;\nasm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"({name}_p) : "r"({bar}));\n'
        )
        return f"{name}_p", "peer", setup
    return bar, "local", setup


def _finished(builder: Builder) -> Program:
    """Text spread over files, marks turned into lines."""
    rng = builder.rng
    name = builder.name
    config, helpers = "".join(builder.config), "".join(builder.helpers)
    kernels, host = "".join(builder.main), "".join(builder.host)
    layout = rng.choice(("one", "header", "two"))
    if layout == "one":
        files = {"main.cu": f"{_BASE[len('#pragma once') + 1 :]}{config}{helpers}{kernels}{host}"}
    elif layout == "header":
        files = {
            "kit.cuh": f"{_BASE}{config}{helpers}",
            "main.cu": f'#include "kit.cuh"\n{kernels}{host}',
        }
    else:
        files = {
            "detail/config.h": f"{_BASE}{config}",
            "detail/kit.cuh": f'#pragma once\n#include "config.h"\n{helpers}',
            "main.cu": f'#include <cuda_runtime.h>\n#include "detail/kit.cuh"\n{kernels}{host}',
        }
    return Program(name, settle(files, builder.sites), builder.given, builder.sites, ("main.cu",))

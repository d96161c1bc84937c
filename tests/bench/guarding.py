"""Random preprocessor conditions over architecture, toolkit and own macros, with their value in a world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from program import Guard, World

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    ">=": lambda left, right: left >= right,
    ">": lambda left, right: left > right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
}
_ARCHES = (800, 900, 1000, 1100, 1200, 1210)


def random_guard(rng: Random, name: str, depth: int = 0) -> tuple[str, Guard, dict[str, str]]:
    """(preamble of macro definitions, condition, -D given) with names that begin with `name`."""
    if depth < 2 and rng.random() < 0.45:
        return _combined(rng, name, depth)
    return rng.choice(_ATOMS)(rng, name)


def _combined(rng: Random, name: str, depth: int) -> tuple[str, Guard, dict[str, str]]:
    before, left, given = random_guard(rng, f"{name}L", depth + 1)
    kind = rng.choice(("and", "or", "not", "word"))
    if kind == "not":
        return before, Guard(f"!({left.text})", lambda world: not left.holds(world)), given
    more, right, also = random_guard(rng, f"{name}R", depth + 1)
    both = {**given, **also}
    if kind == "or":
        either = Guard(f"({left.text}) || {right.text}", lambda w: left.holds(w) or right.holds(w))
        return before + more, Guard(f"({either.text})", either.holds), both
    sign = "&&" if kind == "and" else "and"
    text = f"(({left.text}) {sign} ({right.text}))"
    return before + more, Guard(text, lambda w: left.holds(w) and right.holds(w)), both


def _arch(rng: Random, name: str) -> tuple[str, Guard, dict[str, str]]:
    sign, value = rng.choice(list(_COMPARE)), rng.choice(_ARCHES)
    text = rng.choice((f"__CUDA_ARCH__ {sign} {value}", f"(__CUDA_ARCH__ / 10) {sign} {value // 10}"))
    return "", Guard(text, lambda world: _COMPARE[sign](world.number, value)), {}


def _defined_arch(rng: Random, name: str) -> tuple[str, Guard, dict[str, str]]:
    inner = _arch(rng, name)[1]
    return "", Guard(f"defined(__CUDA_ARCH__) && {inner.text}", inner.holds), {}


def _feature(rng: Random, name: str) -> tuple[str, Guard, dict[str, str]]:
    number = rng.choice((90, 120, 121))
    spelled = rng.choice(("defined(__CUDA_ARCH_FEAT_SM%d_ALL)", "defined __CUDA_ARCH_FEAT_SM%d_ALL"))
    return "", Guard(spelled % number, lambda w: w.suffix == "a" and w.number == number * 10), {}


def _family(rng: Random, name: str) -> tuple[str, Guard, dict[str, str]]:
    text = rng.choice(
        ("defined(__CUDA_ARCH_FAMILY_SPECIFIC__)", "(__CUDA_ARCH_FAMILY_SPECIFIC__ + 0) >= 1200")
    )
    floor = 1200 if "+" in text else 0
    return "", Guard(text, lambda w: w.suffix != "" and w.number >= floor), {}


def _specific(rng: Random, name: str) -> tuple[str, Guard, dict[str, str]]:
    return "", Guard("defined(__CUDA_ARCH_SPECIFIC__)", lambda w: w.suffix == "a"), {}


def _toolkit(rng: Random, name: str) -> tuple[str, Guard, dict[str, str]]:
    major, minor = rng.choice(((12, 0), (12, 6), (12, 8), (14, 0)))
    if rng.random() < 0.5:
        text = f"CUDART_VERSION >= {major * 1000 + minor * 10}"
    else:
        text = (
            f"(__CUDACC_VER_MAJOR__ > {major} || "
            f"(__CUDACC_VER_MAJOR__ == {major} && __CUDACC_VER_MINOR__ >= {minor}))"
        )
    return "", Guard(text, lambda world: world.toolkit >= (major, minor)), {}


def _derived(rng: Random, name: str) -> tuple[str, Guard, dict[str, str]]:
    """A macro that a header derives from the architecture."""
    inner = rng.choice((_arch, _feature, _family, _defined_arch))(rng, name)[1]
    macro = f"{name}_HAS_TMA"
    if rng.random() < 0.5:
        before = f"#if {inner.text}\n#define {macro}\n#endif\n"
        return before, Guard(f"defined({macro})", inner.holds), {}
    before = f"#if {inner.text}\n#  define {macro} 1\n#else\n#  define {macro} 0\n#endif\n"
    text = rng.choice((macro, f"{macro} == 1", f"{macro} != 0"))
    return before, Guard(text, inner.holds), {}


def _given(rng: Random, name: str) -> tuple[str, Guard, dict[str, str]]:
    """A macro that the build gives."""
    macro, value = f"{name}_LEVEL", rng.choice((0, 1, 2))
    least = rng.choice((1, 2))
    before = rng.choice(("", f"#ifndef {macro}\n#define {macro} 0\n#endif\n"))
    return before, Guard(f"{macro} >= {least}", lambda _: value >= least), {macro: str(value)}


def _not_given(rng: Random, name: str) -> tuple[str, Guard, dict[str, str]]:
    """A macro of which the tree says nothing: the truth depends on the build (one such macro a program)."""
    macro = f"{name.split('_')[0]}_EXTRA"
    return "", Guard(f"defined({macro})", lambda world: world.extra), {}


def _constant(rng: Random, name: str) -> tuple[str, Guard, dict[str, str]]:
    macro, value = f"{name}_ON", rng.choice((0, 1))
    before = f"#define {macro} {value}\n"
    if rng.random() < 0.3:
        before += f"#undef {macro}\n#define {macro} {1 - value}\n"
        value = 1 - value
    return before, Guard(macro, lambda _: bool(value)), {}


_ATOMS = (
    _arch, _arch, _defined_arch, _feature, _family, _specific, _toolkit, _derived, _derived, _given,
    _not_given, _constant,
)  # fmt: skip


def negated(guard: Guard) -> Guard:
    """The condition of the `#else` branch."""
    return Guard(f"!({guard.text})", lambda world: not guard.holds(world))


def always() -> Guard:
    """The condition of code without one."""

    def holds(_: World) -> bool:
        return True

    return Guard("1", holds)

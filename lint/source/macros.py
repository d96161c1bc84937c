"""Macro definitions of the whole tree: found on demand, weighed by the guard under which each holds."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.source.condition import UNKNOWN, Value, both, evaluate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ptxguard.source.guards import CppFile, Definition, Guard, MacrosAt, World

# Stands for the value of a macro that is defined, nobody knows as what.
UNKNOWN_VALUE = "?"

# Macros of other compilers and runtimes: certainly absent where nvcc compiles device code.
_ABSENT = frozenset(
    {
        "__HIP__", "__HIPCC__", "__HIP_PLATFORM_AMD__", "__HIP_PLATFORM_HCC__", "__HIP_DEVICE_COMPILE__",
        "USE_ROCM", "__CUDA__",
        "__HIP_PLATFORM_NVIDIA__", "__MUSA__", "__MUSACC__", "__MUSA_ARCH__", "__SYCL_DEVICE_ONLY__",
        "SYCL_LANGUAGE_VERSION", "__METAL_VERSION__", "__OPENCL_VERSION__", "CUDA_NO_PTX",
    }
)  # fmt: skip
# Macros that nvcc defines, with a value that no rule may rest on (None) or the value itself.
_PRESENT: dict[str, int | None] = {
    "__CUDACC__": 1,
    "__NVCC__": 1,
    "__cplusplus": None,
    "__CUDACC_VER_BUILD__": None,
    "__COUNTER__": None,
    "__LINE__": None,
}


def toolkit_macros(toolkit: tuple[int, int]) -> dict[str, int]:
    """Version macros of a toolkit, as cuda.h, cuda_runtime_api.h and CCCL (`__cccl_ptx_isa`) spell them."""
    major, minor = toolkit
    version = major * 1000 + minor * 10
    return {
        "__CUDACC_VER_MAJOR__": major,
        "__CUDACC_VER_MINOR__": minor,
        "CUDA_VERSION": version,
        "CUDART_VERSION": version,
        "__CUDART_API_VERSION": version,
        "__cccl_ptx_isa": ptx_isa(toolkit),
    }


def ptx_isa(toolkit: tuple[int, int]) -> int:
    """PTX ISA version of a toolkit as `__cccl_ptx_isa` spells it: 870 for 12.8 (PTX ISA, release history)."""
    major, minor = toolkit
    if major >= 13:
        return 900 + 10 * minor
    if major == 12:
        # 12.0 is PTX 8.0; 12.6 stays at the 8.5 of 12.5, so 12.8 is 8.7 and 12.9 is 8.8.
        return 800 + 10 * (minor if minor < 6 else minor - 1)
    return {8: 780, 7: 770, 6: 760, 5: 750, 4: 740, 3: 730, 2: 720, 1: 710, 0: 700}.get(minor, 780)


@dataclass(eq=False)
class MacroTable:
    """Definitions by name, over all files of the tree.

    Attributes:
        lookup: name -> definitions in the tree (the index over files).
        sees: whether text of the second file can be in force in the first (include reach).
    """

    lookup: Callable[[str], list[Definition]]
    sees: Callable[[CppFile, CppFile], bool]
    _active: set[tuple[str, int, int]] = field(default_factory=set, repr=False)
    _placeless: dict[str, bool] = field(default_factory=dict, repr=False)

    def is_placeless(self, text: str) -> bool:
        """Whether a conditional asks only for macros that the tree never defines: no place matters."""
        known = self._placeless.get(text)
        if known is None:
            names = re.findall(r"[A-Za-z_]\w*", text)
            known = self._placeless[text] = not any(self.lookup(name) for name in names)
        return known

    def _is_set_by_tree(self, name: str, unit: CppFile) -> bool:
        """Whether files in reach decide on a macro: they define it, and not as a default (`#ifndef NAME`)."""
        given = [definition for definition in self.lookup(name) if definition.value is not None]
        seen = [d for d in given if d.unit is unit or self.sees(unit, d.unit)]
        return bool(seen) and not any(d.guard is not None and d.guard.tests_only == name for d in seen)

    def defined(self, name: str, place: MacrosAt) -> Value:
        """Whether a macro is defined at a place."""
        known = _builtin(name, place.world)
        if known is not None:
            return Value(int(known is not False))
        return self._decide(name, place, lambda definition: Value(int(definition.value is not None)))

    def value(self, name: str, arguments: list[str] | None, place: MacrosAt) -> Value:
        """Number that a macro stands for at a place; 0 where it is not defined (C++ standard, cpp.cond)."""
        if name == "__CUDA_ARCH_HAS_FEATURE__" and arguments and place.world.target is not None:
            return Value(int(f"__CUDA_ARCH_FEAT_{arguments[0].strip()}" in place.world.target.macros()))
        known = _builtin(name, place.world)
        if known is not None:
            return Value(0) if known is False else _number(known, place)
        if name.startswith("__has_"):
            return UNKNOWN
        if arguments is not None and not self.candidates(name, place):
            return UNKNOWN
        return self._decide(name, place, lambda definition: _expanded(definition, arguments, place))

    def candidates(self, name: str, place: MacrosAt) -> list[Definition]:
        """Definitions that can be in force at a place, the one that would win first.

        Those of the same file before the place, latest first; then those of files it can see.
        """
        own, unit = [], place.unit
        for definition in reversed(unit.definitions_by_name.get(name, [])):
            if definition.offset < place.offset:
                own.append(definition)
        others = [
            definition
            for definition in reversed(self.lookup(name))
            if definition.unit is not unit and self.sees(unit, definition.unit)
        ]
        return own + others

    def _decide(self, name: str, place: MacrosAt, read: Callable[[Definition], Value]) -> Value:
        key = (name, id(place.unit), place.offset)
        if key in self._active or len(self._active) > 400:
            return Value(0, frozenset({name}))
        self._active.add(key)
        try:
            value = _first_that_holds(self.candidates(name, place), place, read, name)
            return Value(0) if value.assumed == {name} and self._is_set_by_tree(name, place.unit) else value
        finally:
            self._active.discard(key)


def _first_that_holds(
    candidates: Iterable[Definition], place: MacrosAt, read: Callable[[Definition], Value], name: str
) -> Value:
    doubt: frozenset[str] = frozenset()
    any_candidate = False
    for definition in candidates:
        any_candidate = True
        holds = place.world.holds(definition.guard)
        if definition.unit is place.unit and _shares_branch(definition.guard, place):
            holds = Value(1)
        if holds.truth is None:
            return UNKNOWN
        if holds.truth:
            if definition.unit is not place.unit and definition.unit.is_unit:
                return UNKNOWN  # defined by one includer before its #include: others may not
            value = read(definition)
            return Value(value.number, value.assumed | holds.assumed | doubt)
        doubt |= holds.assumed
    return Value(0, doubt if any_candidate else frozenset({name}))


def _shares_branch(guard: Guard | None, place: MacrosAt) -> bool:
    """Whether the place stands in the very branch of the definition: then the branch is taken there."""
    inner = place.unit.guard_at(place.offset)
    while inner is not None:
        if inner is guard:
            return True
        inner = inner.parent
    return guard is None


def _builtin(name: str, world: World) -> int | str | bool | None:
    """Value that the compiler or the command line gives; False for certainly absent, None for unheard of."""
    if name in world.defines:
        text = world.defines[name]
        return "1" if text is None else text
    if name in _PRESENT:
        value = _PRESENT[name]
        return UNKNOWN_VALUE if value is None else value
    versions = toolkit_macros(world.toolkit)
    if name in versions:
        return versions[name]
    if world.target is not None:
        macros = world.target.macros()
        if name in macros:
            return macros[name]
    if name.startswith(("__CUDA_ARCH_", "__CUDA_ARCH__")):
        return UNKNOWN_VALUE if name == "__CUDA_ARCH_LIST__" else False
    return False if name in _ABSENT else None


def _number(known: int | str, place: MacrosAt) -> Value:
    if isinstance(known, str):
        if known == UNKNOWN_VALUE:
            return UNKNOWN
        return evaluate(known, place) if known.strip() else UNKNOWN
    return Value(int(known))


def _expanded(definition: Definition, arguments: list[str] | None, place: MacrosAt) -> Value:
    if definition.value is None:
        return Value(0)
    text = definition.value
    if definition.parameters is not None:
        if arguments is None:
            return UNKNOWN
        if len(arguments) != len(definition.parameters):
            return UNKNOWN
        for name, argument in zip(definition.parameters, arguments, strict=True):
            text = re.sub(rf"\b{re.escape(name)}\b", f"({argument})".replace("\\", r"\\"), text)
    if not text.strip() or len(text) > 4096:
        return UNKNOWN if text.strip() else Value(0)
    return evaluate(text, place)


def holds_all(world: World, guards: Iterable[Guard | None]) -> Value:
    """Conjunction of several guards."""
    value = Value(1)
    for guard in guards:
        value = both(value, world.holds(guard))
    return value

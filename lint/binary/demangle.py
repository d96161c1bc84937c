"""Readable names of kernels, by the C++ runtime's own demangler where the system has one."""

from __future__ import annotations

import ctypes
import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1", "libc++.1.dylib")
_TEMPLATE_OR_CALL = re.compile(r"[<(]")
_RETURN_TYPE = re.compile(r"^(?:void|int|auto) ")
# Itanium C++ ABI, 5.1: what stands before the names of a nested name, and a name in front of its length.
_NESTED = re.compile(r"_ZN[rVK]*[RO]?")
_LENGTH = re.compile(r"L?([1-9]\d{0,4})")


@cache
def _demangler() -> Callable[[bytes], str | None]:
    for name in _LIBRARIES:
        try:
            return _bind(ctypes.CDLL(name))
        except (OSError, AttributeError):
            continue
    return lambda mangled: None


def _bind(library: ctypes.CDLL) -> Callable[[bytes], str | None]:
    function, release = library.__cxa_demangle, ctypes.CDLL(None).free
    function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_char_p] + [ctypes.c_void_p] * 3
    release.argtypes = [ctypes.c_void_p]

    def call(mangled: bytes) -> str | None:
        address = function(mangled, None, None, None)
        if not address:
            return None
        try:
            return ctypes.string_at(address).decode("utf-8", "replace")
        finally:
            release(address)

    return call


@lru_cache(maxsize=1 << 16)
def demangle(name: str) -> str:
    """The readable form; the name itself where the demangler cannot read it.

    libstdc++ gives up on names of more than 1,024 characters, which CUTLASS has.
    """
    if not name.startswith("_Z"):
        return name
    return _demangler()(name.encode("utf-8", "replace")) or name


def family(name: str) -> str:
    """The template a kernel is made from: its qualified name up to the first argument list."""
    if name.startswith("_Z"):
        leading = _leading_name(name)
        if leading:
            return leading
    readable = _RETURN_TYPE.sub("", demangle(name).replace("(anonymous namespace)", "{anonymous}"))
    base = _TEMPLATE_OR_CALL.split(readable, maxsplit=1)[0].strip()
    return base.replace("{anonymous}", "(anonymous namespace)") or readable


def _leading_name(mangled: str) -> str:
    """`a::b` of `_ZN1a1bI…`: the names in front of the first template argument; "" where there are none."""
    nested = _NESTED.match(mangled)
    at = nested.end() if nested else len("_Z")
    names = ["std"] if mangled.startswith("St", at) else []
    at += 2 * len(names)
    while length := _LENGTH.match(mangled, at):
        at = length.end() + int(length[1])
        if at > len(mangled):
            return ""
        found = mangled[length.end() : at]
        names.append("(anonymous namespace)" if found.startswith("_GLOBAL__N_") else found)
        if not nested:
            break
    return "::".join(names)

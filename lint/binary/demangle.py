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
    """The readable form; the name itself where the demangler cannot read it (some names of CUTLASS)."""
    if not name.startswith("_Z"):
        return name
    return _demangler()(name.encode("utf-8", "replace")) or name


def family(name: str) -> str:
    """The template a kernel is made from: its qualified name up to the first argument list."""
    readable = _RETURN_TYPE.sub("", demangle(name).replace("(anonymous namespace)", "{anonymous}"))
    base = _TEMPLATE_OR_CALL.split(readable, maxsplit=1)[0].strip()
    return base.replace("{anonymous}", "(anonymous namespace)") or readable

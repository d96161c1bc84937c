"""Byte searches that decide, before anything is parsed, which files have to be and what they bring along."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from ptxguard.directive import MARKS
from ptxguard.errors import PtxguardError
from ptxguard.source.tree import CPP_ENDINGS, PYTHON_ENDINGS, TEMPLATE_ENDINGS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ptxguard.source.tree import TreeFile

# Python files without it hold no copy and are never parsed for one.
COPY_WORD = b"cp.async.bulk"
ASM_WORDS = frozenset({"asm", "__asm__", "__asm"})

# One of these is in every Python file that may hold C++ text.
CPP_MARKS = (b"__global__", b"__device__", b"<<<", b"cudaLaunch", b"cuLaunch", b"LaunchKernel")
# One of these is in every file that uses a wrapper of `wrappers.toml`.
WRAPPER_MARKS = (
    b"cp_async_bulk",
    b"memcpy_async",
    b"SM90_TMA_LOAD",
    b"SM90_BULK_COPY",
    b"SM100_TMA_2SM_LOAD",
    b"DeviceTransform",
    b"thrust::transform",
)
_CODE_ENDINGS = CPP_ENDINGS | TEMPLATE_ENDINGS | {".ptx"}
ARCH_LIST = re.compile(rb"__CUDA_ARCH__\s*==")

_INCLUDE = re.compile(rb"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)
_ASM_DEFINE = re.compile(
    rb"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(?:asm|__asm__|__asm)\b[ \t]*((?:__)?volatile(?:__)?)?[ \t]*\r?$",
    re.MULTILINE,
)
_VOLATILE_DEFINE = re.compile(
    rb"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(?:__)?volatile(?:__)?[ \t]*\r?$", re.MULTILINE
)
# The directive may be cut by a line continuation, which the reader of directives joins.
_DEFINE = re.compile(rb"#(?:[ \t]|\\\r?\n)*(?:define|undef)(?:[ \t]|\\\r?\n)+([^\W\d]\w*)")
# A name that gets a value in a statement with `const`; no `\b` in front, so that `re` can skip to it.
_CONSTANT = re.compile(rb"const(?:expr)?\b[^;{}(),=]*?\b([^\W\d]\w*)\s*[={]")
_ENUM = re.compile(rb"enum\b[^;{}()]*\{([^{}]*)\}")
_ENUMERATOR = re.compile(rb"([^\W\d]\w*)\s*=")


def wants_parsing(file: TreeFile, data: bytes, keywords: Iterable[bytes]) -> bool:
    """Whether a file that is asked about can hold anything to report: asm, wrappers, lists, broken text."""
    if may_hold_directives(data):
        return True
    if file.ending in PYTHON_ENDINGS:
        return COPY_WORD in data
    if file.ending not in _CODE_ENDINGS and not _looks_like_code(data):
        return b"\0" in data  # a hook passes every file without an ending: what is no code is no bad code
    return (
        file.ending == ".ptx"
        or any(word in data for word in keywords)
        or uses_wrappers(data)
        or ARCH_LIST.search(data) is not None
        or _may_be_unreadable(file, data)
    )


def _looks_like_code(data: bytes) -> bool:
    """Whether text of any name is CUDA, inline PTX or a PTX module."""
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    marks = (b"__device__", b"__global__", COPY_WORD, b".address_size")
    return wide or any(mark in data for mark in marks)


def may_hold_directives(data: bytes) -> bool:
    """Whether a file can speak to ptxguard in its comments."""
    return any(mark in data for mark in MARKS)


def asm_words(files: Iterable[TreeFile]) -> frozenset[str]:
    """`asm` in every spelling, with the macros of a tree that stand for it."""
    names = set(ASM_WORDS)
    for file in files:
        if file.ending == ".ptx":
            continue
        with contextlib.suppress(PtxguardError):  # told where the file itself is asked about
            names.update(name.decode() for name in asm_macros(file.data()))
    return frozenset(names)


def uses_wrappers(data: bytes) -> bool:
    """Whether a file can use a library wrapper."""
    return any(mark in data for mark in WRAPPER_MARKS)


def _may_be_unreadable(file: TreeFile, data: bytes) -> bool:
    """Whether a file may be no text, or hold a comment, a literal or a condition that never ends."""
    if b"\0" in data or data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return True
    if not file.named and file.ending not in (".cu", ".cuh"):
        return False
    if not data.isascii() or data.count(b"/*") > data.count(b"*/"):
        return True
    if not file.named:
        return False
    ends = data.count(b"#endif") != data.count(b"#if")  # a count that spaces spoil costs a parse and no more
    return ends or b'R"' in data or data.count(b'"') % 2 == 1


def may_hold_cpp(data: bytes) -> bool:
    """Whether a Python file can hold C++ text at all."""
    return any(mark in data for mark in CPP_MARKS) or (b"asm" in data and COPY_WORD in data)


def asm_macros(data: bytes) -> set[bytes]:
    """Macros that stand for `asm`, with `volatile` or without."""
    if b"asm" not in data or b"define" not in data:
        return set()
    return {found[1] for found in _ASM_DEFINE.finditer(data)}


def volatile_macros(data: bytes) -> set[bytes]:
    """Macros that stand for `volatile`, in files that speak of asm."""
    if b"asm" not in data or b"volatile" not in data:
        return set()
    return {found[1] for found in _VOLATILE_DEFINE.finditer(data)}


def defined_macros(data: bytes) -> set[bytes]:
    """Macros that a file defines or undefines."""
    return set(_DEFINE.findall(data)) if b"def" in data else set()


def valued_names(data: bytes) -> set[bytes]:
    """Names that may be declared const or as an enumerator, with a value."""
    names = set(_CONSTANT.findall(data))
    names.update(name for body in _ENUM.findall(data) for name in _ENUMERATOR.findall(body))
    return names


def included_names(data: bytes) -> list[bytes]:
    """What a file includes, as written."""
    return _INCLUDE.findall(data)

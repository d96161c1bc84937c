"""Targets named by compiler flags and arch lists in any text: nvcc, PyTorch, CMake's command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.arch import Target
from ptxguard.finding import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

_ARCH = r"\d{2,3}[af]?"
# nvcc, "Options for Steering GPU Code Generation": --generate-code arch=…,code=…
_GENCODE = re.compile(
    rf"arch\s*=\s*compute_({_ARCH})\s*,\s*code\s*=\s*\\?[\[\"']*((?:(?:sm|compute|lto)_{_ARCH}[\s,]*)+)"
)
_CODE = re.compile(rf"(sm|compute)_({_ARCH})")
# -arch=sm_90 is code=sm_90 with code=compute_90 beside it.
_SHORT = re.compile(rf"(?:-arch|--gpu-architecture)[=\s\"',]+(sm|compute)_({_ARCH})\b")
# PyTorch, torch.utils.cpp_extension: "8.0;9.0a;10.0+PTX".
_TORCH = re.compile(r"TORCH_CUDA_ARCH_LIST\b[^\w\n]{1,12}((?:\d{1,2}\.\d[af]?(?:\+PTX)?[\s;,]*)+)")
_TORCH_ITEM = re.compile(r"(\d{1,2})\.(\d)([af]?)(\+PTX)?")
# "80;90a-real;120-virtual" given to CMake, and lists of that shape in a variable whose name says ARCHS.
_LIST = re.compile(
    rf"CUDA_ARCH(?:ITECTURES|S)?\b[^\w\n;]{{1,6}}((?:{_ARCH}(?:-real|-virtual)?[;\s,]*)+)(?![\w.])"
)
_ITEM = re.compile(rf"\b({_ARCH})(-real|-virtual)?(?![\w.])")
# A target that is put together, or left to CMake: `compute_{major}{minor}`, "native".
_OPEN = re.compile(
    r"(?:compute|sm)_(?:\{|\$|%[sd({]|[\"']\s*[+.])|ARCHITECTURES\W{1,4}(?:native|all|all-major)\b|-arch[=\s\"',]+(?:native|all)\b"
)


@dataclass(frozen=True)
class Built:
    """One target that a build names.

    Attributes:
        target: the target.
        kind: real (machine code) or ptx (PTX that the driver may compile for later targets).
        evidence: the build line.
    """

    target: Target
    kind: str
    evidence: Evidence


def built_by_flags(path: str, text: str) -> Iterator[Built]:
    """Targets of the flags and arch lists in a text."""
    for match in _GENCODE.finditer(text) if "code" in text else ():
        for kind, arch in _CODE.findall(match[2]):
            yield _built(path, text, match.start(), arch, "real" if kind == "sm" else "ptx")
    for match in _SHORT.finditer(text) if "-arch" in text or "-gpu-arch" in text else ():
        if match[1] == "sm":
            yield _built(path, text, match.start(), match[2], "real")
        yield _built(path, text, match.start(), match[2], "ptx")
    for match in _TORCH.finditer(text):
        for major, minor, suffix, ptx in _TORCH_ITEM.findall(match[1]):
            for kind in ("real", "ptx") if ptx else ("real",):
                yield _built(path, text, match.start(), f"{major}{minor}{suffix}", kind)


def built_by_lists(path: str, text: str) -> Iterator[Built]:
    """Targets of lists given to CMake, or kept for it, outside of a CMake file."""
    for match in _LIST.finditer(text):
        yield from built_by_list(path, text, match.start(), match[1])


def built_by_list(path: str, text: str, offset: int, items: str) -> Iterator[Built]:
    """Targets of a list as CMake reads it: without a suffix machine code and PTX (CUDA_ARCHITECTURES)."""
    for arch, form in _ITEM.findall(items):
        if int(arch.rstrip("af")) >= 50:
            for kind in {"-real": ("real",), "-virtual": ("ptx",)}.get(form, ("real", "ptx")):
                yield _built(path, text, offset, arch, kind)


def leaves_targets_open(path: str, text: str) -> Evidence | None:
    """A place where the targets are computed, or None."""
    for match in _OPEN.finditer(text):
        line = build_line(path, text, match.start())
        if not line.text.startswith("#"):
            return line
    return None


def _built(path: str, text: str, offset: int, arch: str, kind: str) -> Built:
    return Built(Target.parse(f"sm_{arch}"), kind, build_line(path, text, offset))


def build_line(path: str, text: str, offset: int) -> Evidence:
    """The line of a build file that an offset stands in, white space folded."""
    start, end = text.rfind("\n", 0, offset) + 1, text.find("\n", offset)
    line = " ".join(text[start : end if end >= 0 else len(text)].split())
    return Evidence("build", path, text.count("\n", 0, offset) + 1, line[:160])

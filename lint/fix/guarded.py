"""The form for projects that support toolkits without `shared::cta`: a macro under a guard on the toolkit."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from ptxguard.finding import Edit, Fix
from ptxguard.fix.spelling import NEW_WORD, OLD_WORD, respelled
from ptxguard.source.guards import CppFile
from ptxguard.source.tokens import DIRECTIVE, RAW, STRING, directive_name, tokenize

if TYPE_CHECKING:
    from ptxguard.location import SourceFile, Span
    from ptxguard.model import CopySite
    from ptxguard.source.guards import Guard

_NAME = "TMA_LOAD_SPACE"
# A guard on __CUDA_ARCH__ would let the call back in: PTX for compute_90 passes it on the user's sm_120.
_BY_RUNTIME = "{name} >= 12080"
_BY_COMPILER = (
    "defined(__CUDACC_VER_MAJOR__) && \\\n"
    "    (__CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 8))"
)
_VERSIONS = ("CUDART_VERSION", "CUDA_VERSION", "__CUDACC_VER_MAJOR__")
_TESTED = re.compile(r"^[ \t]*#[ \t]*(?:if|elif)\b.*?\b(CUDART_VERSION|CUDA_VERSION)\b", re.MULTILINE)
_CAPITALS = re.compile(r"\b([A-Z][A-Z0-9]*)_[A-Z][A-Z0-9_]*\b")
# Prefixes of CUDA, the C library and other toolkits: not the project's own.
_FOREIGN = frozenset(
    "CUDA CUDART CU NVRTC INT UINT SIZE CHAR FLT DBL LONG HIP ROCM USE ENABLE HAS NDEBUG".split()
)


def guarded_fix(site: CopySite, safety: str) -> Fix | None:
    """Spell the destination by a macro that is `cta` from CUDA 12.8 on; the macro is defined once a file.

    None where the text cannot be guarded: code inside a string, literals with a prefix, several files.
    """
    files = {span.file for span in site.space_spans}
    if len(files) != 1 or site.asm is None:
        return None
    (file,) = files
    if file.parent is not None:
        return None
    unit = CppFile(file)
    known = _known_macro(unit, site.space_spans[0].start)
    name = known or _macro_name(unit)
    quotes = _quotes(unit, site.space_spans[0])
    fix = respelled(site, safety, f"{quotes[0]} {name} {quotes[1]}") if quotes else None
    if fix is None or known:
        return fix
    place = _place(unit, site.space_spans[0].start)
    if place is None:
        return None
    line, column = file.position(place)
    return replace(fix, edits=(Edit(file.path, line, column, line, column, _block(file, name)), *fix.edits))


def _known_macro(unit: CppFile, before: int) -> str | None:
    """A macro of the file that is `cta` under a test of the toolkit and `cluster` otherwise."""
    values: dict[str, set[str]] = {}
    tested: set[str] = set()
    for definition in unit.definitions:
        if definition.value is not None and definition.parameters is None and definition.offset < before:
            values.setdefault(definition.name, set()).add(definition.value.strip())
            test = definition.guard.text if definition.guard is not None else ""
            if definition.value.strip() == f'"{NEW_WORD}"' and any(word in test for word in _VERSIONS):
                tested.add("" if "__CUDA_ARCH" in test else definition.name)
    wanted = {f'"{NEW_WORD}"', f'"{OLD_WORD}"'}
    return next((name for name, found in values.items() if found == wanted and name in tested), None)


def _macro_name(unit: CppFile) -> str:
    """The name in the project's style: behind the prefix that most macros of the file have."""
    guards = {
        words[1]
        for _, offset, end in unit.skeleton
        if len(words := unit.file.text[offset:end].split()) > 1 and words[0].endswith("ifndef")
    }
    prefixes = Counter(
        found[1]
        for found in _CAPITALS.finditer(unit.file.text)
        if found[0] not in guards and found[1] not in _FOREIGN
    )
    best = prefixes.most_common(1)
    return f"{best[0][0]}_{_NAME}" if best else _NAME


def _quotes(unit: CppFile, span: Span) -> tuple[str, str] | None:
    """What ends the literal around a span and begins it again; None for a literal of another kind."""
    text = unit.file.text
    for kind, start, end in unit.skeleton:
        if not start <= span.start < end:
            continue
        tokens = tokenize(text, start, end) if kind == DIRECTIVE else tokenize(text[:end], start, end)
        for index, token in enumerate(tokens.texts):
            if not tokens.starts[index] <= span.start < tokens.end(index):
                continue
            if tokens.kinds[index] == STRING and token.startswith('"'):
                return '"', '"'
            if tokens.kinds[index] == RAW and token.startswith('R"'):
                delimiter = token[2 : token.index("(")]
                return f'){delimiter}"', f'R"{delimiter}('
    return None


def _place(unit: CppFile, before: int) -> int | None:
    """Start of the line behind the last directive at the head of a file that is in force for all of it."""
    text = unit.file.text
    best = 0
    for kind, start, end in unit.skeleton:
        if end > before:
            break
        if kind == DIRECTIVE and _is_head(unit, text[start:end], start):
            best = end
    if best == 0:
        return 0
    at = text.find("\n", best)
    return at + 1 if 0 <= at < before else None


def _is_head(unit: CppFile, directive: str, offset: int) -> bool:
    """An include, `#pragma once` or the include guard's `#define`, under no condition."""
    guard: Guard | None = unit.guard_at(offset)
    while guard is not None:
        if not guard.is_include_guard:
            return False
        guard = guard.parent
    words = directive[1:].split()
    name = directive_name(directive)
    guards = [g.text.split()[-1] for g in [unit.guard_at(offset)] if g is not None]
    return name == "include" or words[:2] == ["pragma", "once"] or (name == "define" and words[1:] == guards)


def _block(file: SourceFile, name: str) -> str:
    """The definition, with the line ends of the file."""
    tested = _TESTED.search(file.text)
    condition = _BY_RUNTIME.format(name=tested[1]) if tested else _BY_COMPILER
    lines = (
        "\n// shared::cta needs CUDA 12.8 (PTX ISA 8.6); with shared::cluster, sm_12x calls the driver.\n"
        f"#ifndef {name}\n"
        f"#if {condition}\n"
        f'#define {name} "{NEW_WORD}"\n'
        "#else\n"
        f'#define {name} "{OLD_WORD}"\n'
        "#endif\n"
        "#endif\n"
    )
    return lines.replace("\n", "\r\n") if "\r\n" in file.text else lines

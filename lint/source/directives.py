"""Finds the comments of a file that speak to ptxguard; text inside literals is none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ptxguard.directive import read_directives, widened
from ptxguard.source.candidates import ASM_WORDS
from ptxguard.source.tokens import COMMENT, RAW, statement_tokens
from ptxguard.source.tree import PYTHON_ENDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.directive import Directive
    from ptxguard.source.guards import CppFile
    from ptxguard.source.project import Project
    from ptxguard.source.tree import TreeFile

_SLASHES = re.compile(r"//.*")
_ASM = re.compile(rf"\b(?:{'|'.join(sorted(ASM_WORDS))})\b")


def directives_of(file: TreeFile, project: Project) -> Iterator[Directive]:
    """The comments of a file, in order."""
    if file.ending == ".ptx":
        project.looked_into(file)
        yield from _by_line(file)
    elif file.ending in PYTHON_ENDINGS:
        project.looked_into(file)
        yield from _of_python(file)
    else:
        for unit in project.units(file)[:1]:
            spans = list(_spans(unit))
            yield from (widened(directive, spans) for directive in _of_cpp(unit))


def _of_cpp(unit: CppFile) -> Iterator[Directive]:
    text = unit.file.text
    for kind, start, end in unit.skeleton:
        if kind != COMMENT:
            continue
        offset = start
        for part in text[start:end].split("\n"):
            line, column = unit.file.position(offset)
            opening = text.rfind("\n", 0, offset) + 1
            closing = text.find("\n", offset)
            behind = text[min(end, offset + len(part)) : closing if closing >= 0 else len(text)]
            alone = not text[opening:offset].strip() and not behind.strip()
            yield from read_directives(unit.file.path, line, column, part, alone=alone)
            offset += len(part) + 1


def _spans(unit: CppFile) -> Iterator[tuple[int, int]]:
    """First and last line of every asm statement and raw literal."""
    text, position = unit.file.text, unit.file.position
    for kind, start, end in unit.skeleton:
        if kind == RAW:
            yield position(start)[0], position(end)[0]
    for word in _ASM.finditer(text):
        tokens = statement_tokens(text, word.start()) if unit.is_code(word.start()) else None
        if tokens is not None:
            yield position(word.start())[0], position(tokens.starts[-1])[0]


def _of_python(file: TreeFile) -> Iterator[Directive]:
    """Comments by the syntax tree: a `#` in a literal is none."""
    from ptxguard.source.python import PythonFile

    unit = PythonFile(file.source())
    spans = [(node.start_point.row + 1, node.end_point.row + 1) for node in unit.captures.get("string", ())]
    for node in unit.captures.get("comment", ()):
        line, column = unit.file.position(unit.offset(node.start_byte))
        text = unit.file.text
        opening = text.rfind("\n", 0, unit.offset(node.start_byte)) + 1
        alone = not text[opening : unit.offset(node.start_byte)].strip()
        for directive in read_directives(file.shown, line, column, unit.text(node), alone=alone):
            yield widened(directive, spans)


def _by_line(file: TreeFile) -> Iterator[Directive]:
    for number, line in enumerate(file.source().text.split("\n"), start=1):
        match = _SLASHES.search(line)
        if match is not None:
            alone = not line[: match.start()].strip()
            yield from read_directives(file.shown, number, match.start() + 1, match[0], alone=alone)

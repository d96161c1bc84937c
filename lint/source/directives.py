"""Finds the comments of a file that speak to ptxguard; text inside literals is none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ptxguard.directive import read_directives
from ptxguard.source.tokens import COMMENT
from ptxguard.source.tree import PYTHON_ENDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.directive import Directive
    from ptxguard.source.guards import CppFile
    from ptxguard.source.project import Project
    from ptxguard.source.tree import TreeFile

_HASH = re.compile(r"#.*")
_SLASHES = re.compile(r"//.*")


def directives_of(file: TreeFile, project: Project) -> Iterator[Directive]:
    """The comments of a file, in order."""
    if file.ending in PYTHON_ENDINGS or file.ending == ".ptx":
        project.looked_into(file)
        yield from _by_line(file, _HASH if file.ending in PYTHON_ENDINGS else _SLASHES)
        return
    for unit in project.units(file)[:1]:
        yield from _of_cpp(unit)


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


def _by_line(file: TreeFile, comment: re.Pattern[str]) -> Iterator[Directive]:
    for number, line in enumerate(file.source().text.split("\n"), start=1):
        match = comment.search(line)
        if match is not None:
            alone = not line[: match.start()].strip()
            yield from read_directives(file.shown, number, match.start() + 1, match[0], alone=alone)

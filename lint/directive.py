"""Comments that speak to ptxguard: what they ask for, and where they stand."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Bytes without which a file holds no such comment.
MARKS = (b"ptxguard:", b"ptxguard-")
_OURS = re.compile(r"ptxguard:\s*(ignore|disable|enable|file-ignore)\b\s*(?:\[([^\]]*)\])?")
_NOLINT = re.compile(r"\bNOLINT(NEXTLINE|BEGIN|END)?\(([^)]*)\)")
_NOLINT_KINDS = {"": "ignore", "NEXTLINE": "ignore", "BEGIN": "disable", "END": "enable"}
_PREFIX = "ptxguard-"


@dataclass(frozen=True)
class Directive:
    """One comment.

    Attributes:
        kind: ignore, disable, enable or file-ignore.
        codes: upper-case codes or prefixes of codes; none where the comment names none, which is an error.
        path: file as shown.
        line: 1-based.
        column: 1-based, of the word `ptxguard` or `NOLINT`.
        lines: the lines that an `ignore` is about: its own, the next one where it stands alone or says so,
            and all of a statement or literal that begins on the next one or ends on its own.
        text: as written.
    """

    kind: str
    codes: tuple[str, ...]
    path: str
    line: int
    column: int
    lines: tuple[int, ...]
    text: str


def read_directives(path: str, line: int, column: int, comment: str, *, alone: bool) -> list[Directive]:
    """What one line of a comment asks for.

    Args:
        path: file as shown.
        line: of the comment's text.
        column: of its first character.
        comment: the text, one line of it.
        alone: whether nothing but the comment stands on the line.
    """
    both = (line, line + 1) if alone else (line,)
    found = []
    for match in _OURS.finditer(comment):
        codes = _codes(match[2] or "", "")
        found.append(Directive(match[1], codes, path, line, column + match.start(), both, match[0]))
    for match in _NOLINT.finditer(comment):
        codes = _codes(match[2], _PREFIX)
        if codes:  # a NOLINT for another tool
            kind, lines = _NOLINT_KINDS[match[1] or ""], (line + 1,) if match[1] == "NEXTLINE" else (line,)
            found.append(Directive(kind, codes, path, line, column + match.start(), lines, match[0]))
    return found


def widened(directive: Directive, spans: Iterable[tuple[int, int]]) -> Directive:
    """A directive with all lines of what stands beside it, since no comment can stand inside a literal.

    Args:
        directive: any.
        spans: first and last line of statements and literals.
    """
    if directive.kind != "ignore":
        return directive
    near = [
        (first, last)
        for first, last in spans
        if first in directive.lines or last == directive.line == directive.lines[-1]
    ]
    lines = {*directive.lines, *(line for first, last in near for line in range(first, last + 1))}
    return replace(directive, lines=tuple(sorted(lines)))


def _codes(text: str, prefix: str) -> tuple[str, ...]:
    words = (word.strip() for word in text.split(","))
    return tuple(word[len(prefix) :].upper() for word in words if word and word.startswith(prefix))

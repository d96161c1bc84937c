"""Which PTX of a module becomes a driver call when it is assembled for sm_12x on the user's machine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ptxguard.errors import ParseError
from ptxguard.forms import read_bulk_copy, syscall_name
from ptxguard.source.ptx import parse_asm

if TYPE_CHECKING:
    from collections.abc import Iterator

_FUNCTION = re.compile(
    r"^[ \t]*(?:\.(?:visible|weak|extern)\s+)*\.(?:entry|func)\s+(?:\([^)]{0,4000}\)\s*)?([\w$]+)",
    re.MULTILINE,
)
_COPY = re.compile(r"(?:@!?%?[\w$]+\s+)?cp\.async\.bulk\.[^;]{1,2000};")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def copies_in(text: str) -> Iterator[tuple[str, str, int]]:
    """(function, syscall, line) of each copy that ptxas turns into a driver call on sm_12x.

    Each statement that begins with `cp.async.bulk` is parsed with the PTX grammar; the function is the
    `.entry` or `.func` that stands before it.

    Raises:
        ParseError: such a statement is no PTX; `line` says where.
    """
    plain = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    functions = [(match.start(), match[1]) for match in _FUNCTION.finditer(plain)]
    place = 0
    for match in _COPY.finditer(plain):
        while place + 1 < len(functions) and functions[place + 1][0] < match.start():
            place += 1
        line = plain.count("\n", 0, match.start()) + 1
        try:
            instructions = parse_asm(match[0])
        except ParseError as error:
            raise ParseError(error.message, line=line) from error
        for instruction in instructions:
            copy = read_bulk_copy(instruction)
            symbol = syscall_name(copy) if copy is not None else None
            if symbol is not None:
                yield functions[place][1] if functions else "", symbol, line

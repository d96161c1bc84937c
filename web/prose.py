"""Documentation of rules as HTML: the few marks that their docstrings use."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markupsafe import Markup, escape

_CODE = re.compile(r"`([^`]+)`")
_UNDERLINE = re.compile(r"-{3,}\Z")


def paragraphs(text: str) -> Iterator[tuple[str, Markup]]:
    """("heading" | "text" | "code", HTML) of each block of a docstring."""
    lines = text.strip().splitlines()
    block: list[str] = []
    for index, line in enumerate([*lines, ""]):
        following = lines[index + 1] if index + 1 < len(lines) else ""
        if _UNDERLINE.match(line.strip()) and line.strip():
            continue
        if _UNDERLINE.match(following.strip()) and line.strip():
            yield from _block(block)
            block = []
            yield "heading", escape(line.strip())
        elif line.strip():
            block.append(line)
        else:
            yield from _block(block)
            block = []


def _block(lines: list[str]) -> Iterator[tuple[str, Markup]]:
    if not lines:
        return
    if all(line.startswith("    ") for line in lines):
        yield "code", escape("\n".join(line[4:] for line in lines))
    else:
        yield "text", inline(" ".join(line.strip() for line in lines))


def breakable(opcode: str) -> Markup:
    """An opcode that may be broken at its dots."""
    return Markup("<wbr>.").join(opcode.split("."))


def inline(text: str) -> Markup:
    """Text with `code` marked."""
    out, at = Markup(""), 0
    for match in _CODE.finditer(text):
        out += escape(text[at : match.start()]) + Markup("<code>{}</code>").format(match[1])
        at = match.end()
    return out + escape(text[at:])

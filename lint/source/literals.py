"""String literals joined over adjacency, macros and stringised arguments, each character with its place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.location import JoinedText, Run

if TYPE_CHECKING:
    from ptxguard.location import SourceFile

_ESCAPE = re.compile(r"\\(?:\r?\n|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]+|[0-7]{1,3}|[\s\S])")
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}


@dataclass(frozen=True)
class Piece:
    """Characters of a joined text before they get their position in it.

    Attributes:
        text: characters, escapes resolved.
        file: the file they come from.
        offset: where they begin there.
        source_length: characters they take there.
    """

    text: str
    file: SourceFile
    offset: int
    source_length: int


def literal_pieces(token: str, file: SourceFile, offset: int) -> list[Piece]:
    """Pieces of one string literal token that stands at an offset, prefix and quotes stripped."""
    quote = token.index('"')
    if token[:quote].endswith("R"):
        opening = token.index("(") + 1
        inner = token[opening : len(token) - (opening - quote)]
        return [Piece(inner, file, offset + opening, len(inner))]
    return unescape(token[quote + 1 : -1], file, offset + quote + 1)


def unescape(inner: str, file: SourceFile, offset: int) -> list[Piece]:
    """Pieces of the inside of an ordinary literal; each escape is a piece of its own."""
    if "\\" not in inner:
        return [Piece(inner, file, offset, len(inner))] if inner else []
    pieces: list[Piece] = []
    position = 0
    for found in _ESCAPE.finditer(inner):
        if found.start() > position:
            plain = inner[position : found.start()]
            pieces.append(Piece(plain, file, offset + position, len(plain)))
        position = found.end()
        value = _escape_value(found.group())
        if value:
            pieces.append(Piece(value, file, offset + found.start(), position - found.start()))
    if position < len(inner):
        pieces.append(Piece(inner[position:], file, offset + position, len(inner) - position))
    return pieces


def _escape_value(escape: str) -> str:
    body = escape[1:]
    if body in ("\n", "\r\n"):
        return ""  # a spliced line
    if body[0] in _SIMPLE and len(body) == 1:
        return _SIMPLE[body]
    if body[0] in "xuU" and len(body) > 1:
        return chr(min(int(body[1:], 16), 0x10FFFF))
    if body[0].isdigit():
        return chr(int(body, 8)) if body[0] < "8" else body
    return body


def join(pieces: list[Piece]) -> JoinedText:
    """One text with a run per piece."""
    runs, position = [], 0
    for piece in pieces:
        runs.append(Run(position, len(piece.text), piece.file, piece.offset, piece.source_length))
        position += len(piece.text)
    return JoinedText("".join(piece.text for piece in pieces), tuple(runs))

"""Python string literals and format strings as pieces, each character with its place; fields become holes."""

from __future__ import annotations

import re
import string
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.source.literals import Piece

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from ptxguard.source.python import PythonFile

# Stands for one field of a text whose value is not in sight (a private-use character: never part of PTX).
HOLE = "\ue000"

_ESCAPE = re.compile(
    r"\\(?:\r?\n|N\{[^}]*\}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|[0-7]{1,3}|[\s\S])"
)
_SIMPLE = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
    "\\": "\\", "'": "'", '"': '"',
}  # fmt: skip
_PERCENT = re.compile(r"%(?:\((\w+)\))?[-#0 +]*(?:\*|\d+)?(?:\.(?:\*|\d+))?([diouxXeEfFgGcrsa%])")


@dataclass(frozen=True)
class Hole(Piece):
    """A field whose value is not in sight.

    Attributes:
        reason: one sentence that says what is missing.
    """

    reason: str = ""


Pieces = tuple[Piece, ...]
# Reads the expression of an f-string field.
FieldReader = "Callable[[Node], list[Pieces] | None]"


def literal_parts(node: Node, unit: PythonFile) -> Iterator[Piece | Node]:
    """Pieces of one string literal; the fields of an f-string come as their syntax nodes."""
    for child in node.children:
        if child.type == "string_content":
            yield from _content(child, unit)
        elif child.type == "interpolation":
            yield child


def _content(node: Node, unit: PythonFile) -> Iterator[Piece]:
    place = node.start_byte
    for escape in node.children:
        if escape.type not in ("escape_sequence", "escape_interpolation"):
            continue
        yield from _plain(place, escape.start_byte, unit)
        written = unit.text(escape)
        value = written[0] if escape.type == "escape_interpolation" else _escaped(written)
        yield Piece(value, unit.file, unit.offset(escape.start_byte), len(written))
        place = escape.end_byte
    yield from _plain(place, node.end_byte, unit)


def _plain(start: int, end: int, unit: PythonFile) -> Iterator[Piece]:
    if start < end:
        text = unit.data[start:end].decode("utf-8", "surrogatepass")
        yield Piece(text, unit.file, unit.offset(start), len(text))


def _escaped(written: str) -> str:
    """What an escape stands for; one that Python does not know stays as it is (lexical analysis, 2.5.1)."""
    body = written[1:]
    if body in ("\n", "\r\n"):
        return ""
    if body in _SIMPLE:
        return _SIMPLE[body]
    if body.startswith("N{"):
        try:
            return unicodedata.lookup(body[2:-1])
        except KeyError:
            return written
    if body[0] in "xuU" and len(body) > 1:
        return chr(min(int(body[1:], 16), 0x10FFFF))
    if body[0] in "01234567":
        return chr(int(body, 8))
    return written


def hole(node: Node, unit: PythonFile, reason: str) -> Hole:
    """A field that stands where a node stands."""
    start, end = unit.offset(node.start_byte), unit.offset(node.end_byte)
    return Hole(HOLE, unit.file, start, end - start, f"{reason} ({unit.file.path}:{unit.line(node)})")


def cut(pieces: Pieces, start: int, end: int) -> Pieces:
    """The pieces of the characters from start to end of a text."""
    found: list[Piece] = []
    place = 0
    for piece in pieces:
        low, high = max(start - place, 0), min(end - place, len(piece.text))
        if low < high:
            whole = low == 0 and high == len(piece.text)
            linear = len(piece.text) == piece.source_length
            if whole or not linear:
                found.append(piece)
            else:
                found.append(Piece(piece.text[low:high], piece.file, piece.offset + low, high - low))
        place += len(piece.text)
    return tuple(found)


def text_of(pieces: Pieces) -> str:
    """The characters of pieces; a field is one `HOLE`."""
    return "".join(piece.text for piece in pieces)


@dataclass(frozen=True)
class Field:
    """A field of a format string: where it stands, and the argument that it takes."""

    start: int
    end: int
    key: str
    literal: str = ""


def brace_fields(text: str) -> list[Field] | None:
    """Fields of a `str.format` text in order; `{{` and `}}` come as literal braces. None if malformed."""
    fields: list[Field] = []
    place = number = 0
    while place < len(text):
        char = text[place]
        if text.startswith(("{{", "}}"), place):
            fields.append(Field(place, place + 2, "", char))
            place += 2
        elif char == "{":
            close = _closing(text, place)
            if close < 0:
                return None
            name = re.split(r"[!:]", text[place + 1 : close], maxsplit=1)[0]
            if not name:
                name, number = str(number), number + 1
            fields.append(Field(place, close + 1, name))
            place = close + 1
        elif char == "}":
            return None
        else:
            place += 1
    return fields


def _closing(text: str, place: int) -> int:
    depth = 0
    for index in range(place, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return index
    return -1


def percent_fields(text: str) -> list[Field]:
    """Fields of a `%` text in order; `%%` comes as a literal."""
    fields, number = [], 0
    for found in _PERCENT.finditer(text):
        if found[2] == "%":
            fields.append(Field(found.start(), found.end(), "", "%"))
        else:
            fields.append(Field(found.start(), found.end(), found[1] or str(number)))
            number += 1
    return fields


def template_fields(text: str) -> list[Field]:
    """Fields of a `string.Template` text; `$$` comes as a literal."""
    fields = []
    for found in string.Template.pattern.finditer(text):
        name = found["named"] or found["braced"]
        if name:
            fields.append(Field(found.start(), found.end(), name))
        elif found["escaped"]:
            fields.append(Field(found.start(), found.end(), "", "$"))
    return fields

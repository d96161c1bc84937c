"""Format strings (`%`, `str.format`, templates) with their fields replaced by what the arguments can be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ptxguard.source.literals import Piece
from ptxguard.source.pythonliterals import (
    Hole,
    cut,
    text_of,
)
from ptxguard.source.pythonparts import Text, Texts, joined

if TYPE_CHECKING:
    from collections.abc import Callable

    from tree_sitter import Node

    from ptxguard.source.pythonframe import Frame
    from ptxguard.source.pythonliterals import Field
    from ptxguard.source.pythontext import PythonTexts


def filled(
    reader: PythonTexts,
    texts: Texts,
    fields_of: Callable[[str], list[Field] | None],
    values: dict[str, Node],
    frame: Frame,
    depth: int,
) -> Texts:
    """Format strings with their fields replaced by what the arguments can be."""
    if texts is None:
        return None
    found: list[Text] = []
    for text in texts:
        fields = fields_of(text_of(text.pieces))
        if fields is None:
            found.append(text)
            continue
        complete = _fill_one(reader, text, fields, values, frame, depth)
        if complete is None:
            return None
        found.extend(complete)
    return found


def _fill_one(
    reader: PythonTexts, text: Text, fields: list[Field], values: dict[str, Node], frame: Frame, depth: int
) -> Texts:
    parts: list[Texts] = []
    place = 0
    for one in fields:
        parts.append([Text(cut(text.pieces, place, one.start))])
        pieces = cut(text.pieces, one.start, one.end)
        file, offset = pieces[0].file, pieces[0].offset
        length = pieces[-1].offset + pieces[-1].source_length - offset
        if one.literal:
            parts.append([Text((Piece(one.literal, file, offset, length),))])
        elif one.key in values:
            parts.append(reader.read(values[one.key], frame, depth + 1))
        else:
            reason = f"the field {one.key} has no value in sight ({file.path}:{file.position(offset)[0]})"
            parts.append([Text((Hole("\ue000", file, offset, length, reason),))])
        place = one.end
    parts.append([Text(cut(text.pieces, place, len(text_of(text.pieces))))])
    filled = joined(parts)
    return None if filled is None else [replace(one, branches=text.branches + one.branches) for one in filled]

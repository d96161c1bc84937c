"""C++ and PTX modules inside Python strings (raw kernels, NVRTC, generators) as files of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.location import JoinedFile
from ptxguard.source.candidates import CPP_MARKS
from ptxguard.source.literals import Piece, join
from ptxguard.source.pythonframe import Frame
from ptxguard.source.pythonliterals import Hole
from ptxguard.source.templates import FIELD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from ptxguard.source.python import PythonFile
    from ptxguard.source.pythonparts import Text
    from ptxguard.source.pythonprogram import PythonProgram

_TEXT_MARKS = tuple(mark.decode() for mark in CPP_MARKS)
_PTX_MARKS = (".version", ".target", ".address_size")
# A generator with more variants than this is judged by the first ones; each holds the same literals.
_MAX_VARIANTS = 4
_JOINING = ("concatenated_string", "parenthesized_expression")
_PROSE = ("comparison_operator", "assert_statement", "raise_statement", "type")
_TALK = frozenset("print warn warning error info debug exception fail skip log write".split())


def cpp_texts(unit: PythonFile, program: PythonProgram) -> list[JoinedFile]:
    """C++ texts of a Python file, fields without a value in sight as names."""
    return [file for file in _texts(unit, program) if _is_cpp(file.text)]


def ptx_texts(unit: PythonFile, program: PythonProgram) -> list[JoinedFile]:
    """PTX modules of a Python file."""
    return [file for file in _texts(unit, program) if is_module(file.text)]


def is_module(text: str) -> bool:
    """Whether a text is a PTX module."""
    return all(mark in text for mark in _PTX_MARKS)


def _is_cpp(text: str) -> bool:
    if is_module(text):
        return False
    asm = "asm" in text and ";" in text and "(" in text
    return asm or any(mark in text for mark in _TEXT_MARKS)


def _texts(unit: PythonFile, program: PythonProgram) -> Iterator[JoinedFile]:
    done: set[int] = set()
    for literal in unit.captures.get("string", ()):
        node = _outermost(literal, unit)
        if node.id in done:
            continue
        done.add(node.id)
        written = unit.text(node)
        if not (_is_cpp(written) or is_module(written)) or _is_prose(node, unit):
            continue
        texts = program.texts.of(node, Frame(unit.scope_at(node)))
        for text in (texts or [])[:_MAX_VARIANTS]:
            yield JoinedFile.of(join(_named(text)), unit.file)


def _named(text: Text) -> list[Piece]:
    """Pieces with fields as names."""
    return [
        Piece(FIELD, one.file, one.offset, one.source_length) if isinstance(one, Hole) else one
        for one in text.pieces
        if one.text
    ]


def _outermost(node: Node, unit: PythonFile) -> Node:
    """The whole expression that joins a literal with others: adjacency, `+`, `%`, a method of the string."""
    while node.parent is not None:
        around = node.parent
        sign = around.child_by_field_name("operator")
        joins = around.type in _JOINING or (
            around.type == "binary_operator" and sign is not None and unit.text(sign) in ("+", "%")
        )
        if joins:
            node = around
            continue
        method = around.type == "attribute" and around.child_by_field_name("object") == node
        if method and around.parent is not None and around.parent.type == "call":
            node = around.parent
            continue
        return node
    return node


def _is_prose(node: Node, unit: PythonFile) -> bool:
    """Whether a string is never code: a docstring, a message, something that is compared with."""
    around = node.parent
    if around is None or around.type == "expression_statement":
        return True
    while around is not None and around.type not in ("block", "module"):
        if around.type in _PROSE:
            return True
        if around.type == "call" and unit.callee(around) in _TALK:
            return True
        around = around.parent
    return False

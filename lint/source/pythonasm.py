"""Asm calls in Python: which argument is the PTX text, how it names its operands, what it does to an address.

Three families: LLVM text with `$0` (`llvm.inline_asm`), the same over tensors
(`tl.inline_asm_elementwise`), and NVVM text with `{$r0}` (`cute.arch.inline_ptx`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.source.literals import Piece, join
from ptxguard.source.pythonliterals import HOLE, Hole, cut, text_of
from ptxguard.source.templates import FIELD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from ptxguard.location import JoinedText
    from ptxguard.source.python import PythonFile
    from ptxguard.source.pythonliterals import Pieces
    from ptxguard.source.pythonscope import Scope

SINK_WORDS = (b"inline_asm", b"inline_ptx")
_SINK = re.compile(r"_*(?:\w+_)?inline_(asm|ptx)(_elementwise)?(?:_hl)?\Z")
_TEXT_KEYWORDS = ("asm", "asm_string", "asm_str", "ptx", "ptx_code", "code")
_OPERAND_KEYWORDS = ("operands", "operands_", "args", "inputs")
_STRINGS = ("string", "concatenated_string", "binary_operator", "parenthesized_expression")

# LLVM: `$$` is a dollar; NVVM: `{$r0}` is the first read-only operand.
_LLVM_ESCAPE = re.compile(r"\$\$")
_NVVM_OPERAND = re.compile(r"\{\$((?:r|w|rw)\d+)\}")


@dataclass(frozen=True, eq=False)
class AsmCall:
    """A call that takes PTX.

    Attributes:
        node: the call.
        scope: where it stands.
        family: llvm, elementwise or nvvm.
        text: expression of the PTX text.
        constraints: expression of the constraint string, or None.
        operands: expressions of operand lists by role: "" (all inputs), r, w, rw.
    """

    node: Node
    scope: Scope
    family: str
    text: Node
    constraints: Node | None
    operands: dict[str, Node]

    @property
    def line(self) -> int:
        """1-based line of the call."""
        return self.scope.unit.line(self.node)


def asm_calls(unit: PythonFile) -> Iterator[AsmCall]:
    """Every asm call of a file, in order."""
    names = {name: name for name in unit.calls if _SINK.match(name)}
    names.update(_aliases(unit))
    found = []
    for name, original in names.items():
        for node in unit.calls.get(name, ()):
            call = read_asm_call(node, unit.scope_at(node), original)
            if call is not None:
                found.append(call)
    yield from sorted(found, key=lambda call: call.node.start_byte)


def _aliases(unit: PythonFile) -> dict[str, str]:
    """Other names of an asm function: `asm = llvm.inline_asm`, `from … import inline_asm as asm`."""
    found = {}
    for scope in unit.scopes:
        for name, bindings in scope.bindings.items():
            for binding in bindings:
                original = (binding.imported[2] or "") if binding.imported is not None else ""
                plain = binding.kind == "assign" and not binding.path
                if plain and binding.value is not None and binding.value.type in ("attribute", "identifier"):
                    original = unit.text(binding.value).rpartition(".")[2]
                if _SINK.match(original) and not _SINK.match(name):
                    found[name] = original
    return found


def is_wrapper(scope: Scope) -> bool:
    """Whether a function is itself one of the family, so that its callers are read instead."""
    return _SINK.match(scope.name) is not None


def read_asm_call(node: Node, scope: Scope, name: str) -> AsmCall | None:
    """A call taken apart by the name of what it calls; None where it holds no text argument."""
    matched = _SINK.match(name)
    if matched is None:
        return None
    family = "nvvm" if matched[1] == "ptx" else "elementwise" if matched[2] else "llvm"
    listed = node.child_by_field_name("arguments")
    plain: list[Node] = []
    named: dict[str, Node] = {}
    for one in listed.named_children if listed is not None else ():
        key, value = one.child_by_field_name("name"), one.child_by_field_name("value")
        if one.type == "keyword_argument" and key is not None and value is not None:
            named[scope.unit.text(key)] = value
        elif one.type != "comment":
            plain.append(one)
    text = next((named[key] for key in _TEXT_KEYWORDS if key in named), None)
    place = -1
    if text is None:
        place = _text_place(plain, family)
        text = plain[place] if 0 <= place < len(plain) else None
    if text is None:
        return None
    constraints = named.get("constraints") or (plain[place + 1] if 0 <= place + 1 < len(plain) else None)
    return AsmCall(node, scope, family, text, constraints, _operand_lists(plain, named, place, family))


def _text_place(plain: list[Node], family: str) -> int:
    """Position of the text: the third argument of `llvm.inline_asm`, the first one of the others."""
    usual = 2 if family == "llvm" else 0
    if len(plain) > usual and plain[usual].type not in ("list", "none"):
        return usual
    return next((place for place, one in enumerate(plain) if one.type in _STRINGS), usual)


def _operand_lists(plain: list[Node], named: dict[str, Node], place: int, family: str) -> dict[str, Node]:
    if family == "nvvm":
        roles = {"read_only_args": "r", "write_only_args": "w", "read_write_args": "rw"}
        return {role: named[key] for key, role in roles.items() if key in named}
    given = next((named[key] for key in _OPERAND_KEYWORDS if key in named), None)
    usual = place - 1 if family == "llvm" else place + 2
    if given is None and 0 <= usual < len(plain):
        given = plain[usual]
    return {"": given} if given is not None else {}


def joined(pieces: Pieces, family: str) -> tuple[JoinedText, list[tuple[int, Hole]]]:
    """The text as PTX, and where fields stand in it that have no value in sight.

    A field between statements is left out; one inside a statement becomes a name.
    """
    found: list[Piece] = []
    holes: list[tuple[int, Hole]] = []
    size = 0
    for piece in _translated(pieces, family):
        if isinstance(piece, Hole):
            before = "".join(one.text for one in found).rstrip()
            written = FIELD if before and before[-1] not in ";{}" else ""
            holes.append((size, piece))
            if not written:
                continue
            found.append(Piece(written, piece.file, piece.offset, piece.source_length))
        else:
            found.append(piece)
        size += len(found[-1].text)
    return join(found), holes


def _translated(pieces: Pieces, family: str) -> list[Piece]:
    """Pieces with what LLVM or NVVM replaces before ptxas sees the text."""
    pattern = _NVVM_OPERAND if family == "nvvm" else _LLVM_ESCAPE
    text = text_of(pieces)
    found: list[Piece] = []
    place = 0
    for match in pattern.finditer(text):
        found.extend(cut(pieces, place, match.start()))
        covered = cut(pieces, match.start(), match.end())
        written = f"%[{match[1]}]" if family == "nvvm" else "$"
        length = covered[-1].offset + covered[-1].source_length - covered[0].offset
        found.append(Piece(written, covered[0].file, covered[0].offset, max(length, 1)))
        place = match.end()
    found.extend(cut(pieces, place, len(text)))
    return found


def operand_place(text: str) -> tuple[str, int] | None:
    """Role and number of a placeholder: `$3` and `${3:x}` as ("", 3), `%[r1]` as ("r", 1)."""
    matched = re.fullmatch(r"\$(?:(\d+)|\{(\d+)(?::\w+)?\})|%\[([rw]+)(\d+)\]", text)
    if matched is None:
        return None
    if matched[3]:
        return matched[3], int(matched[4])
    return "", int(matched[1] or matched[2])


def output_count(constraints: str) -> int:
    """Operands of an LLVM constraint string that the asm writes: they count first and are not in the list."""
    return sum(1 for one in constraints.split(",") if one.strip().startswith("="))


def has_field(text: str) -> bool:
    """Whether a text holds a field without a value."""
    return HOLE in text or FIELD in text

"""Finds statements in the body of a PTX function: those with some words, and those that define a register."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ptxguard.model import Operand
from ptxguard.source.ptx import parse_asm
from ptxguard.source.ptxvariables import declared_variables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.model import Instruction
    from ptxguard.source.ptxvariables import Variable

# A statement begins behind `;`, a brace, a label or a line directive; guard and opcode follow, then what it
# writes. Operands are taken as text: a body has thousands of definitions, and few are ever asked for.
_DEFINITION = re.compile(
    r"(?:^|[;{}:\n])[ \t\r]*(?:@\s*!?\s*[\w$%]+\s+)?(?P<opcode>[a-z]\w*(?:\.[\w:]+)*)\s+"
    r"(?P<results>[\w$%|]+|\{[^{}]*\}|\([^()]*\))\s*,(?P<sources>[^;]*)"
)
_NAMES = re.compile(r"[\w$%]+")
_SHARED = re.compile(r"\.shared\s")
_SOURCE = re.compile(r"\s*(\[[^\]]*\]|\{[^}]*\}|\([^)]*\)|[^,\[\]{}()]+)\s*,?")
_CALL = re.compile(
    r"\bcall(?<![.$%]call)(?:\.uni)?\s+(?:(?:\([^()]*\)|_)\s*,\s*)?(?P<name>[\w$%]+)\s*(?:,\s*\((?P<arguments>[^()]*)\))?"
)
# Above one of these, definitions are looked up in an index of the body.
_INDEX_CHARACTERS = 200_000
_INDEX_REGISTERS = 60
_BEHIND_RESULT = frozenset(",|}) \t\r\n")
_BEFORE = re.compile(r"(?:\s|[{}]|[\w$%]+\s*:(?!:)|\.loc\b[^\n]*|\.file\b[^\n]*)*")


@dataclass(frozen=True)
class Definition:
    """An instruction that writes a register, its operands as text.

    Attributes:
        opcode: the whole dotted text.
        results: registers that it writes, in order.
        sources: operands that it reads, in order.
        offset: of the opcode in the module.
    """

    opcode: str
    results: tuple[str, ...]
    sources: tuple[str, ...]
    offset: int


@dataclass(frozen=True)
class Call:
    """A `call`: the name of the function or of the register that holds it, and the arguments' names."""

    name: str
    arguments: tuple[str, ...]
    offset: int


class Body:
    """One function body.

    Attributes:
        text: the body, comments blanked.
        base: offset of its first character in the module.
    """

    def __init__(self, text: str, base: int) -> None:
        self.text = text
        self.base = base
        self._found: dict[str, tuple[Definition, ...]] = {}

    def instructions_with(self, words: str) -> Iterator[Instruction]:
        """The instructions whose opcode holds the words, parsed, offsets into the module.

        Raises:
            ParseError: such a statement cannot be parsed; `offset` is that in the module.
        """
        position = self.text.find(words)
        while position >= 0:
            start = self.text.rfind(";", 0, position) + 1
            end = self.text.find(";", position)
            end = len(self.text) if end < 0 else end + 1
            before = _BEFORE.match(self.text, start, end)
            start = before.end() if before else start
            for instruction in self._parse(start, end):
                if words in instruction.opcode:
                    yield _moved(instruction, self.base + start)
            position = self.text.find(words, end)

    def _parse(self, start: int, end: int) -> tuple[Instruction, ...]:
        from ptxguard.errors import ParseError

        try:
            return parse_asm(self.text[start:end])
        except ParseError as error:
            raise ParseError(error.message, offset=self.base + start + (error.offset or 0)) from None

    def definitions(self, register: str) -> tuple[Definition, ...]:
        """Every instruction of the function that writes the register."""
        if register not in self._found:
            large = len(self.text) > _INDEX_CHARACTERS or len(self._found) > _INDEX_REGISTERS
            matches = self._index.get(register, ()) if large else self._search(register)
            self._found[register] = tuple(map(self._definition, matches))
        return self._found[register]

    def _search(self, register: str) -> Iterator[re.Match[str]]:
        """The definitions of one register, without an index."""
        text, size = self.text, len(register)
        position = text.find(register)
        while position >= 0:
            # Most mentions are addresses or longer names: told by the characters beside them.
            if text[position - 1] != "[" and text[position + size : position + size + 1] in _BEHIND_RESULT:
                match = _DEFINITION.search(text, max(text.rfind(";", 0, position), 0))
                if match is not None and match.start("results") <= position < match.end("results"):
                    if register in _NAMES.findall(match["results"]):
                        yield match
                    position = match.end("results") - size
            position = text.find(register, position + size)

    @cached_property
    def _index(self) -> dict[str, list[re.Match[str]]]:
        index: dict[str, list[re.Match[str]]] = {}
        for match in _DEFINITION.finditer(self.text):
            for name in _NAMES.findall(match["results"]):
                index.setdefault(name, []).append(match)
        return index

    def _definition(self, match: re.Match[str]) -> Definition:
        return Definition(
            match["opcode"],
            tuple(_NAMES.findall(match["results"])),
            tuple(source.strip() for source in _SOURCE.findall(match["sources"]) if source.strip()),
            self.base + match.start("opcode"),
        )

    @cached_property
    def shared_variables(self) -> dict[str, Variable]:
        """The `.shared` variables that the function declares."""
        found = {}
        for match in _SHARED.finditer(self.text):
            position, end = match.start(), self.text.find(";", match.end())
            if position == 0 or self.text[position - 1] in " \t\r\n;{}":  # no opcode: `isspacep.shared`
                start = self.text.rfind(".extern", max(position - 20, 0), position)
                declaration = self.text[start if start >= 0 else position : end]
                for variable in declared_variables(declaration, self.base + position):
                    found[variable.name] = variable
        return found

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Every `call` of the function."""
        return tuple(
            Call(
                match["name"],
                tuple(word.strip() for word in (match["arguments"] or "").split(",") if word.strip()),
                self.base + match.start(),
            )
            for match in _CALL.finditer(self.text)
        )

    def stored_parameter(self, name: str, before: int) -> str | None:
        """What the last `st.param` in front of a module offset puts into a call's parameter, as text."""
        pattern = (
            rf"(?<![\w.])st\.param[\w.:]*\s*\[\s*{re.escape(name)}\s*(?:\+\s*0\s*)?\]\s*,\s*([\w$%]+)\s*;"
        )
        found = None
        for match in re.finditer(pattern, self.text[: before - self.base]):
            found = match[1]
        return found


def _moved(instruction: Instruction, by: int) -> Instruction:
    """The instruction with offsets into the module."""
    return replace(
        instruction,
        operands=tuple(_moved_operand(operand, by) for operand in instruction.operands),
        start=instruction.start + by,
        mnemonic_end=instruction.mnemonic_end + by,
        end=instruction.end + by,
    )


def _moved_operand(operand: Operand, by: int) -> Operand:
    children = tuple(_moved_operand(child, by) for child in operand.children)
    return Operand(operand.kind, operand.text, operand.start + by, operand.end + by, children)

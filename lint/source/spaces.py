"""Where the word `cluster` of a destination is written, and which other copies use the same characters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard import forms
from ptxguard.errors import ParseError
from ptxguard.source.ptx import parse_asm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ptxguard.location import Span
    from ptxguard.model import BulkCopy
    from ptxguard.source.guards import CppFile, Definition
    from ptxguard.source.lexer import AsmStatement
    from ptxguard.source.project import Project

WORD = "cluster"
_SPACE = f"shared::{WORD}"


@dataclass(frozen=True)
class Spelling:
    """The characters that a fix would rewrite.

    Attributes:
        spans: the word, a span for each literal that holds a part of it; empty where it cannot be rewritten.
        users: (path, line, column) of the other asm statements whose copies are spelled with them.
    """

    spans: tuple[Span, ...] = ()
    users: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, eq=False)
class Spaces:
    """Finds spellings in a tree.

    Attributes:
        project: the tree.
        statements: asm statements of a file.
        is_public: whether a file has users outside of the tree, who may need a macro as it is.
    """

    project: Project
    statements: Callable[[CppFile], list[AsmStatement]]
    is_public: Callable[[str], bool]

    def of(self, statement: AsmStatement, copy: BulkCopy) -> Spelling:
        """The spelling of a copy's destination; empty if other text than destinations is made of it."""
        start = word_start(copy)
        if start is None:
            return Spelling()
        spans = tuple(statement.template.spans(start, start + len(WORD)))
        if "".join(span.text for span in spans) != WORD:
            return Spelling()  # spelled with escapes, or over a spliced line
        users: dict[tuple[str, int, int], None] = {}
        for span in spans:
            macro = _macro_around(span, statement)
            if macro is None:
                if not _inside(span, statement):
                    return Spelling()  # an argument of a macro: each use of the macro gives its own
                continue
            if self.is_public(span.path):
                return Spelling()
            for other in self._sharing(macro, statement):
                if not _only_destinations(other, span):
                    return Spelling()
                users[place_of(other)] = None
        users.pop(place_of(statement), None)
        return Spelling(spans, tuple(users))

    def _sharing(self, macro: Definition, statement: AsmStatement) -> Iterator[AsmStatement]:
        """Asm statements (this one too) that are made with a macro."""
        yield statement
        for unit in self.project.with_word(macro.name):
            if unit is macro.unit or self.project.connected(unit, macro.unit):
                yield from (other for other in self.statements(unit) if macro in other.macros)


def word_start(copy: BulkCopy) -> int | None:
    """Where `cluster` of the destination's space begins in the parsed text; None where it has none."""
    at = copy.opcode.find(_SPACE)
    if not copy.is_cluster_load or at < 0:
        return None
    # The opcode has no spaces; written text may have some, and then it is longer.
    instruction = copy.instruction
    whole = instruction.mnemonic_end - instruction.start == len(copy.opcode)
    return instruction.start + at + len("shared::") if whole else None


def place_of(statement: AsmStatement) -> tuple[str, int, int]:
    """(path, line, column) of the keyword of a statement."""
    return (statement.unit.file.path, *statement.unit.file.position(statement.offset))


def _inside(span: Span, statement: AsmStatement) -> bool:
    return span.file is statement.unit.file and statement.offset <= span.start < statement.end


def _macro_around(span: Span, statement: AsmStatement) -> Definition | None:
    """The macro in whose value a span lies; None where it stands in the statement itself."""
    for macro in statement.macros:
        if macro.unit.file is span.file and macro.value_offset <= span.start < macro.end:
            return macro
    return None


def _only_destinations(statement: AsmStatement, span: Span) -> bool:
    """Whether each place where a statement uses the characters is the destination of a unicast copy."""
    used = {
        run.start + span.start - run.offset
        for run in statement.template.runs
        if run.file is span.file and run.offset <= span.start < run.offset + run.source_length
    }
    if not used:
        return True
    try:
        instructions = parse_asm(statement.template.text)
    except ParseError:
        return False
    copies = [copy for one in instructions if (copy := forms.read_bulk_copy(one)) is not None]
    written: set[int] = set()
    for copy in copies:
        start = None if copy.multicast else word_start(copy)
        if start is not None:
            written.update(range(start, start + len(WORD)))
    return used <= written

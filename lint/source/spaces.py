"""Where the word `cluster` of a destination is written, and which other copies use the same characters."""

from __future__ import annotations

from dataclasses import dataclass, field
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
# Macros made with one another; more are a code generator's.
_MAX_NAMES = 64
_SPACE = f"shared::{WORD}"


# (path, line, column) of the keyword of an asm statement.
Place = tuple[str, int, int]


@dataclass(frozen=True)
class Spelling:
    """The characters that a fix would rewrite.

    Attributes:
        spans: the word, a span for each literal that holds a part of it; empty where it cannot be rewritten.
        users: (path, line, column) of the other asm statements whose copies are spelled with them.
    """

    spans: tuple[Span, ...] = ()
    users: tuple[Place, ...] = ()


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
    _known: dict[tuple[Definition, int], tuple[Place, ...] | None] = field(default_factory=dict, repr=False)

    def of(self, statement: AsmStatement, copy: BulkCopy) -> Spelling:
        """The spelling of a copy's destination; empty if other text than destinations is made of it."""
        start = word_start(copy)
        if start is None:
            return Spelling()
        spans = tuple(statement.template.spans(start, start + len(WORD)))
        if "".join(span.text for span in spans) != WORD:
            return Spelling()  # spelled with escapes, or over a spliced line
        users: dict[Place, None] = {}
        for span in spans:
            macro = _macro_around(span, statement)
            if macro is None:
                if not _inside(span, statement):
                    return Spelling()  # an argument of a macro: each use of the macro gives its own
                continue
            places = self._users(macro, span)
            if places is None:
                return Spelling()
            users.update(dict.fromkeys(places))
        users.pop(place_of(statement), None)
        return Spelling(spans, tuple(users))

    def _users(self, macro: Definition, span: Span) -> tuple[Place, ...] | None:
        """Asm statements spelled with characters of a macro; None where not all of them are copies' words."""
        key = (macro, span.start)
        if key not in self._known:
            self._known[key] = self._find_users(macro, span)
        return self._known[key]

    def _find_users(self, macro: Definition, span: Span) -> tuple[Place, ...] | None:
        names = self._names_made_with(macro)
        if self.is_public(span.path) or len(names) > _MAX_NAMES:
            return None
        users: dict[Place, None] = {}
        for unit in dict.fromkeys(unit for name in names for unit in self.project.with_word(name)):
            if unit is not macro.unit and not self.project.connected(unit, macro.unit):
                continue
            if self._is_handed_on(unit, names):
                return None
            for statement in self.statements(unit):
                if macro not in statement.macros:
                    continue
                if not _only_destinations(statement, span):
                    return None
                users[place_of(statement)] = None
        return tuple(users)

    def _is_handed_on(self, unit: CppFile, names: list[str]) -> bool:
        """Whether code hands a macro to another macro, by which it may reach any asm text."""
        return any(
            definition.parameters is not None
            for name in names
            for index in unit.tokens.positions.get(name, ())
            for callee in _enclosing_calls(unit, index)
            for definition in self.project.definitions(callee)
        )

    def _names_made_with(self, macro: Definition) -> list[str]:
        """A macro's name, and those of the macros whose values are made with it."""
        names = [macro.name]
        for name in names:  # grows while it is walked
            if len(names) > _MAX_NAMES:
                break
            for unit in self.project.with_word(name):
                made = (d for d in unit.definitions if d.value and name in d.value and d.name not in names)
                names += [d.name for d in dict.fromkeys(made) if d.tokens.positions.get(name)]
        return names


def _enclosing_calls(unit: CppFile, index: int) -> Iterator[str]:
    """Names before the parentheses around a token, up to the statement's begin."""
    tokens = unit.tokens
    for at in range(index - 1, 0, -1):
        text = tokens.texts[at]
        if text in (";", "{", "}"):
            return
        if text == "(" and tokens.match.get(at, 0) > index:
            yield tokens.texts[at - 1]


def word_start(copy: BulkCopy) -> int | None:
    """Where `cluster` of the destination's space begins in the parsed text; None where it has none."""
    at = copy.opcode.find(_SPACE)
    if not copy.is_cluster_load or at < 0:
        return None
    # The opcode has no spaces; written text may have some, and then it is longer.
    instruction = copy.instruction
    whole = instruction.mnemonic_end - instruction.start == len(copy.opcode)
    return instruction.start + at + len("shared::") if whole else None


def place_of(statement: AsmStatement) -> Place:
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

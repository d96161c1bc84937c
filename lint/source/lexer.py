"""Inline asm statements in C++: template joined from literals and macros, operands split, `#if` followed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ptxguard.source.candidates import ASM_WORDS
from ptxguard.source.literals import join
from ptxguard.source.tokens import (
    DIRECTIVE,
    IDENT,
    PUNCT,
    RAW,
    STRING,
    Tokens,
    directive_name,
    statement_tokens,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.location import JoinedText
    from ptxguard.source.guards import CppFile, Definition, Guard
    from ptxguard.source.pieces import Alternatives, Resolver

_QUALIFIERS = frozenset({"volatile", "__volatile__", "__volatile", "inline", "__inline__", "goto"})
# An asm statement with more ways to be preprocessed than this is reported, not enumerated.
MAX_VARIANTS = 64

Condition = tuple["Guard | None", bool]


@dataclass(frozen=True, eq=False)
class AsmOperand:
    """One operand of an asm statement.

    Attributes:
        name: symbolic name of `[name]`, or None.
        constraint: its constraint string, `=r`, `+l`, `h`, `n`; "" where a macro hides it.
        tokens: token stream of the expression.
        indices: indices of the expression's tokens in that stream.
        output: whether it stands in the list of outputs.
    """

    name: str | None
    constraint: str
    tokens: Tokens
    indices: tuple[int, ...]
    output: bool


@dataclass(frozen=True, eq=False)
class AsmStatement:
    """One way in which an asm statement can be preprocessed.

    Attributes:
        unit: the file of the keyword.
        offset: offset of the keyword.
        end: offset behind the closing parenthesis.
        template: the joined text of the instructions.
        operands: outputs then inputs, in the order that `%0`, `%1`, … count.
        conditions: guards that must hold or must not, beyond those around the keyword.
        macros: definitions whose values are part of the text.
        unresolved: macro names without a value in the tree.
        owner: the function-like macro whose body holds the statement, or None.
        volatile: whether it says volatile.
        complete: whether every operand could be read (a macro may stand for several).
    """

    unit: CppFile
    offset: int
    end: int
    template: JoinedText
    operands: tuple[AsmOperand, ...]
    conditions: tuple[Condition, ...]
    macros: tuple[Definition, ...]
    unresolved: tuple[str, ...]
    owner: Definition | None
    volatile: bool
    complete: bool

    @property
    def line(self) -> int:
        """1-based line of the keyword."""
        return self.unit.file.position(self.offset)[0]


def find_statements(
    unit: CppFile, resolver: Resolver, keywords: frozenset[str] = ASM_WORDS
) -> Iterator[AsmStatement | Malformed]:
    """Every asm statement of a file, in every way it can be preprocessed; macro bodies included."""
    text = unit.file.text
    pattern = _keyword_pattern(keywords)
    for found in pattern.finditer(text):
        if unit.is_code(found.start()):
            tokens = statement_tokens(text, found.start())
            yield from _statements_of(unit, found.start(), tokens, resolver, None)
    for definition in unit.definitions:
        if definition.value and pattern.search(definition.value):
            body = definition.tokens
            for word in keywords:
                for index in body.positions.get(word, ()):
                    yield from _statements_of(
                        unit, body.starts[index], _rest(body, index), resolver, definition
                    )


@cache
def _keyword_pattern(keywords: frozenset[str]) -> re.Pattern[str]:
    return re.compile(r"(?<![\w$])(?:" + "|".join(map(re.escape, sorted(keywords))) + r")(?![\w$])")


def _rest(tokens: Tokens, index: int) -> Tokens:
    """Tokens from an index on."""
    return Tokens(tokens.text, tokens.kinds[index:], tokens.texts[index:], tokens.starts[index:])


@dataclass(frozen=True)
class Malformed:
    """An asm statement that cannot be taken apart, with its place and reason."""

    offset: int
    reason: str


def _statements_of(
    unit: CppFile, offset: int, tokens: Tokens | None, resolver: Resolver, owner: Definition | None
) -> Iterator[AsmStatement | Malformed]:
    if tokens is None:
        if _opens_statement(unit.file.text, offset):
            yield Malformed(offset, "asm statement without a closing parenthesis")
        return
    position, volatile, size = 1, False, len(tokens)
    while position < size and tokens.kinds[position] != PUNCT:
        word = tokens.texts[position]
        if word not in _QUALIFIERS and not resolver.is_qualifier(word):
            return  # a variable, a register name, an identifier called asm in another language
        volatile |= "volatile" in word or resolver.is_qualifier(word)
        position += 1
    if position >= size or tokens.texts[position] != "(":
        return
    combinations = list(_branch_combinations(tokens, position + 1, size, unit))
    if len(combinations) > MAX_VARIANTS:
        yield Malformed(offset, f"asm statement with more than {MAX_VARIANTS} preprocessor variants")
        return
    for chosen, conditions in combinations:
        inside = _to_closing(tokens, chosen)
        if inside:
            yield from _variants(unit, tokens, inside, conditions, resolver, owner, volatile=volatile)


def _opens_statement(text: str, offset: int) -> bool:
    return re.compile(r"\w+\s*(?:(?:__)?volatile(?:__)?\s*)?\(\s*\"").match(text, offset) is not None


def _to_closing(tokens: Tokens, chosen: list[int]) -> list[int]:
    """The tokens before the parenthesis that closes the statement."""
    depth = 1
    for place, index in enumerate(chosen):
        if tokens.kinds[index] == PUNCT:
            depth += (tokens.texts[index] == "(") - (tokens.texts[index] == ")")
            if depth == 0:
                return chosen[:place]
    return chosen


def _variants(
    unit: CppFile,
    tokens: Tokens,
    chosen: list[int],
    conditions: tuple[Condition, ...],
    resolver: Resolver,
    owner: Definition | None,
    *,
    volatile: bool,
) -> Iterator[AsmStatement | Malformed]:
    offset, end = tokens.starts[0], tokens.end(chosen[-1])
    sections = _sections(tokens, chosen)
    if not sections[0]:
        return
    template = resolver.resolve(tokens, sections[0], unit, owner)
    if template is None:
        yield Malformed(offset, "asm text of more macros than are followed")
        return
    operands = tuple(_operands(tokens, sections, resolver, unit, owner))
    parts = sum(1 for section in sections[1:3] for _ in _split_commas(tokens, section))
    for alternative in template:
        yield AsmStatement(
            unit,
            offset,
            end,
            join(alternative.pieces),
            operands,
            conditions + alternative.conditions,
            alternative.macros,
            alternative.unresolved,
            owner,
            volatile,
            len(operands) == parts,
        )


def _branch_combinations(
    tokens: Tokens, first: int, last: int, unit: CppFile
) -> Iterator[tuple[list[int], tuple[Condition, ...]]]:
    """Token lists of a range, one for each choice among the `#if` branches inside it."""
    found: list[tuple[list[int], tuple[Condition, ...]]] = [([], ())]
    index = first
    while index < last and len(found) <= MAX_VARIANTS:
        if tokens.kinds[index] != DIRECTIVE:
            for chosen, _ in found:
                chosen.append(index)
            index += 1
            continue
        if directive_name(tokens.texts[index]) not in ("if", "ifdef", "ifndef"):
            index += 1
            continue
        branches, index = _branches(tokens, index, last)
        found = _multiply(found, branches, tokens, unit)
    return iter(found)


def _branches(tokens: Tokens, index: int, last: int) -> tuple[list[tuple[int, int, bool]], int]:
    """(first, last, is_else) token ranges of the branches of the `#if` at an index, and where it ends."""
    branches, depth, start, is_else = [], 0, index + 1, False
    position = index
    while position < last:
        if tokens.kinds[position] == DIRECTIVE:
            name = directive_name(tokens.texts[position])
            if name in ("if", "ifdef", "ifndef"):
                depth += 1
            elif name == "endif":
                depth -= 1
                if depth == 0:
                    break
            elif name in ("else", "elif", "elifdef", "elifndef") and depth == 1:
                branches.append((start, position, is_else))
                start, is_else = position + 1, name == "else"
        position += 1
    branches.append((start, position, is_else))
    return branches, position + 1


def _multiply(
    found: list[tuple[list[int], tuple[Condition, ...]]],
    branches: list[tuple[int, int, bool]],
    tokens: Tokens,
    unit: CppFile,
) -> list[tuple[list[int], tuple[Condition, ...]]]:
    grown = []
    negations: tuple[Condition, ...] = ()
    options: list[tuple[list[int], tuple[Condition, ...]]] = []
    for start, stop, _ in branches:
        guard = unit.guard_at(tokens.end(start - 1))
        for chosen, inner in _branch_combinations(tokens, start, stop, unit):
            options.append((chosen, ((guard, True), *inner)))
        negations += ((guard, False),)
    if not branches[-1][2]:  # no #else: nothing at all is a choice too
        options.append(([], negations))
    for chosen, conditions in found:
        for extra, more in options:
            grown.append(([*chosen, *extra], conditions + more))
    return grown


def _sections(tokens: Tokens, chosen: list[int]) -> list[list[int]]:
    """Template, outputs, inputs, clobbers: split by `:` outside of every bracket; `::` splits twice."""
    sections: list[list[int]] = [[]]
    depth = 0
    for index in chosen:
        text = tokens.texts[index]
        if tokens.kinds[index] == PUNCT:
            depth += (text in "([{") - (text in ")]}") if len(text) == 1 else 0
            if depth == 0 and text in (":", "::") and not _qualifies(tokens, index, sections):
                sections.extend([[]] * len(text))
                sections[-1] = []
                continue
        sections[-1].append(index)
    return sections


def _qualifies(tokens: Tokens, index: int, sections: list[list[int]]) -> bool:
    """Whether a `::` belongs to a name (`A::B` as a template piece) and not to the statement."""
    if tokens.texts[index] != "::" or not sections[-1]:
        return False
    before, after = sections[-1][-1], index + 1
    return tokens.kinds[before] == IDENT and after < len(tokens) and tokens.kinds[after] == IDENT


def _operands(
    tokens: Tokens, sections: list[list[int]], resolver: Resolver, unit: CppFile, owner: Definition | None
) -> Iterator[AsmOperand]:
    for number, section in enumerate(sections[1:3]):
        for part in _split_commas(tokens, section):
            operand = _operand(tokens, part, resolver, unit, owner, output=number == 0)
            if operand is not None:
                yield operand


def _operand(
    tokens: Tokens,
    part: list[int],
    resolver: Resolver,
    unit: CppFile,
    owner: Definition | None,
    *,
    output: bool,
) -> AsmOperand | None:
    name = None
    if len(part) > 2 and tokens.texts[part[0]] == "[":
        name = tokens.texts[part[1]]
        part = part[3:]
    constraint_tokens = []
    while part and (tokens.kinds[part[0]] in (STRING, RAW, IDENT)):
        constraint_tokens.append(part[0])
        part = part[1:]
    constraint = ""
    alternatives: Alternatives | None = resolver.resolve(tokens, constraint_tokens, unit, owner)
    if alternatives and not alternatives[0].unresolved:
        constraint = "".join(piece.text for piece in alternatives[0].pieces)
    if len(part) < 2 or tokens.texts[part[0]] != "(":
        return None
    return AsmOperand(name, constraint, tokens, tuple(part[1:-1]), output)


def _split_commas(tokens: Tokens, section: list[int]) -> Iterator[list[int]]:
    part: list[int] = []
    depth = 0
    for index in section:
        text = tokens.texts[index]
        if tokens.kinds[index] == PUNCT and len(text) == 1:
            depth += (text in "([{") - (text in ")]}")
            if text == "," and depth == 0:
                yield part
                part = []
                continue
        part.append(index)
    if part:
        yield part

"""Preprocessor conditions around a place, evaluated per world: a target (or the host) and a toolkit."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ptxguard.source.condition import UNKNOWN, Value, both, evaluate, negate
from ptxguard.source.tokens import (
    BAD,
    DIRECTIVE,
    Tokens,
    directive_name,
    plain_directive,
    skeleton,
    tokenize,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ptxguard.arch import Target
    from ptxguard.location import SourceFile
    from ptxguard.source.macros import MacroTable

_CONDITION = re.compile(r"#\s*(\w+)\s*(.*)", re.DOTALL)
_UNDEFINED = re.compile(r"#\s*(?:ifndef\s+(\w+)|if\s*!\s*defined\s*\(?\s*(\w+)\s*\)?)\s*")
_DEFINE = re.compile(r"#\s*define\s+(\w+)(\(([^()]*)\))?\s*([\s\S]*)")


@dataclass(frozen=True, eq=False)
class Guard:
    """One `#if`, `#elif` or `#else` branch.

    Attributes:
        text: the directive as written, on one line.
        offset: where it stands in its file.
        parent: the branch around it, or None.
        before: branches of the same `#if` that stand before this one.
        unit: the file it stands in.
    """

    text: str
    offset: int
    parent: Guard | None
    before: tuple[Guard, ...]
    unit: CppFile

    @property
    def line(self) -> int:
        """1-based line of the directive."""
        return self.unit.file.position(self.offset)[0]

    @cached_property
    def is_include_guard(self) -> bool:
        """`#ifndef NAME` directly around `#define NAME` without a value: taken at the first include."""
        words = self.text[1:].split()
        if words[:1] != ["ifndef"] or len(words) < 2:
            return False
        definitions = self.unit.definitions_by_name.get(words[1], [])
        return any(definition.guard is self and definition.value == "" for definition in definitions)

    @property
    def tests_only(self) -> str:
        """NAME of `#ifndef NAME` or `#if !defined(NAME)`: what follows is a default; "" for other tests."""
        found = _UNDEFINED.fullmatch(self.text)
        return (found[1] or found[2]) if found else ""

    def own_value(self, world: World) -> Value:
        """Value of this directive's own expression; 1 for `#else`."""
        found = _CONDITION.match(self.text)
        name, rest = (found[1], found[2]) if found is not None else ("", "")
        if self.is_include_guard:
            return Value(1)
        macros = world.macros_at(self.unit, self.offset)
        if name in ("if", "elif"):
            return evaluate(rest, macros)
        word = rest.split()[0] if rest.split() else ""
        if name in ("ifdef", "elifdef"):
            return macros.defined(word)
        if name in ("ifndef", "elifndef"):
            return negate(macros.defined(word))
        return Value(1)

    def branch_value(self, world: World) -> Value:
        """Whether this branch is taken, seen from inside its parent."""
        value = Value(1)
        for earlier in self.before:
            value = both(value, negate(world.memo(earlier)))
        return both(value, world.memo(self))


@dataclass(frozen=True, eq=False)
class Definition:
    """A `#define` or `#undef`.

    Attributes:
        name: the macro.
        parameters: names, or None for an object-like macro.
        value: replacement text on one line, None for `#undef`.
        value_offset: where the replacement text begins in the file.
        end: offset behind the directive.
        offset: where the directive stands.
        guard: the branch around it, or None.
        unit: its file.
    """

    name: str
    parameters: tuple[str, ...] | None
    value: str | None
    value_offset: int
    end: int
    offset: int
    guard: Guard | None
    unit: CppFile

    @property
    def line(self) -> int:
        """1-based line of the directive."""
        return self.unit.file.position(self.offset)[0]

    @cached_property
    def tokens(self) -> Tokens:
        """Tokens of the replacement text, with offsets in the file."""
        return tokenize(self.unit.file.text, self.value_offset, self.end)


@dataclass(eq=False)
class CppFile:
    """A C++ file as tokens, conditional regions and macro definitions, each computed when asked for.

    Attributes:
        file: decoded text.
        is_unit: whether compilers start from it.
    """

    file: SourceFile
    is_unit: bool = True

    @cached_property
    def tokens(self) -> Tokens:
        """All tokens of the file."""
        return tokenize(self.file.text)

    @cached_property
    def skeleton(self) -> list[tuple[int, int, int]]:
        """Comments, literals and directives, without tokens between them."""
        return skeleton(self.file.text)

    @cached_property
    def _skeleton_starts(self) -> list[int]:
        return [start for _, start, _ in self.skeleton]

    def is_code(self, offset: int) -> bool:
        """Whether an offset lies outside of comments, literals and directives."""
        index = bisect_right(self._skeleton_starts, offset) - 1
        return index < 0 or offset >= self.skeleton[index][2]

    @cached_property
    def _scan(self) -> tuple[list[int], list[Guard | None], list[Definition]]:
        return _read_directives(self)

    @property
    def definitions(self) -> list[Definition]:
        """Every `#define` and `#undef`, in order."""
        return self._scan[2]

    @cached_property
    def definitions_by_name(self) -> dict[str, list[Definition]]:
        """Definitions of each name, in order."""
        table: dict[str, list[Definition]] = {}
        for definition in self.definitions:
            table.setdefault(definition.name, []).append(definition)
        return table

    def guard_at(self, offset: int) -> Guard | None:
        """Innermost branch around an offset."""
        starts, guards, _ = self._scan
        index = bisect_right(starts, offset) - 1
        return guards[index] if index >= 0 else None

    def other_branches(self, guard: Guard) -> list[Guard]:
        """The other branches of the same `#if`, in order."""
        everything = {other for other in self._scan[1] if other is not None}
        found = [other for other in everything if other in guard.before or guard in other.before]
        return sorted(found, key=lambda other: other.offset)

    def unended(self) -> list[tuple[int, str]]:
        """Offset and text of every literal or comment that never ends."""
        return [(start, self.file.text[start:end]) for kind, start, end in self.skeleton if kind == BAD]


def _read_directives(unit: CppFile) -> tuple[list[int], list[Guard | None], list[Definition]]:
    text = unit.file.text
    starts: list[int] = []
    guards: list[Guard | None] = []
    definitions: list[Definition] = []
    current: Guard | None = None
    for kind, offset, end in unit.skeleton:
        if kind != DIRECTIVE:
            continue
        raw = text[offset:end]
        name = directive_name(raw)
        if name in ("define", "undef"):
            definition = _read_definition(raw, offset, current, unit, undef=name == "undef")
            if definition is not None:
                definitions.append(definition)
            continue
        if name in ("if", "ifdef", "ifndef"):
            current = Guard(plain_directive(raw), offset, current, (), unit)
        elif name in ("elif", "else", "elifdef", "elifndef"):
            if current is None:
                continue
            current = Guard(plain_directive(raw), offset, current.parent, (*current.before, current), unit)
        elif name == "endif":
            current = current.parent if current is not None else None
        else:
            continue
        starts.append(offset + len(raw))
        guards.append(current)
    return starts, guards, definitions


def _read_definition(
    raw: str, offset: int, guard: Guard | None, unit: CppFile, *, undef: bool
) -> Definition | None:
    text = raw.lstrip()
    if undef:
        words = plain_directive(text)[1:].split()
        return (
            Definition(words[1], None, None, offset, offset, offset, guard, unit) if len(words) > 1 else None
        )
    found = _DEFINE.match(text.replace("\\\r\n", "   ").replace("\\\n", "  "))
    if found is None:
        return None
    parameters = None
    if found[2] is not None:
        parameters = tuple(word.strip() for word in found[3].split(",") if word.strip())
    value_offset = offset + len(raw) - len(text) + found.start(4)
    return Definition(
        found[1], parameters, plain_directive(found[4]), value_offset, offset + len(raw), offset, guard, unit
    )


@dataclass(eq=False)
class World:
    """One way to compile: a device target or the host, a toolkit, and macros from the command line.

    Attributes:
        target: device target, or None for the host pass.
        toolkit: (major, minor) of the CUDA toolkit.
        defines: `-D` of the user.
        table: macro definitions of the tree.
    """

    target: Target | None
    toolkit: tuple[int, int]
    defines: Mapping[str, str | None]
    table: MacroTable
    _memo: dict[Guard, Value] = field(default_factory=dict, repr=False)
    _taken: dict[Guard, Value] = field(default_factory=dict, repr=False)
    _texts: dict[str, Value] = field(default_factory=dict, repr=False)

    def memo(self, guard: Guard) -> Value:
        """Value of a guard's own expression, computed once."""
        value = self._memo.get(guard)
        if value is None:
            value = self._texts.get(guard.text)
        if value is None:
            self._memo[guard] = UNKNOWN  # a definition that asks for itself learns nothing
            value = self._memo[guard] = guard.own_value(self)
            if self.table.is_placeless(guard.text):
                self._texts[guard.text] = value
        return value

    def holds(self, guard: Guard | None) -> Value:
        """Whether the branch and all branches around it are taken."""
        chain = []
        while guard is not None and guard not in self._taken:
            chain.append(guard)
            guard = guard.parent
        value = self._taken[guard] if guard is not None else Value(1)
        for inner in reversed(chain):
            value = both(value, inner.branch_value(self))
            self._taken[inner] = value
        return value

    def all_hold(self, guards: Iterable[tuple[Guard | None, bool]]) -> Value:
        """Conjunction of guards, each as it is (True) or negated (False)."""
        value = Value(1)
        for guard, wanted in guards:
            own = self.holds(guard)
            value = both(value, own if wanted else negate(own))
        return value

    def macros_at(self, unit: CppFile, offset: int) -> MacrosAt:
        """The macros in force at a place."""
        return MacrosAt(self, unit, offset)


@dataclass(frozen=True, eq=False)
class MacrosAt:
    """What `condition.evaluate` asks: macros in force at one place of one file in one world."""

    world: World
    unit: CppFile
    offset: int

    def defined(self, name: str) -> Value:
        """Whether the macro is defined here."""
        return self.world.table.defined(name, self)

    def expand(self, name: str, arguments: list[str] | None) -> Value:
        """Numeric value of the macro here."""
        return self.world.table.value(name, arguments, self)

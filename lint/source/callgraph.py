"""Who uses a function in the tree: calls told apart by scope, arity and types, launches, escapes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.source.cuda import Function, Structure, read_structure
from ptxguard.source.functors import makes_object, object_uses
from ptxguard.source.quicklook import may_define
from ptxguard.source.tokens import IDENT
from ptxguard.source.types import argument_fits, argument_type, declared_shape
from ptxguard.source.uses import MacroBody, Owner, Use, is_prototype, read_use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ptxguard.source.guards import CppFile, Definition
    from ptxguard.source.project import Project


@dataclass(eq=False)
class Callers:
    """Uses of one function.

    Attributes:
        calls: (use, sure) pairs; not sure where an overload cannot be told apart.
        escapes: uses that are no call: the function is passed on as a value or a template argument.
    """

    calls: list[tuple[Use, bool]] = field(default_factory=list)
    escapes: list[Use] = field(default_factory=list)


@dataclass(eq=False)
class CallGraph:
    """Call graph of a project, computed where it is asked for.

    Attributes:
        project: the tree.
        is_live: whether code at a place of a file can be compiled at all for the targets asked for.
    """

    project: Project
    is_live: Callable[[CppFile, int], bool]
    _structures: dict[CppFile, Structure] = field(default_factory=dict, repr=False)
    _uses: dict[tuple[str, str], list[Use]] = field(default_factory=dict, repr=False)
    _callers: dict[Owner, Callers] = field(default_factory=dict, repr=False)
    _macros: dict[Definition, MacroBody] = field(default_factory=dict, repr=False)
    _named: dict[str, list[Function]] = field(default_factory=dict, repr=False)
    _members: dict[tuple[str, CppFile, str], str] = field(default_factory=dict, repr=False)

    def member_shape(self, name: str, unit: CppFile, record: str = "") -> str:
        """How a class member of that name is declared: array, pointer, object, scalar, or unknown."""
        key = (name.rsplit("::", 1)[-1], unit, record)
        known = self._members.get(key)
        if known is None:
            known = self._members[key] = self._member_shape(*key)
        return known

    def _member_shape(self, name: str, unit: CppFile, record: str) -> str:
        shapes: set[str] = set()
        declared = re.compile(rf"[\w>*&]\s*{re.escape(name)}\s*[;\[={{,:]")
        for home in self.project.with_word(name):
            if home is not unit and not self.project.connected(unit, home):
                continue
            if not declared.search(home.file.text):
                continue
            structure = self.structure(home)
            for index in home.tokens.positions.get(name, ()):
                around = structure.record_at(index)
                function = structure.enclosing(index)
                if around is None or (record and around[0] != record):
                    continue
                if function is not None and around[1] < function.body[0]:
                    continue  # a variable of a method, not a member
                shape = declared_shape(home.tokens.texts, index)
                if shape:
                    shapes.add(shape)
            if len(shapes) > 1:
                break
        return shapes.pop() if len(shapes) == 1 else "unknown"

    def structure(self, unit: CppFile) -> Structure:
        """Functions and classes of a file."""
        known = self._structures.get(unit)
        if known is None:
            known = self._structures[unit] = read_structure(unit)
        return known

    def macro(self, definition: Definition) -> MacroBody:
        """The one object for a macro."""
        return self._macros.setdefault(definition, MacroBody(definition))

    def owner_at(self, unit: CppFile, offset: int) -> Function | None:
        """The function around an offset."""
        return self.structure(unit).enclosing(unit.tokens.at(offset))

    def functions_named(self, name: str) -> list[Function]:
        """Every definition of a function of that name in the tree; "" (the call of a lambda) names none."""
        if not name:
            return []
        known = self._named.get(name)
        if known is None:
            known = []
            for unit in self.project.with_word(name):
                if name.startswith("operator") or may_define(unit.file.text, name):
                    known.extend(f for f in self.structure(unit).functions if f.name == name)
            self._named[name] = known
        return known

    def declarations_named(self, name: str) -> Iterator[Function]:
        """Every declaration without a body of a kernel of that name in the tree."""
        for unit in self.project.with_word(name):
            yield from (found for found in self.structure(unit).declarations if found.name == name)

    def uses(self, name: str, also: str = "") -> list[Use]:
        """Uses of a name in the files that hold it (and `also`), declarations left out."""
        known = self._uses.get((name, also))
        if known is None:
            known = []
            for unit in self.project.with_word(name):
                if also and also not in unit.file.text:
                    continue
                known.extend(self.uses_in(unit, name))
            self._uses[name, also] = known
        return known

    def uses_in(self, unit: CppFile, name: str) -> Iterator[Use]:
        """Uses of a name in one file, macro bodies included, declarations and dead code left out."""
        structure = self.structure(unit)
        headers = {function.name_index for function in (*structure.functions, *structure.declarations)}
        for index in unit.tokens.positions.get(name, ()):
            if index in headers or not self.is_live(unit, unit.tokens.starts[index]):
                continue
            owner = structure.enclosing(index)
            use = read_use(unit, unit.tokens, index, owner)
            if use is not None and not (owner is None and is_prototype(use)):
                yield use
        for definition in unit.definitions:
            if definition.value and name in definition.value and definition.name != name:
                body = definition.tokens
                for index in body.positions.get(name, ()):
                    use = read_use(unit, body, index, self.macro(definition))
                    if use is not None and self.is_live(unit, definition.offset):
                        yield use

    def callers(self, owner: Owner) -> Callers:
        """Calls and escapes of a function or macro."""
        known = self._callers.get(owner)
        if known is None:
            known = self._callers[owner] = self._find_callers(owner)
        return known

    def _find_callers(self, owner: Owner) -> Callers:
        found = Callers()
        record = owner.scope[-1] if isinstance(owner, Function) and owner.in_record and owner.scope else ""
        functor = owner.name == "operator()"
        for use in self.uses(record if functor else owner.name, "" if functor else record):
            if use.owner is owner and use.kind == "name":
                continue
            if not self.project.connected(use.unit, owner.unit):
                continue
            objects = object_uses(use) if functor else None
            for each in [use] if objects is None else objects:
                self._sort_in(found, each, owner)
        return found

    def _sort_in(self, found: Callers, use: Use, owner: Owner) -> None:
        # An object-like macro has no parentheses: each mention of it is its use.
        is_macro = isinstance(owner, MacroBody) and owner.definition.parameters is None
        passed_on = use.owner is not None and owner.name == "operator()" and makes_object(use, owner)
        if passed_on or (use.kind == "name" and not is_macro):
            if passed_on or not _is_shadow(use):
                found.escapes.append(use)
            return
        fit = self.fits(use, owner)
        if fit is not None:
            found.calls.append((use, fit))

    def fits(self, use: Use, owner: Owner) -> bool | None:
        """True: the call means this function; False: it may; None: it cannot."""
        if isinstance(owner, MacroBody):
            return True if not use.qualifiers and use.receiver is None else None
        if not _plausible(use, owner):
            return None
        rivals = [
            other
            for other in self.functions_named(owner.name)
            if other is not owner and _plausible(use, other) and self.project.connected(use.unit, other.unit)
            and not _same_entity(other, owner)
        ]  # fmt: skip
        if owner.name == "operator()":
            rivals = [other for other in rivals if other.scope[-1:] == owner.scope[-1:]]
        elif _is_named(use, owner):
            rivals = [other for other in rivals if _is_named(use, other)]
        elif any(_is_named(use, other) and self._score(use, other)[0] for other in rivals):
            return None
        if _is_specialised_for(use, owner):
            rivals = [other for other in rivals if _is_specialised_for(use, other)]
        elif any(_is_specialised_for(use, other) for other in rivals):
            return None
        if not rivals:
            return True
        own, best = self._score(use, owner), max(self._score(use, rival) for rival in rivals)
        if own[0] and not best[0]:
            return True
        if best[0] and not own[0]:
            return None
        if own[1] != best[1]:
            return True if own[1] > best[1] else None
        return False

    def _score(self, use: Use, function: Function) -> tuple[bool, int]:
        """(argument types can fit, closeness of scope) of a candidate."""
        possible = True
        exact = 0
        for argument, parameter in zip(use.arguments, function.parameters, strict=False):
            kind = argument_type(argument, use.owner, use.tokens)
            fit = argument_fits(
                kind, parameter.type_text, (*function.template_names, *function.record_templates)
            )
            possible &= fit is not False
            exact += fit is True
        if use.receiver is not None:  # the class of the object decides, not where the call stands
            return possible, 4 * exact
        scope = set(use.qualifiers)
        if isinstance(use.owner, Function):
            scope.update(use.owner.scope)
        close = sum(1 for part in function.scope if part and part in scope)
        strangers = sum(1 for part in function.scope if part and part not in scope)
        return possible, 4 * exact + 2 * close - strangers


def _is_shadow(use: Use) -> bool:
    """Whether the name is a variable or member of its own here (`auto copy = …`, `.copy`)."""
    tokens, index = use.tokens, use.index
    previous = tokens.texts[index - 1] if index else ""
    following = tokens.texts[use.after] if use.after < len(tokens) else ""
    if previous in (".", "->"):
        return True
    return following == "=" and (tokens.kinds[index - 1] == IDENT or previous in ("*", "&"))


def _plausible(use: Use, function: Function) -> bool:
    """Whether arity, scope and specialisation let a call mean a function."""
    if function.name != "operator()" and not function.accepts(len(use.arguments)):
        return False
    if use.receiver is not None and not function.in_record:
        return False
    if use.qualifiers:
        last = use.qualifiers[-1]
        named = [part for part in function.scope if part]
        if function.in_record and use.receiver is None and named and last != named[-1] and last in named:
            return False
    elif function.in_record and use.receiver is None and function.name != "operator()":
        inside = (
            isinstance(use.owner, Function) and function.scope[-1:] and function.scope[-1] in use.owner.scope
        )
        if not inside and use.kind != "launch":
            return False
    return function.specialised is None or _specialisation_fits(use.template_arguments, function.specialised)


def _specialisation_fits(given: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    """False only where two literals differ (`f<3, …>` is no call of `f<2, …>`)."""
    for left, right in zip(given, wanted, strict=False):
        literal = left.isdigit() or left in ("true", "false")
        if literal and (right.isdigit() or right in ("true", "false")) and left != right:
            return False
        last_left, last_right = left.rsplit("::", 1)[-1], right.rsplit("::", 1)[-1]
        if "::" in left and "::" in right and last_left != last_right:
            return False
    return True


def _is_named(use: Use, function: Function) -> bool:
    """Whether a call names the class or namespace of a function: stronger than any type.

    `loader::go(…)` does, and `x.go(…)` where `x` is declared as a `loader`.
    """
    if use.receiver is not None:
        declared = argument_type(use.receiver, use.owner, use.tokens)
        kind, _, name = declared.partition(":")
        return kind in ("class", "pointer") and bool(name) and function.scope[-1:] == (name,)
    return bool(use.qualifiers) and function.scope[-1:] == use.qualifiers[-1:]


def _is_specialised_for(use: Use, function: Function) -> bool:
    """Whether a function is the explicit specialisation that a call names in full (C++, temp.expl.spec)."""
    return function.specialised is not None and function.specialised == use.template_arguments


def _same_entity(one: Function, other: Function) -> bool:
    """Whether two definitions are one function in two preprocessor branches."""
    same = one.unit is other.unit and one.scope == other.scope and one.specialised == other.specialised
    types = [p.type_text for p in one.parameters] == [p.type_text for p in other.parameters]
    return same and types and one.unit.guard_at(one.offset) is not other.unit.guard_at(other.offset)

"""The values of a token sequence as one string: literals, macros with their guards, stringised arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.source.literals import Piece, literal_pieces
from ptxguard.source.tokens import IDENT, NUMBER, PUNCT, RAW, STRING, Tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ptxguard.source.guards import CppFile, Definition, Guard, MacrosAt

MAX_ALTERNATIVES = 64
_MAX_DEPTH = 16
# Literals and unresolved names of one asm text: macros that double each other pass it in a dozen levels.
_MAX_PIECES = 4000
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


@dataclass(frozen=True)
class Alternative:
    """One value of a token sequence.

    Attributes:
        pieces: its characters with their places.
        conditions: guards of the macro definitions it took, (guard, must hold).
        macros: those definitions.
        unresolved: names without a value.
    """

    pieces: list[Piece] = field(default_factory=list)
    conditions: tuple[tuple[Guard | None, bool], ...] = ()
    macros: tuple[Definition, ...] = ()
    unresolved: tuple[str, ...] = ()

    def plus(self, other: Alternative) -> Alternative:
        """This value followed by another."""
        return Alternative(
            self.pieces + other.pieces,
            self.conditions + other.conditions,
            self.macros + other.macros,
            self.unresolved + other.unresolved,
        )


Alternatives = list[Alternative]
# A macro argument: the token stream it stands in, its token indices, its file.
Argument = tuple[Tokens, list[int], "CppFile"]
# File and offset at which a macro is used: names in its body mean what they mean there (cpp.rescan).
Place = tuple["CppFile", int]


@dataclass(eq=False)
class Resolver:
    """Resolves string pieces with the macros of the tree.

    Attributes:
        candidates: definitions of a name that can be in force at a place, the winner first.
        place: builds the place (file and offset) that `candidates` wants.
        uses: for a macro that holds an asm statement: the argument lists of its uses in the tree.
    """

    candidates: Callable[[str, MacrosAt], list[Definition]]
    place: Callable[[CppFile, int], MacrosAt]
    uses: Callable[[Definition], list[list[Argument]]]
    qualifiers: frozenset[str] = frozenset()

    def is_qualifier(self, word: str) -> bool:
        """Whether a macro name stands for `volatile` (or nothing) behind the asm keyword."""
        return word in self.qualifiers

    def resolve(
        self, tokens: Tokens, indices: Sequence[int], unit: CppFile, owner: Definition | None
    ) -> Alternatives | None:
        """Every value of the tokens; None where there are too many.

        `owner` is the function-like macro in whose body the tokens stand: its parameters take the
        arguments of every use in the tree.
        """
        if owner is None or not owner.parameters:
            return self._sequence(tokens, list(indices), unit, {}, 0)
        names = set(map(_parameter_name, owner.parameters))
        if not any(tokens.texts[i] in names for i in indices if tokens.kinds[i] == IDENT):
            return self._sequence(tokens, list(indices), unit, {}, 0)
        found: Alternatives = []
        seen: set[str] = set()
        for arguments in self.uses(owner):
            bound = _bind(owner.parameters, arguments)
            values = self._sequence(tokens, list(indices), unit, bound, 0)
            if values is None:
                return None
            for value in values:
                text = "".join(piece.text for piece in value.pieces)
                if text not in seen:
                    seen.add(text)
                    found.append(value)
        if not found:  # nobody uses the macro: its parameters stay unresolved
            return self._sequence(tokens, list(indices), unit, {}, 0)
        return found if len(found) <= MAX_ALTERNATIVES else None

    def _sequence(
        self,
        tokens: Tokens,
        indices: list[int],
        unit: CppFile,
        bound: dict[str, Argument],
        depth: int,
        used: Place | None = None,
    ) -> Alternatives | None:
        found: Alternatives = [Alternative()]
        position = 0
        while position < len(indices):
            values, position = self._one(tokens, indices, position, unit, bound, depth, used)
            if values is None or len(found) * len(values) > MAX_ALTERNATIVES:
                return None
            found = [left.plus(right) for left in found for right in values]
            if any(len(value.pieces) + len(value.unresolved) > _MAX_PIECES for value in found):
                return None
        return found

    def _one(
        self,
        tokens: Tokens,
        indices: list[int],
        position: int,
        unit: CppFile,
        bound: dict[str, Argument],
        depth: int,
        used: Place | None,
    ) -> tuple[Alternatives | None, int]:
        """Values of the piece at a position, and the position behind it."""
        index = indices[position]
        kind, text = tokens.kinds[index], tokens.texts[index]
        if kind in (STRING, RAW):
            return [Alternative(literal_pieces(text, unit.file, tokens.starts[index]))], position + 1
        if kind == PUNCT and text == "#" and position + 1 < len(indices):
            argument = bound.get(tokens.texts[indices[position + 1]])
            if argument is not None:
                return [Alternative(_stringised(argument))], position + 2
        if kind == IDENT:
            return self._named(tokens, indices, position, unit, bound, depth, used)
        if kind == NUMBER or (kind == PUNCT and text not in ("(", ")")):
            return [Alternative(unresolved=(text,))], position + 1
        return [Alternative()], position + 1  # parentheses around pieces

    def _named(
        self,
        tokens: Tokens,
        indices: list[int],
        position: int,
        unit: CppFile,
        bound: dict[str, Argument],
        depth: int,
        used: Place | None,
    ) -> tuple[Alternatives | None, int]:
        index = indices[position]
        name = tokens.texts[index]
        arguments, after = call_arguments(tokens, indices, position + 1, unit)
        if name in bound:
            stream, inner, home = bound[name]
            return self._sequence(stream, inner, home, {}, depth + 1), position + 1
        used = used or (unit, tokens.starts[index])
        definitions = self.candidates(name, self.place(*used))
        if not definitions or depth > _MAX_DEPTH:
            return [Alternative(unresolved=(name,))], position + 1
        values = self._definitions(definitions, arguments, bound, depth, used)
        takes_arguments = any(definition.parameters is not None for definition in definitions)
        return values, after if takes_arguments and arguments is not None else position + 1

    def _definitions(
        self,
        definitions: list[Definition],
        arguments: list[Argument] | None,
        bound: dict[str, Argument],
        depth: int,
        used: Place,
    ) -> Alternatives | None:
        """Values of all definitions, the winner first; a later one needs the earlier ones not to hold."""
        found: Alternatives = []
        losers: tuple[tuple[Guard | None, bool], ...] = ()
        for definition in definitions:
            if definition.value is None:
                losers += ((definition.guard, False),)
                continue
            inner = self._body(definition, arguments, bound, depth, used)
            if inner is None:
                return None
            here = Alternative(conditions=(*losers, (definition.guard, True)), macros=(definition,))
            found.extend(here.plus(value) for value in inner)
            if definition.guard is None:
                break
            losers += ((definition.guard, False),)
        return found if len(found) <= MAX_ALTERNATIVES else None

    def _body(
        self,
        definition: Definition,
        arguments: list[Argument] | None,
        bound: dict[str, Argument],
        depth: int,
        used: Place,
    ) -> Alternatives | None:
        parameters: dict[str, Argument] = {}
        if definition.parameters is not None:
            if arguments is None:
                return [Alternative(unresolved=(definition.name,))]
            parameters = _bind(definition.parameters, self._rebound(arguments, bound))
        body = definition.tokens
        return self._sequence(body, list(range(len(body))), definition.unit, parameters, depth + 1, used)

    @staticmethod
    def _rebound(arguments: list[Argument], bound: dict[str, Argument]) -> list[Argument]:
        """Arguments that are themselves parameters of the macro around."""
        rebound = []
        for stream, indices, home in arguments:
            name = stream.texts[indices[0]] if len(indices) == 1 else ""
            rebound.append(bound.get(name, (stream, indices, home)))
        return rebound


def _bind(parameters: tuple[str, ...], arguments: list[Argument]) -> dict[str, Argument]:
    """Arguments by parameter; `...` takes all that are left under the name `__VA_ARGS__` (cpp.subst)."""
    bound: dict[str, Argument] = {}
    for number, name in enumerate(parameters):
        given = arguments[number : number + 1]
        if name.endswith("..."):
            given = arguments[number:]
        if given:
            stream, first, home = given[0]
            rest = [index for _, indices, _ in given for index in indices]
            whole = list(range(rest[0], rest[-1] + 1)) if len(given) > 1 and rest else first
            bound[_parameter_name(name)] = (stream, whole, home)
    return bound


def _parameter_name(name: str) -> str:
    """The name under which a body uses a parameter: `__VA_ARGS__` for `...`, `args` for GNU's `args...`."""
    return (name.removesuffix("...").strip() or "__VA_ARGS__") if name.endswith("...") else name


def call_arguments(
    tokens: Tokens, indices: Sequence[int], position: int, unit: CppFile
) -> tuple[list[Argument] | None, int]:
    """Arguments of a macro call whose `(` stands at a position, and the position behind its `)`."""
    if position >= len(indices) or tokens.texts[indices[position]] != "(":
        return None, position
    arguments: list[list[int]] = [[]]
    depth = 0
    for place in range(position, len(indices)):
        text = tokens.texts[indices[place]]
        if text in _OPENING:
            depth += 1
            if depth == 1:
                continue
        elif text in _CLOSING:
            depth -= 1
            if depth == 0:
                return [(tokens, part, unit) for part in arguments], place + 1
        if text == "," and depth == 1:
            arguments.append([])
        else:
            arguments[-1].append(indices[place])
    return None, position


def _stringised(argument: Argument) -> list[Piece]:
    stream, indices, home = argument
    if not indices:
        return []
    start, end = stream.starts[indices[0]], stream.end(indices[-1])
    written = home.file.text[start:end]
    if "\n" not in written:
        return [Piece(written, home.file, start, len(written))]
    return [Piece(" ".join(written.split()), home.file, start, end - start)]

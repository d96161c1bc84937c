"""Where a variable of a function gets its value: declarations, assignments, elements, members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.source.cuda import Function
from ptxguard.source.declarators import Parameter, read_parameters
from ptxguard.source.exprs import Node, parse_expression, split_arguments
from ptxguard.source.tokens import DIRECTIVE, IDENT, PUNCT, Tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.source.cuda import Structure
    from ptxguard.source.uses import Owner

_ASSIGN = frozenset({"=", "+=", "-=", "|=", "&=", "^=", "<<=", ">>="})
_NOT_TYPES = frozenset(
    "return else case goto throw delete new co_return typename sizeof in and or not".split()
)


@dataclass(frozen=True)
class Binding:
    """One way in which a variable gets a value.

    Attributes:
        kind: shared (declared `__shared__`), declare (no value), init, assign, update (`+=` and such),
            element (`x[i] = …`), member (`x.m = …`), range (range-for), pass (given to a function that may
            change it).
        node: the value, or None.
        index: token index of the variable's name.
        rank: number of `[]` of a declaration, or of subscripts of an element.
        reference: whether it is declared as a reference.
        type_text: type of a declaration.
        extra: operator of an update, member name, or the callee of a pass.
        position: argument position of a pass.
    """

    kind: str
    node: Node | None
    index: int
    rank: int = 0
    reference: bool = False
    type_text: str = ""
    extra: str = ""
    position: int = 0


def body_of(owner: Owner) -> tuple[Tokens, int, int]:
    """Token stream of a function's or macro's body and its range."""
    if isinstance(owner, Function):
        return owner.unit.tokens, owner.body[0], owner.body[1]
    tokens = owner.definition.tokens
    return tokens, 0, len(tokens)


def bindings(owner: Owner, name: str) -> list[Binding]:
    """Every binding of a variable inside a function or macro body."""
    tokens, first, last = body_of(owner)
    found: list[Binding] = []
    for index in tokens.positions.get(name, ()):
        if first <= index < last:
            found.extend(_binding(tokens, index, first, last))
    return found


def global_bindings(tokens: Tokens, name: str, structure: Structure) -> list[Binding]:
    """Bindings of a variable at namespace scope: the places outside of every function."""
    found: list[Binding] = []
    for index in tokens.positions.get(name, ()):
        if structure.enclosing(index) is None:
            found.extend(
                b for b in _binding(tokens, index, 0, len(tokens)) if b.kind in ("shared", "init", "declare")
            )
    return found


def _binding(tokens: Tokens, index: int, first: int, last: int) -> Iterator[Binding]:
    following = tokens.texts[index + 1] if index + 1 < last else ""
    previous = tokens.texts[index - 1] if index > first else ""
    if previous in (".", "->", "::"):
        return
    declared = _declaration(tokens, index, first)
    if declared is not None:
        yield _declared(tokens, index, last, declared)
        return
    if following in _ASSIGN:
        kind = "assign" if following == "=" else "update"
        yield Binding(kind, _value_after(tokens, index + 2, last), index, extra=following)
    elif following == "[":
        yield from _element(tokens, index, last)
    elif following in (".", "->"):
        yield from _member(tokens, index, last)
    if previous in ("(", ",", "&") and (following in (",", ")")):
        passed = _passed(tokens, index, first)
        if passed is not None:
            yield passed


def _declaration(tokens: Tokens, index: int, first: int) -> str | None:
    """The type in front of a declared name, or None where the place declares nothing."""
    previous_kind, previous = tokens.kinds[index - 1] if index > first else -1, tokens.texts[index - 1]
    if index <= first:
        return None
    if previous == "}" and not _is_class_body(tokens, tokens.match.get(index - 1, 0)):
        return None
    if previous_kind != IDENT and previous not in ("*", "&", "&&", ">", ",", "]", ")", "}"):
        return None
    if previous_kind == IDENT and previous in _NOT_TYPES:
        return None
    start = _statement_start(tokens, index, first)
    words = tokens.texts[start:index] if start is not None else []
    if start is None or not words or not _is_type(tokens, start, index):
        return None
    return " ".join(words)


def _statement_start(tokens: Tokens, index: int, first: int) -> int | None:
    """First token of the declaration a name stands in (behind `;`, a brace, a directive, or `for (`).

    None inside of every other parenthesis: arguments declare nothing.
    """
    place = index - 1
    while place >= first:
        text = tokens.texts[place]
        if tokens.kinds[place] == DIRECTIVE or text in (";", "{", "}", ":"):
            opening = tokens.match.get(place) if text == "}" else None
            if opening is not None and (_is_initialiser(tokens, opening) or _is_class_body(tokens, opening)):
                place = opening - 1
                continue
            return place + 1
        if text in (")", "]"):
            place = tokens.match.get(place, place) - 1
            continue
        if text == "(":
            return place + 1 if tokens.texts[place - 1] in ("for", "if", "while", "switch") else None
        place -= 1
    return first


def _is_class_body(tokens: Tokens, opening: int) -> bool:
    """`struct { … } stage;` declares a variable behind the body of its type."""
    place = opening - 1
    while place > 0 and (tokens.kinds[place] == IDENT or tokens.texts[place] in ("::", ",", "<", ">")):
        if tokens.texts[place] in ("struct", "union", "class"):
            return True
        place -= 1
    return False


def _is_initialiser(tokens: Tokens, opening: int) -> bool:
    before = tokens.texts[opening - 1] if opening > 0 else ""
    return before in ("=", ",", "(") or (
        opening > 0 and tokens.kinds[opening - 1] == IDENT and before not in ("else", "do", "try")
    )


def _is_type(tokens: Tokens, start: int, index: int) -> bool:
    """Whether tokens before a name read as a type (with earlier declarators of the same statement)."""
    depth, seen, place, initialising = 0, False, start, False
    while place < index:
        text, kind = tokens.texts[place], tokens.kinds[place]
        if kind == PUNCT and text in ("(", "[", "{"):
            before = tokens.texts[place - 1] if place > start else ""
            if text == "(" and not initialising and before not in _CALLED_IN_TYPES and not seen:
                return False
            place = tokens.match.get(place, place) + 1
            continue
        if text == "<":
            depth += 1
        elif text == ">":
            depth -= 1
        elif text == "=" and depth == 0:
            initialising = True
        elif text == "," and depth == 0:
            initialising = False
            if not seen:
                return False
        elif not initialising and depth == 0 and kind != IDENT and text not in ("::", "*", "&", "&&", "..."):
            return False
        seen |= kind == IDENT
        place += 1
    return seen and not (initialising and depth == 0)


_CALLED_IN_TYPES = frozenset(
    ["alignas", "__align__", "decltype", "__attribute__", "__launch_bounds__", "for", "typeof"]
)


def _declared(tokens: Tokens, index: int, last: int, type_text: str) -> Binding:
    words = type_text.split()
    reference = words[-1] in ("&", "&&")
    place, rank = index + 1, 0
    while place < last and tokens.texts[place] == "[":
        rank += 1
        place = tokens.match.get(place, place) + 1
    following = tokens.texts[place] if place < last else ""
    if "__shared__" in words:
        return Binding("shared", None, index, rank, reference, type_text)
    node = None
    if following == "=":
        node = _value_after(tokens, place + 1, last)
    elif following in ("(", "{"):
        close = tokens.match.get(place, place)
        parts = [parse_expression(tokens, part) for part in split_arguments(tokens, place + 1, close)]
        node = parts[0] if len(parts) == 1 and following == "(" else Node("init", "", tuple(parts), index)
        if not parts:
            node = None
    elif following == ":":
        return Binding("range", _value_after(tokens, place + 1, last), index, rank, reference, type_text)
    return Binding("init" if node else "declare", node, index, rank, reference, type_text)


def _value_after(tokens: Tokens, start: int, last: int) -> Node:
    """The expression from a token to the `;` or `,` (or closing bracket) that ends it."""
    return parse_expression(tokens, _until_end(tokens, start, last))


def _until_end(tokens: Tokens, start: int, last: int) -> list[int]:
    found: list[int] = []
    place = start
    while place < last:
        text = tokens.texts[place]
        if tokens.kinds[place] == PUNCT:
            if text in ("(", "[", "{"):
                close = tokens.match.get(place, place)
                found.extend(range(place, min(close + 1, last)))
                place = close + 1
                continue
            if text in (";", ")", "]", "}"):
                break
            if text == "," and not _inside_template(tokens, found, place):
                break
        found.append(place)
        place += 1
    return found


def _inside_template(tokens: Tokens, found: list[int], place: int) -> bool:
    depth = 0
    for index in found:
        text = tokens.texts[index]
        depth += (text == "<") - (text == ">")
    return depth > 0 and any(tokens.texts[i] == ">" for i in range(place, min(place + 60, len(tokens))))


def _element(tokens: Tokens, index: int, last: int) -> Iterator[Binding]:
    place, rank = index + 1, 0
    while place < last and tokens.texts[place] == "[":
        rank += 1
        place = tokens.match.get(place, place) + 1
    following = tokens.texts[place] if place < last else ""
    if following == "=":
        yield Binding("element", _value_after(tokens, place + 1, last), index, rank)
    elif following in (",", ")") and tokens.texts[index - 1] in ("(", ",", "&"):
        passed = _passed(tokens, index, index - 4000 if index > 4000 else 0)
        if passed is not None:
            yield passed


def _member(tokens: Tokens, index: int, last: int) -> Iterator[Binding]:
    place, names = index + 1, []
    while place + 1 < last and tokens.texts[place] in (".", "->"):
        names.append(tokens.texts[place + 1])
        place += 2
        while place < last and tokens.texts[place] == "[":
            place = tokens.match.get(place, place) + 1
    if names and place < last and tokens.texts[place] == "=":
        yield Binding("member", _value_after(tokens, place + 1, last), index, extra=".".join(names))


def _passed(tokens: Tokens, index: int, first: int) -> Binding | None:
    """The call that gets a bare variable (or its address) as an argument."""
    place, position = index - 1, 0
    by_address = tokens.texts[place] == "&"
    if by_address:
        place -= 1
    while place > first:
        text = tokens.texts[place]
        if text in (")", "]", "}"):
            place = tokens.match.get(place, place) - 1
            continue
        if text == ",":
            position += 1
        elif text == "(":
            break
        elif text in (";", "{"):
            return None
        place -= 1
    callee = place - 1
    if callee <= first:
        return None
    if tokens.texts[callee] == ">":
        depth = 0
        while callee > first:
            depth += (tokens.texts[callee] == ">") - (tokens.texts[callee] == "<")
            callee -= 1
            if depth == 0:
                break
    if tokens.kinds[callee] != IDENT:
        return None
    return Binding("pass", None, index, rank=int(by_address), extra=tokens.texts[callee], position=position)


@dataclass(frozen=True)
class Lambda:
    """A lambda with a name: `auto f = [&](int i) { … };`.

    Attributes:
        name: the variable that holds it.
        parameters: its parameters.
        body: token range of its body.
    """

    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[int, int]


def lambdas(owner: Owner) -> list[Lambda]:
    """Every lambda of a function with parameters, in order; an inner one stands behind the one around it."""
    tokens, first, last = body_of(owner)
    found: list[Lambda] = []
    for place in range(first, last):
        if tokens.texts[place] != "[" or tokens.texts[place - 1] not in ("=", "(", ",", "return"):
            continue
        close = tokens.match.get(place)
        if close is None or close + 1 >= last or tokens.texts[close + 1] != "(":
            continue
        end = tokens.match.get(close + 1, close + 1)
        body = end + 1
        while body < last and tokens.texts[body] not in ("{", ";", ")", ","):
            body += 1
        if body < last and tokens.texts[body] == "{":
            name = tokens.texts[place - 2] if tokens.texts[place - 1] == "=" else ""
            inside = (body + 1, tokens.match.get(body, body))
            found.append(Lambda(name, read_parameters(tokens, close + 1, end), inside))
    return found

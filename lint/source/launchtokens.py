"""Where a kernel's name goes: the call around it, the variable that takes it, the scope of that variable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.source.tokens import IDENT, Tokens

if TYPE_CHECKING:
    from ptxguard.source.uses import Use

# Words before a name that is used, not declared.
_BEFORE_VALUES = frozenset({"return", "else", "case", "co_return", "and", "or", "not", "do", "throw"})
_WRAPPERS = frozenset(["reinterpret_cast", "static_cast", "const_cast", "void*", "std::decay_t"])


def enclosing_call(tokens: Tokens, use: Use) -> tuple[str, int, int, int] | None:
    """(name, name index, index of `(`, argument position) of the innermost real call around a use.

    For a template argument (`launch<kernel>(…)`) the position is -1 - number.
    """
    place, position, depth = use.index - 1, 0, 0
    while place > 0 and use.index - place < 4000:
        text = tokens.texts[place]
        if text in (")", "]", "}"):
            place = tokens.match.get(place, place) - 1
            continue
        if text == ">" and depth >= 0:
            depth += 1
        elif text == "<" and depth > 0:
            depth -= 1
        elif text == "<" and tokens.kinds[place - 1] == IDENT and _closes_before_call(tokens, place):
            return tokens.texts[place - 1], place - 1, place, -1 - position
        elif text == "," and depth == 0:
            position += 1
        elif text in (";", "{"):
            if text == "{" and tokens.texts[place - 1] in ("(", ",", "="):
                place -= 1
                continue
            return None
        elif text == "=" and depth == 0:
            return None
        elif text == "(":
            name_index = _callee(tokens, place)
            if name_index is None or tokens.texts[name_index] in ("if", "while", "for", "switch", "return"):
                if name_index is not None:
                    return None
                position = 0  # a plain parenthesis or a cast: look further out
            elif tokens.texts[name_index] in _WRAPPERS:
                position = 0
                place = name_index
            else:
                return tokens.texts[name_index], name_index, place, position
        place -= 1
    return None


def _closes_before_call(tokens: Tokens, index: int) -> bool:
    depth = 0
    for place in range(index, min(index + 400, len(tokens))):
        text = tokens.texts[place]
        depth += (text == "<") - (text == ">")
        if text in (";", "{"):
            return False
        if depth == 0:
            return place + 1 < len(tokens) and tokens.texts[place + 1] == "("
    return False


def _callee(tokens: Tokens, opening: int) -> int | None:
    """Index of the name before a `(`, template arguments skipped; None for a plain parenthesis."""
    place = opening - 1
    if place > 0 and tokens.texts[place] == ">":
        depth = 0
        while place > 0:
            depth += (tokens.texts[place] == ">") - (tokens.texts[place] == "<")
            place -= 1
            if depth == 0:
                break
    return place if tokens.kinds[place] == IDENT else None


def assigned_variable(tokens: Tokens, use: Use) -> tuple[str, int] | None:
    """(name, index) of the variable that a use initialises or is assigned to, also inside `?:` and braces."""
    place = use.index - 1
    while place > 0 and use.index - place < 600:
        text = tokens.texts[place]
        if text in (")", "]", "}"):
            place = tokens.match.get(place, place) - 1
            continue
        if text in (";", "<<<"):
            return None
        if text == "=":
            return _variable_before(tokens, place)
        if (
            text == "{"
            and tokens.texts[place - 1] not in ("=", "(", ",", "{")
            and tokens.kinds[place - 1] != IDENT
        ):
            return None
        place -= 1
    return None


def _variable_before(tokens: Tokens, equals: int) -> tuple[str, int] | None:
    place = equals - 1
    while place > 0 and tokens.texts[place] in ("]", ")"):
        opening = tokens.match.get(place, place)
        inside = [i for i in range(opening, place) if tokens.kinds[i] == IDENT]
        if tokens.texts[place] == ")" and inside and tokens.texts[inside[-1] - 1] in ("*", "&"):
            return tokens.texts[inside[-1]], inside[-1]  # `void (*kernel)(int) = …`
        place = opening - 1
    return (tokens.texts[place], place) if tokens.kinds[place] == IDENT else None


def returned(tokens: Tokens, use: Use) -> bool:
    """Whether a use stands in a `return` statement."""
    place = use.index - 1
    while place > 0 and use.index - place < 200:
        text = tokens.texts[place]
        if text == "return":
            return True
        if text in (";", "{", "}"):
            return False
        place -= 1
    return False


def is_noise(tokens: Tokens, use: Use) -> bool:
    """Mentions that launch nothing: a comparison, `#kernel` in a macro, another thing of that name."""
    previous = tokens.texts[use.index - 1] if use.index else ""
    following = tokens.texts[use.after] if use.after < len(tokens) else ""
    if previous == "#" or following in ("==", "!=") or previous in ("==", "!="):
        return True
    if previous in (".", "->"):
        return True  # a member
    declared = use.index > 0 and tokens.kinds[use.index - 1] == IDENT and previous not in _BEFORE_VALUES
    return declared and following in (";", "=", ",", ")", "[", "{")  # a variable, a parameter


def is_target(tokens: Tokens, index: int) -> bool:
    """Whether a name is only declared or assigned to here."""
    following = tokens.texts[index + 1] if index + 1 < len(tokens) else ""
    if following == "=":
        return True
    previous = tokens.texts[index - 1]
    if following == ")" and tokens.texts[max(index - 3, 0) : index] == ["void", "(", "*"]:
        return True  # `void (*kernel)(int);`: a kernel returns nothing else
    return following == ";" and (tokens.kinds[index - 1] == IDENT or previous == "*") and previous != "return"


def scope_of(tokens: Tokens, index: int, first: int, last: int) -> tuple[int, int]:
    """Tokens in which a variable declared at an index can be meant; the whole body for a mere assignment."""
    declared = tokens.kinds[index - 1] == IDENT or tokens.texts[index - 1] in ("*", "&")
    if not declared:
        return first, last
    place = index
    while place > first:
        place -= 1
        if tokens.texts[place] == "{" and tokens.match.get(place, place) > index:
            return index, min(tokens.match[place], last)
    return index, last


def handle_before(tokens: Tokens, index: int) -> str | None:
    """Name of the handle in `cuModuleGetFunction(&handle, module, "name")`, or of `h = get("name")`."""
    place = index
    while place > 0 and tokens.texts[place] not in (";", "{", "}"):
        if tokens.texts[place] == "(" and tokens.kinds[place - 1] == IDENT:
            if tokens.texts[place + 1] == "&" and tokens.kinds[place + 2] == IDENT:
                return tokens.texts[place + 2]
        elif tokens.texts[place] == "=":
            found = _variable_before(tokens, place)
            return found[0] if found else None
        place -= 1
    return None

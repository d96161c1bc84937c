"""Objects of a class with a call operator: from the place that makes one to the calls of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.source.cuda import Function
from ptxguard.source.tokens import IDENT
from ptxguard.source.uses import read_use

if TYPE_CHECKING:
    from ptxguard.source.tokens import Tokens
    from ptxguard.source.uses import Owner, Use


def object_uses(use: Use) -> list[Use] | None:
    """Uses of the local variable that a mention of a class declares (`Load f;`, `auto f = Load{};`).

    None where the mention declares none: what happens to the object is then not known.
    """
    variable = _declared(use)
    if variable is None or use.owner is None:
        return None
    tokens = use.tokens
    if isinstance(use.owner, Function):
        first, last = use.owner.body
    elif _depth(tokens, variable):
        first, last = 0, len(tokens)
    else:
        return None  # the macro declares the object for the code around it
    found = []
    for index in tokens.positions.get(tokens.texts[variable], ()):
        if index != variable and first <= index < last:
            other = read_use(use.unit, tokens, index, use.owner)
            if other is not None and tokens.texts[index - 1] not in (".", "->", "::"):
                found.append(other)
    return found


def _depth(tokens: Tokens, index: int) -> int:
    """Braces of a macro body that are open at a token: none means that the code is that of its user."""
    before = tokens.texts[:index]
    return before.count("{") - before.count("}")


def makes_object(use: Use, operator: Owner) -> bool:
    """Whether a use only makes an object of the operator's class (`run(Load{})`), without a call of it."""
    named = isinstance(operator, Function) and use.tokens.texts[use.index] == operator.scope[-1]
    return named and use.kind == "call" and use.tokens.texts[use.after - 1] != "}"


def _declared(use: Use) -> int | None:
    """Token of the variable, or None."""
    tokens = use.tokens
    if use.kind == "name":
        fits = use.after + 1 < len(tokens) and tokens.kinds[use.after] == IDENT
        return use.after if fits and tokens.texts[use.after + 1] in (";", "{", "(", "=") else None
    start = use.index - 2 * len(use.qualifiers)
    closing = tokens.match.get(use.after, use.after)
    made = start >= 2 and tokens.texts[start - 1] == "=" and tokens.kinds[start - 2] == IDENT
    return start - 2 if made and tokens.texts[closing + 1 : closing + 2] == [";"] else None

"""Preprocessor expressions with three values, and whether one rests on a macro that nobody defines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

_TOKEN = re.compile(
    r"\s*(?:(0[xX][0-9a-fA-F](?:'?[0-9a-fA-F])*|0[bB][01](?:'?[01])*|[0-9](?:'?[0-9])*)[uUlLzZ]*"
    r"|([A-Za-z_]\w*)|(<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^!~<>?:(),])|('(?:[^'\\]|\\.)'|\"[^\"]*\"|<|.))"
)

# Iso 646 spellings (C++ standard, lex.digraph).
_WORDS = {
    "and": "&&",
    "or": "||",
    "not": "!",
    "bitand": "&",
    "bitor": "|",
    "xor": "^",
    "compl": "~",
    "not_eq": "!=",
}

_LEVELS: tuple[frozenset[str], ...] = (
    frozenset({"||"}),
    frozenset({"&&"}),
    frozenset({"|"}),
    frozenset({"^"}),
    frozenset({"&"}),
    frozenset({"==", "!="}),
    frozenset({"<", ">", "<=", ">="}),
    frozenset({"<<", ">>"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "%"}),
)

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "%": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
}


@dataclass(frozen=True)
class Value:
    """Result of an expression.

    Attributes:
        number: the value, or None where it cannot be known.
        assumed: macro names that nobody defines and on whose absence the value rests; empty = certain.
    """

    number: int | None
    assumed: frozenset[str] = frozenset()

    @property
    def truth(self) -> bool | None:
        """True, False, or None for unknown."""
        return None if self.number is None else self.number != 0


UNKNOWN = Value(None)
# Digits of a number; 2**64 has 20, and Python reads no more than 4,300.
_MAX_DIGITS = 100


class Macros(Protocol):
    """What an expression asks of the macros in force at its place."""

    def defined(self, name: str) -> Value:
        """Whether a macro is defined: 1, 0 or unknown."""

    def expand(self, name: str, arguments: list[str] | None) -> Value:
        """Value of an object-like (`arguments` None) or function-like macro."""


def both(left: Value, right: Value) -> Value:
    """Logical and: one certain false decides, whatever the other is."""
    for side in (left, right):
        if side.truth is False and not side.assumed:
            return Value(0)
    for side in (left, right):
        if side.truth is False:
            return Value(0, side.assumed)
    if left.number is None or right.number is None:
        return UNKNOWN
    return Value(1, left.assumed | right.assumed)


def negate(value: Value) -> Value:
    """Logical not."""
    return UNKNOWN if value.number is None else Value(int(not value.number), value.assumed)


def either(left: Value, right: Value) -> Value:
    """Logical or."""
    return negate(both(negate(left), negate(right)))


def evaluate(text: str, macros: Macros) -> Value:
    """Evaluate the expression of an `#if`; what cannot be read is unknown, never an error."""
    try:
        parser = _Parser(_split(text), macros)
        value = parser.ternary()
        return value if parser.at_end() else UNKNOWN
    except (_MalformedError, RecursionError):
        return UNKNOWN


class _MalformedError(Exception):
    pass


def _split(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    for number, name, operator, other in _TOKEN.findall(text):
        if number:
            tokens.append(("number", number.replace("'", "")))
        elif name:
            word = _WORDS.get(name)
            tokens.append(("op", word) if word else ("name", name))
        elif operator:
            tokens.append(("op", operator))
        elif other.strip():
            tokens.append(("other", other))
    return tokens


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]], macros: Macros) -> None:
        self.tokens = tokens
        self.macros = macros
        self.index = 0

    def at_end(self) -> bool:
        return self.index >= len(self.tokens)

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.index] if self.index < len(self.tokens) else ("end", "")

    def take(self, text: str) -> bool:
        if self.peek()[1] == text and self.peek()[0] == "op":
            self.index += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise _MalformedError

    def ternary(self) -> Value:
        condition = self.binary(0)
        if not self.take("?"):
            return condition
        yes = self.ternary()
        self.expect(":")
        no = self.ternary()
        if condition.number is None:
            return UNKNOWN
        chosen = yes if condition.number else no
        return Value(chosen.number, chosen.assumed | condition.assumed)

    def binary(self, level: int) -> Value:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek()[0] == "op" and self.peek()[1] in _LEVELS[level]:
            operator = self.tokens[self.index][1]
            self.index += 1
            right = self.binary(level + 1)
            left = _apply(operator, left, right)
        return left

    def unary(self) -> Value:
        if self.take("!"):
            return negate(self.unary())
        for sign in ("-", "+", "~"):
            if self.take(sign):
                value = self.unary()
                if value.number is None:
                    return UNKNOWN
                number = {"-": -value.number, "+": value.number, "~": ~value.number}[sign]
                return Value(number, value.assumed)
        return self.primary()

    def primary(self) -> Value:
        kind, text = self.peek()
        self.index += 1
        if kind == "number":
            if len(text) > _MAX_DIGITS:
                return UNKNOWN
            octal = len(text) > 1 and text[0] == "0" and text.isdigit()
            return Value(
                int(text, 8) if octal and not set(text) & {"8", "9"} else int(text, 0 if not octal else 10)
            )
        if kind == "op" and text == "(":
            value = self.ternary()
            self.expect(")")
            return value
        if kind != "name":
            raise _MalformedError
        if text == "defined":
            return self.defined()
        if text in ("true", "false"):
            return Value(int(text == "true"))
        arguments = self.arguments() if self.peek() == ("op", "(") else None
        return self.macros.expand(text, arguments)

    def defined(self) -> Value:
        parenthesised = self.take("(")
        kind, name = self.peek()
        if kind != "name":
            raise _MalformedError
        self.index += 1
        if parenthesised:
            self.expect(")")
        return self.macros.defined(name)

    def arguments(self) -> list[str]:
        """Arguments of a function-like macro as text."""
        self.expect("(")
        found: list[str] = []
        current: list[str] = []
        depth = 0
        while not self.at_end():
            text = self.tokens[self.index][1]
            self.index += 1
            if text == ")" and depth == 0:
                found.append(" ".join(current))
                return found
            if text == "," and depth == 0:
                found.append(" ".join(current))
                current = []
                continue
            depth += (text == "(") - (text == ")")
            current.append(text)
        raise _MalformedError


def _apply(operator: str, left: Value, right: Value) -> Value:
    if operator == "&&":
        return both(left, right)
    if operator == "||":
        return either(left, right)
    if left.number is None or right.number is None:
        return UNKNOWN
    number = arithmetic(operator, left.number, right.number)
    return UNKNOWN if number is None else Value(number, left.assumed | right.assumed)


def arithmetic(operator: str, left: int, right: int) -> int | None:
    """Result of a binary operator in 64-bit two's complement (intmax_t; C++ standard, cpp.cond, expr.mul).

    None for an operator that is no arithmetic, a division by zero and a shift out of range.
    """
    if (operator in ("/", "%") and right == 0) or (operator in ("<<", ">>") and not 0 <= right < 64):
        return None
    compute = _ARITHMETIC.get(operator)
    return None if compute is None else (compute(left, right) + (1 << 63)) % (1 << 64) - (1 << 63)

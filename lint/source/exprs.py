"""C++ expressions from tokens: enough of the grammar to follow an address or a constant, never failing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.source.tokens import CHAR, DIRECTIVE, IDENT, NUMBER, PUNCT, RAW, STRING, Tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LEVELS = {
    "||": 1, "or": 1, "&&": 2, "and": 2, "|": 3, "bitor": 3, "^": 4, "xor": 4, "&": 5, "bitand": 5,
    "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7, "<<": 8, ">>": 8, "+": 9, "-": 9,
    "*": 10, "/": 10, "%": 10, ".*": 11, "->*": 11,
}  # fmt: skip
_SPELLED = {"or": "||", "and": "&&", "bitor": "|", "xor": "^", "bitand": "&", "not": "!", "compl": "~"}
_ASSIGN = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})
_PREFIX = frozenset({"-", "+", "!", "~", "*", "&", "++", "--", "not", "compl"})
_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast", "dynamic_cast", "bit_cast"})
_TYPE_WORDS = frozenset(
    "const volatile unsigned signed int char short long float double bool void auto size_t uintptr_t "
    "intptr_t __half half __nv_bfloat16 typename struct class half2 float2 float4 int2 int4 uint2 uint4 "
    "ptrdiff_t".split()
)
_TYPE_TOKENS = frozenset({"::", "*", "&", "&&", "<", ">", ",", "..."})
# Levels of brackets, prefixes and right operands; each takes about six frames of Python's stack.
_MAX_DEPTH = 60

# Tokens that no template argument list holds outside of brackets.
_NO_TEMPLATE = frozenset({";", ")", "]", "}", "=", "+=", "||", "?", "<<<"})


@dataclass(frozen=True, slots=True)
class Node:
    """A node of an expression.

    Attributes:
        kind: name, number, string, call, member (`.`), arrow (`->`), index, unary, binary, assign, cond,
            cast, init, lambda, unknown.
        text: qualified name, operator, type or literal.
        parts: operands; for a call the callee, then the arguments; for a cond condition, yes, no.
        index: token index of its first or naming token.
        arguments: template arguments of a name, as text.
    """

    kind: str
    text: str
    parts: tuple[Node, ...] = ()
    index: int = -1
    arguments: tuple[str, ...] = ()

    def walk(self) -> Iterator[Node]:
        """This node and all below it."""
        yield self
        for part in self.parts:
            yield from part.walk()


def parse_expression(tokens: Tokens, indices: Sequence[int], depth: int = 0) -> Node:
    """The expression that the tokens form; what cannot be read becomes a node of kind unknown.

    `depth` is the number of levels around it.
    """
    plain = [index for index in indices if tokens.kinds[index] != DIRECTIVE]
    parser = _Parser(tokens, plain, depth)
    node = parser.expression(0)
    if parser.place < len(plain):
        rest = " ".join(tokens.texts[i] for i in plain[parser.place :])
        return Node("unknown", rest, (node,), node.index)
    return node


def split_arguments(tokens: Tokens, first: int, last: int) -> list[list[int]]:
    """Token indices of each argument between two brackets (exclusive)."""
    parts: list[list[int]] = [[]]
    index = first
    while index < last:
        text = tokens.texts[index]
        if tokens.kinds[index] == PUNCT:
            if text in ("(", "[", "{"):
                close = min(tokens.match.get(index, index), last - 1)
                parts[-1].extend(range(index, close + 1))
                index = close + 1
                continue
            if text == "<" and (closing := template_close(tokens, index, last, expression=True)) is not None:
                parts[-1].extend(range(index, closing + 1))
                index = closing + 1
                continue
            if text == ",":
                parts.append([])
                index += 1
                continue
        if tokens.kinds[index] != DIRECTIVE:
            parts[-1].append(index)
        index += 1
    return parts if any(parts) or len(parts) > 1 else []


def template_close(tokens: Tokens, index: int, last: int, *, expression: bool = False) -> int | None:
    """Index of the `>` that closes template arguments opened at an index; None where it is a comparison.

    Inside of an expression no name may follow the `>`: `a < b, c > d` compares twice.
    """
    if index == 0 or tokens.kinds[index - 1] != IDENT:
        return None
    depth, place, stop = 0, index, min(last, index + 400)
    while place < stop:
        text = tokens.texts[place]
        if tokens.kinds[place] == PUNCT:
            if text == "<":
                depth += 1
            elif text == ">":
                depth -= 1
                if depth == 0:
                    fits = _follows_template(tokens, place + 1, last, expression=expression)
                    return place if fits else None
            elif text in ("(", "[", "{"):
                place = tokens.match.get(place, stop)
            elif text in _NO_TEMPLATE or (text == "&&" and not _ends_type(tokens.texts[place + 1 : stop])):
                return None
        place += 1
    return None


def _ends_type(rest: list[str]) -> bool:
    """Whether `&&` ends a type (`T &&>`, `T &&...`): in an expression an operand follows."""
    return bool(rest) and rest[0] in (">", ",", "...", ")")


def _follows_template(tokens: Tokens, index: int, last: int, *, expression: bool) -> bool:
    """Whether what follows a `>` fits behind template arguments rather than behind a comparison."""
    if index >= last:
        return True
    if tokens.kinds[index] == IDENT:
        if tokens.texts[index] in ("const", "volatile"):
            return True
        return not expression and tokens.starts[index] > tokens.end(index - 1)
    return tokens.texts[index] in (
        "(",
        "::",
        "{",
        ">",
        ",",
        ")",
        ";",
        ".",
        "<<<",
        "*",
        "&",
        "&&",
        "]",
        "}",
        "...",
    )


class _Parser:
    def __init__(self, tokens: Tokens, indices: list[int], depth: int) -> None:
        self.tokens = tokens
        self.indices = indices
        self.place = 0
        self.depth = depth
        self.where = {index: place for place, index in enumerate(indices)}

    def text(self, ahead: int = 0) -> str:
        place = self.place + ahead
        return self.tokens.texts[self.indices[place]] if place < len(self.indices) else ""

    def kind(self, ahead: int = 0) -> int:
        place = self.place + ahead
        return self.tokens.kinds[self.indices[place]] if place < len(self.indices) else -1

    def operator(self) -> str:
        """The binary operator here; two adjacent `>` are a shift."""
        if self.kind() not in (PUNCT, IDENT):
            return ""
        text = self.text()
        if text == ">" and self.text(1) == ">" and self.adjacent():
            return ">>"
        return _SPELLED.get(text, text)

    def adjacent(self) -> bool:
        here = self.indices[self.place]
        return self.tokens.end(here) == self.tokens.starts[self.indices[self.place + 1]]

    def expression(self, minimum: int) -> Node:
        self.depth += 1
        try:
            if self.depth > _MAX_DEPTH:
                self.place = len(self.indices)
                return Node("unknown", "too deep")
            return self.climb(minimum)
        finally:
            self.depth -= 1

    def climb(self, minimum: int) -> Node:
        left = self.unary()
        while self.place < len(self.indices):
            operator = self.operator()
            level = _LEVELS.get(operator)
            if level is not None and level > minimum:
                self.place += 2 if operator == ">>" else 1
                right = self.expression(level)
                left = Node("binary", operator, (left, right), left.index)
            elif operator == "?" and minimum < 1:
                self.place += 1
                yes = self.expression(0)
                self.place += self.text() == ":"
                left = Node("cond", "?", (left, yes, self.expression(0)), left.index)
            elif operator in _ASSIGN and minimum < 1:
                self.place += 1
                left = Node("assign", operator, (left, self.expression(0)), left.index)
            elif operator == "," and minimum < 1:
                self.place += 1
                left = Node("binary", ",", (left, self.expression(0)), left.index)
            else:
                break
        return left

    def unary(self) -> Node:
        if self.place >= len(self.indices):
            return Node("unknown", "")
        index, text = self.indices[self.place], self.text()
        if text in _PREFIX and self.kind() in (PUNCT, IDENT):
            self.place += 1
            return Node("unary", _SPELLED.get(text, text), (self.expression(10),), index)
        if text == "(":
            return self.parenthesis(index)
        return self.postfix(self.primary(index))

    def parenthesis(self, index: int) -> Node:
        """A cast or a parenthesised expression."""
        close = self.closing(index)
        inner = self.indices[self.place + 1 : close]
        if inner and self.is_type(inner, close):
            self.place = close + 1
            words = " ".join(self.tokens.texts[i] for i in inner)
            return Node("cast", words, (self.expression(10),), index)
        node = parse_expression(self.tokens, inner, self.depth)
        self.place = close + 1
        return self.postfix(node)

    def closing(self, index: int) -> int:
        """Place of the bracket that closes the one at a token index."""
        close = self.tokens.match.get(index)
        place = self.where.get(close, len(self.indices) - 1) if close is not None else len(self.indices) - 1
        return max(place, self.place)

    def is_type(self, inner: list[int], close: int) -> bool:
        """Whether parenthesised tokens are a type and what follows is its operand."""
        texts, kinds = self.tokens.texts, self.tokens.kinds
        if close + 1 >= len(self.indices) or kinds[inner[0]] != IDENT:
            return False
        if any(kinds[i] != IDENT and texts[i] not in _TYPE_TOKENS for i in inner):
            return False
        after, after_kind = texts[self.indices[close + 1]], kinds[self.indices[close + 1]]
        if texts[inner[-1]] in ("*", "&", "&&") or _TYPE_WORDS.intersection(texts[i] for i in inner):
            return after_kind != PUNCT or after in ("(", "&", "*", "-", "~", "{", "!", "+")
        named = texts[inner[-1]].endswith("_t") or texts[inner[-1]] in (
            "T",
            "Type",
            "CUdeviceptr",
            "CUfunction",
        )
        if after == "(" or after in ("&", "*"):
            return named
        return after_kind in (IDENT, NUMBER, STRING, CHAR) and all(
            kinds[i] == IDENT or texts[i] == "::" for i in inner
        )

    def primary(self, index: int) -> Node:
        kind, text = self.kind(), self.text()
        if kind in (STRING, RAW):
            while self.kind() in (STRING, RAW):
                self.place += 1
            return Node("string", text, (), index)
        if kind in (NUMBER, CHAR):
            self.place += 1
            return Node("number", text, (), index)
        if text == "[":
            return self.lambda_expression(index)
        if text == "{":
            close = self.closing(index)
            node = Node("init", "", self.list_between(index), index)
            self.place = close + 1
            return node
        if kind == IDENT or text == "::":
            return self.name(index)
        self.place += 1
        return Node("unknown", text, (), index)

    def list_between(self, index: int) -> tuple[Node, ...]:
        close = self.tokens.match.get(index, index)
        return tuple(
            parse_expression(self.tokens, part, self.depth)
            for part in split_arguments(self.tokens, index + 1, close)
        )

    def lambda_expression(self, index: int) -> Node:
        """Skip captures, parameters and body."""
        while self.place < len(self.indices):
            text = self.text()
            if text in ("[", "("):
                self.place = self.closing(self.indices[self.place]) + 1
            elif text == "{":
                self.place = self.closing(self.indices[self.place]) + 1
                break
            elif text in (",", ";"):
                break
            else:
                self.place += 1
        return Node("lambda", "", (), index)

    def name(self, index: int) -> Node:
        """A qualified name with template arguments, or a named cast."""
        parts: list[str] = []
        arguments: tuple[str, ...] = ()
        naming = index
        while self.place < len(self.indices):
            if self.text() == "::":
                parts.append("::")
                self.place += 1
            if self.kind() != IDENT:
                break
            naming = self.indices[self.place]
            self.place += 1
            word = self.tokens.texts[naming]
            if word == "template":
                continue
            parts.append(word)
            if self.text() == "<" and self.place:
                arguments = self.template_arguments(" " if word in _CASTS else "") or arguments
            if self.text() != "::":
                break
        text = "".join(parts)
        if text.rsplit("::", 1)[-1] in _CASTS and self.text() == "(":
            values = self.list_between(self.indices[self.place])
            self.place = self.closing(self.indices[self.place]) + 1
            inner_node = values[0] if values else Node("unknown", "")
            return Node("cast", ",".join(arguments), (inner_node,), naming)
        if text == "new" or text == "sizeof" or text == "alignof":
            if self.text() == "(":
                self.place = self.closing(self.indices[self.place]) + 1
            return Node("number", text, (), naming)
        return Node("name", text, (), naming, arguments)

    def template_arguments(self, space: str) -> tuple[str, ...]:
        """Template arguments as text, their tokens joined by `space`; none where `<` compares."""
        opening = self.indices[self.place]
        close = template_close(self.tokens, opening, self.indices[-1] + 1, expression=True)
        if close is None or close not in self.where:
            return ()
        inner = split_arguments(self.tokens, opening + 1, close)
        self.place = self.where[close] + 1
        return tuple(space.join(self.tokens.texts[i] for i in part) for part in inner)

    def postfix(self, node: Node) -> Node:
        while self.place < len(self.indices):
            text, index = self.text(), self.indices[self.place]
            if text == "(":
                node = Node("call", node.text, (node, *self.list_between(index)), node.index, node.arguments)
                self.place = self.closing(index) + 1
            elif text == "[":
                node = Node("index", "[]", (node, *self.list_between(index)), node.index)
                self.place = self.closing(index) + 1
            elif text == "{" and node.kind == "name":
                node = Node("init", node.text, self.list_between(index), node.index, node.arguments)
                self.place = self.closing(index) + 1
            elif text in (".", "->"):
                self.place += 1
                member = self.name(index)
                kind = "member" if text == "." else "arrow"
                node = Node(kind, member.text, (node,), member.index, member.arguments)
            elif text in ("++", "--"):
                self.place += 1
            else:
                break
        return node


def constant(text: str) -> int | None:
    """Value of an integer literal, None for anything else."""
    digits = text.replace("'", "").lower().rstrip("ulz")
    try:
        if digits.startswith(("0x", "0b")):
            return int(digits, 0)
        if len(digits) > 1 and digits[0] == "0" and digits.isdigit():
            return int(digits, 8)
        return int(digits)
    except ValueError:
        return None

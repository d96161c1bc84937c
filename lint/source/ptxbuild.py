"""Turns each PTX grammar rule into model objects while Lark reduces it: no tree in between."""

from __future__ import annotations

import re
from typing import TypeAlias

from lark import Token

from ptxguard.model import Instruction, Operand
from ptxguard.source.ptxsyntax import Directive, Label, Scope

Statement: TypeAlias = Instruction | Directive | Label | Scope
_Piece: TypeAlias = Token | Operand

# The words of a directive: strings, comments, `.b32`, `shared::cta`, names, numbers, single signs.
_WORDS = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/|\.[A-Za-z_]\w*'
    r"|(?:%%?|\$\$)?[\w$](?:[\w$]|%\d+|%=|\$\{:uid\})*|\S"
)


# As many registers as anybody declares; a longer number is no count.
_COUNT = re.compile(r"[0-9]{1,9}")


class PtxBuilder:
    """Callbacks named like the grammar's rules; `begin` a text before each parse."""

    def __init__(self) -> None:
        self.begin("")

    def begin(self, text: str) -> None:
        """Forget the registers of the text before; offsets from now on are into this one."""
        self._text = text
        self._registers: set[str] = set()
        self._families: dict[str, int] = {}

    def start(self, items: list[Statement | Token | list[Statement]]) -> tuple[Statement, ...]:
        """The statements; empty ones (`;;`) are dropped."""
        statements: list[Statement] = []
        for item in items:
            if isinstance(item, list):
                statements.extend(item)
            elif not isinstance(item, Token):
                statements.append(item)
            elif item.type != "SEMICOLON":
                statements.append(self._single(item))
        return tuple(statements)

    def _single(self, token: Token) -> Statement:
        """A statement of one token."""
        start, end = _start(token), _end(token)
        if token.type == "LABEL":
            return Label(token[:-1].rstrip(), start, end)
        if token.type == "LINE_DIRECTIVE":
            return Directive((str(token),), "", start, end)
        return self._directive(token) if token.type == "DIRECTIVE" else Scope(str(token), start, end)

    def instruction(self, items: list[_Piece]) -> Instruction:
        """Guard, opcode, operands and perhaps the `;`."""
        head = [item for item in items[:2] if isinstance(item, Token)]
        guarded = head[0].type == "GUARD"
        opcode = head[1] if guarded else head[0]
        end = _end(items[-1])
        if isinstance(items[-1], Token) and items[-1].type == "SEMICOLON":
            items.pop()
        return Instruction(
            _dotted(opcode),
            "".join(head[0].split()) if guarded else None,
            tuple(map(self._operand, items[2 if guarded else 1 :])),
            _start(opcode),
            _end(opcode),
            end,
        )

    def declaration(self, items: list[Token]) -> list[Statement]:
        """A directive with the `;` or the brace behind it."""
        head, last = items
        if last.type == "SEMICOLON":
            return [self._directive(head, last)]
        return [self._directive(head), self._single(last)]

    def _directive(self, head: Token, semicolon: Token | None = None) -> Directive:
        """Split a directive; `.reg` names are registers from here on."""
        words = tuple(word for word in _WORDS.findall(head) if not word.startswith(("//", "/*")))
        if words[0] == ".reg":
            self._declare(words[1:])
        end = _start(head) + len(head.rstrip()) if semicolon is None else _end(semicolon)
        return Directive(words, ";" if semicolon is not None else "", _start(head), end)

    def _declare(self, words: tuple[str, ...]) -> None:
        """Remember the names of `.b32 a, b` and the families of `.b32 r<10>`."""
        for index, word in enumerate(words):
            if word[0] in ".<>," or word[0].isdigit():
                continue
            following = words[index + 1 : index + 3]
            if len(following) == 2 and following[0] == "<" and _COUNT.fullmatch(following[1]):
                self._families[word] = int(following[1])
            else:
                self._registers.add(word)

    def operand(self, items: list[_Piece]) -> Operand:
        """Terms with operators between them: a constant expression, or a pair `p|q`."""
        terms: list[Operand] = []
        sign: Token | None = None
        for item in items:
            if isinstance(item, Token) and item.type in {"SIGN", "INFIX"}:
                sign = item
                continue
            term = self._operand(item)
            if sign is not None and sign == "-":
                term = self._span(term.kind, _start(sign), term.end, term.children)
            terms.append(term)
            sign = None
        if len(terms) > 2 and all(term.kind == "immediate" for term in terms[1:]):
            terms[1:] = [self._span("immediate", terms[1].start, terms[-1].end, ())]
        return self._compound(terms, items[0], items[-1])

    def expression(self, items: list[_Piece]) -> Operand:
        """`a ? b : c`."""
        terms = [
            self._operand(item)
            for item in items
            if isinstance(item, Operand) or item.type not in {"SIGN", "INFIX", "QUESTION", "COLON"}
        ]
        return self._compound(terms, items[0], items[-1])

    def _compound(self, terms: list[Operand], first: _Piece, last: _Piece) -> Operand:
        constant = all(term.kind == "immediate" for term in terms)
        return self._whole("immediate" if constant else "other", first, last, tuple(terms))

    def prefixed(self, items: list[_Piece]) -> Operand:
        """`-1`, `~0`, `!p`, `(.s64) x`."""
        term = self._operand(items[1])
        if _text(items[0]) == "!" and term.kind != "immediate":
            return self._whole("negated", items[0], items[1], (term,))
        kind = "immediate" if term.kind == "immediate" else "other"
        return self._whole(kind, items[0], items[1], () if kind == "immediate" else (term,))

    def address(self, items: list[_Piece]) -> Operand:
        """`[base + offset, coordinates…]`; the terms of the base stand beside each other."""
        parts: list[Operand] = []
        for item in items[1:]:
            if isinstance(item, Token) and item.type in {"RSQB", "SUFFIX"}:
                continue
            part = self._operand(item)
            parts.extend(part.children if part.kind == "other" and part.children else (part,))
        return self._whole("address", items[0], items[-1], tuple(parts))

    def vector(self, items: list[_Piece]) -> Operand:
        """`{a, b, _}`."""
        return self._whole("vector", items[0], items[-1], tuple(map(self._operand, items[1:-1])))

    def group(self, items: list[_Piece]) -> Operand:
        """`(a, b)` of a call, or a parenthesised constant."""
        parts = tuple(map(self._operand, items[1:-1]))
        constant = len(parts) == 1 and parts[0].kind == "immediate"
        return self._whole("immediate" if constant else "other", items[0], items[-1], parts)

    def element(self, items: list[_Piece]) -> Operand:
        """`table[3]`: an array variable with an index."""
        return self._whole("other", items[0], items[-1], (self._operand(items[0]), self._operand(items[2])))

    def _operand(self, piece: _Piece) -> Operand:
        """A token as an operand; what is one already stays."""
        if isinstance(piece, Operand):
            return piece
        text = str(piece)
        return Operand(self._kind(piece.type, text), text, _start(piece), _end(piece))

    def _kind(self, terminal: str, text: str) -> str:
        if terminal == "NUMBER":
            return "immediate"
        if terminal == "PLACEHOLDER":
            return "placeholder"
        if text == "_":
            return "sink"
        return "register" if text[0] == "%" or self._is_declared(text) else "symbol"

    def _is_declared(self, name: str) -> bool:
        if name in self._registers:
            return True
        stem = name.rstrip("0123456789")
        number = name[len(stem) :]
        return (
            stem in self._families and bool(_COUNT.fullmatch(number)) and int(number) < self._families[stem]
        )

    def _whole(self, kind: str, first: _Piece, last: _Piece, children: tuple[Operand, ...] = ()) -> Operand:
        return self._span(kind, _start(first), _end(last), children)

    def _span(self, kind: str, start: int, end: int, children: tuple[Operand, ...]) -> Operand:
        return Operand(kind, self._text[start:end], start, end, children)


def _start(piece: _Piece) -> int:
    if isinstance(piece, Operand):
        return piece.start
    return piece.start_pos or 0


def _end(piece: _Piece) -> int:
    if isinstance(piece, Operand):
        return piece.end
    return piece.end_pos or 0


def _text(piece: _Piece) -> str:
    return piece.text if isinstance(piece, Operand) else str(piece)


def _dotted(opcode: str) -> str:
    """The opcode in one word: without the space, line ends and comments that may stand before a modifier."""
    if opcode.isascii() and not any(mark in opcode for mark in " \t\r\n/"):
        return str(opcode)
    text = "\n".join(line.split("//", 1)[0] for line in opcode.split("\n"))
    while (opened := text.find("/*")) >= 0:
        text = text[:opened] + text[text.index("*/", opened) + 2 :]
    return "".join(text.split())

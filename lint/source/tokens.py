"""C++ text to tokens: literals, comments and directives told apart without any need for a clean parse."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

IDENT, NUMBER, STRING, RAW, CHAR, PUNCT, DIRECTIVE, BAD = range(8)

_KINDS = {
    "ident": IDENT,
    "number": NUMBER,
    "string": STRING,
    "raw": RAW,
    "char": CHAR,
    "punct": PUNCT,
    "directive": DIRECTIVE,
    "bad": BAD,
}

# `>` stays a token of its own so that `A<B<int>>` closes twice; `<<<` opens a launch.
# Possessive quantifiers keep hostile input linear. Comments have no group and are dropped.
_TOKEN = re.compile(
    r"""
    //(?:[^\n\\]|\\\r?\n|\\)*+
  | /\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/
  | (?P<ident>(?!(?:u8|[uUL])?R?["'])[A-Za-z_$\u0080-\U0010ffff][\w$]*+)
  | (?P<raw>(?:u8|[uUL])?R"(?P<delim>[^()\\\s]{0,16})\((?s:.*?)\)(?P=delim)")
  | (?P<string>(?:u8|[uUL])?"(?:[^"\\\n]|\\(?:\r\n|[\s\S]))*+")
  | (?P<number>\.?[0-9](?:'?[\w.]|(?<=[eEpP])[+-])*+)
  | (?P<char>(?:u8|[uUL])?'(?:[^'\\\n]|\\.)*+')
  | (?P<directive>^[ \t]*+\#(?:[^\n\\/"']|\\\r?\n|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/|//[^\n\\]*+
      |"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+'|[\\/"'])*+)
  | (?P<bad>/\*|(?:u8|[uUL])?R"|")
  | (?P<punct><<<|\.\.\.|::|->\*?|<<=|[-+*/%&|^!=<>]=|<<|\+\+|--|&&|\|\||\#\#
      |[{}()\[\];:,<>.?~!+\-*/%&|^=\#@])
    """,
    re.VERBOSE | re.MULTILINE,
)

_OPEN = {"(": ")", "[": "]", "{": "}"}
_CLOSE = frozenset(")]}")


@dataclass(eq=False)
class Tokens:
    """The tokens of a text as parallel lists; an index means the same token in each.

    Attributes:
        text: the text they come from.
        kinds: one of IDENT, NUMBER, STRING, RAW, CHAR, PUNCT, DIRECTIVE, BAD.
        texts: the characters of each token.
        starts: offset of each token in `text`.
    """

    text: str
    kinds: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.kinds)

    def end(self, index: int) -> int:
        """Offset behind a token."""
        return self.starts[index] + len(self.texts[index])

    def at(self, offset: int) -> int:
        """Index of the first token at or behind an offset."""
        return bisect_left(self.starts, offset)

    def source(self, first: int, last: int) -> str:
        """Source text from token `first` to before token `last`, white space folded."""
        if first >= last:
            return ""
        return " ".join(self.text[self.starts[first] : self.end(last - 1)].split())

    @cached_property
    def match(self) -> dict[int, int]:
        """Index of each bracket's partner, both ways.

        Branches of one `#if` open the same bracket more than once: each branch starts from the brackets
        that were open before the `#if`, and the first branch (unless it is `#if 0`) decides what stays open.
        """
        return _match_brackets(self)

    @cached_property
    def positions(self) -> dict[str, list[int]]:
        """Token indices of every identifier."""
        table: dict[str, list[int]] = {}
        for index, kind in enumerate(self.kinds):
            if kind == IDENT:
                table.setdefault(self.texts[index], []).append(index)
        return table


def tokenize(text: str, start: int = 0, end: int | None = None) -> Tokens:
    """All tokens from `start` to `end`; comments and white space are dropped."""
    stop = len(text) if end is None else end
    if text.find('R"', start, stop) < 0:
        return _tokenize_fast(text, start, stop)
    tokens = Tokens(text)
    kinds, texts, starts = tokens.kinds, tokens.texts, tokens.starts
    for found in _TOKEN.finditer(text, start, stop):
        group = found.lastgroup
        if group is None:
            continue
        kinds.append(_KINDS[group])
        texts.append(found.group())
        starts.append(found.start())
    return tokens


# The same tokens as `_TOKEN` without groups and without gaps: `findall` then runs at the speed of C. Raw
# strings need a group for their delimiter, so texts that hold one take the other way.
_PIECE = re.compile(
    r"""
    ^[ \t]*+\#(?:[^\n\\/"']|\\\r?\n|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/|//[^\n\\]*+|"(?:[^"\\\n]|\\.)*+"
      |'(?:[^'\\\n]|\\.)*+'|[\\/"'])*+
  | [^\S\n]++ | \n++
  | (?!(?:u8|[uUL])?["'])[A-Za-z_$\u0080-\U0010ffff][\w$]*+
  | //(?:[^\n\\]|\\\r?\n|\\)*+
  | /\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/
  | (?:u8|[uUL])?"(?:[^"\\\n]|\\(?:\r\n|[\s\S]))*+"
  | \.?[0-9](?:'?[\w.]|(?<=[eEpP])[+-])*+
  | (?:u8|[uUL])?'(?:[^'\\\n]|\\.)*+'
  | /\*|(?:u8|[uUL])?"
  | <<<|\.\.\.|::|->\*?|<<=|[-+*/%&|^!=<>]=|<<|\+\+|--|&&|\|\||\#\#
  | [\s\S]
    """,
    re.VERBOSE | re.MULTILINE,
)
_SKIP, _LOOK = -1, -2
COMMENT = _SKIP  # in a skeleton
_FIRST: dict[str, int] = dict.fromkeys("{}()[];:,<>?~!+-*%&|^=@", PUNCT) | dict.fromkeys("0123456789", NUMBER)
_FIRST |= dict.fromkeys("\n\r\f\v\\", _SKIP) | dict.fromkeys(" \t/.#uUL\"'", _LOOK)


def _tokenize_fast(text: str, start: int, stop: int) -> Tokens:
    pieces = _PIECE.findall(text, start, stop)
    starts = list(accumulate(map(len, pieces), initial=start))
    first = _FIRST.get
    kinds = [first(piece[0], IDENT) for piece in pieces]
    for index, kind in enumerate(kinds):
        if kind == _LOOK:
            kinds[index] = _look(pieces[index])
    kept = [index for index, kind in enumerate(kinds) if kind >= 0]
    return Tokens(text, [kinds[i] for i in kept], [pieces[i] for i in kept], [starts[i] for i in kept])


def _look(piece: str) -> int:
    """Kind of a piece whose first character does not tell."""
    head = piece[0]
    if head in " \t":
        return _SKIP if piece.isspace() else DIRECTIVE
    if head == "/":
        return BAD if piece == "/*" else _SKIP if piece[1:2] in ("/", "*") else PUNCT
    if head == ".":
        return NUMBER if piece[1:2].isdigit() else PUNCT
    if head == "#":
        return PUNCT if piece in ("#", "##") else DIRECTIVE
    if piece[-1] in "\"'":
        lone = piece.strip("uUL8")
        if lone == "'":
            return _SKIP
        return (BAD if len(lone) == 1 else STRING) if piece[-1] == '"' else CHAR
    return IDENT


# Only what can hide code from a search. The pattern starts with a set of characters, so that `re` passes over
# the rest of the text at the speed of a byte search; look-behinds then tell which character it was.
_SKELETON = re.compile(
    r"""
    [/"'\#R](?:
        (?<=/)/(?:[^\n\\]|\\\r?\n|\\)*+
      | (?<=/)\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/
      | (?<=")(?P<string>(?:[^"\\\n]|\\(?:\r\n|[\s\S]))*+")
      | (?<=\#)(?P<directive>(?:[^\n\\/"']|\\\r?\n|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/|//[^\n\\]*+
          |"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+'|[\\/"'])*+)
      | (?<=')(?:(?<![0-9A-Za-z_]')|(?<=\b[uUL]')|(?<=\bu8'))(?P<char>(?:[^'\\\n]|\\.)*+')
      | (?<=R)(?:(?<![\w$]R)|(?<=\b[uUL]R)|(?<=\bu8R))
          (?P<raw>"(?P<delim>[^()\\\s]{0,16})\((?s:.*?)\)(?P=delim)")
      | (?<=/)(?P<bad_comment>\*)
      | (?<=R)(?:(?<![\w$]R)|(?<=\b[uUL]R)|(?<=\bu8R))(?P<bad_raw>")
      | (?<=")(?P<bad_string>)
    )
    """,
    re.VERBOSE,
)

_SKELETON_KINDS = {
    None: -1, "raw": RAW, "string": STRING, "char": CHAR, "directive": DIRECTIVE,
    "bad_comment": BAD, "bad_raw": BAD, "bad_string": BAD,
}  # fmt: skip


def skeleton(text: str) -> list[tuple[int, int, int]]:
    """(kind, start, end) of every comment (kind -1), literal, directive and unended literal or comment."""
    found = []
    for match in _SKELETON.finditer(text):
        kind, start = _SKELETON_KINDS[match.lastgroup], match.start()
        if kind == DIRECTIVE and text[text.rfind("\n", 0, start) + 1 : start].strip(" \t\ufeff"):
            continue  # a `#` inside a line is no directive
        found.append((kind, start, match.end()))
    return found


def statement_tokens(text: str, start: int, limit: int = 20000) -> Tokens | None:
    """Tokens from `start` to the parenthesis that closes the first one opened, in every `#if` branch.

    None where it never closes (within `limit` tokens) or a branch around the start ends before.
    """
    tokens = Tokens(text)
    depth, opened = 0, False
    saved: list[int] = []
    for found in _TOKEN.finditer(text, start):
        group = found.lastgroup
        if group is None:
            continue
        kind = _KINDS[group]
        tokens.kinds.append(kind)
        tokens.texts.append(found.group())
        tokens.starts.append(found.start())
        if kind == PUNCT:
            depth += (found.group() == "(") - (found.group() == ")")
            opened |= depth > 0
        elif kind == DIRECTIVE:
            name = directive_name(found.group())
            if name in ("if", "ifdef", "ifndef"):
                saved.append(depth)
            elif name in ("else", "elif", "elifdef", "elifndef", "endif"):
                if not saved:
                    return None
                depth = depth if name == "endif" else saved[-1]
                if name == "endif":
                    saved.pop()
        if len(tokens.kinds) > limit or (kind == PUNCT and found.group() == ";" and not opened):
            return None
        if opened and depth <= 0 and not saved:
            return tokens
    return None


_SPLICE = re.compile(r"\\\r?\n")
_COMMENT = re.compile(r"//[^\n]*|/\*[\s\S]*?\*/|(\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')")


def plain_directive(text: str) -> str:
    """A directive on one line: splices joined, comments replaced by a space."""
    joined = _SPLICE.sub(" ", text)
    if "/" in joined:
        joined = _COMMENT.sub(lambda found: found.group(1) or " ", joined)
    return joined.strip()


_DIRECTIVE_NAME = re.compile(r"[ \t]*#(?:[ \t]|\\\r?\n|/\*[\s\S]*?\*/)*+(\w*)")


def directive_name(text: str) -> str:
    """`if`, `ifdef`, `define`, … of a directive; "" for the null directive."""
    found = _DIRECTIVE_NAME.match(text)
    return found[1] if found else ""


def _match_brackets(tokens: Tokens) -> dict[int, int]:
    partner: dict[int, int] = {}
    stack: list[tuple[str, int]] = []
    branches: list[tuple[list[tuple[str, int]], list[tuple[str, int]] | None, bool]] = []
    for index, kind in enumerate(tokens.kinds):
        if kind == PUNCT:
            text = tokens.texts[index]
            if text in _OPEN:
                stack.append((_OPEN[text], index))
            elif text in _CLOSE:
                _close(stack, text, index, partner)
        elif kind == DIRECTIVE:
            stack = _branch(tokens.texts[index], stack, branches)
    return partner


def _close(stack: list[tuple[str, int]], text: str, index: int, partner: dict[int, int]) -> None:
    """Pair a closing bracket; a wrong one closes what stands between, so that one slip stays local."""
    for depth in range(len(stack) - 1, max(len(stack) - 5, -1), -1):
        if stack[depth][0] == text:
            opener = stack[depth][1]
            partner[index] = opener
            partner.setdefault(opener, index)
            del stack[depth:]
            return


def _branch(
    directive: str,
    stack: list[tuple[str, int]],
    branches: list[tuple[list[tuple[str, int]], list[tuple[str, int]] | None, bool]],
) -> list[tuple[str, int]]:
    name = directive_name(directive)
    if name in ("if", "ifdef", "ifndef"):
        dead = name == "if" and plain_directive(directive)[1:].split() == ["if", "0"]
        branches.append((list(stack), None, dead))
    elif name in ("else", "elif", "elifdef", "elifndef") and branches:
        before, kept, dead = branches[-1]
        branches[-1] = (before, kept if kept is not None or dead else list(stack), False)
        return list(before)
    elif name == "endif" and branches:
        before, kept, dead = branches.pop()
        if kept is not None:
            return kept
        return before if dead else stack
    return stack

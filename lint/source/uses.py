"""One use of a name: what stands around it (qualifiers, receiver, template arguments, call or launch)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.source.cuda import Function
from ptxguard.source.exprs import Node, parse_expression, split_arguments, template_close
from ptxguard.source.tokens import IDENT, Tokens

if TYPE_CHECKING:
    from ptxguard.source.guards import CppFile, Definition


@dataclass(frozen=True, eq=False)
class MacroBody:
    """A function-like macro seen as a function: its parameters and the tokens of its replacement.

    Attributes:
        definition: the `#define`.
    """

    definition: Definition

    @property
    def unit(self) -> CppFile:
        """File of the definition."""
        return self.definition.unit

    @property
    def name(self) -> str:
        """The macro's name."""
        return self.definition.name

    @property
    def qualified(self) -> str:
        """The macro's name: macros have no scope."""
        return self.definition.name

    @property
    def line(self) -> int:
        """1-based line of the `#define`."""
        return self.definition.line

    @property
    def offset(self) -> int:
        """Offset of the `#define`."""
        return self.definition.offset

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.definition.parameters or ()


Owner = Function | MacroBody


@dataclass(frozen=True, eq=False)
class Use:
    """One place where a name is used.

    Attributes:
        unit: file.
        tokens: the stream the place stands in (the file's, or a macro body's).
        index: token of the name.
        owner: function or macro around it; None at declaration scope.
        kind: call, launch, name (anything else).
        qualifiers: names before `::`, outermost first.
        receiver: object of a member call, or None.
        arguments: expressions of a call.
        template_arguments: as text.
        after: token index behind the name and its template arguments.
    """

    unit: CppFile
    tokens: Tokens
    index: int
    owner: Owner | None
    kind: str
    qualifiers: tuple[str, ...]
    receiver: Node | None
    arguments: tuple[Node, ...]
    template_arguments: tuple[str, ...]
    after: int

    @property
    def offset(self) -> int:
        """Offset in the file."""
        return self.tokens.starts[self.index]

    @property
    def line(self) -> int:
        """1-based line."""
        return self.unit.file.position(self.offset)[0]

    @property
    def path(self) -> str:
        """Path as shown."""
        return self.unit.file.path


def read_use(unit: CppFile, tokens: Tokens, index: int, owner: Owner | None) -> Use | None:
    """What stands around a name: qualifiers, receiver, template arguments, call or launch."""
    start = index
    qualifiers: list[str] = []
    while start >= 2 and tokens.texts[start - 1] == "::":
        before = start - 2
        if tokens.texts[before] == ">":
            before = _template_open(tokens, before) - 1
        if before < 0 or tokens.kinds[before] != IDENT:
            break
        qualifiers.append(tokens.texts[before])
        start = before
    previous = tokens.texts[start - 1] if start else ""
    if previous in ("using", "namespace", "goto", "struct", "class", "typename", "enum", "typedef"):
        return None
    after = index + 1
    arguments: tuple[str, ...] = ()
    if after < len(tokens) and tokens.texts[after] == "<":
        close = template_close(tokens, after, len(tokens))
        if close is not None:
            parts = split_arguments(tokens, after + 1, close)
            arguments = tuple("".join(tokens.texts[i] for i in part) for part in parts)
            after = close + 1
    following = tokens.texts[after] if after < len(tokens) else ""
    receiver = _receiver(tokens, start) if previous in (".", "->") else None
    kind = "name"
    nodes: tuple[Node, ...] = ()
    if following == "<<<":
        kind = "launch"
    elif following == "(" or (following == "{" and previous != ")"):
        close = tokens.match.get(after)
        if following == "{" and close is not None and tokens.texts[close + 1 : close + 2] == ["("]:
            after, close = close + 1, tokens.match.get(close + 1)  # `Load{}(a, b)`: what matters is the call
        if close is not None:
            parts = split_arguments(tokens, after + 1, close)
            kind, nodes = "call", tuple(parse_expression(tokens, part) for part in parts)
    return Use(
        unit, tokens, index, owner, kind, tuple(reversed(qualifiers)), receiver, nodes, arguments, after
    )


def _template_open(tokens: Tokens, index: int) -> int:
    depth = 0
    for place in range(index, max(index - 200, -1), -1):
        depth += (tokens.texts[place] == ">") - (tokens.texts[place] == "<")
        if depth == 0:
            return place
    return index


def _receiver(tokens: Tokens, start: int) -> Node:
    """The expression before `.` or `->` of a member call."""
    place = start - 2
    while place > 0:
        text = tokens.texts[place]
        if text in (")", "]"):
            place = tokens.match.get(place, place) - 1
            if tokens.kinds[place] != IDENT and tokens.texts[place] not in (")", "]"):
                place += 1
                break
            continue
        if tokens.kinds[place] == IDENT and tokens.texts[place - 1] in (".", "->", "::"):
            place -= 2
            continue
        break
    return parse_expression(tokens, range(max(place, 0), start - 1))


_SCOPES = frozenset({"namespace", "struct", "class", "union", "enum", "extern"})


def is_prototype(use: Use) -> bool:
    """Whether a name at declaration scope is only declared: nothing there calls without an initialiser."""
    texts = use.tokens.texts
    start = _declaration_start(texts, use.index)
    if "=" in texts[start : use.index]:
        return False
    return start == 0 or texts[start - 1] != "{" or not _is_initialiser(texts, start - 1)


def _declaration_start(texts: list[str], index: int) -> int:
    while index > 0 and texts[index - 1] not in (";", "{", "}"):
        index -= 1
    return index


def _is_initialiser(texts: list[str], brace: int) -> bool:
    """Whether a brace outside of functions holds values: `table[] = {f, g}`, `table{f, g}`."""
    if brace == 0 or texts[brace - 1] == ")":
        return False  # the body of a function that was not recognised
    if texts[brace - 1] in ("=", ",", "{"):
        return True
    words = texts[_declaration_start(texts, brace) : brace]
    return bool(words) and _SCOPES.isdisjoint(words)

"""Splits a PTX module into its functions and variables by one scan of braces; no instruction is parsed."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from ptxguard.errors import ParseError
from ptxguard.location import SourceFile
from ptxguard.source.ptxvariables import Variable, declared_variables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ptxguard.source.ptxbody import Body

# Braces and what they may hide in; the last two are the starts of a comment and a string that never end.
# Every branch begins with a plain character, so that `re` can skip to the next one (twice as fast as `[{}]`).
_MARKS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|\{|\}|/\*|"', re.DOTALL)
_HIDING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)

_VERSION = re.compile(r"\.version\s+([0-9]{1,4})\.([0-9]{1,4})")
_TARGET = re.compile(r"\.target\s+(\w+)(?:\s*,\s*\w+)*")
_ADDRESS_SIZE = re.compile(r"\.address_size\s+([0-9]{1,4})")
_FUNCTION = re.compile(
    r"(?:\.(?P<linkage>visible|extern|weak|common)\s+)?\.(?P<kind>entry|func)\b"
    r"(?:\s*\.attribute\s*\((?:[^()]|\([^()]*\))*\))?"
    r"(?:\s*\((?P<results>[^()]*)\))?\s*(?P<name>[\w$%]+)\s*(?:\((?P<params>[^()]*)\))?(?P<rest>.*)",
    re.DOTALL,
)
_TUNING = re.compile(r"\.([a-z_]\w*)((?:\s*,?\s*[0-9]{1,10}\b)*)")


@dataclass(frozen=True)
class PtxFunction:
    """An entry or a device function; the body is looked at only when something asks.

    Attributes:
        name: as written (mangled).
        is_entry: `.entry`, a kernel, rather than `.func`.
        linkage: visible, extern, weak, common or "".
        results: names of the result parameters of a `.func`.
        params: names of the parameters, in order.
        tuning: performance directives with their numbers: `{"reqnctapercluster": (2, 1, 1)}`.
        start: offset of `.entry` or `.func` with its linkage.
        body_start: offset behind the opening brace.
        body_end: offset of the closing brace; equal to `body_start` for a mere declaration.
    """

    name: str
    is_entry: bool
    linkage: str
    results: tuple[str, ...]
    params: tuple[str, ...]
    tuning: Mapping[str, tuple[int, ...]]
    start: int
    body_start: int
    body_end: int
    _text: str = field(repr=False, compare=False)

    @property
    def is_defined(self) -> bool:
        """Whether it has a body here."""
        return self.body_end > self.body_start

    def mentions(self, words: str) -> bool:
        """Whether the body holds the characters, comments included; costs no parsing."""
        return self._text.find(words, self.body_start, self.body_end) >= 0

    @cached_property
    def uses_setmaxnreg(self) -> bool:
        """Whether the body asks for another register count: what a driver call makes ptxas ignore (C7506)."""
        return "setmaxnreg" in self.body.text

    @cached_property
    def body(self) -> Body:
        """The body with comments blanked, ready to be asked for statements."""
        from ptxguard.source.ptxbody import Body

        return Body(without_comments(self._text[self.body_start : self.body_end]), self.body_start)


@dataclass(frozen=True)
class PtxModule:
    """A PTX module.

    Attributes:
        source: the file, or a nameless one for a bare text.
        version: PTX ISA version, (8, 6).
        target: as written, `sm_90a`.
        address_size: bits.
        functions: in order; a prototype and its definition are two.
        variables: of module scope.
    """

    source: SourceFile
    version: tuple[int, int]
    target: str
    address_size: int
    functions: tuple[PtxFunction, ...]
    variables: tuple[Variable, ...]

    def line(self, offset: int) -> int:
        """1-based line of an offset."""
        return bisect_right(self.source.line_starts, offset)

    @property
    def text(self) -> str:
        """The whole text."""
        return self.source.text


def read_module(source: SourceFile | str) -> PtxModule:
    """Read a module's header lines and the heads of its functions and variables.

    Raises:
        ParseError: no `.version`/`.target`, or braces, comments or strings that do not close; with line
            and column.
    """
    source = SourceFile("", source) if isinstance(source, str) else source
    text = source.text
    functions: list[PtxFunction] = []
    variables: list[Variable] = []
    lead = ""
    for start, opened, closed in _blocks(text):
        head = without_comments(text[start:opened])
        if not lead:
            lead = head
        pieces = list(_pieces(head, start))
        last, last_offset = pieces[-1]
        for piece, offset in pieces[:-1]:
            _read_head(text, piece, offset, (0, 0), functions, variables)
        _read_head(text, last, last_offset, (opened + 1, closed), functions, variables)
    version, target = _VERSION.search(lead), _TARGET.search(lead)
    if version is None or target is None:
        _fail(text, 0, "no PTX module: it must begin with .version and .target")
    size = _ADDRESS_SIZE.search(lead)
    return PtxModule(
        source=source,
        version=(int(version[1]), int(version[2])),
        target=target[1],
        address_size=int(size[1]) if size else 32,  # PTX ISA, ".address_size": the default
        functions=tuple(functions),
        variables=tuple(variables),
    )


def without_comments(text: str) -> str:
    """The text with comments blanked, every offset and line kept."""
    return _HIDING.sub(_blank, text) if "/" in text else text


def _blank(match: re.Match[str]) -> str:
    found = match[0]
    if found[0] == '"':
        return found
    return " " * len(found) if "\n" not in found else re.sub(r"[^\n]", " ", found)


def _blocks(text: str) -> Iterator[tuple[int, int, int]]:
    """(start of the head, opening brace, closing brace) of each outermost block; the rest as an empty one."""
    depth = start = opened = 0
    for match in _MARKS.finditer(text):
        mark = match[0]
        if mark == "{":
            if not depth:
                opened = match.start()
            depth += 1
        elif mark == "}":
            depth -= 1
            if not depth:
                yield start, opened, match.start()
                start = match.end()
            elif depth < 0:
                _fail(text, match.start(), "a brace closes that none has opened")
        elif mark in {"/*", '"'}:
            _fail(text, match.start(), f"the {'comment' if mark == '/*' else 'string'} has no end")
    if depth:
        _fail(text, opened, "the brace is never closed")
    yield start, len(text), len(text)


def _pieces(head: str, base: int) -> Iterator[tuple[str, int]]:
    """The declarations in front of a block, split at `;`, the lines without `;` taken off."""
    position = 0
    for piece in head.split(";"):
        skipped = 0
        for line in (_VERSION, _TARGET, _ADDRESS_SIZE):
            if (match := line.search(piece)) is not None:
                skipped = max(skipped, match.end())
        rest = piece[skipped:].lstrip()
        yield rest, base + position + len(piece) - len(rest)
        position += len(piece) + 1


def _read_head(
    text: str,
    piece: str,
    offset: int,
    body: tuple[int, int],
    functions: list[PtxFunction],
    variables: list[Variable],
) -> None:
    """Take one declaration in; `.file`, `.section`, `.pragma` and the like are none of ours."""
    match = _FUNCTION.search(piece) if ".entry" in piece or ".func" in piece else None
    if match is None:
        found = piece.find(".")
        if found >= 0:
            variables.extend(declared_variables(piece[found:], offset + found))
        return
    functions.append(
        PtxFunction(
            name=match["name"],
            is_entry=match["kind"] == "entry",
            linkage=match["linkage"] or "",
            results=_parameter_names(match["results"]),
            params=_parameter_names(match["params"]),
            tuning=_read_tuning(match["rest"]),
            start=offset + match.start(),
            body_start=body[0],
            body_end=body[1],
            _text=text,
        )
    )


def _parameter_names(text: str | None) -> tuple[str, ...]:
    """`.param .align 8 .b8 a[16], .reg .b32 b` -> a, b."""
    names = []
    for piece in (text or "").split(","):
        words = piece.split("[", 1)[0].split()
        if words:
            names.append(words[-1])
    return tuple(names)


def _read_tuning(text: str) -> dict[str, tuple[int, ...]]:
    """`.explicitcluster .reqnctapercluster 2, 1, 1` as names with numbers."""
    return {match[1]: tuple(map(int, re.findall(r"[0-9]+", match[2]))) for match in _TUNING.finditer(text)}


def _fail(text: str, offset: int, message: str) -> NoReturn:
    line = text.count("\n", 0, offset) + 1
    raise ParseError(message, line=line, column=offset - (text.rfind("\n", 0, offset) + 1) + 1)

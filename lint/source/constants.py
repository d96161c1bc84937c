"""Integer constants: literals, constexpr variables, enumerators, macros, template arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.source.condition import arithmetic, evaluate
from ptxguard.source.exprs import Node, constant, parse_expression
from ptxguard.source.tokens import tokenize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ptxguard.source.callgraph import CallGraph
    from ptxguard.source.guards import CppFile

_CUTE = re.compile(r"(?:cute::)?(?:_(\d+)|(?:Int|C|integral_constant|Number)<(?:\w+,)?(\d+)>)\Z")
_MAX_DEPTH = 12


@dataclass(eq=False)
class Constants:
    """Evaluates expressions to integers in the context of a file.

    Attributes:
        graph: the call graph, for searches over the tree.
    """

    graph: CallGraph
    _named: dict[tuple[str, CppFile], int | None] = field(default_factory=dict, repr=False)

    def value(
        self, node: Node, unit: CppFile, known: Mapping[str, int | None] | None = None, depth: int = 0
    ) -> int | None:
        """The integer an expression stands for; None where it is not a constant in sight.

        `known` gives values of parameters and template parameters at the place.
        """
        if depth > _MAX_DEPTH:
            return None
        if node.kind == "number":
            return constant(node.text)
        if node.kind == "name":
            return self._name(node, unit, known or {}, depth)
        if node.kind in ("cast",) or (node.kind == "init" and len(node.parts) == 1):
            return self.value(node.parts[0], unit, known, depth + 1)
        if (
            node.kind == "call"
            and len(node.parts) == 2
            and node.text in ("int", "unsigned", "uint32_t", "size_t")
        ):
            return self.value(node.parts[1], unit, known, depth + 1)
        if node.kind in ("init", "call"):
            return cute_integer(node.text, node.arguments)
        if node.kind == "unary":
            return _unary(node.text, self.value(node.parts[0], unit, known, depth + 1))
        if node.kind == "binary":
            left = self.value(node.parts[0], unit, known, depth + 1)
            right = self.value(node.parts[1], unit, known, depth + 1)
            return _binary(node.text, left, right)
        if node.kind == "cond":
            chosen = self.value(node.parts[0], unit, known, depth + 1)
            if chosen is not None:
                return self.value(node.parts[1 if chosen else 2], unit, known, depth + 1)
            yes, no = (self.value(part, unit, known, depth + 1) for part in node.parts[1:])
            return yes if yes == no else None
        return None

    def text_value(
        self, text: str, unit: CppFile, known: Mapping[str, int | None] | None = None
    ) -> int | None:
        """The integer that source text stands for."""
        tokens = tokenize(text)
        return self.value(parse_expression(tokens, range(len(tokens))), unit, known)

    def _name(self, node: Node, unit: CppFile, known: Mapping[str, int | None], depth: int) -> int | None:
        name = node.text
        if name in known:
            return known[name]
        if name in ("true", "false"):
            return int(name == "true")
        cute = cute_integer(name, node.arguments)
        if cute is not None:
            return cute
        short = name.rsplit("::", 1)[-1]
        key = (short, unit)
        if key not in self._named:
            self._named[key] = None  # a constant that names itself has no value
            self._named[key] = self._search(short, unit, depth)
        return self._named[key]

    def _search(self, name: str, unit: CppFile, depth: int) -> int | None:
        given = self.graph.project.defines
        if name in given:  # `-D NAME` is 1 (nvcc), and it stands before every `#define` of the tree
            text = given[name]
            return self._macro("1" if text is None else text, unit)
        macro = self.graph.project.macros.candidates(
            name, self.graph.project.world(None, (13, 0)).macros_at(unit, 1 << 60)
        )
        if macro:
            values = {
                self._macro(definition.value, unit) for definition in macro if definition.value is not None
            }
            return values.pop() if len(values) == 1 else None
        found: set[int | None] = set()
        written = re.compile(rf"{re.escape(name)}\s*[={{]")
        homes = [unit] if written.search(unit.file.text) else []
        homes += [other for other in self.graph.project.with_constant(name) if other is not unit]
        for home in homes:
            if home is not unit and (found or not self.graph.project.connected(unit, home)):
                continue
            if not written.search(home.file.text):
                continue
            for index in home.tokens.positions.get(name, ()):
                node = _constant_initialiser(home, index)
                if node is not None:
                    found.add(self.value(node, home, None, depth + 1))
        return found.pop() if len(found) == 1 else None

    def _macro(self, text: str, unit: CppFile) -> int | None:
        place = self.graph.project.world(None, (13, 0)).macros_at(unit, 1 << 60)
        return evaluate(text, place).number if text.strip() else None


def cute_integer(name: str, arguments: tuple[str, ...]) -> int | None:
    """Value of `_2`, `Int<2>`, `integral_constant<int, 2>`."""
    text = name + (f"<{','.join(arguments)}>" if arguments else "")
    found = _CUTE.match(text.replace("std::", ""))
    return int(found[1] or found[2]) if found else None


def _constant_initialiser(unit: CppFile, index: int) -> Node | None:
    """The initialiser where a name is declared const, constexpr or as an enumerator."""
    tokens = unit.tokens
    following = tokens.texts[index + 1] if index + 1 < len(tokens) else ""
    if following not in ("=", "{"):
        return None
    start = index
    while start > 0 and tokens.texts[start - 1] not in (";", "{", "}", "(", ")", ",") and index - start < 24:
        start -= 1
    words = tokens.texts[start:index]
    is_enumerator = not words and tokens.texts[start - 1] in ("{", ",")
    if not is_enumerator and not {"constexpr", "const"}.intersection(words):
        return None
    stop = index + 2
    while stop < len(tokens) and tokens.texts[stop] not in (";", ",", "}"):
        stop = tokens.match.get(stop, stop) + 1 if tokens.texts[stop] in ("(", "[", "{", "<") else stop + 1
    return parse_expression(tokens, range(index + 2, min(stop, len(tokens))))


def _unary(operator: str, value: int | None) -> int | None:
    if value is None:
        return None
    return {"-": -value, "+": value, "~": ~value, "!": int(not value)}.get(operator)


def _binary(operator: str, left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return None
    if operator in ("&&", "||"):
        return int(bool(left and right)) if operator == "&&" else int(bool(left or right))
    return arithmetic(operator, left, right)

"""The texts that an expression can have, joined and chosen between, never more than a bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

    from ptxguard.source.pythoncalls import Call
    from ptxguard.source.pythonframe import Frame
    from ptxguard.source.pythonliterals import Pieces

MAX_TEXTS = 128


@dataclass(frozen=True, eq=False)
class Text:
    """One text that an expression can have.

    Attributes:
        pieces: characters with their places; a field whose value is not in sight is a `Hole`.
        branches: assignments that were taken on the way, so that operands assigned beside them are found.
        via: calls through whose arguments the text came, the innermost first.
    """

    pieces: Pieces
    branches: tuple[Node, ...] = ()
    via: tuple[Call, ...] = ()

    def plus(self, other: Text) -> Text:
        """This text followed by another."""
        return Text(self.pieces + other.pieces, self.branches + other.branches, self.via or other.via)


# None stands for more texts than are enumerated.
Texts = list[Text] | None


def joined(parts: list[Texts]) -> Texts:
    """Every text made of one text of each part, in order."""
    found = [Text(())]
    for part in parts:
        if part is None or len(found) * len(part) > MAX_TEXTS:
            return None
        found = [left.plus(right) for left in found for right in part] if part else found
    return found


def either(parts: list[Texts]) -> Texts:
    """Texts of any of the parts."""
    found: list[Text] = []
    for part in parts:
        if part is None:
            return None
        found.extend(part)
    return found if len(found) <= MAX_TEXTS else None


def element(value: Node, path: tuple[int, ...]) -> Node | None:
    """The expression at a place of an unpacked literal."""
    for place in path:
        if value.type not in ("tuple", "list", "expression_list") or place >= len(value.named_children):
            return None
        value = value.named_children[place]
    return value


def pairs(node: Node, frame: Frame) -> list[tuple[str, Node]]:
    """Keys (as text without quotes) and values of a dict literal."""
    found = []
    for pair in node.named_children:
        key, value = pair.child_by_field_name("key"), pair.child_by_field_name("value")
        if key is not None and value is not None:
            found.append((frame.scope.unit.text(key).strip("'\""), value))
    return found


def keywords(given: list[Node], frame: Frame) -> list[tuple[str, Node]]:
    """Keyword arguments with their values."""
    found = []
    for one in given:
        name, value = one.child_by_field_name("name"), one.child_by_field_name("value")
        if one.type == "keyword_argument" and name is not None and value is not None:
            found.append((frame.scope.unit.text(name), value))
    return found

"""Where a Python expression is read: its scope, what `self` is, what the caller passed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tree_sitter import Node

    from ptxguard.source.pythoncalls import Call, Classes
    from ptxguard.source.pythonscope import Binding, Scope

# Integers, strings, booleans, None, tuples of such, `Instance`, and `Unknown` for what cannot be told.
Values = list[Any]


@dataclass(frozen=True)
class Unknown:
    """A value that cannot be told, with the reason."""

    reason: str


@dataclass(frozen=True, eq=False)
class Instance:
    """An object made by a call in sight.

    Attributes:
        record: its class.
        call: the constructor call.
        frame: the frame in which the call's arguments are to be read.
    """

    record: Scope
    call: Node
    frame: Frame


@dataclass(frozen=True, eq=False)
class Frame:
    """A scope in which expressions are read.

    Attributes:
        scope: the function, class or module.
        classes: what `self` can be, None where there is no `self`.
        arguments: parameter -> (expression, frame of the caller); missing ones are read at every caller.
    """

    scope: Scope
    classes: Classes | None = None
    arguments: dict[str, tuple[Node, Frame]] = field(default_factory=dict)

    def place(self, node: Node) -> str:
        """`path:line` of an expression."""
        return f"{self.scope.unit.file.path}:{self.scope.unit.line(node)}"


def caller_frame(call: Call) -> Frame:
    """The frame in which the arguments of a call are to be read."""
    return Frame(call.scope, call.classes)


def binder(name: str, scope: Scope) -> Scope:
    """The function whose parameter a name is."""
    place: Scope | None = scope
    while place is not None and name not in place.bindings:
        place = place.parent
    return place or scope


def self_name(scope: Scope) -> str:
    """What a method calls its object, "" elsewhere; inner functions see the name of the method."""
    place: Scope | None = scope
    while place is not None:
        if place.owner is not None and place.parameters and "staticmethod" not in place.decorators:
            return place.parameters[0].name
        place = place.parent
    return ""


def inner_frame(binding: Binding, frame: Frame) -> Frame:
    """The frame in which the value of a binding is to be read."""
    return frame if binding.scope is frame.scope else Frame(binding.scope, frame.classes)

"""Tests that hold where a Python statement runs, which exclude each other, what they say of targets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

    from ptxguard.arch import Target
    from ptxguard.source.pythonscope import Scope

# A test as text, whether it holds, and its syntax node.
Condition = tuple[str, bool, "Node"]

_WORD = re.compile(r"[A-Za-z_]\w*")
_WRAPPERS = ("const_expr", "constexpr", "bool")
_ARCH_NAME = re.compile(
    r"(?:^|[._])(?:arch|sm|sm_version|sm_arch|cc|compute_capability|capability|gpu_arch)(?:$|[._\[(])"
)
_MAJOR_NAME = re.compile(r"(?:^|[._])(?:major|sm_major|cc_major)$")


def path_conditions(node: Node, scope: Scope) -> tuple[Condition, ...]:
    """Tests of the `if` branches around a node inside its function, the innermost first."""
    found: list[Condition] = []
    inner, around = node, node.parent
    while around is not None and inner != scope.node:
        if around.type in ("if_statement", "elif_clause", "conditional_expression"):
            _branch(inner, around, scope, found)
        elif around.type == "else_clause" and around.parent is not None:
            pass  # the tests before it are read when the `if` around is reached
        inner, around = around, around.parent
    return tuple(found)


def _branch(inner: Node, around: Node, scope: Scope, found: list[Condition]) -> None:
    if around.type == "conditional_expression":
        first, chosen, last = around.named_children
        if inner == first:
            _split(chosen, scope, found, holds=True)
        elif inner == last:
            _split(chosen, scope, found, holds=False)
        return
    test = around.child_by_field_name("condition")
    if test is None:
        return
    if inner == around.child_by_field_name("consequence"):
        _split(test, scope, found, holds=True)
    if around.type == "if_statement" and inner.type in ("elif_clause", "else_clause"):
        _split(test, scope, found, holds=False)
        for clause in around.children_by_field_name("alternative"):
            if clause == inner:
                break
            other = clause.child_by_field_name("condition")
            if other is not None:
                _split(other, scope, found, holds=False)


def _split(test: Node, scope: Scope, found: list[Condition], *, holds: bool) -> None:
    """`a and b` holds: both do; `a or b` fails: both do; `not a` turns round."""
    unit = scope.unit
    if test.type == "parenthesized_expression" and test.named_children:
        _split(test.named_children[0], scope, found, holds=holds)
        return
    if test.type == "call" and unit.callee(test) in _WRAPPERS:
        listed = test.child_by_field_name("arguments")
        if listed is not None and len(listed.named_children) == 1:
            _split(listed.named_children[0], scope, found, holds=holds)
            return
    if test.type == "not_operator":
        _split(test.named_children[0], scope, found, holds=not holds)
        return
    sign = test.child_by_field_name("operator")
    if test.type == "boolean_operator" and sign is not None and sign.type == ("and" if holds else "or"):
        for part in ("left", "right"):
            child = test.child_by_field_name(part)
            if child is not None:
                _split(child, scope, found, holds=holds)
        return
    text = " ".join(unit.text(test).split())
    # A name that changes its value says nothing about another place.
    if all(len(scope.bindings.get(word, ())) < 2 for word in _WORD.findall(text)):
        found.append((text, holds, test))


def contradicts(one: tuple[Condition, ...], other: tuple[Condition, ...]) -> bool:
    """Whether two places of a function are never both reached: a test holds at one, fails at the other."""
    known = {text: holds for text, holds, _ in other}
    return any(text in known and known[text] != holds for text, holds, _ in one)


def excluded_targets(
    conditions: tuple[Condition, ...], targets: tuple[Target, ...], scope: Scope
) -> set[str]:
    """Targets for which a test on the architecture surely does not hold."""
    excluded = set()
    for _, holds, test in conditions:
        for target in targets:
            if _holds_for(test, target, scope) is (not holds):
                excluded.add(target.name)
    return excluded


def _holds_for(test: Node, target: Target, scope: Scope) -> bool | None:
    """Value of `arch >= 120`, `sm == "sm_90a"`, `major == 12`, `arch in (…)` for a target, else None."""
    if test.type != "comparison_operator" or test.child_count != 3:
        return None
    left, sign, right = test.children
    name = scope.unit.text(left)
    value = _read(name, scope.unit.text(right), target)
    if value is None:
        return None
    own, others = value
    written = scope.unit.text(sign)
    if written == "in":
        return own in others
    if written == "not in":
        return own not in others
    if len(others) != 1 or written not in _COMPARE:
        return None
    return _compared(written, own, others[0])


_COMPARE = ("==", "!=", "<", "<=", ">", ">=")
_NUMBER = re.compile(r"\d+")
_TARGET = re.compile(r"[\"'](?:sm|compute)_(\d+)([af]?)[\"']")


def _read(name: str, text: str, target: Target) -> tuple[object, list[object]] | None:
    """The target's own value in the unit of the constants that it is compared with."""
    named = _TARGET.findall(text)
    if named and _ARCH_NAME.search(name):
        return target.name.removeprefix("sm_"), [number + suffix for number, suffix in named]
    bare = re.fullmatch(r"[\s\d,()\[\]{}]+", text)
    numbers = [int(one) for one in _NUMBER.findall(text)] if bare else []
    if not numbers:
        return None
    if _MAJOR_NAME.search(name):
        return target.number // 10, list(numbers)
    if _ARCH_NAME.search(name) and all(20 <= one < 200 for one in numbers):
        return target.number, list(numbers)
    if _ARCH_NAME.search(name) and all(200 <= one < 2000 for one in numbers):
        return target.arch_macro, list(numbers)
    return None


def _compared(sign: str, own: object, other: object) -> bool | None:
    if sign == "==":
        return own == other
    if sign == "!=":
        return own != other
    if not (isinstance(own, int) and isinstance(other, int)):
        return None
    return {"<": own < other, "<=": own <= other, ">": own > other, ">=": own >= other}[sign]

"""A cheap look at raw text before its tokens are made: whether it may define a function of a name."""

from __future__ import annotations

import re

_PARENTHESIS = re.compile(r"[()]")
_END = re.compile(r"[;{]")
# Longest parameter list, and longest stretch between it and the body, that are looked at; beyond, yes.
_MAX_PARAMETERS, _MAX_BETWEEN = 8000, 600


def may_define(text: str, name: str) -> bool:
    """Whether some mention of a name is followed by `(…)` and then a `{` before any `;`: False is certain.

    Comments are not skipped: a stray bracket in one can only turn the answer into yes.
    """
    place = text.find(name)
    while place >= 0:
        after = place + max(len(name), 1)
        if _opens_body(text, after):
            return True
        place = text.find(name, after)
    return False


def _opens_body(text: str, place: int) -> bool:
    while place < len(text) and text[place].isspace():
        place += 1
    head = text[place : place + 1]
    if head == "<":
        place = text.find("(", place, place + 600)
        if place < 0:
            return False
    elif head != "(":
        return False
    depth, limit = 0, place + _MAX_PARAMETERS
    for found in _PARENTHESIS.finditer(text, place, limit):
        depth += 1 if found.group() == "(" else -1
        if depth == 0:
            return _brace_first(text, found.end())
    return True


def _brace_first(text: str, place: int) -> bool:
    found = _END.search(text, place, place + _MAX_BETWEEN)
    return found is None or found.group() == "{"

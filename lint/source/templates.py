"""Jinja templates as the C++ that they make, with what Jinja would fill in made opaque, in place."""

from __future__ import annotations

import re

# Jinja's default delimiters (Template Designer Documentation, "Synopsis").
_MARKUP = re.compile(r"\{\{(?:.|\n)*?\}\}|\{%(?:.|\n)*?%\}|\{#(?:.|\n)*?#\}")
_NO_LINE_END = re.compile(r"[^\n]")
# What a field of an f-string becomes in C++ text; a name that no program has.
FIELD = "field_not_in_sight"
# An expression becomes a name of the same length, so that every place stays what it was.
_NAME = "jinja_field_"


def without_fields(text: str) -> str:
    """The text with `{{ … }}` as a name and `{% … %}`, `{# … #}` as white space, each of its own length."""
    return _MARKUP.sub(_opaque, text)


def is_opaque(name: str) -> bool:
    """Whether a name was made, wholly or in part, of a template's or f-string's field."""
    return FIELD in name or _NAME[:5] in name


def _opaque(found: re.Match[str]) -> str:
    markup = found.group()
    if not markup.startswith("{{"):
        return _NO_LINE_END.sub(" ", markup)
    if "\n" in markup:
        return _NAME[:1] + _NO_LINE_END.sub(" ", markup[1:])
    return (_NAME + "_" * len(markup))[: len(markup)]

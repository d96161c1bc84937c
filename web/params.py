"""What may stand behind the `?` of a page: declared once, for parsing, links and the OpenAPI description."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptxguard.errors import ConfigError

MAX_TEXT = 4096
# Largest integer that both databases take as a row or run number.
MAX_INTEGER = (1 << 31) - 1


@dataclass(frozen=True)
class Param:
    """One query parameter.

    Attributes:
        name: as it stands in the URL.
        text: what it selects, for the API description.
        kind: text, integer, number or choice.
        choices: the words of a choice.
        default: value where the URL names none; links leave it out.
    """

    name: str
    text: str
    kind: str = "text"
    choices: tuple[str, ...] = ()
    default: Any = None

    def parse(self, raw: str) -> Any:
        """The value of a text.

        Raises:
            ConfigError: the text is no such value.
        """
        if self.kind == "integer":
            return self._integer(raw)
        if self.kind == "number":
            return self._number(raw)
        if self.kind == "choice" and raw not in self.choices:
            raise ConfigError(f"{self.name}={shown(raw)} is none; use one of {', '.join(self.choices)}")
        if len(raw) > MAX_TEXT:
            raise ConfigError(f"{self.name} has {len(raw)} characters; {MAX_TEXT} are read")
        if "\0" in raw:
            raise ConfigError(f"{self.name} holds a NUL character")
        return raw

    def _integer(self, raw: str) -> int:
        digits = raw.isascii() and raw.isdigit() and len(raw) <= len(str(MAX_INTEGER))
        if not digits or not 1 <= int(raw) <= MAX_INTEGER or raw != str(int(raw)):
            raise ConfigError(f"{self.name}={shown(raw)} is no whole number from 1 to {MAX_INTEGER}")
        return int(raw)

    def _number(self, raw: str) -> float:
        try:
            value = float(raw) if raw.isascii() and "_" not in raw else math.nan
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < 0:
            raise ConfigError(f"{self.name}={shown(raw)} is no number from 0 on")
        return value

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the value."""
        if self.kind == "integer":
            return {"type": "integer", "minimum": 1, "maximum": MAX_INTEGER}
        if self.kind == "number":
            return {"type": "number", "minimum": 0}
        if self.kind == "choice":
            return {"type": "string", "enum": list(self.choices)}
        return {"type": "string", "maxLength": MAX_TEXT, "minLength": 1, "pattern": "^[^\\u0000]+$"}


def shown(raw: str) -> str:
    """A text of unknown length and content, for a sentence."""
    return repr(raw if len(raw) <= 80 else raw[:80] + "…")


def parse_query(
    params: Sequence[Param], given: Mapping[str, Sequence[str]], *, empty_is_none: bool
) -> dict[str, Any]:
    """Values of all parameters.

    Args:
        params: those that the page knows.
        given: name -> values as the URL holds them.
        empty_is_none: whether a form without JavaScript sent it, which sends its empty fields too.

    Raises:
        ConfigError: a parameter is unknown, given twice, or no value of its kind.
    """
    known = {param.name: param for param in params}
    for name, values in given.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; it knows {', '.join(known)}"
            raise ConfigError(f"this page has no parameter {shown(name)}{hint}")
        if len(values) != 1:
            raise ConfigError(f"{name} is given {len(values)} times")
    parsed = {param.name: param.default for param in params}
    for name, (raw,) in given.items():
        if raw or not empty_is_none:
            if not raw:
                raise ConfigError(f"{name} is empty; leave it out")
            parsed[name] = known[name].parse(raw)
    return parsed

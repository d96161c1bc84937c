"""What is said about codes that no module of `ptxguard.rules` reports: those of `scan` and of suppression."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from ptxguard.finding import Severity


@dataclass(frozen=True)
class OtherRule:
    """One code.

    Attributes:
        code: `TMA101`.
        name: words joined by dashes.
        summary: one sentence.
        documentation: prose with the headings of rules.
        severity: the worst that it reports.
    """

    code: str
    name: str
    summary: str
    documentation: str
    severity: Severity


@lru_cache(maxsize=1)
def other_rules() -> tuple[OtherRule, ...]:
    """All of them, by code."""
    table = tomllib.loads(files("ptxguard").joinpath("otherrules.toml").read_text("utf-8"))
    return tuple(
        OtherRule(code, row["name"], row["summary"], row["text"], Severity[row["severity"].upper()])
        for code, row in sorted(table.items())
    )


def find_other(code: str) -> OtherRule | None:
    """The one with a code or a name, in any case of letters; None where there is none."""
    wanted = code.strip().lower()
    return next((rule for rule in other_rules() if wanted in (rule.code.lower(), rule.name)), None)

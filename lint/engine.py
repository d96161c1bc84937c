"""Runs the rules over the copy sites of an analysis; finds them by walking their package, none by name."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import lru_cache
from typing import TYPE_CHECKING

from ptxguard.errors import ConfigError
from ptxguard.finding import Finding, with_fingerprints

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ptxguard.model import Analysis
    from ptxguard.rule import CheckOptions, Rule


@lru_cache(maxsize=1)
def all_rules() -> tuple[Rule, ...]:
    """Every rule of the package `ptxguard.rules`, by code."""
    package = importlib.import_module("ptxguard.rules")
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    found: list[Rule] = [importlib.import_module(f"{package.__name__}.{name}").RULE for name in names]
    return tuple(sorted(found, key=lambda rule: rule.meta.code))


def find_rule(code: str) -> Rule:
    """The rule with a code or a name, in any case.

    Raises:
        ConfigError: there is none; the message names the nearest one.
    """
    wanted = code.strip().lower()
    for rule in all_rules():
        if wanted in (rule.meta.code.lower(), rule.meta.name):
            return rule
    raise ConfigError(f"there is no rule {code!r}; {_suggestion(wanted)}")


def select_rules(select: Iterable[str], ignore: Iterable[str]) -> tuple[Rule, ...]:
    """Rules whose code begins with one of `select` (all where it is empty) and with none of `ignore`.

    Args:
        select: codes, names or prefixes of codes; several may be joined with commas.
        ignore: likewise.

    Raises:
        ConfigError: one of them matches no rule.
    """
    chosen = _matching(select) if (select := list(select)) else all_rules()
    dropped = _matching(ignore)
    return tuple(rule for rule in chosen if rule not in dropped)


def run_rules(analysis: Analysis, selection: Sequence[Rule], options: CheckOptions) -> list[Finding]:
    """Findings of the selected rules, by path, line, column and code, with their fingerprints."""
    if analysis.is_empty:
        return []
    found = [
        finding for rule in selection for finding in rule.check(getattr(analysis, rule.subject), options)
    ]
    return with_fingerprints(found)


def _matching(selectors: Iterable[str]) -> tuple[Rule, ...]:
    matched: set[str] = set()
    for selector in (part.strip().lower() for text in selectors for part in text.split(",")):
        codes = [
            rule.meta.code
            for rule in all_rules()
            if selector and (rule.meta.code.lower().startswith(selector) or rule.meta.name == selector)
        ]
        if not codes:
            raise ConfigError(f"no rule matches {selector!r}; {_suggestion(selector)}")
        matched.update(codes)
    return tuple(rule for rule in all_rules() if rule.meta.code in matched)


def _suggestion(wanted: str) -> str:
    codes = [rule.meta.code for rule in all_rules()]
    known = [code.lower() for code in codes] + [rule.meta.name for rule in all_rules()]
    near = difflib.get_close_matches(wanted, known, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0].upper() if near[0] not in known[len(codes) :] else near[0]}?"
    return f"the codes are {', '.join(codes)}"

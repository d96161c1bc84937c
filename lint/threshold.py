"""A bound on price: `256 MiB` of memory that one context may lose."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ptxguard.errors import ConfigError

if TYPE_CHECKING:
    from ptxguard.finding import Finding, Severity

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(MiB|GiB|KiB)?\Z", re.IGNORECASE)
_UNIT_MIB = {"kib": 1 / 1024, "mib": 1.0, "gib": 1024.0}


def read_size(text: str | None) -> float | None:
    """A size in MiB; None where none is given.

    Raises:
        ConfigError: the text is no size.
    """
    if text is None:
        return None
    match = _SIZE.match(text.strip())
    if match is None:
        raise ConfigError(f'--fail-above {text!r} is no size; write it like "256 MiB"')
    return float(match[1]) * _UNIT_MIB[(match[2] or "MiB").lower()]


def fails(finding: Finding, level: Severity, bound_mib: float | None) -> bool:
    """Whether a finding makes a command exit 1: by price where both are known, else severity."""
    prices = [cost.expected_mib for cost in finding.cost if cost.expected_mib is not None]
    if bound_mib is None or not prices:
        return finding.severity >= level
    return max(prices) > bound_mib

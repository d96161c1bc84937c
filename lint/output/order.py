"""The order and the words in which formats with limits show findings: the most severe first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ptxguard.finding import Finding


def most_severe_first(findings: Iterable[Finding]) -> list[Finding]:
    """By severity, then confidence; within both in file order."""
    return sorted(findings, key=lambda finding: (-finding.severity, -finding.confidence))


def counted(count: int, word: str) -> str:
    """`1 error`, `2 errors`."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"

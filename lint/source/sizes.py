"""Cluster size of one launch or one attribute, and how dimensions make a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptxguard.finding import Evidence


@dataclass(frozen=True)
class Size:
    """Cluster size of one launch or attribute.

    Attributes:
        verdict: one, larger or undecided.
        reason: one sentence.
        evidence: places.
    """

    verdict: str
    reason: str
    evidence: tuple[Evidence, ...] = ()


def sized(values: list[int | None], text: str, place: str, evidence: tuple[Evidence, ...]) -> Size:
    """Verdict for cluster dimensions of which some may be unknown."""
    product = 1
    for value in values:
        if value is not None and value > 1:
            return Size("larger", f"{text} ({place})", evidence)
        product = product if value is not None else 0
    if product:
        return Size("one", f"{text} ({place})", evidence)
    return Size("undecided", f"the value of {text} is not a constant in sight ({place})", evidence)

"""Facts about the helper function around a copy: what its calls pass, and its twin for `shared::cta`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptxguard.location import Span


@dataclass(frozen=True)
class HelperCall:
    """One call of the helper that holds a copy.

    Attributes:
        span: the helper's name at the call.
        destination: owner of the destination that it passes: local, peer or unknown.
    """

    span: Span
    destination: str


@dataclass(frozen=True)
class Twin:
    """The function that is a helper's equal for `shared::cta`.

    Attributes:
        name: unqualified.
        qualified: with its scopes.
        path: of its copy.
        line: 1-based.
        column: 1-based, in code points.
    """

    name: str
    qualified: str
    path: str
    line: int
    column: int

    @property
    def place(self) -> tuple[str, int, int]:
        """(path, line, column) of its copy."""
        return self.path, self.line, self.column

"""The findings of one run in memory, by facet, so that filters and counts are a few operations on sets.

A run never changes once it is stored; only reviews do, and those are asked for each time.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ptxguard.errors import ConfigError
from ptxguard.finding import Confidence, Severity
from ptxguard.store.bits import everything, mask_of, masks_of, positions_of
from ptxguard.store.rows import STATUSES, UNREVIEWED, Facet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ptxguard.store.database import Database
    from ptxguard.store.rows import FindingFilter

# Answers about prices that are kept: every page of findings asks for the same few steps.
_MOST_PRICES = 64
_COLUMNS = ("code", "verdict", "destination", "witness", "path")
# Facets in the order in which they are given back; `status` comes from reviews, the last three from tables.
FACETS = (
    "subject code severity confidence verdict destination path status state witness target gpu basis".split()
)
_WORDS: dict[str, dict[int, str]] = {
    "severity": {int(level): level.word for level in Severity},
    "confidence": {int(level): level.word for level in Confidence},
}


@dataclass(frozen=True)
class FindingIndex:
    """Findings of a run in the order of lists: by file, line and position in the report.

    Attributes:
        run: number of the run.
        subject: of the run.
        size: how many findings.
        keys: path, line and place of each position.
        fingerprints: fingerprint -> position.
        masks: facet -> value -> set of positions.
        prices: card -> (position, MiB or None, basis).
    """

    run: int
    subject: str
    size: int
    keys: tuple[tuple[str, int, int], ...]
    fingerprints: Mapping[str, int]
    masks: Mapping[str, Mapping[str, int]]
    prices: Mapping[str, tuple[tuple[int, float | None, str], ...]]
    _priced_before: dict[tuple[Any, ...], int] = field(default_factory=dict, repr=False, compare=False)

    def select(self, wanted: FindingFilter, reviews: Mapping[str, str]) -> int:
        """The set of positions that a filter asks for; `reviews` is fingerprint -> status."""
        mask = everything(self.size)
        if wanted.subject is not None and wanted.subject != self.subject:
            return 0
        for name in (*_COLUMNS, "severity", "confidence", "state", "target"):
            if (value := getattr(wanted, name)) is not None:
                mask &= self.masks[name].get(value, 0)
        if wanted.status is not None:
            mask &= self.status_masks(reviews).get(wanted.status, 0)
        asked = (wanted.gpu, wanted.basis, wanted.min_mib)
        if asked != (None, None, None):
            if asked not in self._priced_before:
                if len(self._priced_before) >= _MOST_PRICES:
                    self._priced_before.clear()
                self._priced_before[asked] = self._priced(wanted)
            mask &= self._priced_before[asked]
        return mask

    def status_masks(self, reviews: Mapping[str, str]) -> dict[str, int]:
        """Status -> set of positions."""
        places: dict[str, list[int]] = {}
        for fingerprint, status in reviews.items():
            if (position := self.fingerprints.get(fingerprint)) is not None:
                places.setdefault(status, []).append(position)
        masks = {status: mask_of(positions, self.size) for status, positions in places.items()}
        reviewed = 0
        for mask in masks.values():
            reviewed |= mask
        return {**masks, UNREVIEWED: everything(self.size) & ~reviewed}

    def _priced(self, wanted: FindingFilter) -> int:
        cards = self.prices.values() if wanted.gpu is None else (self.prices.get(wanted.gpu, ()),)
        return mask_of(
            (
                position
                for rows in cards
                for position, mib, basis in rows
                if (wanted.basis is None or basis == wanted.basis)
                and (wanted.min_mib is None or (mib is not None and mib >= wanted.min_mib))
            ),
            self.size,
        )

    def count(self, mask: int, reviews: Mapping[str, str]) -> dict[tuple[str, str], int]:
        """(facet, value) -> how many findings of a set have it."""
        found: dict[tuple[str, str], int] = {}
        for name in FACETS:
            if name == "path":  # thousands of values: a walk over the findings is shorter
                continue
            for value, having in self._masks(name, reviews).items():
                if value and (count := (mask & having).bit_count()):
                    found[name, value] = count
        paths = Counter(self.keys[position][0] for position in positions_of(mask))
        found.update((("path", path), count) for path, count in paths.items() if path)
        return found

    def _masks(self, name: str, reviews: Mapping[str, str]) -> Mapping[str, int]:
        if name == "subject":
            return {self.subject: everything(self.size)}
        return self.status_masks(reviews) if name == "status" else self.masks[name]


def check_words(wanted: FindingFilter) -> None:
    """Refuse words that no finding can have.

    Raises:
        ConfigError: severity, confidence or status is none.
    """
    known = {name: tuple(words.values()) for name, words in _WORDS.items()}
    for name, words in {**known, "status": (*STATUSES, UNREVIEWED)}.items():
        value = getattr(wanted, name)
        if value is not None and value not in words:
            raise ConfigError(f"{value!r} is no {name}; use one of {', '.join(words)}")


def read_index(database: Database, run: int, subject: str) -> FindingIndex:
    """Read the findings of a run."""
    rows = database.rows(
        "SELECT f.place, f.path, f.line, f.fingerprint, f.code, f.verdict, f.destination, f.witness,"
        " f.severity, f.confidence, h.state FROM finding AS f JOIN history AS h"
        " ON h.subject = f.subject AND h.fingerprint = f.fingerprint AND h.run = f.run WHERE f.run = :run",
        {"run": run},
    )
    rows.sort(key=lambda row: (row[1], row[2], row[0]))
    position_of = {row[0]: position for position, row in enumerate(rows)}
    columns = {
        "path": [row[1] for row in rows],
        "code": [row[4] for row in rows],
        "verdict": [row[5] for row in rows],
        "destination": [row[6] for row in rows],
        "witness": [row[7] for row in rows],
        "severity": [_WORDS["severity"][row[8]] for row in rows],
        "confidence": [_WORDS["confidence"][row[9]] for row in rows],
        "state": [row[10] for row in rows],
    }
    masks = {name: masks_of(values) for name, values in columns.items()}
    prices = _read_prices(database, run, position_of)
    masks["target"] = _joined(database, run, "finding_target", "target", position_of.__getitem__, len(rows))
    masks["gpu"] = _joined(database, run, "price", "gpu", position_of.__getitem__, len(rows))
    masks["basis"] = _joined(database, run, "price", "basis", position_of.__getitem__, len(rows))
    return FindingIndex(
        run,
        subject,
        len(rows),
        tuple((row[1], row[2], row[0]) for row in rows),
        {row[3]: position for position, row in enumerate(rows)},
        masks,
        prices,
    )


def _read_prices(
    database: Database, run: int, position_of: Mapping[int, int]
) -> dict[str, tuple[tuple[int, float | None, str], ...]]:
    found: dict[str, list[tuple[int, float | None, str]]] = {}
    rows = database.rows("SELECT place, gpu, mib, basis FROM price WHERE run = :run", {"run": run})
    for place, gpu, mib, basis in rows:
        found.setdefault(gpu, []).append((position_of[place], mib, basis))
    return {gpu: tuple(prices) for gpu, prices in found.items()}


def _joined(
    database: Database, run: int, table: str, column: str, position_of: Callable[[int], int], size: int
) -> dict[str, int]:
    """Value of a table of its own -> set of positions."""
    places: dict[str, list[int]] = {}
    for place, value in database.rows(f"SELECT place, {column} FROM {table} WHERE run = :run", {"run": run}):
        places.setdefault(value, []).append(position_of(place))
    return {value: mask_of(positions, size) for value, positions in places.items()}


def merge_counts(counts: list[dict[tuple[str, str], int]], most: int | None) -> tuple[Facet, ...]:
    """Facets of several runs, in their order, the most frequent values first; of each at most so many."""
    named: dict[str, Counter[str]] = {name: Counter() for name in FACETS}
    for one in counts:
        for (name, value), count in one.items():
            named[name][value] += count
    return tuple(
        Facet(name, value, count) for name, values in named.items() for value, count in _ranked(values, most)
    )


def _ranked(values: Counter[str], most: int | None) -> list[tuple[str, int]]:
    if most is None or len(values) <= most:
        return sorted(values.items(), key=lambda item: (-item[1], item[0]))
    return heapq.nsmallest(most, values.items(), key=lambda item: (-item[1], item[0]))

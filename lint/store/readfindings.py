"""Answers the questions that pages ask about findings."""

from __future__ import annotations

import heapq
import json
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from ptxguard.errors import ConfigError
from ptxguard.store.bits import mask_of, positions_of
from ptxguard.store.findingindex import FindingIndex, check_words, merge_counts, read_index
from ptxguard.store.indexes import IndexCache
from ptxguard.store.rows import Excerpt, HistoryEntry, Page, Review, StoredFinding
from ptxguard.store.scope import AT_ONCE, ScopedReader, first_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.store.rows import Facet, FindingFilter

_FINDING = (
    "SELECT f.place, f.run, f.subject, h.state, f.record, f.fingerprint, v.status, v.note, v.changed"
    " FROM finding AS f"
    " JOIN history AS h ON h.subject = f.subject AND h.fingerprint = f.fingerprint AND h.run = f.run"
    " LEFT JOIN review AS v ON v.subject = f.subject AND v.fingerprint = f.fingerprint"
)
_BRIEF = _FINDING.replace("f.record", "f.brief")
LISTS = ("new", "resolved", "unchanged")
# A process keeps the findings of some dozens of runs.
_INDEXES: IndexCache[FindingIndex] = IndexCache(400_000, lambda index: index.size)


class FindingReader(ScopedReader):
    """Findings, their facets, what became of them, and the lines of source that runs have kept."""

    def findings(self, wanted: FindingFilter, page: int = 1, size: int = 50) -> Page[StoredFinding]:
        """Findings by file and line, without kernels and evidence.

        Raises:
            ConfigError: the page number or a word of the filter is none.
        """
        check_words(wanted)
        first = first_row(page, size)
        selected = self._selected(wanted)
        masks = [(index, mask) for index, mask, _ in selected if mask]
        total = sum(mask.bit_count() for _, mask in masks)
        wanted_rows = islice(_in_order(masks), first, first + size)
        return Page(self._brief_rows(list(wanted_rows)), page, size, total)

    def count(self, wanted: FindingFilter) -> int:
        """How many findings a filter leaves.

        Raises:
            ConfigError: a word of the filter is none.
        """
        check_words(wanted)
        return sum(mask.bit_count() for _, mask, _ in self._selected(wanted))

    def facets(self, wanted: FindingFilter, most: int | None = None) -> tuple[Facet, ...]:
        """Values that the findings of a filter have, with counts, the most frequent of each facet first.

        Args:
            wanted: which findings.
            most: values of each facet at most; None: all.

        Raises:
            ConfigError: a word of the filter is none.
        """
        check_words(wanted)
        counts = [index.count(mask, reviews) for index, mask, reviews in self._selected(wanted)]
        return merge_counts(counts, most)

    def _selected(self, wanted: FindingFilter) -> list[tuple[FindingIndex, int, dict[str, str]]]:
        """Index, chosen positions and reviews of every run that a filter is about."""
        found = []
        for number, key, subject in self.scope(wanted.run):
            if wanted.subject is not None and wanted.subject != subject:
                continue
            index = self._index(number, key, subject)
            rows = self.database.rows(
                "SELECT fingerprint, status FROM review WHERE subject = :subject", {"subject": subject}
            )
            reviews = dict(rows)
            found.append((index, index.select(wanted, reviews), reviews))
        return found

    def _index(self, run: int, key: str, subject: str) -> FindingIndex:
        return _INDEXES.get(self.database.label, key, partial(read_index, self.database, run, subject))

    def _brief_rows(self, wanted: list[tuple[int, int]]) -> tuple[StoredFinding, ...]:
        """Findings by run and place, in that order."""
        found: dict[tuple[int, int], StoredFinding] = {}
        for run in dict.fromkeys(run for run, _ in wanted):
            places = [place for of, place in wanted if of == run]
            for at in range(0, len(places), AT_ONCE):
                values = {f"p{number}": place for number, place in enumerate(places[at : at + AT_ONCE])}
                listed = ", ".join(f":{name}" for name in values)
                rows = self.database.rows(
                    f"{_BRIEF} WHERE f.run = :run AND f.place IN ({listed})",
                    {**values, "run": run},
                )
                found.update(((run, row[0]), _finding(row)) for row in rows)
        return tuple(found[key] for key in wanted if key in found)

    def finding(self, fingerprint: str, subject: str | None = None, run: int | None = None) -> StoredFinding:
        """A finding as the newest run has it that holds it, or as one run has it.

        Raises:
            ConfigError: no run has it.
        """
        asked = {"fingerprint": fingerprint, "subject": subject, "run": run}
        values = {name: value for name, value in asked.items() if value is not None}
        where = " AND ".join(f"f.{name} = :{name}" for name in values)
        rows = self.database.rows(
            f"{_FINDING} JOIN run AS r ON r.number = f.run WHERE {where}"
            " ORDER BY r.created DESC, r.number DESC LIMIT 1",
            values,
        )
        if not rows:
            raise ConfigError(f"there is no finding {fingerprint}", path=self.database.label)
        return _finding(rows[0])

    def compared(self, old: int, new: int, state: str, page: int = 1, size: int = 50) -> Page[StoredFinding]:
        """One list of a comparison, by file and line, without kernels and evidence.

        Args:
            old: number of the first run.
            new: number of the second run.
            state: new (only in the second), resolved (only in the first) or unchanged (in both).
            page: from 1.
            size: rows of a page.

        Raises:
            ConfigError: there is no such list or page, or a run is not there or was thinned by `store gc`.
        """
        if state not in LISTS:
            raise ConfigError(f"{state!r} is no list of a comparison; use one of {', '.join(LISTS)}")
        first = first_row(page, size)
        before, after = (self._whole_index(run) for run in (old, new))
        one, other = (before, after) if state == "resolved" else (after, before)
        both = state == "unchanged"
        mask = mask_of(
            (at for name, at in one.fingerprints.items() if (name in other.fingerprints) == both), one.size
        )
        rows = list(islice(_in_order([(one, mask)]), first, first + size))
        return Page(self._brief_rows(rows), page, size, mask.bit_count())

    def _whole_index(self, run: int) -> FindingIndex:
        scope = self.scope(run)
        if not scope:
            raise ConfigError(
                f"there is no run {run}, or `store gc` has thinned it", path=self.database.label
            )
        return self._index(*scope[0])

    def history(self, subject: str, fingerprint: str) -> tuple[HistoryEntry, ...]:
        """What became of a finding, run by run, oldest first."""
        rows = self.database.rows(
            "SELECT h.run, r.created, r.revision, h.state FROM history AS h JOIN run AS r ON r.number = h.run"
            " WHERE h.subject = :subject AND h.fingerprint = :fingerprint ORDER BY r.created, r.number",
            {"subject": subject, "fingerprint": fingerprint},
        )
        return tuple(HistoryEntry(*row) for row in rows)

    def states(self, number: int) -> dict[str, int]:
        """How many findings of a run are new, unchanged and reopened, and how many it resolved."""
        rows = self.database.rows(
            "SELECT state, COUNT(*) FROM history WHERE run = :run GROUP BY state ORDER BY state",
            {"run": number},
        )
        return dict(rows)

    def excerpts(self, run: int, paths: Sequence[str] | None = None) -> tuple[Excerpt, ...]:
        """Lines of source that a run has kept, of some files or of all, by path and line."""
        values: dict[str, Any] = {"run": run}
        where = ""
        if paths is not None:
            values |= {f"p{number}": path for number, path in enumerate(dict.fromkeys(paths))}
            where = f" AND path IN ({', '.join(f':{name}' for name in values if name != 'run')})"
        rows = self.database.rows(
            f"SELECT path, first_line, text FROM excerpt WHERE run = :run{where} ORDER BY path, first_line",
            values,
        )
        return tuple(Excerpt(*row) for row in rows)

    def fingerprints(self) -> tuple[tuple[str, str], ...]:
        """(subject, fingerprint) of all findings that are stored, each once."""
        rows = self.database.rows("SELECT DISTINCT subject, fingerprint FROM finding ORDER BY 1, 2")
        return tuple((str(subject), str(fingerprint)) for subject, fingerprint in rows)


def _in_order(selected: list[tuple[FindingIndex, int]]) -> Iterator[tuple[int, int]]:
    """Run and place of findings of several runs, by file, line, run and place."""
    if len(selected) == 1:
        ((index, mask),) = selected
        return ((index.run, index.keys[at][2]) for at in positions_of(mask))
    keyed = (_keyed(index, mask) for index, mask in selected)
    return ((run, place) for _, _, run, place in heapq.merge(*keyed))


def _keyed(index: FindingIndex, mask: int) -> Iterator[tuple[str, int, int, int]]:
    for at in positions_of(mask):
        path, line, place = index.keys[at]
        yield path, line, index.run, place


def _finding(row: tuple[Any, ...]) -> StoredFinding:
    _, run, subject, state, record, fingerprint, status, note, changed = row
    review = None if status is None else Review(subject, fingerprint, status, note, changed)
    return StoredFinding(run, subject, state, json.loads(record), review)

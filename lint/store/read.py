"""Answers the questions that pages ask of a store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ptxguard.errors import ConfigError
from ptxguard.finding import Confidence, Severity
from ptxguard.store.conditions import FINDINGS_FROM, KERNEL_ORDERS, finding_condition, kernel_condition
from ptxguard.store.rows import (
    UNREVIEWED,
    Comparison,
    Excerpt,
    Facet,
    FindingFilter,
    HistoryEntry,
    Hit,
    KernelFilter,
    Page,
    ProbeRun,
    Review,
    Run,
    RunPrice,
    StoredArtifact,
    StoredFinding,
    StoredKernel,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ptxguard.store.database import Database

_RUN = (
    "SELECT number, run_key, kind, subject, created, tool, toolchain, revision, errors, finding_count,"
    " kernel_count, thinned FROM run"
)
_FINDING = (
    "SELECT f.run, f.subject, h.state, f.record, f.fingerprint, v.status, v.note, v.changed FROM "
    + FINDINGS_FROM
)
_BRIEF = _FINDING.replace("f.record", "f.brief")
_KERNEL = (
    "SELECT k.run, k.place, k.image, k.name, k.demangled, k.target, k.registers, k.stack_bytes,"
    " k.stack_unknown, k.cluster_dims, k.syscalls, k.externs, a.path, a.member"
    " FROM kernel AS k JOIN artifact AS a ON a.run = k.run AND a.place = k.artifact"
)
_PROBE = "SELECT run, card, sm, driver, measured, record FROM probe"
# facet -> column of FINDINGS_FROM; `target` and `gpu` stand in tables of their own.
_FACETS = {
    "subject": "f.subject",
    "code": "f.code",
    "severity": "f.severity",
    "confidence": "f.confidence",
    "verdict": "f.verdict",
    "destination": "f.destination",
    "path": "f.path",
    "status": f"COALESCE(v.status, '{UNREVIEWED}')",
    "state": "h.state",
    "witness": "f.witness",
}
_TABLE_FACETS = {
    "target": "finding_target AS x",
    "gpu": "price AS x",
    "basis": "price AS x",
}
_KERNEL_FACETS = {
    "target": "k.target",
    "with_syscall": "CASE WHEN k.syscall_count > 0 THEN 'yes' ELSE 'no' END",
}
# A finding has several prices of one basis; run and place together name it.
_EACH_ONCE = "COUNT(DISTINCT CAST(f.run AS BIGINT) * 4294967296 + f.place)"
MAX_PAGE = 1000


class Reader:
    """Read access to an open store."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def runs(self, kind: str | None = None, subject: str | None = None) -> tuple[Run, ...]:
        """All runs, newest first; without their artifacts."""
        asked = {name: value for name, value in (("kind", kind), ("subject", subject)) if value is not None}
        where = " WHERE " + " AND ".join(f"{name} = :{name}" for name in asked) if asked else ""
        rows = self.database.rows(f"{_RUN}{where} ORDER BY created DESC, number DESC", asked)
        return tuple(_run(row) for row in rows)

    def run(self, number: int) -> Run:
        """One run with its artifacts.

        Raises:
            ConfigError: the store has no such run.
        """
        rows = self.database.rows(f"{_RUN} WHERE number = :run", {"run": number})
        if not rows:
            raise ConfigError(f"there is no run {number}", path=self.database.label)
        artifacts = self.database.rows(
            "SELECT path, member, sha256 FROM artifact WHERE run = :run ORDER BY place", {"run": number}
        )
        return _run(
            rows[0], tuple(StoredArtifact(path, member or None, sha) for path, member, sha in artifacts)
        )

    def findings(self, wanted: FindingFilter, page: int = 1, size: int = 50) -> Page[StoredFinding]:
        """Findings by file and line, without kernels and evidence.

        Raises:
            ConfigError: the page number or a word of the filter is none.
        """
        condition, values = finding_condition(wanted)
        first = _first(page, size)
        total = self.database.rows(f"SELECT COUNT(*) FROM {FINDINGS_FROM} WHERE {condition}", values)[0][0]
        rows = self.database.rows(
            f"{_BRIEF} WHERE {condition} ORDER BY f.path, f.line, f.run, f.place LIMIT :size OFFSET :first",
            {**values, "size": size, "first": first},
        )
        return Page(tuple(_finding(row) for row in rows), page, size, total)

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

    def run_prices(self, runs: Sequence[int] | None = None) -> tuple[RunPrice, ...]:
        """What runs cost on the cards that they were priced on, by run; of all runs or of some."""
        rows = self.database.rows("SELECT run, gpu, record FROM run_price ORDER BY run, gpu")
        return tuple(
            RunPrice(run, gpu, json.loads(record)) for run, gpu, record in rows if runs is None or run in runs
        )

    def excerpts(self, run: int, path: str | None = None) -> tuple[Excerpt, ...]:
        """Lines of source that a run has kept, of one file or of all, by path and line."""
        where = "" if path is None else " AND path = :path"
        values = {"run": run} if path is None else {"run": run, "path": path}
        rows = self.database.rows(
            f"SELECT path, first_line, text FROM excerpt WHERE run = :run{where} ORDER BY path, first_line",
            values,
        )
        return tuple(Excerpt(*row) for row in rows)

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

    def compare(self, old: int, new: int) -> Comparison:
        """The findings of two runs side by side, by fingerprint, without kernels and evidence.

        Raises:
            ConfigError: a run is not there, or `store gc` has thinned it.
        """
        runs = self.run(old), self.run(new)
        for run in runs:
            if run.thinned:
                raise ConfigError(f"run {run.number} was thinned by `store gc`: its findings are gone")
        before, after = self._all_findings(old), self._all_findings(new)
        return Comparison(
            *runs,
            added=tuple(finding for key, finding in after.items() if key not in before),
            resolved=tuple(finding for key, finding in before.items() if key not in after),
            unchanged=tuple(finding for key, finding in after.items() if key in before),
        )

    def compared(self, old: int, new: int, state: str, page: int = 1, size: int = 50) -> Page[StoredFinding]:
        """One list of a comparison, by file and line, without kernels and evidence.

        Args:
            old: number of the first run.
            new: number of the second run.
            state: new (only in the second), resolved (only in the first) or unchanged (in both).
            page: from 1.
            size: rows of a page.

        Raises:
            ConfigError: there is no such list or page.
        """
        if state not in ("new", "resolved", "unchanged"):
            raise ConfigError(f"{state!r} is no list of a comparison; use new, resolved or unchanged")
        of, other = (old, new) if state == "resolved" else (new, old)
        condition = (
            f"f.run = :of AND {'' if state == 'unchanged' else 'NOT '}EXISTS (SELECT 1 FROM finding AS o"
            " WHERE o.run = :other AND o.fingerprint = f.fingerprint)"
        )
        values = {"of": of, "other": other}
        first = _first(page, size)
        total = self.database.rows(f"SELECT COUNT(*) FROM finding AS f WHERE {condition}", values)[0][0]
        rows = self.database.rows(
            f"{_BRIEF} WHERE {condition} ORDER BY f.path, f.line, f.place LIMIT :size OFFSET :first",
            {**values, "size": size, "first": first},
        )
        return Page(tuple(_finding(row) for row in rows), page, size, total)

    def _all_findings(self, run: int) -> dict[str, StoredFinding]:
        rows = self.database.rows(
            f"{_BRIEF} WHERE f.run = :run ORDER BY f.path, f.line, f.place", {"run": run}
        )
        return {finding.fingerprint: finding for finding in map(_finding, rows)}

    def facets(self, wanted: FindingFilter) -> tuple[Facet, ...]:
        """Values that the findings of a filter have, with counts, the most frequent of each facet first."""
        condition, values = finding_condition(wanted)
        found = []
        for name, column in _FACETS.items():
            found += self._facet(name, column, FINDINGS_FROM, condition, values)
        for name, table in _TABLE_FACETS.items():
            joined = f"{FINDINGS_FROM} JOIN {table} ON x.run = f.run AND x.place = f.place"
            found += self._facet(name, f"x.{name}", joined, condition, values)
        return tuple(found)

    def _facet(
        self, name: str, column: str, tables: str, condition: str, values: Mapping[str, Any]
    ) -> list[Facet]:
        levels: Any = {"severity": Severity, "confidence": Confidence}.get(name)
        rows = self.database.rows(
            f"SELECT {column}, {_EACH_ONCE if name == 'basis' else 'COUNT(*)'} AS found"
            f" FROM {tables} WHERE {condition}"
            f" GROUP BY {column} ORDER BY found DESC, {column}",
            values,
        )
        named = [(levels(value).word if levels else value, count) for value, count in rows]
        return [Facet(name, value, count) for value, count in named if value]

    def kernels(self, wanted: KernelFilter, page: int = 1, size: int = 50) -> Page[StoredKernel]:
        """Kernels in the order that the filter names.

        Raises:
            ConfigError: there is no such order or page.
        """
        if wanted.order not in KERNEL_ORDERS:
            raise ConfigError(f"{wanted.order!r} is no order; use one of {', '.join(KERNEL_ORDERS)}")
        condition, values = kernel_condition(wanted)
        first = _first(page, size)
        total = self.database.rows(f"SELECT COUNT(*) FROM kernel AS k WHERE {condition}", values)[0][0]
        rows = self.database.rows(
            f"{_KERNEL} WHERE {condition} ORDER BY {KERNEL_ORDERS[wanted.order]} LIMIT :size OFFSET :first",
            {**values, "size": size, "first": first},
        )
        return Page(tuple(_kernel(row) for row in rows), page, size, total)

    def kernel(self, run: int, place: int) -> StoredKernel | None:
        """One kernel by its position in a run, from 0; None where there is none."""
        rows = self.database.rows(
            f"{_KERNEL} WHERE k.run = :run AND k.place = :place", {"run": run, "place": place}
        )
        return _kernel(rows[0]) if rows else None

    def kernel_facets(self, wanted: KernelFilter) -> tuple[Facet, ...]:
        """Targets, and whether a driver function is reached ("yes", "no"), with counts."""
        condition, values = kernel_condition(wanted)
        found = []
        for name, column in _KERNEL_FACETS.items():
            rows = self.database.rows(
                f"SELECT {column}, COUNT(*) AS found FROM kernel AS k WHERE {condition}"
                f" GROUP BY 1 ORDER BY found DESC, 1",
                values,
            )
            found += [Facet(name, value, count) for value, count in rows]
        return tuple(found)

    def fingerprints(self) -> tuple[tuple[str, str], ...]:
        """(subject, fingerprint) of all findings that are stored, each once."""
        rows = self.database.rows("SELECT DISTINCT subject, fingerprint FROM finding ORDER BY 1, 2")
        return tuple((str(subject), str(fingerprint)) for subject, fingerprint in rows)

    def flagged_kernels(self) -> tuple[tuple[int, int], ...]:
        """(run, position from 0) of all kernels that reach a driver function."""
        rows = self.database.rows("SELECT run, place FROM kernel WHERE syscall_count > 0 ORDER BY 1, 2")
        return tuple((int(run), int(place)) for run, place in rows)

    def probes(self) -> tuple[ProbeRun, ...]:
        """Probe runs, the newest measurement first."""
        rows = self.database.rows(f"{_PROBE} ORDER BY measured DESC, run DESC")
        return tuple(ProbeRun(*(*row[:5], json.loads(row[5]))) for row in rows)

    def search(self, text: str, limit: int = 50) -> tuple[Hit, ...]:
        """Files, functions and kernels whose name holds all words of a text, by kind and name."""
        words = "".join(char if char.isalnum() else " " for char in text).split()
        if not words:
            return ()
        condition, values = self.database.matching(words)
        rows = self.database.rows(
            f"SELECT MAX(run), kind, name FROM words WHERE {condition}"
            " GROUP BY kind, name ORDER BY kind, name LIMIT :limit",
            {**values, "limit": limit},
        )
        return tuple(Hit(*row) for row in rows)


def _first(page: int, size: int) -> int:
    if not (page >= 1 and 1 <= size <= MAX_PAGE and page * size < 1 << 62):
        raise ConfigError(
            f"page {page} of {size} rows is none; pages count from 1, with up to {MAX_PAGE} rows"
        )
    return (page - 1) * size


def _run(row: tuple[Any, ...], artifacts: tuple[StoredArtifact, ...] = ()) -> Run:
    *head, errors, findings, kernels, thinned = row
    values = (*head, tuple(json.loads(errors)), findings, kernels, bool(thinned), artifacts)
    return Run(*values)


def _finding(row: tuple[Any, ...]) -> StoredFinding:
    run, subject, state, record, fingerprint, status, note, changed = row
    review = None if status is None else Review(subject, fingerprint, status, note, changed)
    return StoredFinding(run, subject, state, json.loads(record), review)


def _kernel(row: tuple[Any, ...]) -> StoredKernel:
    run, place, image, name, demangled, target, registers, stack, unknown, dims, syscalls, externs = row[:12]
    path, member = row[12:]
    return StoredKernel(
        run,
        place,
        f"{path}!{member}" if member else path,
        image,
        name,
        demangled,
        target,
        registers,
        stack,
        unknown,
        tuple(int(part) for part in dims.split(",")) if dims else None,
        tuple(json.loads(syscalls)),
        tuple(json.loads(externs)),
    )

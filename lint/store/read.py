"""Answers the questions that pages ask of a store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ptxguard.errors import ConfigError
from ptxguard.store.readfindings import FindingReader
from ptxguard.store.readkernels import KernelReader
from ptxguard.store.rows import Hit, ProbeRun, Run, RunPrice, StoredArtifact

if TYPE_CHECKING:
    from collections.abc import Sequence

_RUN = (
    "SELECT number, run_key, kind, subject, created, tool, toolchain, revision, errors, finding_count,"
    " kernel_count, thinned FROM run"
)
_PROBE = "SELECT run, card, sm, driver, measured, record FROM probe"


class Reader(FindingReader, KernelReader):
    """Read access to an open store."""

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

    def run_prices(self, runs: Sequence[int] | None = None) -> tuple[RunPrice, ...]:
        """What runs cost on the cards that they were priced on, by run; of all runs or of some."""
        rows = self.database.rows("SELECT run, gpu, record FROM run_price ORDER BY run, gpu")
        return tuple(
            RunPrice(run, gpu, json.loads(record)) for run, gpu, record in rows if runs is None or run in runs
        )

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


def _run(row: tuple[Any, ...], artifacts: tuple[StoredArtifact, ...] = ()) -> Run:
    *head, errors, findings, kernels, thinned = row
    values = (*head, tuple(json.loads(errors)), findings, kernels, bool(thinned), artifacts)
    return Run(*values)

"""What became of each finding from run to run of a subject: new, unchanged, reopened, resolved."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from ptxguard.store.database import Database

_INSERT = (
    "INSERT INTO history (subject, fingerprint, run, state) VALUES (:subject, :fingerprint, :run, :state)"
)
# Runs are ordered by their time, not by their arrival: a merge brings old ones.
_LAST = (
    "SELECT fingerprint, state FROM (SELECT h.fingerprint, h.state, ROW_NUMBER() OVER"
    " (PARTITION BY h.fingerprint ORDER BY r.created DESC, r.number DESC) AS back"
    " FROM history AS h JOIN run AS r ON r.number = h.run WHERE h.subject = :subject) AS entry WHERE back = 1"
)
_LAST_PATHS = (
    "SELECT fingerprint, path FROM (SELECT f.fingerprint, f.path, ROW_NUMBER() OVER"
    " (PARTITION BY f.fingerprint ORDER BY r.created DESC, r.number DESC) AS back"
    " FROM finding AS f JOIN run AS r ON r.number = f.run WHERE f.subject = :subject) AS entry WHERE back = 1"
)
_NEWER = (
    "SELECT 1 FROM run AS r JOIN run AS own ON own.number = :run WHERE r.subject = own.subject"
    " AND r.kind <> 'probe' AND r.created > own.created LIMIT 1"
)


def unread_paths(errors: Iterable[Mapping[str, Any]]) -> set[str]:
    """Files that a run could not read; what was found in them before is not called resolved."""
    return {str(error["path"]) for error in errors if error.get("path")}


def add_history(
    database: Database, subject: str, run: int, present: AbstractSet[str], unread: Collection[str]
) -> None:
    """Write the history of a run in the transaction that stores it.

    Args:
        database: the store.
        subject: of the run.
        run: its number.
        present: fingerprints of its findings.
        unread: files that could not be read.
    """
    _append(database, subject, run, present, unread)
    if database.rows(_NEWER, {"run": run}):
        _rebuild(database, subject)


def _append(
    database: Database, subject: str, run: int, present: AbstractSet[str], unread: Collection[str]
) -> None:
    last = dict(database.rows(_LAST, {"subject": subject}))
    paths = dict(database.rows(_LAST_PATHS, {"subject": subject})) if unread else {}
    rows = [
        {"subject": subject, "fingerprint": fingerprint, "run": run, "state": state}
        for fingerprint, state in _states(last, present)
        if state != "resolved" or paths.get(fingerprint) not in unread
    ]
    database.run_many(_INSERT, rows)


def _rebuild(database: Database, subject: str) -> None:
    """Write the history of a subject anew, in the order of time."""
    runs = database.rows(
        "SELECT number, errors FROM run WHERE subject = :subject AND kind <> 'probe'"
        " ORDER BY created, number",
        {"subject": subject},
    )
    present: dict[int, set[str]] = {number: set() for number, _ in runs}
    kept = "SELECT run, fingerprint FROM history WHERE subject = :subject AND state <> 'resolved'"
    for run, fingerprint in database.rows(kept, {"subject": subject}):
        present[run].add(fingerprint)
    database.run("DELETE FROM history WHERE subject = :subject", {"subject": subject})
    for number, errors in runs:
        _append(database, subject, number, present[number], unread_paths(json.loads(errors)))


def _states(last: Mapping[str, str], present: AbstractSet[str]) -> Iterator[tuple[str, str]]:
    for fingerprint in sorted(present):
        before = last.get(fingerprint, "")
        yield fingerprint, {"": "new", "resolved": "reopened"}.get(before, "unchanged")
    for fingerprint in sorted(last.keys() - present):
        if last[fingerprint] != "resolved":
            yield fingerprint, "resolved"

"""The store in one SQLite file: opened with its version, written a run at a time, read by many at once."""

from __future__ import annotations

import json
import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxguard import __version__
from ptxguard.errors import ConfigError
from ptxguard.store.facts import STATUSES, History, NewRun, Review, Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

VERSION = 1
# A second writer waits so long for the first.
_BUSY_S = 30.0
_RUN = "SELECT r.id, r.kind, r.subject, r.tool, r.revision, r.started, count(f.fingerprint) FROM runs r"
_OLD_RUNS = """
    DELETE FROM runs WHERE kind <> 'probe' AND id NOT IN (
        SELECT id FROM (
            SELECT id, row_number() OVER (PARTITION BY kind, subject ORDER BY id DESC) AS place FROM runs
        ) WHERE place <= ?
    )
"""
# Of two reviews the later one counts.
_TAKE_REVIEW = """
    INSERT INTO reviews VALUES (?, ?, ?, ?) ON CONFLICT (fingerprint) DO UPDATE
    SET status = excluded.status, note = excluded.note, at = excluded.at WHERE excluded.at > reviews.at
"""
_COUNTED = "LEFT JOIN findings f ON f.run = r.id"


@dataclass(frozen=True)
class Store:
    """An open store; use `open_store`.

    Attributes:
        connection: to the file.
    """

    connection: sqlite3.Connection

    def add(self, run: NewRun) -> int:
        """Keep a run, all of it or nothing; returns its number."""
        head = (
            run.kind,
            run.subject,
            __version__,
            run.revision,
            _now(),
            json.dumps(run.settings, sort_keys=True),
            json.dumps(run.artifacts),
        )
        with self.connection as transaction:
            cursor = transaction.execute(
                "INSERT INTO runs (kind, subject, tool, revision, started, settings, artifacts)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                head,
            )
            number = int(cursor.lastrowid or 0)
            transaction.executemany(
                "INSERT INTO findings VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    (number, f["fingerprint"], f["code"], f["severity"], f["path"], f["line"], json.dumps(f))
                    for f in run.findings
                ),
            )
            transaction.executemany(
                "INSERT INTO kernels VALUES (?, ?, ?, ?, ?, ?, ?)",
                ((number, *kernel[:5], json.dumps(kernel[5])) for kernel in run.kernels),
            )
            if run.probe is not None:
                card = run.probe["card"]
                values = (number, card["name"], card["driver"], run.probe["date"], json.dumps(run.probe))
                transaction.execute("INSERT INTO probes VALUES (?, ?, ?, ?, ?)", values)
        return number

    def runs(self) -> tuple[Run, ...]:
        """Every run, newest first."""
        rows = self.connection.execute(f"{_RUN} {_COUNTED} GROUP BY r.id ORDER BY r.id DESC")
        return tuple(Run(*row) for row in rows)

    def run(self, number: int) -> Run:
        """One run.

        Raises:
            ConfigError: there is none of that number.
        """
        row = self.connection.execute(f"{_RUN} {_COUNTED} WHERE r.id = ? GROUP BY r.id", (number,)).fetchone()
        if row is None:
            raise ConfigError(f"the store has no run {number}; `ptxguard store runs` lists them")
        return Run(*row)

    def findings(self, number: int) -> tuple[Mapping[str, Any], ...]:
        """Records of a run's findings, by path and line."""
        rows = self.connection.execute(
            "SELECT record FROM findings WHERE run = ? ORDER BY path, line, code, fingerprint", (number,)
        )
        return tuple(json.loads(row[0]) for row in rows)

    def kernel_count(self, number: int) -> int:
        """Number of kernels that a run has in the inventory."""
        row = self.connection.execute("SELECT count(*) FROM kernels WHERE run = ?", (number,)).fetchone()
        return int(row[0])

    def history(self, number: int) -> History:
        """A run's findings beside those of earlier runs with the same kind and subject."""
        run = self.run(number)
        earlier = self._fingerprints(
            "run IN (SELECT id FROM runs WHERE kind = ? AND subject = ? AND id < ?)",
            run.kind,
            run.subject,
            number,
        )
        last = self._fingerprints(
            "run = (SELECT max(id) FROM runs WHERE kind = ? AND subject = ? AND id < ?)",
            run.kind,
            run.subject,
            number,
        )
        now = self._fingerprints("run = ?", number)
        return History(
            new=tuple(sorted(now - earlier)),
            reopened=tuple(sorted((now & earlier) - last)),
            unchanged=tuple(sorted(now & last)),
            resolved=tuple(sorted(last - now)),
        )

    def review(self, fingerprint: str, status: str, note: str = "") -> None:
        """Say what a finding is; a later review takes the place of an earlier one.

        Raises:
            ConfigError: the status is none, or no run has the finding.
        """
        if status not in STATUSES:
            raise ConfigError(f"{status!r} is no status; write one of {', '.join(STATUSES)}")
        if not self._fingerprints("fingerprint = ?", fingerprint):
            raise ConfigError(f"no run has a finding {fingerprint}")
        with self.connection as transaction:
            values = (fingerprint, status, note, _now())
            transaction.execute("INSERT OR REPLACE INTO reviews VALUES (?, ?, ?, ?)", values)

    def reviews(self) -> Mapping[str, Review]:
        """Every review by fingerprint."""
        rows = self.connection.execute("SELECT fingerprint, status, note, at FROM reviews")
        return {row[0]: Review(*row) for row in rows}

    def probe_results(self) -> tuple[dict[str, Any], ...]:
        """Results of `probe`, newest first."""
        rows = self.connection.execute("SELECT result FROM probes ORDER BY date DESC, run DESC")
        return tuple(json.loads(row[0]) for row in rows)

    def drop_old(self, keep: int) -> int:
        """Remove all but the newest runs of each subject; reviews and probes stay; returns how many went."""
        with self.connection as transaction:
            cursor = transaction.execute(_OLD_RUNS, (keep,))
        self.connection.execute("VACUUM")
        return cursor.rowcount

    def merge(self, other: Store) -> int:
        """Take over the runs and reviews of another store that this one lacks; returns the number of runs."""
        known = {_identity(row) for row in self._whole_runs()}
        taken = 0
        with self.connection as transaction:
            for row in other._whole_runs():
                if _identity(row) in known:
                    continue
                cursor = transaction.execute(
                    "INSERT INTO runs (kind, subject, tool, revision, started, settings, artifacts)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    row[1:],
                )
                for table, columns in (("findings", 7), ("kernels", 7), ("probes", 5)):
                    rows = other.connection.execute(f"SELECT * FROM {table} WHERE run = ?", (row[0],))  # noqa: S608
                    places = ", ".join("?" * columns)
                    transaction.executemany(
                        f"INSERT INTO {table} VALUES ({places})",  # noqa: S608 (names from the line above)
                        ((cursor.lastrowid, *values[1:]) for values in rows),
                    )
                taken += 1
            rows = other.connection.execute("SELECT fingerprint, status, note, at FROM reviews")
            transaction.executemany(_TAKE_REVIEW, rows)
        return taken

    def _whole_runs(self) -> list[tuple[Any, ...]]:
        columns = "id, kind, subject, tool, revision, started, settings, artifacts"
        return self.connection.execute(f"SELECT {columns} FROM runs ORDER BY started, id").fetchall()  # noqa: S608

    def _fingerprints(self, condition: str, *values: Any) -> set[str]:
        """Fingerprints under a condition of this module; values are always passed beside it."""
        query = f"SELECT DISTINCT fingerprint FROM findings WHERE {condition}"  # noqa: S608
        return {row[0] for row in self.connection.execute(query, values)}


@contextmanager
def open_store(place: str) -> Iterator[Store]:
    """Open a store, making it where it is missing.

    Raises:
        ConfigError: the place cannot be a store: no SQLite file, from a later version, not writable, a URL.
    """
    if "://" in place:
        raise ConfigError(f"--store {place}: only SQLite files are supported so far; name a file", path=None)
    path = Path(place)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=_BUSY_S)
    except (OSError, sqlite3.Error) as error:
        raise ConfigError(f"the store cannot be opened: {error}", path=place) from None
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA foreign_keys = ON")
        _migrate(connection, place)
        yield Store(connection)
    except sqlite3.Error as error:
        raise ConfigError(f"the store cannot be used: {error}", path=place) from None
    finally:
        connection.close()


def _migrate(connection: sqlite3.Connection, place: str) -> None:
    """Bring a file to the version of this module, in one transaction."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise ConfigError(
            f"the store has version {version}, this ptxguard knows {VERSION}; upgrade it", path=place
        )
    if version == 0:
        schema = files("ptxguard.store").joinpath("schema.sql").read_text("utf-8")
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise ConfigError("is a database of something else; name another file", path=place)
        script = f"BEGIN IMMEDIATE; {schema} PRAGMA user_version = {VERSION}; COMMIT;"
        try:
            connection.executescript(script)
        except sqlite3.OperationalError:
            connection.rollback()  # another run has made the tables in between
            if int(connection.execute("PRAGMA user_version").fetchone()[0]) != VERSION:
                raise


def _identity(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """What makes a run the same in two stores: everything but its number."""
    return row[1:]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

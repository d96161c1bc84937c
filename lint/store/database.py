"""One way to talk to SQLite and to PostgreSQL: statements with :names, rows as tuples, whole transactions."""

from __future__ import annotations

import contextlib
import sqlite3
from importlib import resources
from typing import TYPE_CHECKING, Any, Protocol

from ptxguard.errors import ConfigError, ToolError
from ptxguard.store.brief import fill_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

# One file a version, in order; a store is brought from its own version to the last one when it is opened.
MIGRATIONS = ("schema.sql", "pages.sql", "sass.sql")
# What no statement can work out: run once behind the file of the same name.
FILLERS: dict[str, Callable[[Database], None]] = {"pages.sql": fill_in}
# Search: in SQLite a full-text table, in PostgreSQL an ordinary one of the same columns.
_SQLITE_WORDS = (
    "CREATE VIRTUAL TABLE words USING fts5 (text, run UNINDEXED, kind UNINDEXED, name UNINDEXED,"
    " tokenize = 'unicode61', prefix = '3')"
)
_BUSY_S = 60.0


class Database(Protocol):
    """An open database."""

    label: str

    def rows(self, statement: str, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """All rows of a query."""

    def run(self, statement: str, values: Mapping[str, Any] | None = None) -> None:
        """Run one statement."""

    def run_many(self, statement: str, values: Iterable[Mapping[str, Any]]) -> None:
        """Run one statement once a mapping."""

    def writing(self) -> contextlib.AbstractContextManager[None]:
        """A transaction that shuts out other writers and is undone as a whole by an exception."""

    def matching(self, words: Sequence[str]) -> tuple[str, dict[str, Any]]:
        """A condition on the table `words`, with its values, that all of some words occur (as beginnings)."""

    def close(self) -> None:
        """Let go of it."""


class SqliteDatabase:
    """A file of SQLite, or memory."""

    def __init__(self, path: str) -> None:
        self.label = path
        with _explained(path):
            self._connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
            self.run("PRAGMA journal_mode = WAL")
            # An acknowledged run survives a loss of power too; in WAL mode that is one sync a transaction.
            self.run("PRAGMA synchronous = FULL")
        migrate(self, (_SQLITE_WORDS,))

    def rows(self, statement: str, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with _explained(self.label):
            return self._connection.execute(statement, values or {}).fetchall()

    def run(self, statement: str, values: Mapping[str, Any] | None = None) -> None:
        """Run one statement."""
        with _explained(self.label):
            self._connection.execute(statement, values or {})

    def run_many(self, statement: str, values: Iterable[Mapping[str, Any]]) -> None:
        """Run one statement once a mapping."""
        with _explained(self.label):
            self._connection.executemany(statement, values)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction that shuts out other writers and is undone as a whole by an exception."""
        self.run("BEGIN IMMEDIATE")
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self.run("ROLLBACK")
            raise

    def matching(self, words: Sequence[str]) -> tuple[str, dict[str, Any]]:
        """A condition on `words`; each word is quoted, so that none is read as an operator of FTS5."""
        quoted = ['"' + word.replace('"', '""') + '"*' for word in words]
        return "words MATCH :words", {"words": " ".join(quoted)}

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


@contextlib.contextmanager
def _explained(label: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.DatabaseError, OverflowError) as error:
        raise ToolError(f"the store cannot be used: {error}", path=label) from error


def migrate(database: Database, own: Sequence[str]) -> None:
    """Bring a database to the newest version, in one transaction.

    Args:
        database: what to change.
        own: statements that only this kind of database needs, run with the first version.

    Raises:
        ConfigError: it was written by a newer ptxguard.
    """
    if _version(database) == len(MIGRATIONS):
        return  # without a lock: readers open stores while a run is being written
    with database.writing():
        database.run("CREATE TABLE IF NOT EXISTS store_version (version INTEGER NOT NULL)")
        version = database.rows("SELECT COALESCE(MAX(version), 0) FROM store_version")[0][0]
        if version > len(MIGRATIONS):
            raise ConfigError(
                f"the store has version {version}, written by a newer ptxguard; this one knows up to "
                f"{len(MIGRATIONS)}",
                path=database.label,
            )
        for number, name in enumerate(MIGRATIONS[version:], version + 1):
            for statement in (*_statements(name), *(own if number == 1 else ())):
                database.run(statement)
            if name in FILLERS:
                FILLERS[name](database)
            database.run("INSERT INTO store_version (version) VALUES (:version)", {"version": number})


def _version(database: Database) -> int | None:
    try:
        version: int | None = database.rows("SELECT MAX(version) FROM store_version")[0][0]
    except ToolError:  # no such table yet; where the database itself is broken, the next statement says so
        return None
    return version


def _statements(name: str) -> list[str]:
    text = resources.files("ptxguard.store").joinpath(name).read_text("utf-8")
    bare = "\n".join(line.partition("--")[0] for line in text.splitlines())
    return [statement for part in bare.split(";") if (statement := part.strip())]

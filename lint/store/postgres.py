"""A store in PostgreSQL, through SQLAlchemy."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ptxguard.errors import ConfigError, ToolError
from ptxguard.store.database import migrate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# Any number that other programs on the server are unlikely to lock: "ptxguard" as bytes.
_LOCK = int.from_bytes(b"ptxguard", "big") >> 1
_WORDS = (
    "CREATE TABLE words (text TEXT NOT NULL, run INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL)"
)
_WORDS_INDEX = "CREATE INDEX words_run ON words (run, kind)"
_BATCH = 2000


class PostgresDatabase:
    """One connection to a server; statements outside `writing` commit themselves."""

    def __init__(self, url: str) -> None:
        try:
            import sqlalchemy
        except ImportError:
            raise ConfigError(
                "a store in PostgreSQL needs the extra: pip install 'ptxguard[postgres]'"
            ) from None
        self._sql = sqlalchemy
        parsed = sqlalchemy.make_url(url).set(drivername="postgresql+psycopg")
        self.label = parsed.render_as_string(hide_password=True)
        self._depth = 0
        with self._explained():
            self._connection = sqlalchemy.create_engine(parsed, poolclass=sqlalchemy.NullPool).connect()
        migrate(self, (_WORDS, _WORDS_INDEX))

    def rows(self, statement: str, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self._explained():
            found = [tuple(row) for row in self._connection.execute(self._sql.text(statement), values or {})]
            self._settle()
        return found

    def run(self, statement: str, values: Mapping[str, Any] | None = None) -> None:
        """Run one statement."""
        with self._explained():
            self._connection.execute(self._sql.text(statement), values or {})
            self._settle()

    def run_many(self, statement: str, values: Iterable[Mapping[str, Any]]) -> None:
        """Run one statement once a mapping, some thousands at a time."""
        batch: list[Mapping[str, Any]] = []
        for mapping in values:
            batch.append(mapping)
            if len(batch) == _BATCH:
                self._run_batch(statement, batch)
                batch = []
        if batch:
            self._run_batch(statement, batch)

    def _run_batch(self, statement: str, batch: list[Mapping[str, Any]]) -> None:
        with self._explained():
            self._connection.execute(self._sql.text(statement), batch)
            self._settle()

    def _settle(self) -> None:
        """End the transaction that a statement outside `writing` began, so that no old snapshot is kept."""
        if not self._depth:
            self._connection.commit()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction that shuts out other writers and is undone as a whole by an exception."""
        self._depth += 1
        try:
            self.rows(f"SELECT pg_advisory_xact_lock({_LOCK})")
            yield
            with self._explained():
                self._connection.commit()
        except BaseException:
            self._connection.rollback()
            raise
        finally:
            self._depth -= 1

    def matching(self, words: Sequence[str]) -> tuple[str, dict[str, Any]]:
        """A condition on the table `words`: each occurs somewhere, case aside."""
        escaped = [word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") for word in words]
        values = {f"word{number}": f"%{word}%" for number, word in enumerate(escaped)}
        return " AND ".join(f"text ILIKE :{name}" for name in values), values

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except self._sql.exc.SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or error).strip().split("\n")[0]
            with contextlib.suppress(AttributeError, self._sql.exc.SQLAlchemyError):
                self._connection.rollback()
            raise ToolError(f"the store cannot be used: {reason}", path=self.label) from error

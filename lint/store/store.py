"""An open store: what commands and pages hold in their hands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ptxguard.errors import ConfigError
from ptxguard.store.database import SqliteDatabase
from ptxguard.store.read import Reader
from ptxguard.store.write import add_run, set_review

if TYPE_CHECKING:
    from types import TracebackType

    from ptxguard.store.database import Database
    from ptxguard.store.write import NewRun


class Store(Reader):
    """Read and write access; belongs to the thread that has opened it, and closes as a context manager."""

    def add(self, run: NewRun) -> int:
        """Store a run in one transaction; its number, once it is safe. Errors: see `add_run`."""
        return add_run(self.database, run)

    def review(self, subject: str, fingerprint: str, status: str, note: str = "") -> None:
        """Note what people decided about a finding. Errors: see `set_review`."""
        set_review(self.database, subject, fingerprint, status, note)

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_store(place: str) -> Store:
    """Open a store by path or URL; a new file is made where none is.

    Raises:
        ConfigError: the place is no store, or one of a newer version.
        ToolError: the database cannot be reached.
    """
    return Store(_open_database(place))


def _open_database(place: str) -> Database:
    if place.startswith(("postgresql://", "postgresql+psycopg://")):
        from ptxguard.store.postgres import PostgresDatabase  # an extra

        return PostgresDatabase(place)
    if "://" in place:
        scheme = place.partition("://")[0]
        raise ConfigError(f"a store at {scheme}:// is not known; give a file or postgresql://…")
    if not Path(place).absolute().parent.is_dir():
        raise ConfigError("the folder of the store is not there; make it first", path=place)
    return SqliteDatabase(place)

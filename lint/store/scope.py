"""What all readers of a store have: the database, the runs that a filter is about, and the size of pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.errors import ConfigError

if TYPE_CHECKING:
    from ptxguard.store.database import Database

MAX_PAGE = 1000
# Rows that one statement names by their position; SQLite takes 32,766 values.
AT_ONCE = 500
# The newest run of every subject, by its time.
_NEWEST = (
    "number IN (SELECT number FROM (SELECT number, ROW_NUMBER() OVER"
    " (PARTITION BY subject ORDER BY created DESC, number DESC) AS back"
    " FROM run WHERE kind <> 'probe') AS ordered WHERE back = 1)"
)


class ScopedReader:
    """Read access to an open store."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def scope(self, run: int | None) -> list[tuple[int, str, str]]:
        """Number, key and subject of one run, or of the newest of every subject; no thinned ones."""
        condition = _NEWEST if run is None else "number = :run"
        rows = self.database.rows(
            f"SELECT number, run_key, subject FROM run WHERE thinned = 0 AND {condition} ORDER BY number",
            {} if run is None else {"run": run},
        )
        return [(int(number), str(key), str(subject)) for number, key, subject in rows]


def first_row(page: int, size: int) -> int:
    """Offset of a page.

    Raises:
        ConfigError: there is no such page.
    """
    if not (page >= 1 and 1 <= size <= MAX_PAGE and page * size < 1 << 62):
        raise ConfigError(
            f"page {page} of {size} rows is none; pages count from 1, with up to {MAX_PAGE} rows"
        )
    return (page - 1) * size

"""The table of a page, as its CSV twin has it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Cell = str | int | float | bool | None
# A spreadsheet takes a cell that begins with one of these for a formula (OWASP, "CSV Injection").
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Table:
    """Rows under columns.

    Attributes:
        columns: names.
        rows: cells in the order of the columns; None is an empty cell.
    """

    columns: Sequence[str]
    rows: Iterable[Sequence[Cell]]


def table_of(columns: str, rows: Iterable[object]) -> Table:
    """A table whose columns, separated by blanks, are fields of its rows."""
    names = columns.split()
    return Table(names, (tuple(getattr(row, name) for name in names) for row in rows))


def render_csv(table: Table) -> str:
    """RFC 4180 text; no cell is a formula."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(table.columns)
    for row in table.rows:
        writer.writerow([_safe(cell) for cell in row])
    return out.getvalue()


def _safe(cell: Cell) -> Cell:
    if isinstance(cell, str):
        plain = cell.replace("\0", "\ufffd")
        return f"'{plain}" if plain.startswith(_FORMULA) else plain
    return cell

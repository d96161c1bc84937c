"""Compares columns of bytes as large numbers: one byte a row, because a library has millions of rows."""

from __future__ import annotations


def flags(column: bytes, table: bytes) -> int:
    """A number with one bit a row, in its byte, that is set where the table turns the row's byte into 1."""
    return int.from_bytes(column.translate(table), "little")

"""Indexes of runs, kept by a process for all of its open stores, the oldest unused ones dropped."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Index = TypeVar("Index")


class IndexCache(Generic[Index]):
    """Indexes by store and run, bounded by the rows that they hold together.

    Two threads that ask for the same index at once read it once: the second waits.
    """

    def __init__(self, most_rows: int, size_of: Callable[[Index], int]) -> None:
        self._most, self._size_of = most_rows, size_of
        self._held: OrderedDict[tuple[str, str], Index] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, store: str, run_key: str, read: Callable[[], Index]) -> Index:
        """The index of a run; `run_key` is the same for no other run."""
        with self._lock:
            key = store, run_key
            if key not in self._held:
                self._held[key] = read()
                self._shrink()
            self._held.move_to_end(key)
            return self._held[key]

    def _shrink(self) -> None:
        rows = sum(map(self._size_of, self._held.values()))
        while rows > self._most and len(self._held) > 1:
            _, dropped = self._held.popitem(last=False)
            rows -= self._size_of(dropped)

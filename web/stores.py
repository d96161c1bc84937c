"""Open stores of a serving process: one a thread, because a connection belongs to its thread."""

from __future__ import annotations

import threading

from ptxguard.store.store import Store, open_store


class ThreadStores:
    """Opens the store when a thread first asks, and keeps it open."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._local = threading.local()

    def get(self) -> Store:
        """The store of this thread.

        Raises:
            ConfigError: the place is no store.
            ToolError: the database cannot be reached.
        """
        store: Store | None = getattr(self._local, "store", None)
        if store is None:
            store = open_store(self._place)
            self._local.store = store
        return store

    def drop(self) -> None:
        """Close this thread's store: after a failure the next request opens a new connection."""
        store: Store | None = getattr(self._local, "store", None)
        if store is not None:
            self._local.store = None
            store.close()

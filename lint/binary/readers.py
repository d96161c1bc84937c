"""Reads fatbin entries in child processes, while the process that found them walks on."""

from __future__ import annotations

import mmap
import multiprocessing
import threading
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxguard.binary.image import Wish, read_entry
from ptxguard.binary.inflate import Scratch
from ptxguard.errors import BinaryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ptxguard.binary.facts import Image
    from ptxguard.binary.fatbin import FatbinEntry

# Below this much, starting processes takes longer than they save.
_WORTHWHILE_BYTES = 8 << 20
# Payloads that came out of an archive and wait for a process: bounds memory where reading is slower.
_MAX_WAITING_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Batch:
    """Entries to read.

    Attributes:
        path: file that the payloads are in, or None where they come along.
        entries: (entry, number of its image, payload where it comes along).
    """

    path: str | None
    entries: tuple[tuple[FatbinEntry, int, bytes], ...]


class Readers:
    """Child processes that read entries; none is started for little work or for `jobs` of one."""

    def __init__(self, jobs: int, wish: Wish) -> None:
        self.jobs = jobs
        self.wish = wish
        self.scratch = Scratch()
        self._pool: ProcessPoolExecutor | None = None
        self._seen_bytes = 0
        self._waiting: deque[tuple[int, Future[list[Image | BinaryError]]]] = deque()

    def __enter__(self) -> Readers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def read(
        self, path: str | None, found: Sequence[tuple[FatbinEntry, memoryview]], first: int
    ) -> Callable[[], list[Image | BinaryError]]:
        """Begin to read entries.

        Args:
            path: the file whose bytes the payloads are, or None for bytes out of an archive.
            found: the entries with their stored payloads.
            first: number of the first one's image.

        Returns:
            A call that waits for the images, in the order of entries; an entry that is damaged is its error.
        """
        size = sum(len(payload) for _, payload in found)
        self._seen_bytes += size
        if self.jobs < 2 or self._seen_bytes < _WORTHWHILE_BYTES:
            results = [
                _image_or_error(entry, payload, first + number, self.wish, self.scratch)
                for number, (entry, payload) in enumerate(found)
            ]
            return lambda: results
        batch = Batch(
            path,
            tuple(
                (entry, first + number, payload.tobytes() if path is None else b"")
                for number, (entry, payload) in enumerate(found)
            ),
        )
        try:
            future = self._started().submit(_read_batch, batch)
        except BrokenProcessPool:
            return lambda: _unread(batch)
        self._hold(size if path is None else 0, future)
        return lambda: _outcome(future, batch)

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self.jobs, mp_context=_context(), initializer=_begin, initargs=(self.wish,)
            )
        return self._pool

    def _hold(self, size: int, future: Future[list[Image | BinaryError]]) -> None:
        """Wait for the oldest work while too many payloads are under way."""
        self._waiting.append((size, future))
        while self._waiting and sum(count for count, _ in self._waiting) > _MAX_WAITING_BYTES:
            self._waiting.popleft()[1].exception()


def _outcome(future: Future[list[Image | BinaryError]], batch: Batch) -> list[Image | BinaryError]:
    try:
        return future.result()
    except BrokenProcessPool:
        return _unread(batch)


def _unread(batch: Batch) -> list[Image | BinaryError]:
    reason = "the process that read it was ended from outside (out of memory?); it was not checked"
    return [BinaryError(f"image {index}: {reason}", offset=entry.offset) for entry, index, _ in batch.entries]


def _context() -> Any:
    """Forked children start at once; a process with threads cannot be forked safely."""
    can_fork = "fork" in multiprocessing.get_all_start_methods() and threading.active_count() == 1
    return multiprocessing.get_context("fork" if can_fork else "spawn")


class _Child:
    """What a child process keeps between batches."""

    wish = Wish()
    scratch = Scratch()


def _begin(wish: Wish) -> None:
    _Child.wish = wish


@lru_cache(maxsize=1)
def _mapped(path: str) -> memoryview:
    with Path(path).open("rb") as opened:
        return memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))


def _read_batch(batch: Batch) -> list[Image | BinaryError]:
    found = []
    for entry, index, payload in batch.entries:
        view = memoryview(payload)
        if batch.path is not None:
            start = entry.offset + entry.header_bytes
            view = _mapped(batch.path)[start : start + entry.payload_bytes]
        found.append(_image_or_error(entry, view, index, _Child.wish, _Child.scratch))
    return found


def _image_or_error(
    entry: FatbinEntry, payload: memoryview, index: int, wish: Wish, scratch: Scratch
) -> Image | BinaryError:
    try:
        return read_entry(entry, payload, index, wish, scratch)
    except BinaryError as error:
        return error

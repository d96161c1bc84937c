"""Forward reading over bytes that are mapped from a file or stream out of an archive."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import mmap

# Read step of a stream: large enough for a fast search, small beside the memory bound of a scan.
STEP_BYTES = 1 << 20


class Cursor(ABC):
    """A position in bytes that only moves forward, so that an archive member never has to be kept whole.

    Attributes:
        position: offset of the next byte.
    """

    def __init__(self) -> None:
        self.position = 0

    @abstractmethod
    def peek(self, count: int) -> memoryview:
        """The next `count` bytes without moving; fewer only at the end."""

    @abstractmethod
    def seek_any(self, patterns: tuple[bytes, ...]) -> bool:
        """Move to the nearest of the patterns; False, and at the end, where there is none."""

    @abstractmethod
    def skip(self, count: int) -> int:
        """Move by `count` bytes, at most to the end; returns how far."""

    @abstractmethod
    def keep(self, start: int, count: int) -> None:
        """Ask for a range that lies ahead; `kept` answers it when the cursor has passed it."""

    @abstractmethod
    def kept(self) -> bytes:
        """What is there of the range that was asked for."""

    def start_digest(self) -> None:  # noqa: B027  # a stream has nothing to do ahead
        """Say that `sha256` will be asked for, so that work on it can begin."""

    def close(self) -> None:  # noqa: B027  # a stream belongs to whoever opened it
        """Wait for work that was begun; a mapped file must not be read any more once this returns."""

    @abstractmethod
    def sha256(self) -> str:
        """Digest of all bytes, read or not; moves to the end."""

    def take(self, count: int) -> memoryview:
        """The next `count` bytes, fewer only at the end, and move behind them."""
        taken = self.peek(count)
        self.skip(len(taken))
        return taken


class MappedCursor(Cursor):
    """A cursor over bytes in memory or in a mapped file; views are handed out without a copy."""

    def __init__(self, data: bytes | mmap.mmap, extents: list[tuple[int, int]] | None = None) -> None:
        """Wrap bytes; `extents` are the ranges that are no holes of zeros, None where all may be data."""
        super().__init__()
        self._extents = extents
        self._data = data
        self._view = memoryview(data)
        self._next = -1
        self._digest: Future[str] | None = None
        self._range = (0, 0)

    def peek(self, count: int) -> memoryview:
        """See `Cursor.peek`."""
        return self._view[self.position : self.position + count]

    def skip(self, count: int) -> int:
        """See `Cursor.skip`."""
        before = self.position
        self.position = min(before + count, len(self._view))
        return self.position - before

    def enter(self, position: int) -> None:
        """Move to any place: bytes that are all at hand can be entered anywhere."""
        self.position, self._next = position, -1

    def seek_any(self, patterns: tuple[bytes, ...]) -> bool:
        """See `Cursor.seek_any`; no byte is searched twice for the same pattern."""
        nearest = self._next_of(patterns[0])
        for pattern in patterns[1:]:
            place = self._find(pattern, self.position, nearest + len(pattern) - 1)
            nearest = place if place >= 0 else nearest
        self.position = nearest
        return nearest < len(self._view)

    def _find(self, pattern: bytes, start: int, end: int) -> int:
        """As `bytes.find`, leaving out holes, in which no pattern can begin."""
        # Twice as fast as the search of a mapped file: 3.1 GB/s.
        search = re.compile(re.escape(pattern)).search
        extents = [(0, len(self._view))] if self._extents is None else self._extents
        for low, high in extents:
            if high > start and low < end:
                found = search(self._data, max(low, start), min(high + len(pattern) - 1, end))
                if found is not None:
                    return found.start()
        return -1

    def _next_of(self, pattern: bytes) -> int:
        if self._next < self.position:
            place = self._find(pattern, self.position, len(self._view))
            self._next = place if place >= 0 else len(self._view)
        return self._next

    def keep(self, start: int, count: int) -> None:
        """See `Cursor.keep`."""
        self._range = (start, start + count)

    def kept(self) -> bytes:
        """See `Cursor.kept`."""
        return bytes(self._view[slice(*self._range)])

    def start_digest(self) -> None:
        """See `Cursor.start_digest`: a thread hashes the bytes (hashlib lets others run meanwhile)."""
        if self._digest is None:
            self._digest = ThreadPoolExecutor(1).submit(lambda: hashlib.sha256(self._view).hexdigest())

    def close(self) -> None:
        """See `Cursor.close`."""
        if self._digest is not None:
            self._digest.result()

    def sha256(self) -> str:
        """See `Cursor.sha256`."""
        self.start_digest()
        assert self._digest is not None  # noqa: S101  # set by the line above, for the type checker
        return self._digest.result()


class StreamCursor(Cursor):
    """A cursor over a file object that cannot seek; holds what was peeked and one step more."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__()
        self._stream = stream
        self._buffer = b""
        self._start = 0
        self._hash = hashlib.sha256()
        self._ended = False
        self._read_bytes = 0
        self._range = (0, 0)
        self._kept: list[bytes] = []

    def _read(self, count: int) -> bytes:
        chunk = self._stream.read(count)
        self._ended = not chunk
        self._hash.update(chunk)
        low, high = (max(min(place - self._read_bytes, len(chunk)), 0) for place in self._range)
        if low < high:
            self._kept.append(chunk[low:high])
        self._read_bytes += len(chunk)
        return chunk

    def _fill(self, count: int) -> int:
        """Read until `count` bytes are at hand or the stream ends; returns how many are."""
        have = len(self._buffer) - self._start
        if have >= count or self._ended:
            return have
        parts = [memoryview(self._buffer)[self._start :]]
        while have < count and not self._ended:
            chunk = self._read(max(STEP_BYTES, count - have))
            parts.append(memoryview(chunk))
            have += len(chunk)
        self._buffer, self._start = b"".join(parts), 0
        return have

    def peek(self, count: int) -> memoryview:
        """See `Cursor.peek`."""
        self._fill(count)
        return memoryview(self._buffer)[self._start : self._start + count]

    def skip(self, count: int) -> int:
        """See `Cursor.skip`."""
        moved = 0
        while moved < count and (have := self._fill(1)):
            step = min(have, count - moved)
            self._start += step
            self.position += step
            moved += step
        return moved

    def seek_any(self, patterns: tuple[bytes, ...]) -> bool:
        """See `Cursor.seek_any`."""
        longest = max(map(len, patterns))
        while self._fill(longest) >= longest:
            places = (self._buffer.find(pattern, self._start) for pattern in patterns)
            found = [place for place in places if place >= 0]
            if found:
                self.skip(min(found) - self._start)
                return True
            self.skip(len(self._buffer) - self._start - longest + 1)
        self.skip(longest)
        return False

    def keep(self, start: int, count: int) -> None:
        """See `Cursor.keep`; the range must lie behind the bytes read so far."""
        self._range = (start, start + count)

    def kept(self) -> bytes:
        """See `Cursor.kept`."""
        return b"".join(self._kept)

    def sha256(self) -> str:
        """See `Cursor.sha256`."""
        while self.skip(STEP_BYTES):
            pass
        return self._hash.hexdigest()

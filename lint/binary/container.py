"""Opens what a user names: files, directories, wheels and other archives (nested too), standard input."""

from __future__ import annotations

import errno
import io
import mmap
import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ptxguard.binary.archives import Member, archive_kind, tar_members, unwrap, zip_members
from ptxguard.binary.cursor import Cursor, MappedCursor, StreamCursor
from ptxguard.errors import BinaryError, PtxguardError

# A member up to this size is read at once, a larger one streams through.
_AT_ONCE_BYTES = 32 << 20
# A zip inside a stream is read at once, because it needs to be entered from its end.
_MAX_NESTED_ZIP_BYTES = 512 << 20
_MAX_DEPTH = 6
_HEAD_BYTES = 512
_MAX_EXTENTS = 10_000

# Takes what could not be read; reading goes on behind it.
Report = Callable[[PtxguardError], None]


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes that may hold device code; valid until the next one is asked for.

    Attributes:
        path: the file, as it was given or found.
        member: path inside the archive, nested ones joined by "!"; None for the file itself.
        cursor: its bytes, not read yet.
        mapped: the bytes are those of the file at `path`, from its start.
    """

    path: str
    member: str | None
    cursor: Cursor
    mapped: bool = False

    @property
    def label(self) -> str:
        """`lib.whl!pkg/lib.so`."""
        return self.path if self.member is None else f"{self.path}!{self.member}"


def open_blobs(paths: list[str], report: Report) -> Iterator[Blob]:
    """Blobs of files, directories and archives, in the order given, directories sorted.

    Args:
        paths: as the user wrote them; `-` is standard input.
        report: takes what could not be read.
    """
    for path in paths:
        if path == "-":
            yield from _Opener("-", report).stream(None, sys.stdin.buffer, None, 0)
        elif Path(path).is_dir():
            for file in _walk(path, report):
                yield from _Opener(file, report).file()
        else:
            yield from _Opener(path, report).file()


def open_bytes(data: bytes, name: str, report: Report) -> Iterator[Blob]:
    """Blobs of bytes in memory: a file of any kind that `open_blobs` knows, archives too.

    Args:
        data: the whole file.
        name: stands for its path.
        report: takes what could not be read.
    """
    return _Opener(name, report).stream(None, io.BytesIO(data), len(data), 0)


def _walk(folder: str, report: Report) -> Iterator[str]:
    """Regular files below a folder; links are not followed: no file is read twice, no loop entered."""

    def failed(error: OSError) -> None:
        report(BinaryError(f"cannot list: {error.strerror}", path=str(error.filename)))

    for parent, folders, names in os.walk(folder, onerror=failed):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(parent, name)  # noqa: PTH118  # a walk of a large environment, ten times faster
            try:
                if stat.S_ISREG(os.lstat(path).st_mode):
                    yield path
            except OSError as error:
                report(BinaryError(f"cannot read: {error.strerror}", path=path))


class _Opener:
    """Opens one file the user named and what is nested in it."""

    def __init__(self, path: str, report: Report) -> None:
        self.path = path
        self.report = report

    def file(self) -> Iterator[Blob]:
        """Blobs of the file itself, mapped where that is possible."""
        try:
            with Path(self.path).open("rb") as opened:
                if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                    yield from self.stream(None, opened, None, 0)
                    return
                head = opened.read(_HEAD_BYTES)
                opened.seek(0)
                if archive_kind(head):
                    yield from self._archive(None, opened, head, 0)
                elif head:
                    extents = _extents(opened.fileno())
                    # The mapping ends when the last view of it is gone.
                    mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
                    yield Blob(self.path, None, MappedCursor(mapped, extents), mapped=True)
                else:
                    yield Blob(self.path, None, MappedCursor(b""))
        except OSError as error:
            self.report(BinaryError(f"cannot read: {error.strerror or error}", path=self.path))

    def stream(self, member: str | None, stream: Any, size: int | None, depth: int) -> Iterator[Blob]:
        """Blobs of bytes that come out of a pipe or an archive; what is wrong with them is reported."""
        try:
            if size is not None and size <= _AT_ONCE_BYTES:
                data = stream.read(_AT_ONCE_BYTES)
                head = data[:_HEAD_BYTES]
                if archive_kind(head):
                    yield from self._archive(member, io.BytesIO(data), head, depth)
                else:
                    yield Blob(self.path, member, MappedCursor(data))
                return
            cursor = StreamCursor(stream)
            head = bytes(cursor.peek(_HEAD_BYTES))
            if archive_kind(head):
                yield from self._archive(member, _CursorFile(cursor), head, depth)
            else:
                yield Blob(self.path, member, cursor)
        except BinaryError as error:
            self._failed(member, error)

    def _archive(self, member: str | None, stream: Any, head: bytes, depth: int) -> Iterator[Blob]:
        kind = archive_kind(head) or ""
        if depth >= _MAX_DEPTH:
            self._failed(
                member, BinaryError(f"archives nested more than {_MAX_DEPTH} deep are not opened", offset=0)
            )
            return
        try:
            if kind == "zip":
                yield from self._members(member, zip_members(_seekable(stream)), depth)
            elif kind == "tar":
                yield from self._members(member, tar_members(stream), depth)
            else:
                yield from self.stream(member, unwrap(kind, stream), None, depth + 1)
        except BinaryError as error:
            self._failed(member, error)

    def _members(self, outer: str | None, members: Iterator[Member], depth: int) -> Iterator[Blob]:
        for found in members:
            name = found.name if outer is None else f"{outer}!{found.name}"
            yield from self.stream(name, found.stream, found.size, depth + 1)

    def _failed(self, member: str | None, error: BinaryError) -> None:
        label = self.path if member is None else f"{self.path}!{member}"
        self.report(BinaryError(error.message, path=label, offset=error.offset))


def _extents(handle: int) -> list[tuple[int, int]] | None:
    """Ranges of a file that hold data; None where they are unknown or too many."""
    if not hasattr(os, "SEEK_DATA"):
        return None
    size, at = os.fstat(handle).st_size, 0
    found: list[tuple[int, int]] = []
    try:
        while at < size and len(found) < _MAX_EXTENTS:
            start = os.lseek(handle, at, os.SEEK_DATA)
            at = os.lseek(handle, start, os.SEEK_HOLE)
            found.append((start, at))
    except OSError as error:
        if error.errno != errno.ENXIO:  # ENXIO: no data behind this place
            return None
    return found if len(found) < _MAX_EXTENTS else None


class _CursorFile:
    """A cursor as the file object that tarfile and the decompressors read."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    def read(self, count: int = -1) -> bytes:
        return bytes(self._cursor.take(count if count >= 0 else _MAX_NESTED_ZIP_BYTES + 1))


def _seekable(stream: Any) -> IO[bytes]:
    if not isinstance(stream, _CursorFile):
        opened: IO[bytes] = stream
        return opened
    data = stream.read()
    if len(data) > _MAX_NESTED_ZIP_BYTES:
        raise BinaryError(
            f"zip of more than {_MAX_NESTED_ZIP_BYTES} bytes inside a stream; unpack it first", offset=0
        )
    return io.BytesIO(data)

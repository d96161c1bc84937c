"""Lists the members of zip and tar archives and unwraps compressed streams, bounded against bombs."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
import tarfile
import zipfile
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from ptxguard.errors import BinaryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Unpacked bytes that are believed: published wheels unpack to at most 20 times their size.
_MAX_RATIO = 200
_FREE_BYTES = 64 << 20
_MAX_MEMBERS = 200_000

_TAR_MAGIC_AT = 257
_COMPRESSED = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zst"}
_DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    RuntimeError,
    NotImplementedError,
    ValueError,
)


def archive_kind(head: bytes) -> str | None:
    """zip, tar, gz, bz2, xz or zst by the first 512 bytes; None for anything else."""
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    if head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + 5] == b"ustar":
        return "tar"
    return next((kind for magic, kind in _COMPRESSED.items() if head.startswith(magic)), None)


class GuardedStream:
    """A file object that turns every damage into a BinaryError and stops a bomb."""

    def __init__(self, stream: Any, consumed: Callable[[], int]) -> None:
        """Wrap a stream; `consumed` tells how many stored bytes it has used so far."""
        self._stream = stream
        self._consumed = consumed
        self._produced = 0

    def read(self, count: int = -1) -> bytes:
        """The next bytes.

        Raises:
            BinaryError: the stored bytes are damaged, encrypted, or unpack to far too much.
        """
        try:
            data: bytes = self._stream.read(count)
        except _DAMAGE as error:
            raise BinaryError(
                f"archive is damaged or cannot be read ({error})", offset=self._produced
            ) from error
        except Exception as error:
            if type(error).__name__ != "ZstdError":
                raise
            raise BinaryError(f"archive is damaged ({error})", offset=self._produced) from error
        self._produced += len(data)
        if self._produced > _FREE_BYTES + _MAX_RATIO * self._consumed():
            raise BinaryError(
                f"{self._consumed()} stored bytes unpack to more than {self._produced}; as a bomb does",
                offset=self._produced,
            )
        return data


class _Counted:
    """A file object that counts what is read from it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.count = 0

    def read(self, count: int = -1) -> bytes:
        data = self._stream.read(count)
        self.count += len(data)
        return data


def _constant(value: int) -> Callable[[], int]:
    return lambda: value


def unwrap(kind: str, stream: IO[bytes]) -> GuardedStream:
    """The bytes inside a gz, bz2, xz or zst stream."""
    counted: Any = _Counted(stream)
    if kind == "zst":
        return GuardedStream(_zstd_file(counted), lambda: counted.count)
    opened = {"gz": gzip.GzipFile, "bz2": bz2.BZ2File, "xz": lzma.LZMAFile}[kind]
    inner = opened(fileobj=counted) if kind == "gz" else opened(counted)
    return GuardedStream(inner, lambda: counted.count)


def _zstd_file(stream: Any) -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd

        return zstd.ZstdFile(stream)
    import zstandard

    return zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)


@dataclass(frozen=True, slots=True)
class Member:
    """A regular file in an archive: its name, unpacked size and bytes."""

    name: str
    size: int
    stream: GuardedStream


def zip_members(stream: IO[bytes]) -> Iterator[Member]:
    """Members of a seekable zip in the order of its directory.

    Raises:
        BinaryError: no zip, or members overlap (a bomb that the directory alone shows).
    """
    try:
        with zipfile.ZipFile(stream) as archive:
            entries = archive.infolist()
            size = stream.seek(0, 2)
            _refuse_overlap(entries, size)
            for entry in entries:
                if not entry.is_dir():
                    packed = entry.compress_size
                    yield Member(
                        entry.filename,
                        entry.file_size,
                        GuardedStream(_Lazy(archive, entry), _constant(packed)),
                    )
    except _DAMAGE as error:
        raise BinaryError(f"not a readable zip archive ({error})", offset=0) from error


class _Lazy:
    """A zip member that is opened at the first read, so that what is wrong with it is its own error."""

    def __init__(self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
        self._archive, self._entry = archive, entry
        self._opened: IO[bytes] | None = None

    def read(self, count: int = -1) -> bytes:
        if self._opened is None:
            self._opened = self._archive.open(self._entry)
        return self._opened.read(count)


def _refuse_overlap(entries: list[zipfile.ZipInfo], size: int) -> None:
    if len(entries) > _MAX_MEMBERS:
        raise BinaryError(f"zip with {len(entries)} members; at most {_MAX_MEMBERS} are read", offset=0)
    stored = sum(entry.compress_size for entry in entries)
    if stored > size:
        raise BinaryError(f"members of the zip claim {stored} stored bytes, it has {size}", offset=0)


def tar_members(stream: Any) -> Iterator[Member]:
    """Regular files of a tar, in order, read in one pass.

    Raises:
        BinaryError: the tar is damaged.
    """
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for count, entry in enumerate(archive):
                if count >= _MAX_MEMBERS:
                    raise BinaryError(f"tar with more than {_MAX_MEMBERS} members", offset=entry.offset)
                opened = archive.extractfile(entry) if entry.isreg() else None
                if opened is not None:
                    yield Member(entry.name, entry.size, GuardedStream(opened, _constant(entry.size)))
    except _DAMAGE as error:
        raise BinaryError(f"not a readable tar archive ({error})", offset=0) from error

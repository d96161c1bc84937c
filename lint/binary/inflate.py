"""Unpacks fatbin payloads (none, LZ4, ZSTD) only as far as they are asked for, into a buffer used again."""

from __future__ import annotations

import mmap
import sys
from typing import Any

from ptxguard.errors import BinaryError

# Largest image that is unpacked; the largest met in published wheels has 75 MB.
MAX_IMAGE_BYTES = 512 << 20
# The best ratio met in 629 published cubins is 142; zeros reach far more: a bomb is refused by ratio.
MAX_RATIO = 1024
_FREE_RATIO_BYTES = 1 << 20
# Larger than all images met.
_FIRST_ROOM_BYTES = 128 << 20


class Scratch:
    """One buffer that every image of a scan is unpacked into; the last image must be done with.

    Anonymous memory of the system: pages that no image reaches are never there.
    """

    def __init__(self) -> None:
        self._buffer = memoryview(b"")

    def room(self, count: int) -> memoryview:
        """`count` bytes of undefined content."""
        if len(self._buffer) < count:
            self._buffer = memoryview(mmap.mmap(-1, max(count, _FIRST_ROOM_BYTES)))
        return self._buffer[:count]


class Unpacked:
    """The bytes of one image, there as far as they were asked for.

    Attributes:
        size: bytes of the whole image.
    """

    def __init__(self, payload: memoryview, method: str, size: int, scratch: Scratch) -> None:
        """Prepare; nothing is unpacked yet.

        Raises:
            BinaryError: the claimed size cannot be meant (offset 0 is the payload).
        """
        if size > MAX_IMAGE_BYTES or (size > _FREE_RATIO_BYTES and size > MAX_RATIO * len(payload)):
            raise BinaryError(
                f"an image claims to unpack from {len(payload)} to {size} bytes; it was not unpacked",
                offset=0,
            )
        self.size = size
        self._payload = payload
        self._method = method
        self._scratch = scratch
        self._room: memoryview | None = payload if method == "none" else None
        self._have = size if method == "none" else 0
        self._reader: Any = None

    def first(self, count: int) -> memoryview:
        """At least the first `count` bytes (all of them where the image is shorter).

        Raises:
            BinaryError: the payload is not what its flags say, or yields another size.
        """
        count = min(count, self.size)
        if not self.size:
            return self._payload[:0]
        if self._method == "lz4" and self._room is None:
            self._room, self._have = _lz4(self._payload, self.size), self.size
        elif self._have < count:
            self._have = self._stream_to(count)
        assert self._room is not None  # noqa: S101  # set by every branch above, for the type checker
        return self._room[: self._have]

    def whole(self) -> memoryview:
        """All bytes of the image; see `first`."""
        return self.first(self.size)

    def _stream_to(self, count: int) -> int:
        if self._room is None:
            self._room = self._scratch.room(self.size)
            self._reader = _zstd_reader(self._payload)
        have = self._have
        try:
            while have < count:
                got = self._reader.readinto(self._room[have:count])
                if not got:
                    break
                have += got
        except Exception as error:  # the two zstd modules raise unrelated classes of their own
            raise BinaryError(f"the ZSTD frame is damaged ({error})", offset=0) from error
        if have < count:
            raise BinaryError(f"the ZSTD frame ends after {have} of {self.size} bytes", offset=0)
        return have


def _zstd_reader(payload: memoryview) -> Any:
    if sys.version_info >= (3, 14):
        import io

        from compression import zstd

        return zstd.ZstdFile(io.BytesIO(payload))
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=MAX_IMAGE_BYTES).stream_reader(payload)


def _lz4(payload: memoryview, size: int) -> memoryview:
    import lz4.block

    try:
        data = lz4.block.decompress(payload, uncompressed_size=size)
    except (lz4.block.LZ4BlockError, ValueError) as error:
        raise BinaryError(f"the LZ4 block is damaged ({error})", offset=0) from error
    if len(data) != size:
        raise BinaryError(f"the LZ4 block unpacks to {len(data)} bytes, {size} were announced", offset=0)
    return memoryview(data)


def pack(data: bytes) -> bytes:
    """Compress text of this program as one ZSTD frame."""
    if sys.version_info >= (3, 14):
        from compression import zstd

        return zstd.compress(data, 1)
    import zstandard

    return zstandard.ZstdCompressor(level=1).compress(data)


def unpack(frame: bytes) -> bytes:
    """What `pack` was given."""
    if sys.version_info >= (3, 14):
        from compression import zstd

        return zstd.decompress(frame)
    import zstandard

    return zstandard.ZstdDecompressor().decompress(frame)

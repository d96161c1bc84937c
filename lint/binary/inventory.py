"""Takes stock of all device code in files, archives and directories: the entry to this layer."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.binary import elf, fatbin
from ptxguard.binary.container import Blob, open_blobs, open_bytes
from ptxguard.binary.cursor import MappedCursor
from ptxguard.binary.facts import Artifact, Image
from ptxguard.binary.host import HostFile
from ptxguard.binary.image import Wish, listed, read_cubin, read_ptx
from ptxguard.binary.inflate import MAX_IMAGE_BYTES, Unpacked
from ptxguard.binary.readers import Readers
from ptxguard.errors import BinaryError, PtxguardError

if TYPE_CHECKING:
    from ptxguard.binary.cursor import Cursor

_ELF_MAGIC = b"\x7fELF\x02\x01\x01"
# PTX: nothing but blanks and comments stands before `.version`. Possessive, so that it is linear.
_PTX_HEAD = re.compile(
    rb"\A(?:\xef\xbb\xbf)?(?:\s|//[^\n]*\n|/\*(?:(?!\*/).)*+\*/)*+\.version\s+\d", re.DOTALL
)
_PTX_HEAD_BYTES = 1 << 14
_MAX_PTX_BYTES = 256 << 20
# Entries of one container that are read in one go, mostly the same kernels for several targets.
_BATCH_ENTRIES, _BATCH_BYTES = 16, 16 << 20
_DEVICE_SUFFIXES = (".fatbin", ".cubin", ".ptx")

# (files done, what is read now)
Progress = Callable[[int, str], None]


@dataclass(frozen=True, slots=True)
class Inventory:
    """Device code found.

    Attributes:
        artifacts: files and members that hold some, in the order read.
        errors: what could not be read, each with path and offset.
        file_count: files and members looked at.
    """

    artifacts: tuple[Artifact, ...]
    errors: tuple[PtxguardError, ...]
    file_count: int


def inventory(
    paths: str | Sequence[str],
    wish: Wish | None = None,
    progress: Progress | None = None,
    jobs: int = 1,
) -> Inventory:
    """Read all device code of some paths.

    Args:
        paths: files, archives, directories; `-` is standard input.
        wish: what to read; by default the flagged kernels of all targets.
        progress: told of each file before it is read.
        jobs: processes that read images; 1 reads them in this one.
    """
    names = [paths] if isinstance(paths, str) else list(paths)
    errors: list[PtxguardError] = []
    artifacts, count = [], 0
    with Readers(jobs, wish or Wish()) as readers:
        for blob in open_blobs(names, errors.append):
            if progress is not None:
                progress(count, blob.label)
            count += 1
            artifact = _BlobReader(blob, readers, errors).read()
            if artifact is not None:
                artifacts.append(artifact)
    return Inventory(tuple(artifacts), tuple(errors), count)


def inventory_of_bytes(data: bytes, name: str, wish: Wish | None = None) -> Inventory:
    """Read all device code of a file in memory.

    Args:
        data: the whole file; archives are opened too.
        name: stands for its path.
        wish: what to read; by default the flagged kernels of all targets.
    """
    errors: list[PtxguardError] = []
    artifacts, count = [], 0
    with Readers(1, wish or Wish()) as readers:
        for blob in open_bytes(data, name, errors.append):
            count += 1
            artifact = _BlobReader(blob, readers, errors).read()
            if artifact is not None:
                artifacts.append(artifact)
    return Inventory(tuple(artifacts), tuple(errors), count)


class _BlobReader:
    """Walks the device code of one blob."""

    def __init__(self, blob: Blob, readers: Readers, errors: list[PtxguardError]) -> None:
        self.blob = blob
        self.cursor: Cursor = blob.cursor
        self.readers = readers
        self.wish = readers.wish
        self.errors = errors
        self.images: list[Image] = []
        # Places of images that are being read elsewhere, with the call that waits for them.
        self.pending: list[tuple[int, Callable[[], list[Image | BinaryError]]]] = []
        self.walked: list[tuple[int, int]] = []
        # Places that begin like a container and do not go on like one: perhaps an instruction's operand.
        self.doubted: list[tuple[int, BinaryError]] = []
        self.failed = False

    def read(self) -> Artifact | None:
        """The blob's images; None where it holds no device code."""
        try:
            host = HostFile(self.cursor)
            if _PTX_HEAD.match(bytes(self.cursor.peek(_PTX_HEAD_BYTES))):
                self._ptx()
            else:
                if not self._walk_sections_first(host):
                    self._walk()
                self._gather()
            for error in host.unproven(self.cursor.kept(), self.walked, self.doubted, self.cursor.position):
                self._fail(error)
            name = (self.blob.member or self.blob.path).lower()
            if not self.images and not self.failed and name.endswith(_DEVICE_SUFFIXES):
                self._fail(
                    BinaryError("holds no device code that can be read, though its name says so", offset=0)
                )
            digest = self.cursor.sha256() if self.images and self.wish.digest else ""
        except BinaryError as error:
            self._fail(error)
            digest = ""
        finally:
            self.cursor.close()
        if not self.images:
            return None
        return Artifact(self.blob.path, self.blob.member, digest, tuple(self.images))

    def _fail(self, error: BinaryError) -> None:
        self.failed = True
        self.errors.append(BinaryError(error.message, path=self.blob.label, offset=error.offset))

    def _walk_sections_first(self, host: HostFile) -> bool:
        """Walk the device sections, then the bytes around them while processes read what was found.

        False, and nothing is kept, where the sections cannot be told ahead or other bytes hold device code
        too: images are numbered as they stand in the file.
        """
        cursor = self.cursor
        if self.readers.jobs < 2 or not self.blob.mapped or not isinstance(cursor, MappedCursor):
            return False
        ranges = host.device_ranges(cursor.kept())
        if not ranges:
            return False
        around: list[tuple[int, int | None]] = []
        start = 0
        errors_before = len(self.errors)
        for low, high in ranges:
            around.append((start, low))
            cursor.enter(low)
            self._walk(high)
            start = max(high, cursor.position)
        in_sections = len(self.images), len(self.errors)
        for begin, end in [*around, (start, None)]:
            cursor.enter(begin)
            self._walk(end)
        if (len(self.images), len(self.errors)) == in_sections:
            return True
        self.images, self.pending, self.walked, self.doubted, self.failed = [], [], [], [], False
        del self.errors[errors_before:]
        cursor.enter(0)
        return False

    def _walk(self, end: int | None = None) -> None:
        cursor = self.cursor
        while cursor.seek_any((fatbin.MAGIC, _ELF_MAGIC)) and (end is None or cursor.position < end):
            start = cursor.position
            head = cursor.peek(elf.HEADER_BYTES)
            if fatbin.is_container(head):
                self._container()
            elif elf.is_cubin(head):
                self._bare_cubin()
            if cursor.position == start:
                cursor.skip(4)

    def _container(self) -> None:
        found: list[tuple[fatbin.FatbinEntry, memoryview]] = []
        held, start = 0, self.cursor.position
        try:
            for entry, payload in fatbin.walk_container(self.cursor, len(self.walked)):
                found.append((entry, payload))
                held += len(payload)
                if len(found) >= _BATCH_ENTRIES or held >= _BATCH_BYTES:
                    self._begin(found)
                    found, held = [], 0
        except BinaryError as error:
            if self.cursor.position - start <= fatbin.CONTAINER_BYTES:
                self.doubted.append((start, error))
                return
            self._fail(error)
        self._begin(found)
        self.walked.append((start, self.cursor.position))
        if self.wish.digest:
            self.cursor.start_digest()

    def _begin(self, found: list[tuple[fatbin.FatbinEntry, memoryview]]) -> None:
        """Begin to read entries; until they are, their images say what the headers say."""
        if found:
            first = len(self.images)
            self.images += [listed(entry, first + number) for number, (entry, _) in enumerate(found)]
            path = self.blob.path if self.blob.mapped else None
            self.pending.append((first, self.readers.read(path, found, first)))

    def _gather(self) -> None:
        """Put the images that were read in their places, and name those that were not."""
        for first, call in self.pending:
            for place, result in enumerate(call(), first):
                if isinstance(result, BinaryError):
                    self._fail(result)
                else:
                    self.images[place] = result

    def _bare_cubin(self) -> None:
        """A cubin outside any fatbin."""
        start = self.cursor.position
        try:
            size = _elf_size(self.cursor)
            data = self.cursor.take(size)
            image = Image(len(self.images), None, start, "elf", "", len(data), len(data))
            if len(data) < size:
                raise BinaryError(f"cubin of {size} bytes is cut off after {len(data)}", offset=len(data))
            unpacked = Unpacked(data, "none", size, self.readers.scratch)
            self.images.append(read_cubin(unpacked, image, self.wish))
        except BinaryError as error:
            self._fail(
                BinaryError(f"{error.message}; it was not checked", offset=start + (error.offset or 0))
            )

    def _ptx(self) -> None:
        data = self.cursor.take(_MAX_PTX_BYTES + 1)
        if len(data) > _MAX_PTX_BYTES:
            raise BinaryError(f"PTX of more than {_MAX_PTX_BYTES} bytes is not read", offset=0)
        image = Image(0, None, 0, "ptx", "", len(data), len(data))
        self.images.append(read_ptx(bytes(data), image))


def _elf_size(cursor: Cursor) -> int:
    """Bytes of the ELF file at the cursor: where its tables and the last of its sections end.

    ptxas writes the section table last; the small images inside libcupti have it in front of all sections.
    """
    head = cursor.peek(elf.HEADER_BYTES)
    programs_at, sections_at = struct.unpack_from("<QQ", head, 32)
    program_size, programs, section_size, sections = struct.unpack_from("<HHHH", head, 54)
    table_end = sections_at + section_size * sections
    size: int = max(programs_at + program_size * programs, table_end, elf.HEADER_BYTES)
    if size <= MAX_IMAGE_BYTES and section_size == elf.SECTION_BYTES:
        table = cursor.peek(table_end)[sections_at:]
        rows = struct.iter_unpack("<4xI16xQQ24x", table[: len(table) // section_size * section_size])
        size = max([size, *(at + count for kind, at, count in rows if kind not in elf.WITHOUT_BYTES)])
    if size > MAX_IMAGE_BYTES:
        raise BinaryError(f"cubin claims {size} bytes, more than what is read", offset=40)
    return size

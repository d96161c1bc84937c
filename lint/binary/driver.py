"""Stack needs that an installed NVIDIA driver declares for its device functions, read from libcuda.so.

libcuda.so holds its device library as cubins, one a target. Their `.nv.info` section declares MIN_STACK_SIZE,
FRAME_SIZE and REGCOUNT for each function; that is all that is read here: no code, no disassembly, nothing
runs. The reader is a small one of its own: it needs three attributes of one section and must also work where
only the probe's libraries are installed.
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ptxguard.errors import BinaryError, ToolError

if TYPE_CHECKING:
    from collections.abc import Iterator

SYSCALL_PREFIX = "__cuda_syscall_"
_SHOWN = (f"{SYSCALL_PREFIX}cp_async_bulk_", f"{SYSCALL_PREFIX}aligned_malloc")

_ELF64_LE = b"\x7fELF\x02\x01\x01"
_FATBIN = struct.pack("<IHH", 0xBA55ED50, 1, 16)
_EM_CUDA = 190
_ABI_8 = 0x41  # EI_OSABI of cubins by newer tools; older ones have 0x33 and keep the target in other bits
_SHT_SYMTAB, _SHT_NOBITS, _SHT_CUDA_INFO = 2, 8, 0x70000000
_WITHOUT_BYTES = (0x70000007, 0x70000009, 0x7000000A)  # SHT_CUDA_GLOBAL, _LOCAL, _SHARED: sizes only
_FRAME_SIZE, _MIN_STACK_SIZE, _REGCOUNT = 0x11, 0x12, 0x2F  # EIATTR_*
_FMT_SVAL = 4
_KIND_ELF = 2
_LZ4, _ZSTD = 0x2000, 0x8000  # fatbin entry flags

_VERSION = re.compile(r"libcuda\.so\.(\d+(?:\.\d+)+)\Z")
_USUAL_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
)


@dataclass(frozen=True, order=True)
class Declaration:
    """What one device ELF declares for one driver function.

    Attributes:
        sm: target number, 120.
        syscall: full symbol name.
        min_stack_bytes: EIATTR_MIN_STACK_SIZE: stack of the function and all that it calls, bytes per thread.
        frame_bytes: EIATTR_FRAME_SIZE: its own frame.
        registers: EIATTR_REGCOUNT.
    """

    sm: int
    syscall: str
    min_stack_bytes: int
    frame_bytes: int
    registers: int


@dataclass(frozen=True)
class DriverTable:
    """All declarations of one driver.

    Attributes:
        path: the library that was read.
        version: the driver's version as its file name states it, or "unknown".
        declarations: sorted by target and name.
    """

    path: str
    version: str
    declarations: tuple[Declaration, ...]

    def of_copies(self) -> tuple[Declaration, ...]:
        """The bulk-copy functions, and the allocator that device code reaches through malloc."""
        return tuple(row for row in self.declarations if row.syscall.startswith(_SHOWN) and row.sm >= 90)

    def find(self, sm: int, syscall: str) -> Declaration | None:
        """The declaration for one function on one target, or None where the driver declares none."""
        found = [row for row in self.declarations if (row.sm, row.syscall) == (sm, syscall)]
        return max(found, key=lambda row: row.min_stack_bytes, default=None)


def find_libcuda() -> Path:
    """The driver library that the loader would take: LD_LIBRARY_PATH, the loader's cache, the usual folders.

    Raises:
        ToolError: there is none.
    """
    for folder in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        if (candidate := Path(folder) / "libcuda.so.1").is_file():
            return candidate.resolve()
    for candidate in _loader_cache():
        if candidate.is_file():
            return candidate.resolve()
    for folder in _USUAL_FOLDERS:
        if (candidate := Path(folder) / "libcuda.so.1").is_file():
            return candidate.resolve()
    raise ToolError("no NVIDIA driver is installed here (no libcuda.so.1); name one with --driver PATH")


def _loader_cache() -> Iterator[Path]:
    ldconfig = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")
    if ldconfig is None:
        return
    run = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False)
    for line in run.stdout.splitlines():
        name, _, place = line.partition("=>")
        if name.split()[:1] == ["libcuda.so.1"] and (struct.calcsize("P") == 4 or "libc6,x32" not in name):
            yield Path(place.strip())


def read_driver(path: Path) -> DriverTable:
    """Read the declarations of a libcuda.so.

    Raises:
        BinaryError: the file cannot be read or holds no device function of the driver.
    """
    path = path.resolve()
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            rows = {row for image in _device_elfs(data) for row in _declarations(image)}
    except (OSError, ValueError) as error:
        raise BinaryError(f"cannot be read: {error}", path=str(path)) from None
    if not rows:
        raise BinaryError("holds no device function of the driver; is it a libcuda.so?", path=str(path))
    match = _VERSION.search(path.name)
    return DriverTable(str(path), match[1] if match else "unknown", tuple(sorted(rows)))


def _device_elfs(data: mmap.mmap) -> Iterator[bytes]:
    """Every cubin in the file, stored as it is or in a fatbin."""
    position = -1
    while (position := data.find(_ELF64_LE, position + 1)) >= 0:
        if size := _elf_size(data, position):
            yield data[position : position + size]
            position += size - 1  # nothing of interest begins inside
    position = -1
    while (position := data.find(_FATBIN, position + 1)) >= 0:
        yield from _compressed_elfs(data, position)


def _elf_size(data: mmap.mmap | bytes, start: int) -> int:
    """Length of a cubin, to the end of its last section; 0 where the bytes are no cubin.

    The section table stands last in executable cubins and first in the relocatable ones of a driver.
    """
    header = data[start : start + 64]
    if len(header) < 64 or struct.unpack_from("<H", header, 18)[0] != _EM_CUDA:
        return 0
    table: int = struct.unpack_from("<Q", header, 40)[0]
    entry_size, count = struct.unpack_from("<HH", header, 58)
    end = table + entry_size * count
    if entry_size != 64 or not count or start + end > len(data):
        return 0
    for index in range(count):
        place = start + table + 64 * index
        kind = struct.unpack_from("<I", data, place + 4)[0]
        offset, size = struct.unpack_from("<QQ", data, place + 24)
        if kind not in (_SHT_NOBITS, *_WITHOUT_BYTES):
            end = max(end, offset + size)
    return end if start + end <= len(data) else 0


def _compressed_elfs(data: mmap.mmap, start: int) -> Iterator[bytes]:
    """The compressed cubins of one fatbin container (plain ones are found by their own magic)."""
    position = start + 16
    size = struct.unpack_from("<Q", data, start + 8)[0] if position <= len(data) else 0
    end = position + size
    if not 64 <= size <= len(data) - position:
        return  # the magic by chance
    while position + 64 <= end:
        kind, _, header_size, padded = struct.unpack_from("<HHIQ", data, position)
        compressed_size = struct.unpack_from("<I", data, position + 16)[0]
        flags, _, size = struct.unpack_from("<QQQ", data, position + 40)
        if header_size < 64:
            return
        body = position + header_size
        if kind == _KIND_ELF and compressed_size and flags & (_LZ4 | _ZSTD):
            image = _decompress(data[body : body + compressed_size], flags, size)
            if _elf_size(image, 0):
                yield image
        position = body + padded


def _decompress(payload: bytes, flags: int, size: int) -> bytes:
    if flags & _LZ4:
        import lz4.block  # a library of the plain install; drivers seen so far store their cubins plain

        return bytes(lz4.block.decompress(payload, uncompressed_size=size))
    import zstandard

    return zstandard.ZstdDecompressor().decompress(payload, max_output_size=size)


def _declarations(image: bytes) -> Iterator[Declaration]:
    """The driver functions that one cubin defines."""
    if SYSCALL_PREFIX.encode() not in image:
        return
    flags = struct.unpack_from("<I", image, 48)[0]
    sm = flags >> 8 & 0xFF if image[7] == _ABI_8 else flags & 0xFF
    table_offset = struct.unpack_from("<Q", image, 40)[0]
    count = struct.unpack_from("<H", image, 60)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, table_offset + 64 * index) for index in range(count)]
    names = _syscalls(image, sections)
    values = _module_info(image, sections) if names else {}
    for index, name in names.items():
        sizes = [values.get((attribute, index)) for attribute in (_MIN_STACK_SIZE, _FRAME_SIZE, _REGCOUNT)]
        if sizes[0] is not None:
            yield Declaration(sm, name, sizes[0], sizes[1] or 0, sizes[2] or 0)


def _syscalls(image: bytes, sections: list[tuple[int, ...]]) -> dict[int, str]:
    """Symbol index -> name of every driver function defined (not just referred to) in a cubin."""
    found: dict[int, str] = {}
    for _, kind, _, _, offset, size, link, *_ in sections:
        if kind != _SHT_SYMTAB:
            continue
        strings = image[sections[link][4] : sections[link][4] + sections[link][5]]
        for index in range(size // 24):
            name, _, _, section = struct.unpack_from("<IBBH", image, offset + 24 * index)
            if section and strings.startswith(SYSCALL_PREFIX.encode(), name):
                found[index] = strings[name : strings.index(b"\0", name)].decode("ascii", "replace")
    return found


def _module_info(image: bytes, sections: list[tuple[int, ...]]) -> dict[tuple[int, int], int]:
    """(attribute, symbol index) -> value of the module's `.nv.info` records."""
    values: dict[tuple[int, int], int] = {}
    for _, kind, _, _, offset, size, _, info, *_ in sections:
        if kind != _SHT_CUDA_INFO or info:
            continue
        position = offset
        while position + 4 <= offset + size:
            form, attribute, length = struct.unpack_from("<BBH", image, position)
            if form == _FMT_SVAL and length == 8:
                symbol, value = struct.unpack_from("<II", image, position + 4)
                values[attribute, symbol] = value
            position += 4 + (length if form == _FMT_SVAL else 0)
    return values

"""What nvcc makes of generated programs: kernels and the driver functions that each refers to."""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SYSCALL = b"__cuda_syscall_"
_SYMTAB = 2


class CompileError(Exception):
    """nvcc refused a program; its message is the reason."""


@dataclass(frozen=True)
class Section:
    """A section header of a cubin, which is a little-endian 64-bit ELF file."""

    name: int
    kind: int
    offset: int
    size: int
    link: int


def compile_programs(
    folder: Path, units: list[str], defines: dict[str, str], target: str
) -> dict[str, set[str]]:
    """Compile units of several programs at once: mangled kernel -> driver functions that it refers to.

    Raises:
        CompileError: nvcc refused.
    """
    batch, cubin = folder / "batch.cu", folder / "batch.cubin"
    batch.write_text("".join(f'#include "{unit}"\n' for unit in units))
    command = ["nvcc", f"-arch={target}", "-std=c++17", "-w", "-cubin", "-o", str(cubin), str(batch)]
    command += [f"-D{name}={value}" for name, value in defines.items()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(done.stdout + done.stderr)
    return read_syscalls(cubin.read_bytes())


def read_syscalls(data: bytes) -> dict[str, set[str]]:
    """Kernel -> `__cuda_syscall_*` names in the EXTERNS attribute (0x0f) of its `.nv.info` section."""
    sections = list(_sections(data))
    names = sections[struct.unpack_from("<H", data, 62)[0]]
    symbols = next(section for section in sections if section.kind == _SYMTAB)
    strings = sections[symbols.link]
    found: dict[str, set[str]] = {}
    for section in sections:
        name = _text(data, names, section.name).decode()
        if name.startswith(".text."):
            found.setdefault(name.removeprefix(".text."), set())
        elif name.startswith(".nv.info."):
            kernel = found.setdefault(name.removeprefix(".nv.info."), set())
            for symbol in _externs(data, section):
                (place,) = struct.unpack_from("<I", data, symbols.offset + 24 * symbol)
                text = _text(data, strings, place)
                if text.startswith(_SYSCALL):
                    kernel.add(text.decode())
    return found


def _externs(data: bytes, section: Section) -> Iterator[int]:
    """Symbol indices of the EXTERNS records of a `.nv.info` section."""
    place, end = section.offset, section.offset + section.size
    while place + 4 <= end:
        form, attribute, size = struct.unpack_from("<BBH", data, place)
        place += 4
        if form == 4:  # a payload of its own length; the other forms hold their value in the head
            if attribute == 0x0F:
                yield from struct.unpack_from(f"<{size // 4}I", data, place)
            place += size


def _sections(data: bytes) -> Iterator[Section]:
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    for number in range(count):
        fields = struct.unpack_from("<IIQQQQII", data, start + number * size)
        yield Section(fields[0], fields[1], fields[4], fields[5], fields[6])


def _text(data: bytes, table: Section, offset: int) -> bytes:
    start = table.offset + offset
    return data[start : data.index(b"\0", start)]

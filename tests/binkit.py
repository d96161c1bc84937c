"""Helpers of the tests of compiled code: fixtures, reference tools, and small files made by hand."""

from __future__ import annotations

import shutil
import struct
import subprocess
from functools import cache
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data" / "binary"
SYSCALL_2D = "__cuda_syscall_cp_async_bulk_tensor_2d_tile_unicast"
SYSCALL_1D = "__cuda_syscall_cp_async_bulk_tensor_1d_tile_unicast"
SYSCALL_PLAIN = "__cuda_syscall_cp_async_bulk_unicast"


def tool(name):
    """Path of a reference tool; the test is skipped without it."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


@cache
def output_of(*command):
    """Standard output of a reference tool."""
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


def compiled(folder, source, *options):
    """A file that nvcc makes of a fixture's source; its name ends as the last option says."""
    nvcc, output = tool("nvcc"), folder / "out"
    done = subprocess.run(
        [nvcc, *options, "-o", str(output), str(DATA / source)], capture_output=True, text=True, check=False
    )
    if "Unsupported gpu architecture" in done.stderr or "Cannot find compiler" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    return output


def container(*entries):
    """A fatbin container of entries as `entry` makes them."""
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def entry(payload, *, kind=2, arch=120, flags=0x11, full=0, stored=0, padded=None, header=64):
    """A fatbin entry; sizes can be made to lie."""
    size = len(payload) + (-len(payload) % 8) if padded is None else padded
    head = struct.pack(
        "<HHIQIIHHIIIQQQ", kind, 0x101, header, size, stored, 0, 8, 1, arch, 0, 0, flags, 0, full
    )
    return head.ljust(header, b"\0")[: max(header, 64)] + payload + bytes(max(size - len(payload), 0) % 8)


def errors_of(found):
    """Messages of an inventory."""
    return [str(error) for error in found.errors]

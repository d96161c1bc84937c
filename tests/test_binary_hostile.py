"""Damaged images: whatever the bytes say, an answer or an error, in bounded time."""

from __future__ import annotations

import random
import struct
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binkit import DATA, container, entry
from ptxguard.binary import Wish, inventory
from ptxguard.binary.cubin import Cubin
from ptxguard.binary.facts import Image
from ptxguard.binary.image import read_cubin
from ptxguard.binary.inflate import Scratch, Unpacked
from ptxguard.errors import BinaryError

CUBIN = (DATA / "facts.sm_120a.cubin").read_bytes()
FATBIN = (DATA / "copies.none.fatbin").read_bytes()
COUNT = 13


def read(data):
    """Number of kernels, or None where the reader says that the bytes are damaged."""
    try:
        unpacked = Unpacked(memoryview(data), "none", len(data), Scratch())
        return len(read_cubin(unpacked, Image(0, None, 0, "elf", "", 0, 0), Wish(every_kernel=True)).kernels)
    except BinaryError:
        return None


def test_the_whole_cubin_is_read():
    assert read(CUBIN) == COUNT


@pytest.mark.parametrize("size", range(0, len(CUBIN), 1024))
def test_a_cut_cubin_is_an_error(size):
    assert read(CUBIN[:size]) is None


@pytest.mark.parametrize("size", range(16, len(FATBIN), 1024))
def test_a_cut_fatbin_is_an_error(tmp_path, size):
    path = tmp_path / "cut.fatbin"
    path.write_bytes(FATBIN[:size])
    found = inventory(str(path))
    assert found.errors
    assert found.errors[0].offset is not None


def test_flipped_bits_never_crash():
    chance = random.Random(1)
    for _ in range(300):
        data = bytearray(CUBIN)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        read(data)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 120), st.integers(0, 63), st.integers(0, 2**64 - 1))
def test_any_value_in_the_section_table(section, at, value):
    table = struct.unpack_from("<Q", CUBIN, 40)[0]
    data = bytearray(CUBIN)
    struct.pack_into("<Q", data, min(table + 64 * section + at, len(data) - 8), value)
    read(data)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300), st.integers(0, 400))
def test_any_bytes_in_a_fatbin(tmp_path, data, at):
    damaged = bytearray(FATBIN)
    damaged[at : at + len(data)] = data
    path = tmp_path / "any.fatbin"
    path.write_bytes(damaged)
    found = inventory(str(path))
    assert found.artifacts or found.errors


def test_a_call_graph_that_loops_ends():
    data = bytearray(CUBIN)
    cubin = Cubin(memoryview(bytes(CUBIN)))
    index = cubin.sections.of_type(0x70000001)[0]
    start = cubin.sections.offset[index]
    first, second = cubin.kernels[:2]
    struct.pack_into("<8i", data, start + 8, first, second, second, first, first, first, second, second)
    assert read(data) == COUNT


@pytest.mark.parametrize("text", [b" " * 20_000, b"/*" * 9_000, b"//\n" * 9_000, b"/* */" * 4_000])
def test_text_that_might_become_ptx_ends(tmp_path, text):
    (tmp_path / "blank.txt").write_bytes(text)
    started = time.monotonic()
    assert inventory(str(tmp_path / "blank.txt")).artifacts == ()
    assert time.monotonic() - started < 1


def test_a_million_symbols_take_seconds(tmp_path):
    count = 1_000_000
    names = b"\0k\0"
    symbols = struct.pack("<IBBHQQ", 1, 0x12, 0x10, 2, 0, 0) * count
    head = 64 + len(names)
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64, len(names), 0, 0, 1, 0)
    sections += struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, head + 4, len(symbols), 1, 0, 8, 24)
    ident = b"\x7fELF\x02\x01\x01\x41\x08" + bytes(7)
    header = struct.pack(
        "<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, head + 4 + len(symbols), 120 << 8, 64, 56, 0, 64, 3, 1
    )
    image = ident + header + names + bytes(4) + symbols + sections
    path = tmp_path / "many.fatbin"
    path.write_bytes(container(entry(image)))
    started = time.monotonic()
    found = inventory(str(path), Wish())
    assert found.artifacts[0].images[0].kernel_count == count
    assert time.monotonic() - started < 20

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


def wait_for(started, seconds):
    assert time.monotonic() - started < seconds


@pytest.mark.parametrize("field", [24, 32], ids=["offset", "size"])
def test_sections_at_the_end_of_the_address_space(field):
    table, count = struct.unpack_from("<Q", CUBIN, 40)[0], struct.unpack_from("<H", CUBIN, 60)[0]
    for value in (1 << 63, (1 << 64) - 1, len(CUBIN)):
        for section in range(1, count):
            data = bytearray(CUBIN)
            struct.pack_into("<Q", data, table + 64 * section + field, value)
            read(data)


def test_sections_that_describe_each_other_end():
    """Each section is for itself and linked to itself, so that whoever follows links would go round."""
    table, count = struct.unpack_from("<Q", CUBIN, 40)[0], struct.unpack_from("<H", CUBIN, 60)[0]
    data = bytearray(CUBIN)
    for section in range(count):
        struct.pack_into("<II", data, table + 64 * section + 40, section, section)
    started = time.monotonic()
    read(data)
    wait_for(started, 5)


def test_sections_that_all_lie_in_one_place_end():
    table, count = struct.unpack_from("<Q", CUBIN, 40)[0], struct.unpack_from("<H", CUBIN, 60)[0]
    data = bytearray(CUBIN)
    for section in range(1, count):
        struct.pack_into("<QQ", data, table + 64 * section + 24, 0, len(CUBIN))
    started = time.monotonic()
    read(data)
    wait_for(started, 5)


@pytest.mark.parametrize("size", [16, 64, 200, 4096])
def test_a_cut_archive_of_any_kind_is_never_clean(tmp_path, size):
    """The suffix says what it was; its bytes end too early."""
    for name in ("half.cubin", "half.fatbin", "half.ptx"):
        (tmp_path / name).write_bytes(FATBIN[:size] if name != "half.ptx" else bytes(size))
        assert inventory(str(tmp_path / name)).errors, name


def test_a_fatbin_of_nothing_but_headers_ends(tmp_path):
    (tmp_path / "many.fatbin").write_bytes(container() * 50_000)
    started = time.monotonic()
    found = inventory(str(tmp_path / "many.fatbin"))
    assert found.errors
    wait_for(started, 10)


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

"""Fatbin entries in every compression, what a device picks, and headers that lie."""

from __future__ import annotations

import io
import struct

import pytest

from binkit import DATA, SYSCALL_1D, container, entry, errors_of
from ptxguard.binary import Wish, inventory
from ptxguard.binary.cursor import MappedCursor, StreamCursor
from ptxguard.binary.facts import Image
from ptxguard.binary.pick import loads_on, picked

CUBIN = (DATA / "facts.sm_80.cubin").read_bytes()


def scan(path, data, **wish):
    path.write_bytes(data)
    return inventory(str(path), Wish(**wish))


@pytest.mark.parametrize(
    ("name", "images", "syscall_targets"),
    [
        ("copies.zstd.fatbin", [("elf", "sm_80"), ("elf", "sm_120f"), ("ptx", "compute_90")], {"sm_120f"}),
        ("copies.lz4.fatbin", [("elf", "sm_120a"), ("ptx", "compute_90")], {"sm_120a"}),
        ("copies.none.fatbin", [("elf", "sm_121a")], {"sm_121a"}),
        ("copies.o", [("elf", "sm_120f")], {"sm_120f"}),
        ("copies.ptx", [("ptx", "compute_90")], set()),
        ("copies.lto.fatbin", [("ltoir", "sm_120")], set()),
    ],
)
def test_entries_and_their_driver_calls(name, images, syscall_targets):
    found = inventory(str(DATA / name))
    (artifact,) = found.artifacts
    assert found.errors == ()
    assert sorted((image.kind, image.target) for image in artifact.images) == sorted(images)
    calls = {i.target: [s.name for k in i.kernels for s in k.syscalls] for i in artifact.images if i.kernels}
    assert calls == {target: [SYSCALL_1D] for target in syscall_targets}
    assert all(image.kernel_count == 2 for image in artifact.images if image.kind != "ltoir")
    assert all((image.ptx is not None) == (image.kind == "ptx") for image in artifact.images)


def test_other_targets_are_listed_but_not_read():
    found = inventory(str(DATA / "copies.zstd.fatbin"), Wish(targets=frozenset({"sm_80"})))
    counts = {image.target: image.kernel_count for image in found.artifacts[0].images}
    assert counts == {"sm_80": 2, "sm_120f": None, "compute_90": 2}


def test_a_stream_gives_what_a_mapped_file_gives():
    data = b"host code" * 1000 + (DATA / "copies.zstd.fatbin").read_bytes() + bytes(3_000_000) + b"tail"
    mapped, streamed = MappedCursor(data), StreamCursor(io.BytesIO(data))
    for cursor in (mapped, streamed):
        assert cursor.seek_any((b"\x50\xed\x55\xba", b"\x7fELF"))
        assert cursor.position == 9000
        assert bytes(cursor.peek(4)) == b"\x50\xed\x55\xba"
        assert cursor.skip(2_000_000) == 2_000_000
        assert cursor.seek_any((b"tail",))
        assert bytes(cursor.take(10)) == b"tail"
        assert not cursor.seek_any((b"tail",))
    assert mapped.sha256() == streamed.sha256()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (container(entry(CUBIN))[:-100], "ends"),
        (container(entry(CUBIN, padded=1 << 62)), "claims"),
        (container(entry(CUBIN, header=8)), "claims 8"),
        (container(entry(b"\0" * 64, flags=0x8000, stored=64, full=1 << 40)), "claims to unpack"),
        (container(entry(b"\0" * 64, flags=0x8000, stored=64, full=100)), "ZSTD"),
        (container(entry(b"\xff" * 64, flags=0x2000, stored=64, full=100)), "LZ4"),
        (container(entry(b"\0" * 64, flags=0x8000, stored=0, full=100)), "compressed bytes"),
        (container(entry(b"\0" * 64, flags=0x8000, stored=64, full=0)), "not a cubin"),
        (b"\x7fELF\x02\x01\x01" + bytes(30), "cut off"),
        (container(entry(b"no ELF at all, but long enough for a header" * 2)), "not a cubin"),
        (struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 1 << 63), "ends"),
        (struct.pack("<IHHQ", 0xBA55ED50, 7, 16, 0), "though its name says so"),
        (b"", "though its name says so"),
        (b"\x7fELF\x02\x01" + CUBIN[6:4000], "cut off"),
    ],
)
def test_what_lies_is_an_error_with_its_offset_and_never_clean(tmp_path, data, message):
    found = scan(tmp_path / "lies.fatbin", data)
    assert found.errors
    assert message in errors_of(found)[0]
    assert found.errors[0].path == str(tmp_path / "lies.fatbin")
    assert found.errors[0].offset is not None


def test_entries_before_the_damage_are_kept(tmp_path):
    found = scan(tmp_path / "half.fatbin", container(entry(CUBIN, arch=80), entry(CUBIN, padded=1 << 50)))
    # The cubin of the damaged entry is found by its own header, as one outside any fatbin.
    images = found.artifacts[0].images
    assert [(image.container, image.kernel_count) for image in images] == [(0, 8), (None, 8)]
    assert len(found.errors) == 1


@pytest.mark.parametrize(
    ("target", "sm", "loads"),
    [
        ("sm_120", 120, True),
        ("sm_120", 121, True),
        ("sm_121", 120, False),
        ("sm_120a", 121, False),
        ("sm_120f", 121, True),
        ("sm_100f", 103, True),
        ("sm_90", 120, False),
        ("sm_80", 86, True),
        ("compute_90", 120, True),
        ("compute_90a", 120, False),
        ("compute_120", 90, False),
    ],
)
def test_what_loads_on_a_device(target, sm, loads):
    assert loads_on(target, sm) is loads


def test_a_device_picks_the_nearest_cubin_and_ptx_only_without_one():
    images = [
        Image(0, 0, 0, "elf", "sm_90", 1, 1),
        Image(1, 0, 0, "elf", "sm_120", 1, 1),
        Image(2, 0, 0, "ptx", "compute_90", 1, 1),
        Image(3, 1, 0, "elf", "sm_90", 1, 1),
        Image(4, 1, 0, "ptx", "compute_80", 1, 1),
        Image(5, 1, 0, "ptx", "compute_90", 1, 1),
        Image(6, None, 0, "elf", "sm_121", 1, 1),
    ]
    assert [image.index for image in picked(images, 121)] == [1, 5, 6]
    assert [image.index for image in picked(images, 120)] == [1, 5]
    assert [image.index for image in picked(images, 90)] == [0, 3]

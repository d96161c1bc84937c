"""Host files, archives in archives, directories, pipes: the same kernels come out, damage is named."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import subprocess
import sys
import tarfile
import time
import zipfile

import pytest

from binkit import DATA, container, entry, errors_of
from ptxguard.binary import inventory

FATBIN = (DATA / "copies.zstd.fatbin").read_bytes()
OBJECT = (DATA / "copies.o").read_bytes()
ZSTD_OF_NOTHING = b"\x28\xb5\x2f\xfd\x20\x00\x01\x00\x00"


def zipped(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def tarred(members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def zstd(data):
    zstandard = pytest.importorskip("zstandard", reason="zstandard is not installed")
    return zstandard.compress(data)


def portable_executable(section, size=None, name=b".nv_fatb", flags=0x40000040):
    """The least that counts as a PE file with one section, by default `.nv_fatb`."""
    head = bytearray(0x200)
    head[:2] = b"MZ"
    struct.pack_into("<I", head, 0x3C, 0x80)
    head[0x80:0x84] = b"PE\0\0"
    struct.pack_into("<HHIIIHH", head, 0x84, 0x8664, 1, 0, 0, 0, 0, 0)
    struct.pack_into(
        "<8sIIII12xI", head, 0x98, name, size or len(section), 0x1000, size or len(section), 0x200, flags
    )
    return bytes(head) + section


WRAPPED = {
    "lib.whl": lambda: zipped({"pkg/lib.so": OBJECT, "pkg/__init__.py": b"pass"}),
    "pkg.tar.gz": lambda: gzip.compress(tarred({"pkg/lib.fatbin": FATBIN})),
    "pkg.tar.bz2": lambda: bz2.compress(tarred({"pkg/lib.fatbin": FATBIN})),
    "pkg.tar.xz": lambda: lzma.compress(tarred({"pkg/lib.fatbin": FATBIN})),
    "pkg.conda": lambda: zipped({"pkg-1.tar.zst": zstd(tarred({"lib/lib.so": OBJECT}))}),
    "outer.zip": lambda: zipped({"inner.whl": zipped({"lib.so": OBJECT})}),
    "lib.dll": lambda: portable_executable(FATBIN),
    "lib.bin": lambda: b"any bytes" * 99 + FATBIN,
    "lib.a": lambda: (
        b"!<arch>\n" + b"copies.o/       0           0     0     644     %-10d`\n" % len(OBJECT) + OBJECT
    ),
}
MEMBERS = {
    "lib.whl": "pkg/lib.so",
    "pkg.tar.gz": "pkg/lib.fatbin",
    "pkg.tar.bz2": "pkg/lib.fatbin",
    "pkg.tar.xz": "pkg/lib.fatbin",
    "pkg.conda": "pkg-1.tar.zst!lib/lib.so",
    "outer.zip": "inner.whl!lib.so",
}


@pytest.mark.parametrize("name", WRAPPED)
def test_the_same_driver_call_in_every_wrapping(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(WRAPPED[name]())
    found = inventory(str(path))
    assert errors_of(found) == []
    (artifact,) = found.artifacts
    assert artifact.member == MEMBERS.get(name)
    kernels = [kernel.name for image in artifact.images for kernel in image.kernels]
    assert kernels == ["_Z6copies3Mapi"]


def test_a_folder_is_read_in_order_and_links_are_not_followed(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "lib.so").write_bytes(OBJECT)
    (tmp_path / "a.fatbin").write_bytes(FATBIN)
    (tmp_path / "readme.txt").write_text("no code")
    (tmp_path / "b" / "loop").symlink_to(tmp_path)
    (tmp_path / "same.so").symlink_to(tmp_path / "b" / "lib.so")
    found = inventory(str(tmp_path))
    assert [artifact.path for artifact in found.artifacts] == [
        str(tmp_path / "a.fatbin"),
        str(tmp_path / "b/lib.so"),
    ]
    assert (found.errors, found.file_count) == ((), 3)


def test_standard_input_streams(tmp_path):
    code = (
        "from ptxguard.binary import inventory as i; f = i('-'); print(len(f.artifacts[0].images), f.errors)"
    )
    done = subprocess.run([sys.executable, "-c", code], input=FATBIN, capture_output=True, check=False)
    assert done.stdout.decode().split() == ["3", "()"], done.stderr


@pytest.mark.parametrize("name", ["lib.whl", "pkg.tar.gz", "pkg.conda", "lib.dll"])
def test_standard_input_may_be_any_of_them(name):
    code = "from ptxguard.binary import inventory as i; f = i('-'); print(f.artifacts[0].member, f.errors)"
    done = subprocess.run(
        [sys.executable, "-c", code], input=WRAPPED[name](), capture_output=True, check=False
    )
    assert done.stdout.decode().split() == [str(MEMBERS.get(name)), "()"], done.stderr


def sections_behind_their_table(cubin):
    """The same image with the section table behind the header, as in the images inside libcupti."""
    (table,) = struct.unpack_from("<Q", cubin, 40)
    (count,) = struct.unpack_from("<H", cubin, 60)
    rows = bytearray(cubin[table : table + 64 * count])
    for at in range(0, len(rows), 64):
        (offset,) = struct.unpack_from("<Q", rows, at + 24)
        struct.pack_into("<Q", rows, at + 24, offset + len(rows) if offset else 0)
    head = bytearray(cubin[:64])
    struct.pack_into("<QQ", head, 32, 0, 64)
    struct.pack_into("<HH", head, 54, 56, 0)
    return bytes(head + rows + cubin[64:table])


@pytest.mark.parametrize("streamed", [False, True])
def test_a_bare_image_whose_sections_stand_behind_its_table(tmp_path, streamed):
    image = sections_behind_their_table((DATA / "facts.sm_80.cubin").read_bytes())
    data = b"host" * 100 + image + b"more host code" * 50
    path = tmp_path / ("lib.whl" if streamed else "lib.bin")
    # A member of that size streams: it is larger than what is read at once.
    path.write_bytes(zipped({"lib.so": data + bytes(40 << 20)}) if streamed else data)
    found = inventory(str(path))
    assert errors_of(found) == []
    assert [(i.offset, i.kernel_count) for a in found.artifacts for i in a.images] == [(400, 8)]


# A header that an instruction carries (`movabs $0x1000 01ba55ed50, %rax`), and what the code goes on with.
OPERAND = struct.pack("<IHH", 0xBA55ED50, 1, 16) + bytes.fromhex("49c78424b002000000000000") * 8
CODE_BYTES = 0x4C


@pytest.mark.parametrize("streamed", [False, True])
def test_a_compiler_that_writes_fatbins_holds_none_in_its_code(tmp_path, streamed):
    # The engines of libcudnn carry a whole compiler; its code builds container headers.
    data = bytearray(OBJECT)
    data[CODE_BYTES : CODE_BYTES + len(OPERAND)] = OPERAND
    path = tmp_path / ("lib.whl" if streamed else "lib.so")
    path.write_bytes(zipped({"lib.so": bytes(data)}) if streamed else data)
    found = inventory(str(path))
    assert errors_of(found) == []
    assert [image.kernel_count for a in found.artifacts for image in a.images if image.kernel_count]


CUBIN = (DATA / "facts.sm_80.cubin").read_bytes()


def with_section_at_end(data, low, high):
    """The object with `.nv_fatbin` moved behind all else, and other bytes in its old place."""
    moved = bytearray(data) + bytes(-len(data) % 16)
    (table,) = struct.unpack_from("<Q", moved, 40)
    for row in range(table, table + 64 * struct.unpack_from("<H", moved, 60)[0], 64):
        if struct.unpack_from("<QQ", moved, row + 24) == (low, high - low):
            struct.pack_into("<Q", moved, row + 24, len(moved))
    section = bytes(moved[low:high])
    moved[low:high] = CUBIN[: high - low].ljust(high - low, b"\1")
    return bytes(moved) + section


@pytest.mark.parametrize(
    "data",
    [
        OBJECT,
        OBJECT + CUBIN,  # a bare image behind the section
        with_section_at_end(OBJECT, 0x5B8, 0x5B8 + 0x2680),  # a cut one in front of it
        with_section_at_end(OBJECT, 0x5B8, 0x5B8 + 0x2680)[:-40],
        OBJECT[:0x5B8] + b"\0" * 8 + OBJECT[0x5C0:],  # the section does not begin with a fatbin
        OBJECT + OPERAND,
        OBJECT + FATBIN[:3000],
        portable_executable(FATBIN) + CUBIN,
        portable_executable(FATBIN, size=1 << 20),
    ],
    ids=range(9),
)
def test_sections_first_and_the_file_in_order_say_the_same(tmp_path, data):
    (tmp_path / "lib.so").write_bytes(data)
    path = str(tmp_path / "lib.so")
    alone, together = inventory(path), inventory(path, jobs=2)
    assert together.artifacts == alone.artifacts
    assert sorted(errors_of(together)) == sorted(errors_of(alone))


@pytest.mark.parametrize(("flags", "errors"), [(0x60000020, 0), (0x40000040, 1)])
def test_code_of_windows_is_told_from_data(tmp_path, flags, errors):
    (tmp_path / "lib.dll").write_bytes(portable_executable(OPERAND, name=b".any", flags=flags))
    assert len(inventory(str(tmp_path / "lib.dll")).errors) == errors


@pytest.mark.parametrize("name", ["lib.bin", "lib.so"])
def test_the_same_header_outside_of_code_is_named(tmp_path, name):
    data = bytearray(OBJECT)
    if name == "lib.so":  # behind the code, in a section of data
        data[0x2C6F : 0x2C6F + 26] = OPERAND[:26]
    path = tmp_path / name
    path.write_bytes(data if name == "lib.so" else b"any bytes" * 9 + OPERAND)
    assert "fatbin entry claims" in " ".join(errors_of(inventory(str(path))))


def test_a_missing_file_is_an_error(tmp_path):
    assert "No such file" in errors_of(inventory(str(tmp_path / "none.so")))[0]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("cut.so", OBJECT[:6000], "cut off"),
        ("cut.whl", zipped({"lib.so": OBJECT})[:-30], "zip"),
        ("bad.tar.gz", gzip.compress(tarred({"lib.so": OBJECT}))[:-2000], "damaged"),
        ("lib.dll", portable_executable(FATBIN, size=1 << 20), "cut off"),
        ("gap.dll", portable_executable(b"\1" * 400 + FATBIN), "are no fatbin"),
    ],
    ids=["shared object", "wheel", "gzip", "library of Windows", "gap"],  # the bytes hold the time of day
)
def test_damage_is_named(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    assert message in " ".join(errors_of(inventory(str(tmp_path / name))))


def test_a_member_with_a_bad_checksum_is_named(tmp_path):
    data = bytearray(zipped({"pkg/lib.so": OBJECT}))
    data[500] ^= 0xFF
    (tmp_path / "bad.whl").write_bytes(data)
    (message,) = errors_of(inventory(str(tmp_path / "bad.whl")))
    assert message.startswith(f"{tmp_path}/bad.whl!pkg/lib.so")


def test_a_bomb_is_stopped(tmp_path):
    (tmp_path / "bomb.whl").write_bytes(zipped({"zeros.so": bytes(90 << 20)}))
    (message,) = errors_of(inventory(str(tmp_path / "bomb.whl")))
    assert "bomb" in message


def test_archives_nested_without_end_are_stopped(tmp_path):
    data = FATBIN
    for _ in range(9):
        data = zipped({"inner.zip": data})
    (tmp_path / "deep.zip").write_bytes(data)
    found = inventory(str(tmp_path / "deep.zip"))
    assert "nested" in errors_of(found)[0]
    assert found.artifacts == ()


def test_overlapping_members_are_refused(tmp_path):
    data = bytearray(zipped({f"{n}.so": OBJECT for n in range(3)}))
    place = data.find(b"PK\x01\x02")
    while place >= 0:
        struct.pack_into("<I", data, place + 20, 1 << 30)
        place = data.find(b"PK\x01\x02", place + 4)
    (tmp_path / "overlap.zip").write_bytes(data)
    assert "claim" in errors_of(inventory(str(tmp_path / "overlap.zip")))[0]


def test_names_that_climb_out_write_nothing(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "evil.whl").write_bytes(zipped({"../../climbed.so": OBJECT}))
    found = inventory(str(tmp_path / "x" / "evil.whl"))
    assert found.artifacts[0].member == "../../climbed.so"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize(("size", "images"), [(4 << 30, []), (256 << 20, [(128 << 20) + 16])])
def test_holes_of_a_sparse_file_are_not_searched(tmp_path, size, images):
    path = tmp_path / "sparse.so"
    with path.open("wb") as stream:
        stream.truncate(size)
        if images:
            stream.seek(size // 2)
            stream.write(container(entry((DATA / "facts.sm_80.cubin").read_bytes(), arch=80)))
    started = time.monotonic()
    found = inventory(str(path))
    assert [image.offset for artifact in found.artifacts for image in artifact.images] == images
    assert time.monotonic() - started < 5

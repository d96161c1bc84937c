"""Driver declarations: made-up libraries, cubins of ptxas inside them, and the facts of a real driver."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from ptxguard.binary.driver import Declaration, find_libcuda, read_driver
from ptxguard.commands.cost import command as cost
from ptxguard.errors import BinaryError, ToolError

if TYPE_CHECKING:
    from pathlib import Path

TILE_2D = "__cuda_syscall_cp_async_bulk_tensor_2d_tile_unicast"
BULK = "__cuda_syscall_cp_async_bulk_unicast"
REGCOUNT, FRAME_SIZE, MIN_STACK_SIZE = 0x2F, 0x11, 0x12


def make_cubin(
    sm: int,
    functions: dict[str, tuple[int, int, int]],
    undefined: str = "vprintf",
    abi: int = 8,
    table_first: bool = False,
) -> bytes:
    """A cubin of a string table, a symbol table and one `.nv.info`, laid out by the ELF specification."""
    strings, symbols = bytearray(b"\0"), bytearray(24)
    info = bytearray(
        struct.pack("<BBH", 2, 0x4C, 1)
    )  # a BVAL record, which has no payload behind its four bytes
    for index, (name, sizes) in enumerate([(undefined, None), *functions.items()], start=1):
        symbols += struct.pack("<IBBHQQ", len(strings), 0x12, 0, 0 if sizes is None else 1, 0, 0)
        strings += name.encode() + b"\0"
        for attribute, value in zip((MIN_STACK_SIZE, FRAME_SIZE, REGCOUNT), sizes or (), strict=False):
            info += struct.pack("<BBHII", 4, attribute, 8, index, value)
    bodies = [b"", bytes(strings), bytes(symbols), bytes(info)]
    begin = 64 + (
        4 * 64 if table_first else 0
    )  # drivers keep relocatable cubins with the section table first
    offsets = [begin + sum(map(len, bodies[:index])) for index in range(4)]
    headers = b"".join(
        struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, offset, len(body), link, 0, 1, 0)
        for kind, link, offset, body in zip((0, 3, 2, 0x70000000), (0, 0, 1, 2), offsets, bodies, strict=True)
    )
    flags = 0x6000002 | sm << 8 if abi == 8 else 0x500500 | sm
    ident = b"\x7fELF\x02\x01\x01" + (b"\x41\x08" if abi == 8 else b"\x33\x07") + bytes(7)
    table = 64 if table_first else offsets[3] + len(bodies[3])
    header = ident + struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, table, flags, 64, 0, 0, 64, 4, 1)
    return header + (headers + b"".join(bodies) if table_first else b"".join(bodies) + headers)


def make_library(folder: Path, *cubins: bytes, name: str = "libcuda.so.999.88.77") -> Path:
    path = folder / name
    host = (
        b"\x7fELF\x02\x01\x01" + bytes(11) + struct.pack("<H", 62) + bytes(99)
    )  # a host ELF header is no cubin
    path.write_bytes(host + b"junk".join(cubins) + b"\x7fELF\x02\x01\x01 cut off")
    return path


def test_reads_every_target_and_only_defined_driver_functions(tmp_path: Path) -> None:
    new = make_cubin(
        120, {TILE_2D: (15960, 88, 32), "memcpy_helper": (640, 16, 12)}, undefined="__cuda_syscall_other"
    )
    old = make_cubin(90, {TILE_2D: (13144, 88, 32)}, abi=7, table_first=True)
    table = read_driver(make_library(tmp_path, new, old))
    assert table.version == "999.88.77"
    assert table.declarations == (
        Declaration(90, TILE_2D, 13144, 88, 32),
        Declaration(120, TILE_2D, 15960, 88, 32),
    )
    assert table.find(120, TILE_2D) == Declaration(120, TILE_2D, 15960, 88, 32)
    assert table.find(100, TILE_2D) is None


def test_version_comes_from_the_file_a_link_points_to(tmp_path: Path) -> None:
    library = make_library(tmp_path, make_cubin(120, {TILE_2D: (15960, 88, 32)}))
    (tmp_path / "libcuda.so.1").symlink_to(library.name)
    assert read_driver(tmp_path / "libcuda.so.1").version == "999.88.77"
    plain = make_library(tmp_path, make_cubin(120, {TILE_2D: (15960, 88, 32)}), name="libcuda.so")
    assert read_driver(plain).version == "unknown"


def test_reads_a_compressed_cubin(tmp_path: Path) -> None:
    lz4_block = pytest.importorskip("lz4.block")
    cubin = make_cubin(121, {TILE_2D: (15960, 88, 32)})
    packed = lz4_block.compress(cubin, store_size=False)
    padded = -(-len(packed) // 8) * 8
    entry = struct.pack(
        "<HHIQIIIIIIQQQ", 2, 0x101, 64, padded, len(packed), 0, 0, 121, 0, 0, 0x2011, 0, len(cubin)
    )
    container = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 64 + padded) + entry + packed.ljust(padded, b"\0")
    assert read_driver(make_library(tmp_path, container)).declarations == (
        Declaration(121, TILE_2D, 15960, 88, 32),
    )


@pytest.mark.parametrize("content", [b"", b"no library at all", b"\x7fELF\x02\x01\x01" + b"\xff" * 200])
def test_no_driver_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "libcuda.so"
    path.write_bytes(content)
    with pytest.raises(BinaryError, match=r"libcuda\.so: "):
        read_driver(path)
    with pytest.raises(BinaryError, match="cannot be read"):
        read_driver(tmp_path / "missing")


def test_the_loader_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = make_library(tmp_path, make_cubin(120, {TILE_2D: (15960, 88, 32)}))
    (tmp_path / "libcuda.so.1").symlink_to(library.name)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{tmp_path}")
    assert find_libcuda() == library.resolve()


def cost_text(*arguments: str) -> str:
    result = CliRunner().invoke(cost, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def cost_rows(*arguments: str) -> list[dict[str, Any]]:
    return json.loads(cost_text(*arguments, "--output-format", "json"))["costs"]


def test_declared_by_a_driver_comes_before_public(tmp_path: Path) -> None:
    library = make_library(tmp_path, make_cubin(120, {TILE_2D: (15960, 88, 32), BULK: (72, 72, 32)}))
    (tile,) = cost_rows("--syscall", TILE_2D, "--gpu", "RTX 5090", "--driver", str(library))
    assert (tile["bytes_per_thread"], tile["mib"], tile["basis"]) == (15960, 3719.4, "declared by driver")
    assert "999.88.77" in tile["source"]
    (bulk,) = cost_rows("--syscall", BULK, "--gpu", "RTX 5090", "--driver", str(library))
    assert (bulk["bytes_per_thread"], bulk["low_mib"], bulk["high_mib"]) == (72, 0.0, 3342.9)
    assert "declares only 72 B" in bulk["source"]
    assert "14448 B measured" in bulk["source"]
    (gb10,) = cost_rows(
        "--syscall", TILE_2D, "--gpu", "GB10", "--driver", str(library)
    )  # not declared for sm_121
    assert gb10["basis"] == "public measurement"


def test_driver_alone_shows_its_table(tmp_path: Path) -> None:
    library = make_library(tmp_path, make_cubin(120, {TILE_2D: (15960, 88, 32)}))
    text = cost_text("--driver", str(library), "--gpu", "RTX 5090")
    assert "Driver 999.88.77" in text
    assert "15960" in text
    assert "3719.4" in text
    record = json.loads(cost_text("--driver", str(library), "--gpu", "RTX 5090", "--output-format", "json"))
    assert record["declarations"] == [
        {"sm": 120, "syscall": TILE_2D, "min_stack_bytes": 15960, "frame_bytes": 88, "registers": 32}
    ]


@pytest.mark.ptxas
def test_declares_what_ptxas_prints(tmp_path: Path) -> None:
    if shutil.which("ptxas") is None:
        pytest.skip("ptxas is not on PATH")
    text = """.version 9.0\n.target sm_120\n.address_size 64
    .visible .entry __cuda_syscall_made_up(.param .u64 out) {
      .local .align 16 .b8 frame[2000]; .reg .b32 x; .reg .b64 p, q;
      ld.param.u64 q, [out]; mov.u64 p, frame; cvt.u32.u64 x, q; and.b32 x, x, 1984; cvt.u64.u32 q, x;
      add.u64 p, p, q; st.local.b32 [p], x; mov.u64 p, frame; ld.param.u64 q, [out];
      ld.local.b32 x, [p+16]; st.global.b32 [q], x; ret; }"""
    (tmp_path / "f.ptx").write_text(text)
    (tmp_path / "k.ptx").write_text(
        text.replace("__cuda_syscall_made_up", "k")
    )  # -v is silent about "__cuda_…"
    printed = ""
    for name in ("f", "k"):
        files = [str(tmp_path / f"{name}.ptx"), "-o", str(tmp_path / f"{name}.cubin")]
        command = ["ptxas", "-v", "-arch", "sm_120", *files]
        printed += subprocess.run(command, capture_output=True, text=True, check=True).stderr
    stack = re.search(r"(\d+) bytes stack frame", printed)
    registers = re.search(r"Used (\d+) registers", printed)
    assert stack
    assert registers
    (row,) = read_driver(make_library(tmp_path, (tmp_path / "f.cubin").read_bytes())).declarations
    assert (row.sm, row.syscall) == (120, "__cuda_syscall_made_up")
    assert row.min_stack_bytes == row.frame_bytes == int(stack[1]) >= 2000
    assert row.registers == int(registers[1])


@pytest.mark.gpu
def test_installed_driver_declares_the_copies() -> None:
    try:
        table = read_driver(find_libcuda())
    except ToolError as error:
        pytest.skip(str(error))
    tile = table.find(120, TILE_2D)
    assert tile is not None
    assert tile.min_stack_bytes > 10_000  # every driver measured so far: 14,448 to 15,976 B

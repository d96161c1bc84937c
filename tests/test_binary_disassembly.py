"""SASS around calls: as nvdisasm prints it, for few kernels, and said in words where there is none."""

from __future__ import annotations

import json
import shutil
import stat
import sys

import pytest

import storekit
from binkit import DATA, compiled, output_of, tool
from ptxguard.binary.cubin import Cubin
from ptxguard.binary.disassembly import AFTER, BEFORE, SassWish
from ptxguard.binary.image import Wish
from ptxguard.binary.inventory import inventory
from ptxguard.binary.sass import count_costly
from ptxguard.store.rows import KernelFilter
from ptxguard.store.store import open_store
from ptxguard.store.transfer import merge, thin_out
from ptxguard.verify.tools import find_tool

FATBIN = DATA / "copies.zstd.fatbin"
SYSCALL = "__cuda_syscall_cp_async_bulk_tensor_1d_tile_unicast"


def calling(wish):
    """The first kernel for sm_12x that reaches the driver, of the small library."""
    found = inventory(str(FATBIN), Wish(sass=wish))
    assert found.errors == ()
    return next(
        kernel
        for artifact in found.artifacts
        for image in artifact.images
        for kernel in image.kernels
        if image.target.startswith("sm_12") and kernel.syscalls
    )


def fake_tool(folder, body):
    """A program that prints something instead of nvdisasm."""
    path = folder / "nvdisasm"
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return SassWish(str(path), "13.5.37", 4)


def document(kernel, offset, instruction="CALL.ABS.NOINC"):
    code = [{"opcode": "NOP"} for _ in range(offset // 16 + 40)]
    code[offset // 16] = {"opcode": instruction, "operands": "R2", "predicate": "!P0"}
    return [{"Producer": "nvdisasm"}, [{"function-name": kernel, "sass-instructions": code}]]


@pytest.mark.cuobjdump
def test_the_real_tool_shows_the_call_where_the_image_names_it():
    nvdisasm = find_tool("nvdisasm")
    if nvdisasm is None:
        pytest.skip("nvdisasm is not installed")
    sass = calling(SassWish(nvdisasm.path, nvdisasm.version, 4)).sass
    assert (sass.missing, sass.tool) == ("", f"nvdisasm {nvdisasm.version}")
    for window in sass.windows:
        (call,) = [line for line in window.lines if line.is_call]
        assert call.text.startswith("CALL.ABS")
        assert window.syscall == SYSCALL
        assert any("c[0x4]" in line.text for line in window.lines if line.offset < call.offset)


def test_a_window_stands_around_the_call_and_keeps_the_predicate(tmp_path):
    kernel = calling(None)
    offset = kernel.syscalls[0].calls[0].offsets[0]
    printed = json.dumps(document(kernel.name, offset))
    sass = calling(fake_tool(tmp_path, f"print({printed!r})")).sass
    (window,) = sass.windows
    assert len(window.lines) == min(BEFORE, offset // 16) + 1 + AFTER
    assert [(line.offset, line.text) for line in window.lines if line.is_call] == [
        (offset, "@!P0 CALL.ABS.NOINC R2")
    ]
    assert sass.calls == sum(len(call.offsets) for call in kernel.syscalls[0].calls)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("import sys; sys.exit('nvdisasm fatal : no')", "nvdisasm: nvdisasm fatal : no"),
        ("print('{')", "is not understood"),
        ("print('[1, 2]')", "is not understood"),
        ("print('[{}]')", "no call stands"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "exit status -11"),
    ],
)
def test_what_the_tool_cannot_do_is_said_and_the_scan_goes_on(tmp_path, body, said):
    kernel = calling(fake_tool(tmp_path, body))
    assert kernel.sass.windows == ()
    assert said in kernel.sass.missing
    assert kernel.syscalls == calling(None).syscalls


def test_another_instruction_at_the_place_is_never_shown_as_the_call(tmp_path):
    kernel = calling(None)
    printed = json.dumps(document(kernel.name, kernel.syscalls[0].calls[0].offsets[0], "FADD"))
    assert calling(fake_tool(tmp_path, f"print({printed!r})")).sass.windows == ()


def test_without_a_wish_no_tool_is_run():
    assert calling(None).sass is None
    assert calling(SassWish("/nowhere/nvdisasm", "1", 0)).sass is None
    assert "did not end well" in calling(SassWish("/nowhere/nvdisasm", "1", 1)).sass.missing


def test_sass_is_stored_merged_and_thinned(tmp_path):
    sass = {"tool": "nvdisasm 13.5.37", "windows": [], "calls": 1, "missing": "a\0b"}
    kernels = [storekit.kernel("_Z1av"), storekit.kernel("_Z1bv", sass=sass)]
    with open_store(str(tmp_path / "a.db")) as one, open_store(str(tmp_path / "b.db")) as two:
        one.add(storekit.source_run(kernels=kernels, artifacts=[storekit.artifact()]))
        merge(two, one)
        for store in (one, two):
            assert store.sass(1, 0) is None
            assert store.sass(1, 1) == {**sass, "missing": "a\ufffdb"}
            assert [kernel.place for kernel in store.with_sass(KernelFilter(), 9)] == [1]
        one.add(storekit.source_run(created="2026-12-02T05:00:00Z"))
        thin_out(one.database, 1)
        assert one.sass(1, 1) is None


def test_scan_keeps_it_in_the_store_and_the_page_shows_it(tmp_path, monkeypatch):
    flask = pytest.importorskip("flask", reason="the site needs the extra [web]")
    assert flask
    from click.testing import CliRunner

    from ptxguard.commands.scan import command
    from ptxguard.web.app import create_app
    from ptxguard.web.settings import Settings

    kernel = calling(None)
    printed = json.dumps(document(kernel.name, kernel.syscalls[0].calls[0].offsets[0]))
    fake_tool(tmp_path, _program(printed))
    monkeypatch.setenv("PATH", str(tmp_path))
    shutil.copy(FATBIN, tmp_path / "lib.fatbin")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(command, ["lib.fatbin", "--store", "runs.db", "--jobs", "1"])
    assert done.exit_code == 1, done.output
    client = create_app(Settings("runs.db")).test_client()
    rows = client.get("/findings.json?severity=error").json["data"]["rows"]
    page = client.get(f"/findings/{rows[0]['fingerprint']}")
    assert "<mark>@!P0 CALL.ABS.NOINC R2</mark>" in page.text
    assert CliRunner().invoke(command, ["lib.fatbin", "--store", "none.db", "--sass", "0"]).exit_code == 1
    with open_store("none.db") as store:
        assert store.with_sass(KernelFilter(), 9) == []


def _program(printed):
    return f"import sys\nprint('release 13.5, V13.5.37' if '--version' in sys.argv else {printed!r})"


@pytest.mark.ptxas
@pytest.mark.cuobjdump
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_120a", "sm_121a"])
def test_costly_instructions_are_counted_as_nvdisasm_prints_them(tmp_path, target):
    options = [f"-arch={target}"] + (["-DWITH_SETMAXNREG"] if target.endswith("a") else [])
    image = compiled(tmp_path, "costly.cu", "-cubin", *options)
    printed = json.loads(output_of(tool("nvdisasm"), "-json", str(image)))
    cubin = Cubin(memoryview(image.read_bytes()))
    ours = {
        cubin.symbols.name(index): count_costly(cubin.sections.content(cubin.symbols.section(index)))
        for index in cubin.kernels
    }
    theirs = {}
    for function in printed[1]:
        opcodes = [line["opcode"].partition(".")[0] for line in function["sass-instructions"]]
        theirs[function["function-name"]] = (opcodes.count("LDL"), opcodes.count("USETMAXREG"))
    assert ours == theirs
    assert ours["costly"][0] > 0
    assert ours["costly"][1] == (2 if target.endswith("a") else 0)
    assert ours["cheap"] == (0, 0)

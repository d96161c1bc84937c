"""Verification: the kernel made of a statement, what is compared, and what ptxas says of right and wrong fixes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import replace

import pytest

from fixkit import LAUNCHED, LOCAL, PAIR, check
from ptxguard.arch import Target
from ptxguard.errors import ParseError, ToolError
from ptxguard.forms import read_bulk_copy
from ptxguard.model import AsmArgument, AsmText
from ptxguard.source.ptx import parse_asm
from ptxguard.verify.assemble import Assembled, assemble
from ptxguard.verify.compare import compare
from ptxguard.verify.kernel import kernel_of_copy, kernel_of_statement
from ptxguard.verify.run import UNCHANGED, Verifier
from ptxguard.verify.tools import find_tool
from ptxguard.verify.unit import find_units
from sourcekit import write

SM120, SM90 = Target.parse("sm_120a"), Target.parse("sm_90a")
SYSCALL = "__cuda_syscall_cp_async_bulk_unicast"
HINTED = (
    "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.L2::cache_hint "
    "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8}, %9;"
)
MODULE = """.version 8.7
.target sm_100
.address_size 64
.visible .entry k(.param .b64 from) {
  .shared .align 128 .b8 box[1024];
  .shared .align 8 .b64 full;
  .reg .b64 %rd<2>;
  .reg .b32 %r<3>;
  ld.param.b64 %rd1, [from];
  mov.b32 %r1, box;
  mov.b32 %r2, full;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 1024, [%r2];
  ret;
}
"""
needs_ptxas = [
    pytest.mark.ptxas,
    pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not on PATH"),
]


def statement(text: str, *constraints: str, values: tuple[str, ...] = ()) -> AsmText:
    arguments = tuple(
        AsmArgument(None, constraint, constraint[:1] in "=+", value)
        for constraint, value in zip(constraints, values or ("x",) * len(constraints), strict=True)
    )
    return AsmText(text, arguments, (("a.cu", 1, 1),))


# The kernel -----------------------------------------------------------------------------------------


def test_operands_become_registers_that_are_read_and_written():
    made = kernel_of_statement(
        statement("add.u32 %0, %1, %2; mov.b32 %%x, %3;", "=r", "+r", "r", "n", values=("a", "b", "c", "7"))
    )
    lines = [line.strip() for line in made.splitlines()]
    assert "add.u32 %arg0, %arg1, %arg2; mov.b32 %x, 7;" in lines
    assert [line for line in lines if line.startswith("ld.param.b32")] == [
        "ld.param.b32 %arg1, [arg1];",
        "ld.param.b32 %arg2, [arg2];",
    ]
    assert [line for line in lines if line.startswith("st.global")] == [
        "st.global.b32 [%out+0], %arg0;",
        "st.global.b32 [%out+16], %arg1;",
    ]


def test_names_and_numbers():
    arguments = (AsmArgument("dst", "=h", True, "d"), AsmArgument(None, "n", False, "sizeof(box)"))
    made = kernel_of_statement(AsmText("mov.b16 %[dst], %1", arguments, (("a", 1, 1),)))
    assert "mov.b16 %arg0, 16;" in made.splitlines()


@pytest.mark.parametrize(("text", "constraints"), [("mov.b32 %0, %4;", ("=r",)), ("mov.b32 %0, 1;", ("=x",))])
def test_what_no_kernel_can_be_made_of(text, constraints):
    with pytest.raises(ParseError):
        kernel_of_statement(statement(text, *constraints))


# The comparison -------------------------------------------------------------------------------------

CALLS = Assembled(((("k", SYSCALL)),), {"k": 24}, Counter({("UBLKCP", 1): 1}), {"k": b"old"})
CLEAN = Assembled((), {"k": 10}, Counter({("UBLKCP", 1): 1}), {"k": b"new"})


def test_the_call_has_to_go():
    good = compare(SM120, CALLS, CLEAN)
    assert (good.wrong, good.text) == ("", "driver calls 1 -> 0, registers 24 -> 10")
    assert "not gone" in compare(SM120, CALLS, CALLS).wrong
    assert "not gone" in compare(SM120, CALLS, replace(CLEAN, calls=(("k", "another"),))).wrong


def test_the_copy_has_to_stay():
    other = replace(CLEAN, copies=Counter({("UBLKCP", 2): 1}))
    assert "another one" in compare(SM120, CALLS, other).wrong


def test_elsewhere_nothing_may_change():
    assert "differs" in compare(SM90, CLEAN, replace(CLEAN, code={"k": b"other"})).wrong
    assert compare(SM90, CLEAN, CLEAN).text == "code identical (3 bytes)"


def test_what_is_refused_before_says_nothing():
    unknown = compare(SM90, "ptxas fatal: unknown", "ptxas fatal: unknown")
    assert (unknown.wrong, unknown.done) == ("", False)
    assert "refused after" in compare(SM90, CLEAN, "ptxas fatal: no").wrong


# With ptxas -----------------------------------------------------------------------------------------


class TestWithPtxas:
    pytestmark = needs_ptxas

    def test_a_statement_with_hints_on_every_target(self, tmp_path):
        ptxas = find_tool("ptxas")
        text = statement(HINTED, "r", "l", "r", "r", "r", "r", "r", "h", "h", "l")
        old, new = (
            kernel_of_statement(replace(text, text=t)) for t in (HINTED, HINTED.replace("cluster", "cta"))
        )
        for target in (SM120, Target.parse("sm_121a"), *UNCHANGED):
            outcome = compare(target, *(assemble(body, target, ptxas, tmp_path) for body in (old, new)))
            assert (outcome.wrong, outcome.done) == ("", True), outcome
            assert "1 -> 0" in outcome.text or "identical" in outcome.text

    def test_registers_are_those_of_ptxas(self, tmp_path):
        ptxas = find_tool("ptxas")
        body = kernel_of_copy(read_bulk_copy(parse_asm(HINTED)[0]))
        made = assemble(body, SM120, ptxas, tmp_path)
        said = subprocess.run(
            ["ptxas", "-v", "-arch=sm_120a", "-o", "v.cubin", "k.ptx"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert made.registers == {"k": int(re.search(r"Used (\d+) registers", said.stderr)[1])}
        assert made.calls == (("k", "__cuda_syscall_cp_async_bulk_tensor_4d_im2col_unicast"),)
        assert b"__cuda_syscall_cp_async_bulk_tensor_4d_im2col_unicast" in (tmp_path / "v.cubin").read_bytes()

    @pytest.mark.parametrize("wrong", ["tensor.4d.shared::cta.global.tile", "bulk.shared::cta.global"])
    def test_another_instruction_does_not_verify(self, wrong, tmp_path):
        ptxas = find_tool("ptxas")
        right = "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2, %2}], [%3];"
        texts = {
            "tensor.4d.shared::cta.global.tile": right.replace(
                "tensor.3d.shared::cluster.global.tile", wrong
            ).replace("%2}", "%2, %2}"),
            "bulk.shared::cta.global": "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];",
        }
        old, new = (
            kernel_of_statement(statement(text, "r", "l", "r", "r")) for text in (right, texts[wrong])
        )
        for target in (SM120, SM90):
            outcome = compare(target, *(assemble(body, target, ptxas, tmp_path) for body in (old, new)))
            assert outcome.done
            assert outcome.wrong

    def test_check_says_what_was_done(self, tmp_path):
        write(tmp_path, {"a.cu": LOCAL, "b.cu": PAIR.replace("pair", "other")})
        ran = check(tmp_path, "--fix", "--verify", "--target", "sm_120a", "--target", "sm_121a")
        assert ran.status == 0
        assert ran.err.count("the statement in a generated kernel") == 2
        assert ran.err.count("sm_120a, sm_121a: driver calls 1 -> 0, registers 24 -> ") == 2
        assert ran.err.count("sm_90a, sm_100a, sm_103a, sm_110a: code identical") == 2
        assert "not whose memory the address is" in ran.err
        assert "whole units not compiled: no compile_commands.json" in ran.err

    def test_a_fix_that_does_not_verify_is_taken_back(self, tmp_path, monkeypatch):
        write(tmp_path, {"a.cu": LOCAL, "far.cu": LAUNCHED})
        from ptxguard.verify import run

        right = run.kernel_of_statement

        def wrong(asm):
            made = right(asm)
            return made.replace("1024", "2048") if "cta.global" in made and "%dst" not in made else made

        monkeypatch.setattr(run, "kernel_of_statement", wrong)
        ran = check(tmp_path, "--fix", "--verify")
        assert ran.status == 1
        assert (
            "a.cu:5: not fixed: does not verify: on sm_90a the code before and after the fix differs"
            in ran.err
        )
        assert (tmp_path / "a.cu").read_text() == LOCAL

    @pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
    def test_whole_units(self, tmp_path):
        files = {
            "src/load.cuh": LOCAL,
            "src/a.cu": '#include "load.cuh"\n' + LOCAL.replace("void k(", "void own("),
        }
        command = f"nvcc -std=c++17 --generate-code=arch=compute_120a,code=[sm_120a] -x cu -c {tmp_path}/src/a.cu -o a.o"
        entry = {"directory": str(tmp_path), "file": "src/a.cu", "command": command}
        write(tmp_path, {**files, "build/compile_commands.json": json.dumps([entry])})
        ran = check(tmp_path, "--fix", "--verify")
        assert ran.status == 0
        assert "src/a.cu, the whole unit with nvcc" in ran.err
        assert "sm_120: driver calls 2 -> 0, registers 24 -> " in ran.err
        assert ran.err.count("sm_90a: code identical") == 1

    def test_a_whole_module(self, tmp_path):
        write(tmp_path, {"a.ptx": MODULE})
        ran = check(tmp_path, "--fix", "--verify", "--target", "sm_120a", "--target", "sm_121a")
        assert ran.status == 0
        assert "a.ptx:12:3 the copy alone in a generated kernel" in ran.err
        whole = ran.err.partition("a.ptx, the whole unit with ptxas")[2]
        assert "sm_120a: driver calls 1 -> 0" in whole
        assert "sm_103a: code identical" in whole
        assert "sm_90a" not in whole  # the module is for sm_100 and later

    @pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
    def test_a_unit_that_breaks_brings_the_old_text_back(self, tmp_path):
        broken = LOCAL + '#if defined(FIXED)\n#error "not that"\n#endif\n'
        entry = {
            "directory": str(tmp_path),
            "file": "a.cu",
            "arguments": ["nvcc", "-std=c++17", "-c", "a.cu"],
        }
        write(tmp_path, {"a.cu": broken, "compile_commands.json": json.dumps([entry])})
        from ptxguard.verify import unit

        known = unit.Unit.compile

        def compile_once(self, target, nvcc):
            fixed = "shared::cta.global" in (tmp_path / "a.cu").read_text()
            return known(
                replace(self, options=(*self.options, *(["-DFIXED"] if fixed else []))), target, nvcc
            )

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(unit.Unit, "compile", compile_once)
            ran = check(tmp_path, "--fix", "--verify")
        assert ran.status == 1
        assert "not fixed: does not verify: a.cu: on sm_120 is refused after the fix" in ran.err
        assert (tmp_path / "a.cu").read_text() == broken
        assert "1 error among 1 bulk copy" in " ".join(ran.out.split())


# Tools and units --------------------------------------------------------------------------------------


def test_without_ptxas_nothing_is_written(tmp_path, monkeypatch):
    write(tmp_path, {"a.cu": LOCAL})
    monkeypatch.setattr("ptxguard.verify.run.find_tool", lambda name: None)
    with pytest.raises(ToolError):
        Verifier.on_this_machine(())
    ran = check(tmp_path, "--fix", "--verify")
    assert ran.status == 2
    assert "--verify needs ptxas" in ran.err
    assert (tmp_path / "a.cu").read_text() == LOCAL


def test_a_tool_that_says_no_version_is_none(tmp_path, monkeypatch):
    program = tmp_path / "ptxas"
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("ptxguard.verify.tools.sysconfig.get_path", lambda name: str(tmp_path))
    assert find_tool("ptxas") is None
    wheel = tmp_path / "nvidia/cu13/bin"
    write(wheel, {"ptxas": "#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n"})
    (wheel / "ptxas").chmod(0o755)
    assert find_tool("ptxas").name == "ptxas 13.0.88"


def test_units_lose_what_is_said_anew(tmp_path):
    gencode = ["-gencode", "arch=compute_90,code=sm_90", "-gencode=arch=compute_80,code=sm_80"]
    arguments = ["/usr/bin/nvcc", *gencode, "-DX=1", "-Iinc", "-MD", "-MF", "a.d", "-dc", "a.cu", "-o", "a.o"]
    entries = [
        {"directory": str(tmp_path), "file": "a.cu", "arguments": arguments},
        {"directory": str(tmp_path), "file": "b.cc", "command": "g++ -c b.cc"},
    ]
    write(tmp_path, {"compile_commands.json": json.dumps(entries), "sub/x": ""})
    (unit,) = find_units(str(tmp_path / "sub"))
    assert unit.options == ("-DX=1", "-Iinc")
    assert unit.separate
    assert unit.source == str((tmp_path / "a.cu").resolve())


def test_a_database_that_is_none(tmp_path):
    write(tmp_path, {"compile_commands.json": '{"a": 1}'})
    with pytest.raises(ToolError, match="is no compilation database"):
        find_units(str(tmp_path))

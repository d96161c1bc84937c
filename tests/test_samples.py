"""The samples are what their manifest says: bytes, findings, and what nvcc makes of them."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from ptxguard.arch import DEFAULT_TARGETS, Target
from ptxguard.engine import all_rules, run_rules
from ptxguard.rule import CheckOptions

SAMPLES = Path(__file__).parent.parent / "samples"
FILES = tomllib.loads((SAMPLES / "MANIFEST.toml").read_text("utf-8"))["file"]
COMPILED = [pytest.param(row, id=row["path"]) for row in FILES if "syscalls" in row]
TARGETS = tuple(map(Target.parse, DEFAULT_TARGETS))


def test_every_sample_is_listed_with_its_hash():
    listed = {row["path"]: row["sha256"] for row in FILES}
    found = {
        path.relative_to(SAMPLES).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in SAMPLES.rglob("*")
        if path.is_file() and path.name != "MANIFEST.toml"
    }
    assert found == listed
    assert all(row["origin"] for row in FILES)


@pytest.fixture(scope="module")
def findings():
    from ptxguard.source.analyse import Options, analyse

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(SAMPLES)
        analysis = analyse(["."], Options(TARGETS, None, {}, ()))
        assert analysis.errors == ()
        return run_rules(analysis, all_rules(), CheckOptions(TARGETS))


def test_every_expected_finding_is_reported_and_no_other(findings):
    expected = sorted(f"{row['path']}: {text}" for row in FILES for text in row.get("findings", ()))
    assert expected
    assert sorted(f"{f.path}: {f.code} {f.severity.word} {f.line}" for f in findings) == expected


def test_the_helper_names_every_kernel_that_reaches_it(findings):
    (finding,) = [finding for finding in findings if finding.severity.word == "error"]
    names = sorted(kernel.name.rsplit("::", 1)[-1] for kernel in finding.kernels)
    assert names == ["cast_transpose_kernel", "dequantize_pair_kernel", "quantize_fp8_kernel"]
    assert (finding.cluster["verdict"], finding.address["verdict"]) == ("one", "local")
    assert finding.performance["setmaxnreg_ignored"] is True
    launches = {
        (link.path.rsplit("/", 1)[-1], link.line) for link in finding.evidence if link.kind == "launch"
    }
    assert launches == {
        (path, line)
        for path in ("quantize_fp8.cu", "dequantize_pair.cu", "cast_transpose.cu")
        for line, text in enumerate((SAMPLES / "quantize/cast" / path).read_text().splitlines(), start=1)
        if "<<<" in text or "cudaLaunchKernelEx(" in text
    }


@pytest.mark.ptxas
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
@pytest.mark.parametrize("row", COMPILED)
def test_nvcc_confirms_the_syscalls(row, tmp_path):
    cubin = tmp_path / "sample.cubin"
    command = [str(cubin) if word == "sample.cubin" else word for word in shlex.split(row["confirm"])]
    subprocess.run(command, cwd=SAMPLES, check=True, capture_output=True, timeout=120)
    names = set(re.findall(rb"__cuda_syscall_\w+", cubin.read_bytes()))
    assert {name.decode() for name in names} == set(row["syscalls"])

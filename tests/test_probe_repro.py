"""Reproducers: compiled by nvcc, whose cubins name the driver functions."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from ptxguard.commands.repro import command
from ptxguard.errors import ConfigError
from ptxguard.probe.forms import FORMS, find_form
from ptxguard.probe.repro import form_of, repro_source

if TYPE_CHECKING:
    from pathlib import Path


def finding(form: str, *, multicast: bool = False) -> dict[str, object]:
    return {
        "fingerprint": "1234:1",
        "path": "src/copy.cuh",
        "line": 17,
        "opcode": "cp.async.bulk…",
        "message": "calls the driver",
        "syscall": find_form(form).syscall(multicast=multicast),
        "cost": [{"gpu": "RTX 5090", "mib": 3382.7, "basis": "public measurement", "source": "a report"}],
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "findings.json"
    path.write_text(
        json.dumps({"version": 1, "findings": [finding("tensor_2d_tile"), {"path": "x", "line": 1}]})
    )
    return path


@pytest.mark.parametrize("name", ["1234:1", "src/copy.cuh:17"])
def test_writes_source_and_issue(file: Path, tmp_path: Path, name: str) -> None:
    done = CliRunner().invoke(command, [name, "--from", str(file), "--output-dir", str(tmp_path)])
    assert done.exit_code == 0
    issue = (tmp_path / "repro_tensor_2d_tile.md").read_text()
    for part in ("src/copy.cuh:17", "3382.7", "-DCTA", "__cuda_syscall_cp_async_bulk_tensor_2d_tile_unicast"):
        assert part in issue
    assert "cuTensorMapEncodeTiled" in (tmp_path / "repro_tensor_2d_tile.cu").read_text()


def test_what_cannot_be_reproduced_is_one_sentence(file: Path, tmp_path: Path) -> None:
    for arguments, message in (
        (["nothing:9", "--from", str(file)], "has no finding 'nothing:9'"),
        (["x:1", "--from", str(file)], "names no bulk copy"),
        (["x:1", "--from", str(tmp_path / "none")], "holds no findings"),
    ):
        with pytest.raises(ConfigError, match=message):
            CliRunner().invoke(command, arguments, catch_exceptions=False, standalone_mode=False)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_every_driver_function_leads_to_its_form(form) -> None:
    for multicast in (False, True):
        assert form_of({"syscall": form.syscall(multicast=multicast)}) == (form, multicast)


@pytest.mark.ptxas
@pytest.mark.parametrize(
    ("form", "multicast"), [("tensor_1d_tile", False), ("tensor_4d_im2col", False), ("bulk", True)]
)
def test_nvcc_builds_both_spellings(form: str, multicast: bool, tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not on PATH")
    source = tmp_path / "r.cu"
    source.write_text(repro_source(find_form(form), multicast=multicast))
    symbol = find_form(form).syscall(multicast=multicast).encode() + b"\0"
    for macro, calls in (("CLUSTER_FORM", True), ("CTA", multicast)):
        output = tmp_path / f"{macro}.cubin"
        command = [
            "nvcc",
            "-std=c++17",
            "-arch=sm_120a",
            "-cubin",
            f"-D{macro}",
            str(source),
            "-o",
            str(output),
        ]
        subprocess.run(command, check=True, capture_output=True)
        assert (symbol in output.read_bytes()) is calls

"""Programs that the probe builds, runs and compares."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ptxguard.errors import ToolError
from ptxguard.probe.api import Card
from ptxguard.probe.programs import compare_runs, render_runs, run_commands, run_program, run_source

if TYPE_CHECKING:
    from pathlib import Path

CARD = Card("Made-up", "sm_90", 132, 2048, 1 << 37, False, "580.1", "13.0", "13.0", "ffff:ff:ff.f")
SAY = f"{sys.executable} -c 'print(6 * 7)'"


def test_runs_are_hashed_and_compared() -> None:
    runs = run_commands(
        [SAY, f"{sys.executable} -c 'print(42)'", f"{sys.executable} -c 'print(43)'"], CARD, 30
    )
    # sha256 of b"42\n", by sha256sum
    assert runs[0].sha256 == "084c799cd551dd1d8d5c5f9a5d593b2e931f5e36122ee5c793c1d08a19839cc0"
    assert compare_runs(runs[:2])["same_output"] is True
    assert compare_runs(runs)["same_output"] is False
    assert compare_runs(runs)["peak_mib"] == [None, None]  # no NVML here: unknown, not 0
    assert "unknown" in render_runs(runs)


def test_peak_is_net_of_what_was_in_use_before() -> None:
    readings = iter([100 << 20, 612 << 20])
    run = run_program(
        "x", [sys.executable, "-c", "import time; time.sleep(0.2)"], lambda: next(readings, 200 << 20), 30
    )
    assert run.peak_mib == 512


def test_a_run_that_fails_is_told_apart() -> None:
    runs = run_commands([SAY, f"{sys.executable} -c 'raise SystemExit(3)'"], CARD, 30)
    assert [run.exit_status for run in runs] == [0, 3]
    assert compare_runs(runs)["same_exit_status"] is False


def test_what_cannot_run_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ToolError, match="cannot be started: No such file"):
        run_commands(["/nowhere/program"], CARD, 30)
    with pytest.raises(ToolError, match=r"did not end within 0.3 s"):
        run_commands([f"{sys.executable} -c 'import time; time.sleep(9)'"], CARD, 0.3)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="needs nvcc"):
        run_source(tmp_path / "a.cu", (), CARD, 30)


@pytest.mark.ptxas
def test_builds_with_and_without_a_macro(tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not on PATH")
    empty = tmp_path / "empty.cu"
    empty.write_text("int main() {}\n")
    command = ["nvcc", str(empty), "-o", str(tmp_path / "empty")]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this nvcc cannot link programs: the compiler's wheel comes without the CUDA runtime")
    source = tmp_path / "a.cu"
    source.write_text(
        '#include <cstdio>\n#ifdef CTA\n#define FORM "cta"\n#else\n#define FORM "cluster"\n#endif\n'
        "int main() { puts(FORM); }\n#ifdef BROKEN\n#error broken on purpose\n#endif\n"
    )
    runs = run_source(source, ("CTA",), CARD, 30)
    assert [run.output for run in runs] == ["cluster", "cta"]
    assert [run.label for run in runs] == ["a.cu", "a.cu -DCTA"]
    with pytest.raises(ToolError, match="broken on purpose"):
        run_source(source, ("BROKEN",), CARD, 30)

"""The hooks and the action: patterns over what is read, and the action's script run as a runner does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from outkit import SAMPLES
from ptxguard import check_paths
from ptxguard.source.tree import CPP_ENDINGS, PYTHON_ENDINGS, TEMPLATE_ENDINGS

ROOT = Path(__file__).parent.parent
yaml = pytest.importorskip("yaml")
HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))}
ACTION = yaml.safe_load((ROOT / ".github/actions/ptxguard/action.yml").read_text("utf-8"))


@pytest.mark.parametrize("ending", sorted(CPP_ENDINGS | PYTHON_ENDINGS | TEMPLATE_ENDINGS | {".ptx", ""}))
def test_the_hook_sees_every_kind_that_check_reads(ending):
    pattern = HOOKS["ptxguard"]["files"]
    assert re.search(pattern, f"include/sub.dir/name{ending}")
    assert re.search(pattern, f"NAME{ending.upper()}")


@pytest.mark.parametrize(
    "name", ["README.md", "a.cu.orig", "a.json", "dir.cu/notes.txt", ".clang-format", "a.so"]
)
def test_the_hook_passes_over_other_files(name):
    assert not re.search(HOOKS["ptxguard"]["files"], name)


@pytest.mark.parametrize("ending", "so so.12 so.12.4 o a whl cubin fatbin ptx SO".split())
def test_the_binary_hook_sees_compiled_code(ending):
    assert re.search(HOOKS["ptxguard-binaries"]["files"], f"dist/libname.{ending}")


@pytest.mark.parametrize("name", ["a.cu", "so", "a.so.py", "notes.o.txt"])
def test_the_binary_hook_passes_over_other_files(name):
    assert not re.search(HOOKS["ptxguard-binaries"]["files"], name)


@pytest.mark.parametrize("hook", HOOKS.values(), ids=HOOKS)
def test_the_entry_is_a_command_that_is_there(hook):
    arguments = [sys.executable, "-m", *hook["entry"].split(), "--help"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "PATH" in done.stdout


def run_check_step(folder, tree, **inputs):
    """The step `Check` in bash, with the environment that a runner gives it."""
    (step,) = [step for step in ACTION["runs"]["steps"] if step.get("id") == "check"]
    values = {name: given["default"] for name, given in ACTION["inputs"].items()} | inputs
    own = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: values[match[1]], text)
        for name, text in step["env"].items()
    }
    program = folder / "ptxguard/bin/ptxguard"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ptxguard "$@"\n')
    program.chmod(0o755)
    files = {name: str(folder / name.lower()) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    Path(files["GITHUB_STEP_SUMMARY"]).write_text("# what another tool wrote\n")
    environment = {**os.environ, **own, **files, "RUNNER_TEMP": str(folder)}
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("bash is not installed")
    arguments = [shell, "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(
        arguments, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def test_the_action_annotates_summarises_and_fails(tmp_path):
    tree = tmp_path / "tree"
    shutil.copytree(SAMPLES, tree)
    done = run_check_step(tmp_path, tree)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("::error file=quantize/common/ptx.cuh,line=45,")
    summary = (tmp_path / "github_step_summary").read_text()
    assert summary.startswith("# what another tool wrote\n## ptxguard\n\n1 error, 1 note.")
    assert (tmp_path / "github_output").read_text() == "sarif-file=ptxguard.sarif\n"
    assert '"2.1.0"' in (tree / "ptxguard.sarif").read_text("utf-8")


def test_text_of_an_input_is_no_part_of_the_script(tmp_path):
    shutil.copytree(SAMPLES / "quantize/norm", tmp_path / "tree")
    done = run_check_step(
        tmp_path, tmp_path / "tree", paths=". $(touch${IFS}x);touch y", arguments="--exit-zero"
    )
    assert done.returncode == 2
    assert not list(tmp_path.rglob("[xy]"))


def test_a_file_without_an_ending_is_judged_only_if_it_is_code(tmp_path, monkeypatch):
    (tmp_path / "Doxyfile").write_text('# "#if asm" is told, and it\'s no directive\n#if asm\nNAME = "x\n')
    (tmp_path / "kernels").write_text('__device__ void f() { asm("mov.u32 %0, %1, "); }\n#if 1\n')
    monkeypatch.chdir(tmp_path)
    assert {error.path for error in check_paths(["Doxyfile", "kernels"]).errors} == {"kernels"}

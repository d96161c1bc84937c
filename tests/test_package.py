"""The wheel holds every file of the mapped folders, and the console script starts from it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
FOLDERS = PROJECT["tool"]["setuptools"]["package-dir"]

BUILD = "import sys, setuptools.build_meta as backend; print(backend.build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy, so that nothing is written into the tree; no isolation, no network."""
    pytest.importorskip("setuptools", minversion="77", reason="the build backend is not installed")
    tree, output = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for folder in set(FOLDERS.values()):
        shutil.copytree(ROOT / folder, tree / folder, ignore=skip)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tree / name)
    arguments = [sys.executable, "-W", "ignore", "-c", BUILD, str(output)]
    done = subprocess.run(arguments, cwd=tree, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    (path,) = output.glob("*.whl")
    return path


def test_the_wheel_holds_the_tree_and_nothing_else(wheel):
    in_tree = {
        f"{package.replace('.', '/')}/{path.relative_to(ROOT / folder).as_posix()}"
        for package, folder in FOLDERS.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path)
    }
    in_wheel = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert in_wheel == in_tree


def test_the_command_starts_from_the_wheel_beside_packages_of_the_same_names(wheel, tmp_path):
    for name in ("lint", "rules", "web"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('the package of the user')\n")
    code = f"import sys; sys.path[:0] = [{str(wheel)!r}]; sys.argv[1:] = ['explain', 'TMA001']; "
    code += "import ptxguard.cli as c; assert c.__file__.startswith(sys.path[0]); c.main()"
    arguments = [sys.executable, "-c", code]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("TMA001 cluster-form-copy")

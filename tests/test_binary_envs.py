"""`--env`: site-packages and the kernel caches of JITs, each where its tool puts it."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from binkit import DATA
from ptxguard import cli
from ptxguard.binary import envs

VARIABLES = (
    "TRITON_CACHE_DIR",
    "FLASHINFER_WORKSPACE_BASE",
    "TILELANG_CACHE_DIR",
    "CUDA_CACHE_PATH",
    "TORCHINDUCTOR_CACHE_DIR",
    "CUTE_DSL_CACHE_DIR",
)
CUBIN = DATA / "facts.sm_120a.cubin"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An environment of its own: packages, home folder and temporary folder below one folder."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    packages = tmp_path / "site-packages"
    packages.mkdir()
    monkeypatch.setattr(envs.sysconfig, "get_paths", lambda: {"purelib": packages, "platlib": packages})
    monkeypatch.setattr(envs.site, "getsitepackages", lambda: [str(packages)])
    monkeypatch.setattr(envs.site, "getusersitepackages", lambda: str(tmp_path / "none"))
    monkeypatch.setattr(envs.Path, "home", lambda: tmp_path / "home")
    monkeypatch.setattr(envs.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    monkeypatch.setattr(envs.getpass, "getuser", lambda: "ann")
    return tmp_path


def placed(folder):
    folder.mkdir(parents=True)
    shutil.copy(CUBIN, folder / "kernel.cubin")
    return folder


@pytest.mark.parametrize(
    "default",
    [
        "home/.triton/cache",
        "home/.cache/flashinfer",
        "home/.tilelang/cache",
        "home/.nv/ComputeCache",
        "tmp/torchinductor_ann",
        "tmp/ann/cutlass_python_cache",
    ],
)
def test_caches_in_their_default_places(home, default):
    cache = placed(home / default)
    assert envs.environment_paths() == [str(home / "site-packages"), str(cache)]


@pytest.mark.parametrize("variable", VARIABLES)
def test_caches_that_a_variable_moves(home, monkeypatch, variable):
    below = ".cache/flashinfer" if variable == "FLASHINFER_WORKSPACE_BASE" else "."
    cache = placed(home / "moved" / below)
    monkeypatch.setenv(variable, str(home / "moved"))
    assert envs.environment_paths() == [str(home / "site-packages"), str(cache)]


def test_a_cache_inside_another_folder_is_read_once(home, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(placed(home / "site-packages" / "cache")))
    assert envs.environment_paths() == [str(home / "site-packages")]


def test_scan_of_an_environment_names_package_and_cache(home, monkeypatch, capsys):
    placed(home / "site-packages" / "pkg")
    placed(home / "home/.triton/cache/abc")
    monkeypatch.setattr(sys, "argv", ["ptxguard", "scan", "--env", "--output-format", "json"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    record = json.loads(capsys.readouterr().out)
    assert ended.value.code == 1
    assert [artifact["path"] for artifact in record["artifacts"]] == [
        str(home / "site-packages/pkg/kernel.cubin"),
        str(home / "home/.triton/cache/abc/kernel.cubin"),
    ]

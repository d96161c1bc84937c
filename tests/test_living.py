"""Configuration, excludes, what is counted, doctor; through the command line."""

from __future__ import annotations

import pytest

from livingkit import FOUND, source
from ptxguard.globs import matches

# Configuration ---------------------------------------------------------------------------------------


def test_the_nearest_configuration_holds(tree, check, tmp_path, monkeypatch):
    tree(a_cu=source(), sub__a_cu=source())
    (tmp_path / "pyproject.toml").write_text('[tool.ptxguard]\nignore = ["TMA001"]\n')
    assert check(".")[0] == 0
    (tmp_path / "sub" / "ptxguard.toml").write_text('select = ["TMA"]\n')
    monkeypatch.chdir(tmp_path / "sub")
    assert check(".")[0] == 1
    assert check(".", "--config", "../pyproject.toml")[0] == 0
    monkeypatch.chdir(tmp_path)
    assert check(".", "--isolated")[0] == 1
    assert check(".", "--ignore", "ASM001")[0] == 1  # the command line wins


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ignroe = []", "unknown key 'ignroe'; did you mean 'ignore'?"),
        ("cuda_min = '12.4'", "did you mean 'cuda-min'?"),
        ("ignore = 'TMA001'", "wants a list of texts"),
        ("fail-on = 'bad'", "fail-on"),
        ("severity = {TMA001 = 'fatal'}", "'fatal' is none of"),
        ("severity = {TMA9 = 'note'}", "there is no rule 'TMA9'"),
        ("fail-above = 'much'", "is no size"),
        ("a =", "is no TOML"),
        ("per-file-ignores = {'a.cu' = ['TMA9']}", "no rule matches 'TMA9'"),
        ("\ngpu = []\nignroe = []", "ptxguard.toml:3: unknown key"),
        ("[severty]\nTMA001 = 'off'", "ptxguard.toml:1: unknown key 'severty'; did you mean 'severity'?"),
    ],
)
def test_a_wrong_configuration_is_an_error(tree, run, tmp_path, text, words):
    tree(a_cu=source())
    (tmp_path / "ptxguard.toml").write_text(text)
    status, out, err = run("check", ".")
    assert (status, out) == (2, "")
    assert words in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[project]\nname = 'x'\n", "has no [tool.ptxguard]"),
        ("[tool.other]\nignroe = 1\n[tool.ptxguard]\nignroe = []\n", "pyproject.toml:4: unknown key"),
        ("[tool.ptxguard.severty]\nTMA001 = 'off'\n", "pyproject.toml:1: unknown key"),
        ("[tool.ptxguard]\nignore = 1\n", "pyproject.toml:2: ignore wants a list"),
    ],
)
def test_a_wrong_project_file_is_an_error_with_its_line(tree, run, tmp_path, text, words):
    tree(a_cu=source())
    (tmp_path / "pyproject.toml").write_text(text)
    status, out, err = run("check", ".", "--config", "pyproject.toml")
    assert (status, out) == (2, "")
    assert words in err


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ('severity = {TMA001 = "note"}', 0),
        ('severity = {TMA001 = "off"}', 0),
        ('per-file-ignores = {"a.cu" = ["TMA001"]}', 0),
        ('per-file-ignores = {"b.cu" = ["TMA001"]}', 1),
        ('exclude = ["a.cu"]', 0),
        ('targets = ["sm_90a"]', 0),
        ('defines = ["OFF"]', 1),
        ('fail-above = "5 GiB"', 0),
        ('fail-above = "256 MiB"', 1),
        ('fail-above = "3000 MiB"\ngpu = ["GB10"]', 0),
        ('fail-on = "warning"', 1),
    ],
)
def test_each_key_has_its_effect(tree, check, tmp_path, text, status):
    tree(a_cu=source())
    (tmp_path / "ptxguard.toml").write_text(text)
    assert check(".")[0] == status


def test_globs_of_a_configuration_are_seen_from_its_folder(tree, check, tmp_path, monkeypatch):
    tree(sub__deep__a_cu=source())
    (tmp_path / "sub" / "ptxguard.toml").write_text('exclude = ["deep/a.cu"]')
    monkeypatch.chdir(tmp_path / "sub" / "deep")
    assert check(".", "--isolated")[0] == 1
    assert check(".")[0] == 0


# Excludes --------------------------------------------------------------------------------------------


def test_a_named_file_is_excluded_only_by_force(tree, check):
    tree(a_cu=source())
    assert check("a.cu", "--exclude", "a.cu")[0] == 1
    assert check("a.cu", "--exclude", "a.cu", "--force-exclude") == (0, [], "")
    assert check(".", "--exclude", "a.cu") == (0, [], "")


@pytest.mark.parametrize(
    ("path", "glob", "meant"),
    [
        ("a.cu", "a.cu", True),
        ("src/a.cu", "a.cu", True),
        ("src/a.cu", "src", True),
        ("src/a.cu", "src/", True),
        ("src/a.cu", "./src/*", True),
        ("src/deep/a.cu", "src/**", True),
        ("src/deep/a.cu", "**/*.cu", True),
        ("a.cu", "**/*.cu", True),
        ("lib/src/a.cu", "src/a.cu", False),
        ("src/a.cuh", "*.cu", False),
        ("srcs/a.cu", "src", False),
    ],
)
def test_globs(path, glob, meant):
    assert matches(path, [glob]) is meant


def test_standard_input_stands_for_a_file(tree, check):
    tree(a_cu="int x;\n", b_cu=source())
    assert check("--stdin-filename", "a.cu", stdin=source())[1] == [FOUND]
    assert check("--stdin-filename", "b.cu", stdin="int x;\n")[1] == []
    assert check("--stdin-filename", "b.cu", "a.cu", stdin="")[0] == 2


def test_statistics_and_confidence(tree, check):
    tree(a_cu=source())
    assert "    1  TMA001  cluster-form-copy" in check(".", "--statistics")[2]
    assert check(".", "--min-confidence", "high")[1] == [FOUND]


# Doctor ----------------------------------------------------------------------------------------------


def test_doctor_tells_what_is_there(tree, run, tmp_path, monkeypatch):
    tree(ptxguard_toml='ignore = ["TMA002"]\n')
    monkeypatch.setenv("PATH", str(tmp_path))
    status, out, _ = run("doctor")
    assert status == 0
    assert "configuration: ptxguard.toml" in out
    assert "ignore = ['TMA002']" in out
    assert "missing  nvcc" in out
    tree(ptxguard_toml="x = 1\n")
    assert run("doctor")[0] == 2

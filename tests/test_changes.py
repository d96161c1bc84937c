"""Findings that changed lines touch; in repositories of git, through the command line."""

from __future__ import annotations

import subprocess

import pytest

from livingkit import COPY, source

HELPER = (
    "__device__ void load(unsigned s, const void *src, unsigned b) {\n" + COPY.replace("BEHIND", "") + "}\n"
)
KERNELS = "__global__ void k(unsigned s, const void *src, unsigned b) { load(s, src, b); }\n"
IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@t")
LAUNCH = "void go(const void *p) {\n  k<<<1, 32>>>(1, p, 2);\n}\n"


@pytest.fixture
def repository(tree):
    tree(a_cu=HELPER + KERNELS + LAUNCH, other_cu="int x;\n")
    subprocess.run(["git", "init", "-q"], check=True)
    commit("first")
    return tree


def commit(message):
    subprocess.run(["git", "add", "-A"], check=True)
    subprocess.run(["git", *IDENTITY, "commit", "-qm", message], check=True)


def test_old_findings_are_left_out(repository, check):
    assert check(".")[1] == [("TMA001", "a.cu", 2)]
    assert check(".", "--new-from-rev", "HEAD")[:2] == (0, [])
    repository(other_cu="int y;\n")
    assert check(".", "--new-from-rev", "HEAD")[:2] == (0, [])


def test_a_changed_copy_and_a_new_file_are_new(repository, check):
    repository(a_cu=HELPER.replace("1024", "2048") + KERNELS + LAUNCH, b_cu=source())
    assert check(".", "--new-from-rev", "HEAD")[1] == [("TMA001", "a.cu", 2), ("TMA001", "b.cu", 5)]
    assert check(".", "--new-from-rev", "HEAD", "--diff-filter", "M")[1] == [("TMA001", "a.cu", 2)]


def test_a_changed_launch_brings_the_finding_to_its_line(repository, check):
    repository(a_cu=HELPER + KERNELS + LAUNCH.replace("32", "64"))
    assert check(".", "--new-from-rev", "HEAD")[1] == [("TMA001", "a.cu", 2), ("TMA001", "a.cu", 7)]


def test_a_removed_line_is_a_change_of_the_lines_around_it(repository, check):
    attribute = "__cluster_dims__(2, 1, 1)\n"
    repository(a_cu=HELPER + KERNELS.replace("void", f"void\n{attribute}") + LAUNCH)
    commit("a cluster")
    assert check(".", "--new-from-rev", "HEAD")[1] == []
    repository(a_cu=HELPER + KERNELS.replace("void", "void\n") + LAUNCH)
    assert ("TMA001", "a.cu", 2) in check(".", "--new-from-rev", "HEAD")[1]


def test_text_that_looks_like_a_heading_of_a_diff_is_none(repository, check):
    repository(other_cu="int x;\n++ b/none.cu;\nint z;\n" + source())
    assert check(".", "--new-from-rev", "HEAD")[1] == [("TMA001", "other.cu", 8)]
    repository(other_cu="++ b/none.cu\n@@ -1 +1 @@\n" + source().rstrip("\n"))
    assert check(".", "--new-from-rev", "HEAD")[1] == [("TMA001", "other.cu", 7)]


@pytest.mark.parametrize("name", ['q"t', "back\\slash", "ta\tb", "with space", "\u00fcml\u00e4ut"])
def test_names_that_git_quotes(repository, check, tmp_path, name):
    (tmp_path / f"{name}.cu").write_text(source())
    commit("odd name")
    (tmp_path / f"{name}.cu").write_text(source().replace("1024", "2048"))
    assert [row[0] for row in check(".", "--new-from-rev", "HEAD")[1]] == ["TMA001"]


def test_configuration_of_git_changes_nothing(repository, check, tmp_path, monkeypatch):
    for setting in ("diff.relative", "diff.noprefix", "diff.mnemonicPrefix"):
        subprocess.run(["git", "config", setting, "true"], check=True)
    repository(a_cu=HELPER.replace("1024", "2048") + KERNELS + LAUNCH, sub__c_cu="int x;\n")
    monkeypatch.chdir(tmp_path / "sub")
    assert check("..", "--new-from-rev", "HEAD")[1] == [("TMA001", "../a.cu", 2)]


def test_a_path_of_another_checkout_is_an_error(repository, run, tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    subprocess.run(["git", "init", "-q", str(inner)], check=True)
    (inner / "a.cu").write_text(source())
    for path in ("inner", "inner/a.cu", "/"):
        status, out, err = run("check", path, "--new-from-rev", "HEAD")
        assert (status, out) == (2, "")
        assert "is not in the checkout" in err


def test_a_revision_that_is_none_is_an_error(repository, run, tmp_path, monkeypatch):
    status, _, err = run("check", ".", "--new-from-rev", "nowhere")
    assert status == 2
    assert "--new-from-rev" in err
    (tmp_path / "out").mkdir()
    assert run("check", ".", "--new-from-rev", "--output=x")[0] == 2

"""Baselines: what is known, new and gone; through the command line."""

from __future__ import annotations

import pytest

from livingkit import COPY, source


def test_a_baseline_leaves_out_what_is_known(tree, run, check, tmp_path):
    tree(a_cu=source())
    assert run("baseline", ".", "--output-file", "known.txt")[0] == 0
    assert check(".", "--baseline", "known.txt")[:2] == (0, [])
    tree(a_cu="\n" * 200 + source())  # moved lines
    assert check(".", "--baseline", "known.txt")[0] == 0
    (tmp_path / "a.cu").rename(tmp_path / "renamed.cu")
    assert check(".", "--baseline", "known.txt")[0] == 0
    tree(b_cu=source(name="push"))
    assert check(".", "--baseline", "known.txt")[:2] == (1, [("TMA001", "b.cu", 5)])


def test_a_second_copy_in_the_same_function_is_new(tree, run, check):
    tree(a_cu=source())
    run("baseline", ".", "--output-file", "known.txt")
    copy = COPY.replace("BEHIND", "")
    tree(a_cu=source(before=copy))
    assert check(".", "--baseline", "known.txt")[0] == 1


def test_what_is_gone_is_listed(tree, run, check):
    tree(a_cu=source())
    run("baseline", ".", "--output-file", "known.txt")
    tree(a_cu="int x;\n")
    status, _, err = check(".", "--baseline", "known.txt")
    assert status == 0
    assert "gone from the code" in err
    assert "TMA001 a.cu pull" in err


def test_what_a_run_did_not_look_at_is_not_gone(tree, run, check, tmp_path, monkeypatch):
    tree(a_cu=source(), b_cu=source(name="push"), sub__c_cu="int x;\n")
    (tmp_path / "ci").mkdir()
    run("baseline", ".", "--output-file", "ci/known.txt")
    for arguments in (
        ("a.cu",),
        (".", "--select", "TMA002"),
        (".", "--per-file-ignores", "b.cu:TMA001"),
    ):
        assert "gone" not in check(*arguments, "--baseline", "ci/known.txt")[2], arguments
    (tmp_path / "b.cu").unlink()
    assert "gone" not in check("a.cu", "--baseline", "ci/known.txt")[2]
    assert "gone" in check(".", "--baseline", "ci/known.txt")[2]
    monkeypatch.chdir(tmp_path / "sub")
    assert "gone" not in check(".", "--baseline", "../ci/known.txt")[2]
    assert "gone" in check("..", "--baseline", "../ci/known.txt")[2]


def test_a_baseline_holds_comments_and_names_with_spaces(tree, run, check, tmp_path):
    tree(**{"my file_cu": "// ptxguard: ignore[TMA001]\n"})
    assert run("baseline", ".", "--output-file", "known.txt")[0] == 0
    assert check(".", "--baseline", "known.txt")[:2] == (0, [])
    (tmp_path / "my file.cu").rename(tmp_path / "yours.cu")
    assert check(".", "--baseline", "known.txt")[:2] == (0, [])
    (tmp_path / "yours.cu").unlink()
    assert "SUP001 'my file.cu'" in check(".", "--baseline", "known.txt")[2]


@pytest.mark.parametrize("text", [None, "no baseline\n", "\xff\x00"])
def test_a_baseline_that_is_none_is_an_error(tree, run, tmp_path, text):
    tree(a_cu=source())
    if text is not None:
        (tmp_path / "known.txt").write_bytes(text.encode("latin-1"))
    status, out, err = run("check", ".", "--baseline", "known.txt")
    assert (status, out) == (2, "")
    assert "baseline" in err

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


@pytest.mark.parametrize("text", [None, "no baseline\n", "\xff\x00"])
def test_a_baseline_that_is_none_is_an_error(tree, run, tmp_path, text):
    tree(a_cu=source())
    if text is not None:
        (tmp_path / "known.txt").write_bytes(text.encode("latin-1"))
    status, out, err = run("check", ".", "--baseline", "known.txt")
    assert (status, out) == (2, "")
    assert "baseline" in err

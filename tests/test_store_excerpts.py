"""Excerpts hold the lines around findings and edits, once, and survive storing, merging and thinning out."""

from __future__ import annotations

import storekit
from ptxguard.finding import Edit, Fix
from ptxguard.store.excerpts import CONTEXT_LINES, excerpts_of
from ptxguard.store.rows import Excerpt
from ptxguard.store.store import open_store
from ptxguard.store.transfer import merge, thin_out

LINES = [f"line {number}" for number in range(1, 201)]


def line_text(path, line):
    if path != "a.cu":
        return None
    return LINES[line - 1] if line <= len(LINES) else ""


def cut(first, last):
    return "\n".join(LINES[first - 1 : last])


def test_near_findings_share_an_excerpt_and_far_ones_do_not():
    found = [
        storekit.finding("f:1", line=40),
        storekit.finding("f:2", line=60),
        storekit.finding("f:3", line=120),
    ]
    assert excerpts_of(found, line_text) == (
        Excerpt("a.cu", 40 - CONTEXT_LINES, cut(40 - CONTEXT_LINES, 60 + CONTEXT_LINES)),
        Excerpt("a.cu", 120 - CONTEXT_LINES, cut(120 - CONTEXT_LINES, 120 + CONTEXT_LINES)),
    )


def test_an_excerpt_ends_with_its_file():
    assert excerpts_of([storekit.finding("f:1", line=199)], line_text) == (
        Excerpt("a.cu", 187, cut(187, 200)),
    )
    assert excerpts_of([storekit.finding("f:1", line=2)], line_text)[0].first_line == 1


def test_edits_elsewhere_are_shown_too():
    fix = Fix("safe", (Edit("a.cu", 150, 3, 150, 9, "cta"),))
    found = excerpts_of([storekit.finding("f:1", line=20, fix=fix)], line_text)
    assert [(one.first_line, one.text) for one in found] == [(8, cut(8, 32)), (147, cut(147, 153))]


def test_a_file_that_cannot_be_read_has_none():
    assert excerpts_of([storekit.finding("f:1", path="gone.cu")], line_text) == ()


def test_a_line_of_megabytes_is_cut_and_says_so():
    (only,) = excerpts_of(
        [storekit.finding("f:1", line=1)], lambda path, line: "x" * 9000 if line == 1 else ""
    )
    assert only.text == "x" * 4000 + "…"


def test_excerpts_are_stored_merged_and_thinned(tmp_path):
    kept = Excerpt("a.cu", 3, "asm volatile();\n// \0 and \ud800")
    with open_store(str(tmp_path / "one.db")) as one, open_store(str(tmp_path / "two.db")) as two:
        number = one.add(storekit.source_run("f:1", excerpts=(kept,)))
        (stored,) = one.excerpts(number, "a.cu")
        assert stored == Excerpt("a.cu", 3, "asm volatile();\n// \ufffd and \\ud800")
        assert one.excerpts(number, "b.cu") == ()
        merge(two, one)
        assert two.excerpts(1) == (stored,)
        one.add(storekit.source_run("f:1", created="2026-12-02T05:00:00Z"))
        assert thin_out(one.database, 1) == (number,)
        assert one.excerpts(number) == ()


def test_a_store_of_version_1_is_brought_forward(tmp_path, monkeypatch):
    place = str(tmp_path / "old.db")
    monkeypatch.setattr("ptxguard.store.database.MIGRATIONS", ("schema.sql",))
    open_store(place).close()
    monkeypatch.undo()
    with open_store(place) as store:
        number = store.add(storekit.source_run("f:1", excerpts=(Excerpt("a.cu", 1, "x"),)))
        assert store.excerpts(number) == (Excerpt("a.cu", 1, "x"),)

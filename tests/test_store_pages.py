"""Excerpts, briefs, witnesses and prices of runs survive storing, migration, merging and thinning out."""

from __future__ import annotations

import json

import storekit
from ptxguard.finding import Edit, Fix
from ptxguard.store.brief import brief_of
from ptxguard.store.excerpts import CONTEXT_LINES, excerpts_of
from ptxguard.store.rows import Excerpt, FindingFilter
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
        (stored,) = one.excerpts(number, ["a.cu"])
        assert stored == Excerpt("a.cu", 3, "asm volatile();\n// \ufffd and \\ud800")
        assert one.excerpts(number, ["b.cu"]) == ()
        merge(two, one)
        assert two.excerpts(1) == (stored,)
        one.add(storekit.source_run("f:1", created="2026-12-02T05:00:00Z"))
        assert thin_out(one.database, 1) == (number,)
        assert one.excerpts(number) == ()
        assert {price.run for price in one.run_prices()} == {1, 2}  # the trend stays


def test_a_store_of_version_1_is_brought_forward(tmp_path, monkeypatch):
    place = str(tmp_path / "old.db")
    monkeypatch.setattr("ptxguard.store.database.MIGRATIONS", ("schema.sql",))
    with open_store(place) as old:
        insert = "INSERT INTO run VALUES (1, 'k', 'source', 'te', '2026-12-01T05:00:00Z', '', '', '', '[]', 1, 0, 0)"
        old.database.run(insert)
        record = storekit.finding("f:1", performance={"binary": {"verdict": "confirmed"}}).record()
        old.database.run(
            "INSERT INTO finding VALUES (1, 0, 'te', 'f:1', 'TMA001', 'r', 3, 3, 'a.cu', 3, 'f', 'one', 'local', :record)",
            {"record": json.dumps(record)},
        )
        old.database.run("INSERT INTO history VALUES ('te', 'f:1', 1, 'new')")
    monkeypatch.undo()
    with open_store(place) as store:
        (row,) = store.findings(FindingFilter(witness="confirmed")).rows
        assert row.record == brief_of(record)
        assert [(price.run, price.gpu, price.record["fingerprint"]) for price in store.run_prices()] == [
            (1, "RTX 5090", "f:1")
        ]
        number = store.add(storekit.source_run("f:1", excerpts=(Excerpt("a.cu", 1, "x"),)))
        assert store.excerpts(number) == (Excerpt("a.cu", 1, "x"),)


def test_a_brief_says_how_many_kernels_it_leaves_out():
    record = storekit.finding("f:1", cluster={"verdict": "one", "evidence": [1]}).record()
    brief = brief_of(record)
    assert brief["kernel_count"] == 1
    assert brief["cluster"] == {"verdict": "one"}
    assert not {"kernels", "evidence"} & brief.keys()
    assert brief_of({**record, "performance": {"kernels": 7970}})["kernel_count"] == 7970


def test_the_price_of_a_run_is_the_maximum_of_what_runs_and_is_not_refuted(tmp_path):
    records = [
        storekit.finding("f:1", mib=100.0).record(),
        storekit.finding("f:2", mib=300.0).record(),
        storekit.finding("f:3", mib=900.0, performance={"never runs": "written for sm_90"}).record(),
        storekit.finding("f:4", mib=800.0, performance={"binary": {"verdict": "refuted"}}).record(),
        storekit.finding("f:5", mib=None).record(),
    ]
    with open_store(str(tmp_path / "s.db")) as store:
        store.add(storekit.source_run(findings=records))
        (price,) = store.run_prices()
        assert (price.record["fingerprint"], price.record["cost"][0]["mib"]) == ("f:2", 300.0)
        assert store.run_prices([2]) == ()

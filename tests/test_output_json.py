"""JSON of findings and sites against the contract's field lists, and output files in one piece."""

from __future__ import annotations

import json
import os
import stat

import pytest

from ptxguard import __version__
from ptxguard.arch import DEFAULT_TARGETS, Target
from ptxguard.engine import find_rule
from ptxguard.errors import ParseError, ToolError
from ptxguard.finding import KernelPlace, with_fingerprints
from ptxguard.memcost import find_gpu
from ptxguard.output.json import render
from ptxguard.output.report import Report, deliver
from ptxguard.output.sites import render_json
from ptxguard.rule import CheckOptions
from sitekit import make_site

# The contract's records, field by field.
FINDING = """
    code rule severity confidence path line column end_line end_column message fingerprint opcode function
    kernels targets on_target cluster address syscall cost performance evidence fix
"""
COST = "gpu sm bytes_per_thread mib expected_mib low_mib high_mib basis source"
EDIT = "path line column end_line end_column text"
SITE = """
    path line column kind opcode destination_space source_space multicast function targets
    on_target cluster address
"""


def document():
    kernels = tuple(KernelPlace(f"kernel_{index}", "k.cu", index) for index in range(1, 200))
    options = CheckOptions(tuple(map(Target.parse, DEFAULT_TARGETS)), gpus=(find_gpu("RTX 5090"),))
    found = with_fingerprints(list(find_rule("TMA001").check([make_site(kernels=kernels)], options)))
    errors = (ParseError("the string does not end", path="bad.cu", line=3, column=9),)
    return json.loads("".join(render(Report(findings=tuple(found), errors=errors))))


def test_every_field_of_the_contract_and_no_other():
    record = document()
    assert list(record) == ["version", "tool", "findings", "errors"]
    assert (record["version"], record["tool"]) == (1, {"name": "ptxguard", "version": __version__})
    (finding,) = record["findings"]
    assert list(finding) == FINDING.split()
    assert list(finding["cost"][0]) == COST.split()
    assert list(finding["kernels"][0]) == ["name", "path", "line"]
    assert list(finding["evidence"][0]) == ["kind", "path", "line", "text"]
    assert sorted(finding["fix"]) == ["edits", "safety"]
    assert list(finding["fix"]["edits"][0]) == EDIT.split()
    assert {"verdict", "reason", "evidence"} <= set(finding["cluster"])
    assert set(finding["address"]) == {"destination", "mbarrier", "verdict", "reason"}
    assert record["errors"] == [{"path": "bad.cu", "line": 3, "message": "the string does not end"}]


def test_values_are_words_of_the_contract_and_nothing_is_shortened():
    (finding,) = document()["findings"]
    assert (finding["severity"], finding["confidence"], finding["fix"]["safety"]) == ("error", "high", "safe")
    assert len(finding["kernels"]) == 199
    assert finding["fingerprint"].endswith(":1")


def test_sites_record():
    record = json.loads("".join(render_json(Report(sites=(make_site(),)))))
    assert record["version"] == 1
    (site,) = record["sites"]
    assert list(site) == SITE.split()


def test_output_file_is_replaced_in_one_piece(tmp_path):
    target = tmp_path / "out.json"
    target.write_text("old")

    def breaks():
        yield "half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deliver(breaks(), str(target))
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
    deliver(["new", "\n"], str(target))
    assert target.read_text() == "new\n"


def test_output_file_has_the_usual_rights(tmp_path):
    mask = os.umask(0o027)
    try:
        deliver(["x"], str(tmp_path / "out"))
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


def test_an_unwritable_output_file_is_a_sentence_with_its_path(tmp_path):
    with pytest.raises(ToolError, match=r"missing/out: cannot write the output \(No such file"):
        deliver(["x"], str(tmp_path / "missing" / "out"))

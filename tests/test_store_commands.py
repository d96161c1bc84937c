"""`--store` on check, scan and probe results, and `ptxguard store`, as a user calls them."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from ptxguard.cli import cli
from ptxguard.errors import ConfigError, ToolError
from ptxguard.memcost import MEASURED
from ptxguard.probe.result import read_result
from ptxguard.store.collect import probe_run
from ptxguard.store.measured import raise_to_measured
from ptxguard.store.rows import FindingFilter, StoredArtifact
from ptxguard.store.store import open_store
from ptxguard.store.transfer import export_lines
from storekit import finding, kernel, source_run

H200 = Path(__file__).parent.parent / "samples" / "probe" / "h200_driver_580.159.04.json"
COPY = """__global__ void k() {
  __shared__ int tile[64];
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 64, [%2];" ::
      "r"((unsigned)__cvta_generic_to_shared(tile)), "l"(0ull), "r"(0));
}
"""


def run(*arguments):
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def synthetic_probe(name):
    """The H200 run as if a card of sm_120 had made it; for tests of the arithmetic, no measurement."""
    record = copy.deepcopy(read_result(H200))
    record["card"].update(name=name, sm="sm_120")
    for variant in record["variants"]:
        if variant["kind"] == "copy":
            variant["verdict"].update(measured_mib=3500.0, limit_after=15000)
    return record


def test_check_keeps_a_run_and_its_history(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.cu").write_text(COPY)
    first = run("check", "--no-cache", "--store", "runs.db", "--subject", "te", "a.cu")
    assert "run 1 of te kept in runs.db, 1 new" in first.output
    Path("a.cu").write_text("int unrelated;\n")
    assert (
        "run 2 of te kept in runs.db, 1 resolved"
        in run("check", "--no-cache", "--store", "runs.db", "--subject", "te", "a.cu").output
    )
    with open_store("runs.db") as store:
        assert [found.record["line"] for found in store.findings(FindingFilter(run=1)).rows] == [3]


def test_a_baseline_hides_nothing_from_the_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.cu").write_text(COPY)
    run("baseline", "--no-cache", "--output-file", "known", "a.cu")
    told = run("check", "--no-cache", "--baseline", "known", "--store", "runs.db", "--subject", "te", "a.cu")
    assert "1 known to the baseline" in told.output
    assert "1 new" in told.output


def test_a_measured_price_is_for_that_card_alone():
    both = finding("f:1", cost=(*finding("f:1").cost, replace(finding("f:1").cost[0], gpu="RTX 5080")))
    with open_store(":memory:") as store:
        store.add(probe_run(synthetic_probe("NVIDIA GeForce RTX 5090")))
        (raised,) = raise_to_measured([both], store.probes())
    assert [cost.basis for cost in raised.cost] == [MEASURED, "public measurement"]
    # 170 SM x 1536 threads x (15000 - 1024) B
    assert raised.cost[0].mib == round(170 * 1536 * (15000 - 1024) / 2**20, 1)
    for word in ("RTX 5090", "580.159.04", "2026-12-01"):
        assert word in raised.cost[0].source


def test_a_run_on_an_h200_measures_no_other_card():
    with open_store(":memory:") as store:
        store.add(probe_run(read_result(H200)))
        assert raise_to_measured([finding("f:1")], store.probes()) == [finding("f:1")]


def test_scan_keeps_kernels(tmp_path):
    binaries = Path(__file__).parent / "data" / "binary"
    place = tmp_path / "runs.db"
    told = run("scan", "--kernels", "all", "--store", place, "--subject", "samples", binaries)
    record = json.loads(run("scan", "--kernels", "all", "--output-format", "json", binaries).stdout)
    with open_store(str(place)) as store:
        kept = store.run(1)
        assert kept.kernel_count == sum(len(one["kernels"]) for one in record["artifacts"]) > 0, told.output
        assert [(one.path, one.sha256) for one in kept.artifacts] == [
            (one["path"], one["sha256"]) for one in record["artifacts"]
        ]
        assert kept.finding_count == len(record["findings"])


def test_store_add_gc_merge_export(tmp_path):
    one, two, lines = tmp_path / "one.db", tmp_path / "two.db", tmp_path / "lines"
    assert "run 1 of NVIDIA H200" in run("store", "add", one, H200).output
    assert "1 runs added, 0 left out" in run("store", "merge", two, one).output
    assert "0 runs thinned" in run("store", "gc", two).output
    run("store", "export", two, "--output-file", lines)
    assert json.loads(lines.read_text().splitlines()[1])["run"]["probe"] == json.loads(H200.read_text())
    with pytest.raises(ConfigError, match="no such store"):
        run("store", "gc", tmp_path / "none.db")


def test_a_subject_without_a_store(tmp_path):
    with pytest.raises(ConfigError, match="--subject belongs to --store"):
        run("check", "--subject", "te", tmp_path)


def test_places_that_are_no_store(tmp_path):
    (tmp_path / "notes.txt").write_text("no database, but long enough to be looked at as one\n" * 30)
    with pytest.raises(ToolError, match="file is not a database"):
        open_store(str(tmp_path / "notes.txt"))
    with pytest.raises(ConfigError, match="folder of the store is not there"):
        open_store(str(tmp_path / "none" / "runs.db"))
    with pytest.raises(ConfigError, match="mysql:// is not known"):
        open_store("mysql://user:secret@host/db")


def test_the_export_is_lines_of_json():
    store = open_store(":memory:")
    store.add(source_run("f:1", kernels=[kernel("_Z4gemmPf")], artifacts=[StoredArtifact("l", None, "0")]))
    head, run = map(json.loads, export_lines(store))
    assert head == {"version": 1, "format": "ptxguard store"}
    assert run["run"]["findings"] == [finding("f:1").record()]
    assert run["run"]["kernels"][0]["name"] == "_Z4gemmPf"
    store.close()

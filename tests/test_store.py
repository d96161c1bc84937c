"""The store: whole runs or none, history, reviews that survive, merging, and prices that a probe has measured."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import sys
import time
from pathlib import Path

import pytest

from binkit import DATA
from ptxguard import cli
from ptxguard.errors import ConfigError
from ptxguard.measured import raise_to_measured
from ptxguard.store.facts import NewRun
from ptxguard.store.sqlite import VERSION, open_store

PROBE = json.loads(
    (Path(__file__).parent.parent / "samples" / "probe" / "h200_driver_580.159.04.json").read_text()
)
SYSCALL_2D = "__cuda_syscall_cp_async_bulk_tensor_2d_tile_unicast"


def finding(fingerprint, line=1, code="TMA001"):
    return {"fingerprint": fingerprint, "code": code, "severity": "error", "path": "a.cu", "line": line}


def source(*fingerprints, subject="src"):
    return NewRun("source", subject, findings=tuple(finding(name) for name in fingerprints))


@pytest.fixture
def place(tmp_path):
    return str(tmp_path / "runs.db")


def test_a_run_comes_back_as_it_was_put_in(place):
    kernels = (("lib.so", "sm_120f", "_Z1kv", 24, None, (SYSCALL_2D,)),)
    run = NewRun(
        "binary", "lib.so", "abc", {"targets": ["sm_120"]}, ({"sha256": "0"},), (finding("f:1"),), kernels
    )
    with open_store(place) as store:
        number = store.add(run)
    with open_store(place) as store:
        (kept,) = store.runs()
        assert (kept.id, kept.kind, kept.subject, kept.revision, kept.findings) == (
            number,
            "binary",
            "lib.so",
            "abc",
            1,
        )
        assert store.findings(number) == (finding("f:1"),)
        assert store.kernel_count(number) == 1


def test_history_tells_new_unchanged_resolved_and_reopened(place):
    with open_store(place) as store:
        for names in (("a", "b"), ("b", "c"), ("a", "c")):
            number = store.add(source(*names))
        store.add(source("x", subject="elsewhere"))
        history = store.history(number)
    assert (history.new, history.reopened) == ((), ("a",))
    assert (history.unchanged, history.resolved) == (("c",), ("b",))


def test_a_review_survives_later_runs_and_is_replaced_by_a_later_one(place):
    with open_store(place) as store:
        store.add(source("a"))
        store.review("a", "intended", "multicast")
        store.add(source("a"))
        store.review("a", "false alarm")
        assert store.reviews()["a"].status == "false alarm"
        with pytest.raises(ConfigError, match="is no status"):
            store.review("a", "fine")
        with pytest.raises(ConfigError, match="no run has a finding"):
            store.review("z", "confirmed")


def test_old_runs_go_and_reviews_and_probes_stay(place):
    with open_store(place) as store:
        for _ in range(5):
            store.add(source("a"))
        store.add(source("b", subject="other"))
        store.add(NewRun("probe", "NVIDIA H200", probe=PROBE))
        store.review("a", "confirmed")
        assert store.drop_old(2) == 3
        assert sorted(run.subject for run in store.runs()) == ["NVIDIA H200", "other", "src", "src"]
        assert list(store.reviews()) == ["a"]
        assert store.probe_results() == (PROBE,)
        assert store.drop_old(2) == 0


def test_merging_takes_each_run_once_and_the_later_review(place, tmp_path):
    other = str(tmp_path / "other.db")
    with open_store(place) as store, open_store(other) as second:
        store.add(source("a"))
        second.add(source("a", "b"))
        second.add(NewRun("probe", "NVIDIA H200", probe=PROBE))
        store.review("a", "intended", "first")
        second.review("a", "confirmed", "later")
        assert [store.merge(second), store.merge(second)] == [2, 0]
        assert [run.findings for run in store.runs()] == [0, 2, 1]
        assert store.reviews()["a"].note == "later"
        assert len(store.probe_results()) == 1


def test_a_run_that_cannot_be_whole_leaves_nothing(place):
    with open_store(place) as store:
        with pytest.raises(sqlite3.IntegrityError):
            store.add(source("a", "a"))
        assert store.runs() == ()


@pytest.mark.parametrize(
    "content", [b"words, and more of them than a header has", b"SQLite format 3\0" + b"\xff" * 200]
)
def test_what_is_no_store_is_refused(tmp_path, content):
    path = tmp_path / "bad.db"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="store"), open_store(str(path)):
        pass
    assert path.read_bytes() == content


def test_a_database_of_something_else_is_left_alone(tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE t (x)")
    with pytest.raises(ConfigError, match="something else"), open_store(str(path)):
        pass


def test_a_store_of_a_later_version_and_a_url_are_refused(place):
    with open_store(place) as store:
        store.connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(ConfigError, match="upgrade"), open_store(place):
        pass
    with pytest.raises(ConfigError, match="only SQLite"), open_store("postgresql://x"):
        pass


def _write(place, count):
    for _ in range(count):
        with open_store(place) as store:
            store.add(source(*(f"f{number}" for number in range(50))))


def test_writers_and_readers_side_by_side_lose_nothing(place):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(place, 10)) for _ in range(2)]
    for writer in writers:
        writer.start()
    seen = []
    while any(writer.is_alive() for writer in writers):
        with open_store(place) as store:
            seen.append([run.findings for run in store.runs()])
        time.sleep(0.01)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert all(count == 50 for counts in seen for count in counts)
    with open_store(place) as store:
        assert len(store.runs()) == 20


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is a matter of POSIX")
def test_a_killed_writer_leaves_whole_runs(place):
    writer = multiprocessing.get_context("spawn").Process(target=_write, args=(place, 10_000))
    writer.start()
    while not Path(place).exists() or not _count(place):
        time.sleep(0.05)
    os.kill(writer.pid, signal.SIGKILL)
    writer.join()
    with open_store(place) as store:
        assert {run.findings for run in store.runs()} == {50}


def _count(place):
    try:
        with open_store(place) as store:
            return len(store.runs())
    except ConfigError:
        return 0


# The command line -----------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(DATA / "copies.cu", "copies.cu")

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["ptxguard", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return call


def test_check_and_scan_keep_their_runs(run, place):
    assert run("check", "copies.cu", "--store", place)[0] == 1
    assert run("scan", str(DATA / "copies.zstd.fatbin"), "--store", place)[0] == 1
    status, out, _ = run("store", "runs", "--store", place)
    assert status == 0
    assert "source copies.cu: 1 findings, 1 new, 0 resolved" in out
    assert "binary" in out
    record = json.loads(run("store", "export", "--store", place, "1")[1])
    fingerprint = record["findings"][0]["fingerprint"]
    assert run("store", "review", "--store", place, fingerprint, "intended", "--note", "why")[0] == 0
    record = json.loads(run("store", "export", "--store", place, "1")[1])
    assert record["findings"][0]["review"]["note"] == "why"
    assert "0 runs removed" in run("store", "gc", "--store", place)[1]


def test_a_run_with_errors_is_not_kept(run, place, tmp_path):
    (tmp_path / "copies.cu").write_text('asm("never ends\n')
    assert run("check", "copies.cu", "--store", place)[0] == 2
    assert run("store", "runs", "--store", place)[1] == ""


# Measured prices ------------------------------------------------------------------------------------


@pytest.fixture
def measured_5090():
    """The recorded run as if an RTX 5090 had made it: its card and one form that takes memory are written in."""
    result = json.loads(json.dumps(PROBE))
    result["card"].update(name="NVIDIA GeForce RTX 5090", sm="sm_120")
    for record in result["variants"]:
        if record["name"] == "tensor_1d_tile.cluster.direct":
            record["verdict"].update(measured_mib=3400.0, limit_after=14608, load_mib=0.0)
    return result


def findings_of(run, *arguments):
    return json.loads(run("check", "copies.cu", "--output-format", "json", *arguments)[1])["findings"]


def test_a_probe_in_the_store_raises_its_own_card_only(run, place, measured_5090):
    with open_store(place) as store:
        store.add(NewRun("probe", "RTX 5090", probe=measured_5090))
    before = {cost["gpu"]: cost for cost in findings_of(run)[0]["cost"]}
    after = {cost["gpu"]: cost for cost in findings_of(run, "--store", place)[0]["cost"]}
    assert before["RTX 5090"]["basis"] == "public measurement"
    assert after["RTX 5090"]["basis"] == "measured"
    assert PROBE["card"]["driver"] in after["RTX 5090"]["source"]
    assert PROBE["date"][:10] in after["RTX 5090"]["source"]
    assert {name: cost for name, cost in after.items() if name != "RTX 5090"} == {
        name: cost for name, cost in before.items() if name != "RTX 5090"
    }


def test_a_probe_of_another_card_changes_nothing(run, place):
    with open_store(place) as store:
        store.add(NewRun("probe", "NVIDIA H200", probe=PROBE))
    assert findings_of(run, "--store", place)[0]["cost"] == findings_of(run)[0]["cost"]


def test_without_a_probe_findings_stay_as_they_are():
    assert raise_to_measured([], []) == []

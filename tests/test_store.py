"""The store of runs: one suite, on SQLite and on PostgreSQL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ptxguard.errors import ConfigError, ToolError
from ptxguard.finding import Severity
from ptxguard.store.brief import brief_of
from ptxguard.store.rows import FindingFilter, KernelFilter, StoredArtifact
from ptxguard.store.store import open_store
from ptxguard.store.transfer import export_lines, merge, thin_out
from ptxguard.store.write import NewRun, plain
from storekit import TILE_2D, finding, fresh_database, kernel, source_run

ROOT = Path(__file__).parent.parent
T1, T2, T3, T4 = (f"2026-12-0{day}T05:00:00Z" for day in (1, 2, 3, 4))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def place(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    return fresh_database(request.getfixturevalue("postgres"))


@pytest.fixture
def store(place):
    with open_store(place) as opened:
        yield opened


def test_a_run_comes_back_as_it_was_added(store):
    number = store.add(
        source_run(
            "f:1",
            "f:2",
            revision="abc+",
            toolchain="13.0",
            errors=[{"path": "b.cu", "line": 2, "message": "m"}],
        )
    )
    run = store.run(number)
    assert (run.kind, run.subject, run.created) == ("source", "te", "2026-12-01T05:00:00Z")
    assert (run.revision, run.toolchain, run.tool, run.thinned) == ("abc+", "13.0", "0.1.0", False)
    assert run.errors == ({"path": "b.cu", "line": 2, "message": "m"},)
    assert (run.finding_count, run.kernel_count) == (2, 0)
    page = store.findings(FindingFilter(run=number))
    whole = [finding("f:1").record(), finding("f:2").record()]
    assert [store.finding(name, run=number).record for name in ("f:1", "f:2")] == whole
    assert [row.record for row in page.rows] == [brief_of(record) for record in whole]


def test_history_of_one_finding(store):
    store.add(source_run("f:1", "f:2", created=T1))
    store.add(source_run("f:2", created=T2))
    store.add(source_run("f:2", created=T3))
    store.add(source_run("f:1", "f:3", created=T4))
    states = {name: [entry.state for entry in store.history("te", name)] for name in ("f:1", "f:2", "f:3")}
    assert states == {
        "f:1": ["new", "resolved", "reopened"],
        "f:2": ["new", "unchanged", "unchanged", "resolved"],
        "f:3": ["new"],
    }
    assert store.states(4) == {"new": 1, "reopened": 1, "resolved": 1}


def test_subjects_have_histories_of_their_own(store):
    store.add(source_run("f:1", subject="one"))
    number = store.add(source_run("f:1", subject="two"))
    assert store.states(number) == {"new": 1}


def test_what_could_not_be_read_is_not_resolved(store):
    store.add(source_run("f:1", created=T1))
    broken = store.add(source_run(created=T2, errors=[{"path": "a.cu", "line": 1, "message": "no"}]))
    assert store.states(broken) == {}
    assert store.states(store.add(source_run("f:1", created=T3))) == {"unchanged": 1}


def test_a_run_that_arrives_late_takes_its_place_in_time(store):
    store.add(source_run("f:1", created=T1))
    store.add(source_run("f:1", created=T3))
    store.add(source_run(created=T2))
    assert [(entry.created, entry.state) for entry in store.history("te", "f:1")] == [
        (T1, "new"),
        (T2, "resolved"),
        (T3, "reopened"),
    ]


def test_a_review_survives_later_runs(store):
    store.add(source_run("f:1", created=T1))
    store.review("te", "f:1", "intended", "measured, accepted")
    store.add(source_run("f:1", created=T2))
    review = store.finding("f:1").review
    assert (review.status, review.note) == ("intended", "measured, accepted")
    assert store.findings(FindingFilter(status="not reviewed")).total == 0
    store.review("te", "f:1", "not reviewed")
    assert store.finding("f:1").review is None


@pytest.mark.parametrize(
    ("subject", "name", "status", "note", "says"),
    [
        ("te", "f:1", "good", "", "'good' is no status"),
        ("te", "f:9", "confirmed", "", "no finding f:9"),
        ("te", "f:1", "confirmed", "x" * 4001, "4001 characters"),
    ],
)
def test_a_review_that_makes_no_sense(store, subject, name, status, note, says):
    store.add(source_run("f:1"))
    with pytest.raises(ConfigError, match=says):
        store.review(subject, name, status, note)


def test_filters_and_facets_agree(store):
    rows = [
        finding("f:1", "a.cu"),
        finding("f:2", "b.cu", severity=Severity.NOTE, code="TMA003", gpu="GB10", mib=955.1),
        finding("f:3", "b.cu", cluster={"verdict": "larger"}),
    ]
    number = store.add(NewRun("source", "te", [row.record() for row in rows]))
    store.review("te", "f:3", "confirmed")
    facets = store.facets(FindingFilter())
    assert {(facet.name, facet.value, facet.count) for facet in facets} == {
        ("subject", "te", 3),
        ("code", "TMA001", 2),
        ("code", "TMA003", 1),
        ("severity", "error", 2),
        ("severity", "note", 1),
        ("confidence", "high", 3),
        ("verdict", "one", 2),
        ("verdict", "larger", 1),
        ("destination", "local", 3),
        ("path", "b.cu", 2),
        ("path", "a.cu", 1),
        ("status", "not reviewed", 2),
        ("status", "confirmed", 1),
        ("state", "new", 3),
        ("target", "sm_120", 3),
        ("gpu", "RTX 5090", 2),
        ("gpu", "GB10", 1),
        ("basis", "public measurement", 3),
    }
    for facet in facets:
        assert store.findings(FindingFilter(**{facet.name: facet.value})).total == facet.count, facet
    assert store.findings(FindingFilter(min_mib=1000.0)).total == 2
    assert store.findings(FindingFilter(min_mib=1000.0, gpu="GB10")).total == 0
    assert store.findings(FindingFilter(run=number + 1)).total == 0


def test_without_a_run_the_newest_of_each_subject_count(store):
    store.add(source_run("f:1", "f:2", created=T1))
    store.add(source_run("f:2", created=T2))
    store.add(source_run("f:1", subject="other", created=T1))
    found = store.findings(FindingFilter())
    assert [(row.subject, row.fingerprint) for row in found.rows] == [("te", "f:2"), ("other", "f:1")]


def test_pages(store):
    store.add(source_run(*(f"f:{number}" for number in range(7))))
    second = store.findings(FindingFilter(), page=2, size=3)
    assert [row.fingerprint for row in second.rows] == ["f:3", "f:4", "f:5"]
    assert (second.total, second.count) == (7, 3)
    for page, size in ((0, 3), (1, 0), (1, 1001), (1 << 70, 3)):
        with pytest.raises(ConfigError, match="pages count from 1"):
            store.findings(FindingFilter(), page, size)


def test_compare_any_two_runs(store):
    old = store.add(source_run("f:1", "f:2", created=T1))
    new = store.add(source_run("f:2", "f:3", created=T2))
    lists = [store.compared(old, new, state) for state in ("new", "resolved", "unchanged")]
    assert [[row.fingerprint for row in part.rows] for part in lists] == [["f:3"], ["f:1"], ["f:2"]]
    assert [(part.total, part.rows[0].run) for part in lists] == [(1, new), (1, old), (1, new)]
    with pytest.raises(ConfigError, match="there is no run 9"):
        store.compared(old, 9, "new")
    with pytest.raises(ConfigError, match="no list of a comparison"):
        store.compared(old, new, "reopened")


@pytest.mark.parametrize(
    "hostile", ["' OR 1=1 --", '"; DROP TABLE run; --', "%", "a\0b", "\ud800", "x" * 10_000]
)
def test_hostile_words_are_only_words(store, hostile):
    store.add(NewRun("source", hostile, [finding("f:1", hostile, function=hostile).record()]))
    store.add(source_run("f:2"))
    assert store.finding("f:1").record["path"] == plain(hostile)  # what JSON and every database can say
    assert store.search(hostile) == () or hostile[0] in "'\"ax\ud800"
    assert store.findings(FindingFilter(path="' OR 1=1 --", code=None)).total == (hostile == "' OR 1=1 --")
    with pytest.raises(ConfigError):
        store.findings(FindingFilter(severity=hostile))
    assert store.kernels(KernelFilter(name="%")).total == 0


def test_kernels_of_a_binary(store):
    calls = ({"name": TILE_2D, "sites": [{"offset": 16, "source": []}]},)
    kernels = [
        kernel("_Z4gemmPf", demangled="gemm(float*)", registers=255, syscalls=calls),
        kernel("_Z4copyPf", "sm_90", demangled="copy(float*)", stack_bytes=None, stack_unknown="recursion"),
        kernel("_Z4pairPf", cluster_dims=(2, 1, 1), externs=("vprintf",), registers=None),
    ]
    files = [StoredArtifact("lib.whl", "pkg/lib.so", "ab" * 32)]
    number = store.add(NewRun("binary", "lib", artifacts=files, kernels=iter(kernels)))
    assert store.run(number).kernel_count == 3
    assert store.run(number).artifacts == tuple(files)
    by_registers = store.kernels(KernelFilter(order="registers")).rows
    assert [row.registers for row in by_registers] == [255, 32, None]
    assert by_registers[0].syscalls == calls
    assert by_registers[0].artifact == "lib.whl!pkg/lib.so"
    assert (by_registers[1].stack_bytes, by_registers[1].stack_unknown) == (None, "recursion")
    assert (by_registers[2].cluster_dims, by_registers[2].externs) == ((2, 1, 1), ("vprintf",))
    assert [row.name for row in store.kernels(KernelFilter(with_syscall=True)).rows] == ["_Z4gemmPf"]
    assert [row.name for row in store.kernels(KernelFilter(target="sm_90")).rows] == ["_Z4copyPf"]
    assert [row.name for row in store.kernels(KernelFilter(name="pair")).rows] == ["_Z4pairPf"]
    with pytest.raises(ConfigError, match="'size' is no order"):
        store.kernels(KernelFilter(order="size"))
    assert [(hit.kind, hit.name) for hit in store.search("gemm float")] == [("kernel", "_Z4gemmPf")]


def test_search_over_files_functions_and_kernels(store):
    store.add(NewRun("source", "te", [finding("f:1", "src/cast_tile.cu", function="load_tile").record()]))
    assert [(hit.kind, hit.name) for hit in store.search("tile")] == [
        ("file", "src/cast_tile.cu"),
        ("function", "load_tile"),
    ]
    assert [hit.kind for hit in store.search("GEMM")] == ["kernel"]
    assert store.search("cast nothing") == ()
    assert store.search(" .. ") == ()


def test_a_run_is_kept_whole_or_not_at_all(store):
    def broken():
        yield kernel("_Z4gemmPf")
        raise RuntimeError("the file went away")

    with pytest.raises(RuntimeError):
        store.add(source_run("f:1", kernels=broken()))
    assert store.runs() == ()
    assert store.findings(FindingFilter()).total == 0
    assert store.search("gemm") == ()
    assert store.add(source_run("f:1")) == 1


def test_runs_that_make_no_sense(store):
    with pytest.raises(ConfigError, match="'test' is no kind"):
        store.add(NewRun("test", "te"))
    with pytest.raises(ConfigError, match="fingerprint of its own"):
        store.add(source_run("f:1", "f:1"))
    run = source_run("f:1")
    store.add(run)
    with pytest.raises(ConfigError, match="already"):
        store.add(run)


def test_thinned_runs_keep_their_history(store):
    store.add(source_run("f:1", created=T1))
    store.add(source_run(created=T2))
    store.add(source_run(created=T3))
    assert thin_out(store.database, 1) == (1, 2)
    assert thin_out(store.database, 1) == ()
    assert store.run(1).thinned
    assert store.run(1).finding_count == 1
    assert store.findings(FindingFilter(run=1)).total == 0
    assert store.search("load") == ()
    with pytest.raises(ConfigError, match="thinned"):
        store.compared(1, 3, "new")
    assert store.states(store.add(source_run("f:1", created=T4))) == {"reopened": 1}


def test_merging_two_stores_gives_the_same_as_one(store, tmp_path):
    runs = [
        source_run("f:1", "f:2", created=T1),
        source_run("f:2", created=T2),
        source_run("f:1", created=T3),
    ]
    with open_store(str(tmp_path / "other.db")) as other, open_store(str(tmp_path / "one.db")) as one:
        for run in runs:
            one.add(run)
        store.add(runs[0])
        store.add(runs[2])
        other.add(runs[0])
        other.add(runs[1])
        for opened in (other, one):
            opened.database.run("INSERT INTO review VALUES ('te', 'f:2', 'confirmed', 'seen', '2026-12-02')")
        assert merge(store, other) == (1, 1)
        assert merge(store, other) == (0, 2)
        assert list(export_lines(store)) == list(export_lines(one))
        for name in ("f:1", "f:2"):
            found = [[entry.state for entry in opened.history("te", name)] for opened in (store, one)]
            assert found[0] == found[1]


def test_two_writers_and_readers_lose_nothing(place):
    open_store(place).close()
    failed = []

    def write(subject):
        with open_store(place) as own:
            for number in range(5):
                own.add(source_run(*(f"f:{place}" for place in range(20)), subject=f"{subject}{number}"))

    def read():
        with open_store(place) as own:
            for _ in range(10):
                for run in own.runs():
                    if own.findings(FindingFilter(run=run.number), size=5).total != 20:
                        failed.append(run)

    threads = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    threads += [threading.Thread(target=read) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    with open_store(place) as own:
        assert sorted(run.number for run in own.runs()) == list(range(1, 11))
    assert not failed


_WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from storekit import source_run
from ptxguard.store.store import open_store
with open_store(sys.argv[1]) as store:
    while True:
        print(store.add(source_run(*(f"f:{n}" for n in range(200)))), flush=True)
"""


def test_a_killed_writer_loses_nothing_that_was_acknowledged(place):
    command = [sys.executable, "-c", _WRITER, place, str(ROOT / "tests")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        first = [int(writer.stdout.readline()) for _ in range(3)]
        time.sleep(0.05)
        os.kill(writer.pid, signal.SIGKILL)
        acknowledged = first + [int(line) for line in writer.stdout if line.endswith("\n")]
    with open_store(place) as store:
        kept = {run.number for run in store.runs()}
        assert kept >= set(acknowledged)
        assert all(store.findings(FindingFilter(run=number)).total == 200 for number in kept)
        assert store.add(source_run("f:1")) == max(kept) + 1


def test_a_store_of_a_newer_version_is_left_alone(place):
    with open_store(place) as store:
        store.database.run("INSERT INTO store_version (version) VALUES (99)")
    with pytest.raises(ConfigError, match="version 99, written by a newer ptxguard"):
        open_store(place)


@pytest.mark.postgres
def test_a_password_is_never_shown(postgres):
    with pytest.raises(ToolError) as caught:
        open_store("postgresql://nobody:hunter2@127.0.0.1:1/none")
    assert "hunter2" not in str(caught.value)

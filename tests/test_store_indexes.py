"""Indexes in memory answer like a walk over all rows, are read once, and are dropped when too many are held."""

from __future__ import annotations

import threading

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import storekit
from ptxguard.finding import Severity
from ptxguard.store.bits import everything, mask_of, masks_of, positions_of
from ptxguard.store.indexes import IndexCache
from ptxguard.store.rows import FindingFilter, KernelFilter
from ptxguard.store.store import open_store


@given(st.sets(st.integers(0, 400)))
def test_a_set_comes_back_as_it_went_in(positions):
    mask = mask_of(positions, 401)
    assert positions_of(mask) == sorted(positions)
    assert mask.bit_count() == len(positions)
    assert mask & ~everything(401) == 0


def test_the_empty_set_and_values():
    assert positions_of(0) == []
    assert masks_of(["a", "b", "a"]) == {"a": 0b101, "b": 0b010}


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a.cu", "b.cu", "c/d.cu"]),
        st.integers(1, 40),
        st.sampled_from(list(Severity)),
        st.sampled_from(["one", "larger"]),
        st.sampled_from([None, 10.0, 500.0, 3000.0]),
    ),
    max_size=12,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=ROWS,
    severity=st.sampled_from([None, "error", "note"]),
    verdict=st.sampled_from([None, "one", "undecided"]),
    path=st.sampled_from([None, "a.cu"]),
    min_mib=st.sampled_from([None, 100.0]),
    reviewed=st.sampled_from([None, "intended", "not reviewed"]),
)
def test_filters_answer_like_a_walk_over_all_findings(
    tmp_path_factory, rows, severity, verdict, path, min_mib, reviewed
):
    findings = [
        storekit.finding(
            f"f:{number}", path=of, line=line, severity=level, mib=mib, cluster={"verdict": size}
        ).record()
        for number, (of, line, level, size, mib) in enumerate(rows)
    ]
    with open_store(str(tmp_path_factory.mktemp("walk") / "s.db")) as store:
        store.add(storekit.source_run(findings=findings))
        if findings:
            store.review("te", "f:0", "intended")
        wanted = FindingFilter(
            severity=severity, verdict=verdict, path=path, min_mib=min_mib, status=reviewed
        )
        kept = [
            one
            for one in findings
            if severity in (None, one["severity"])
            and verdict in (None, one["cluster"]["verdict"])
            and path in (None, one["path"])
            and (min_mib is None or (one["cost"][0]["mib"] or 0) >= min_mib)
            and reviewed in (None, "intended" if one["fingerprint"] == "f:0" else "not reviewed")
        ]
        order = {one["fingerprint"]: number for number, one in enumerate(findings)}
        kept.sort(key=lambda one: (one["path"], one["line"], order[one["fingerprint"]]))
        page = store.findings(wanted, 1, 100)
        assert [row.fingerprint for row in page.rows] == [one["fingerprint"] for one in kept]
        counts = {facet.value: facet.count for facet in store.facets(wanted) if facet.name == "severity"}
        assert counts == {
            word: sum(one["severity"] == word for one in kept)
            for word in ("error", "warning", "note")
            if any(one["severity"] == word for one in kept)
        }


def test_findings_of_several_runs_come_by_file_and_line(tmp_path):
    with open_store(str(tmp_path / "s.db")) as store:
        for subject, lines in (("one", (5, 1)), ("two", (3, 9))):
            records = [storekit.finding(f"{subject}:{line}", line=line).record() for line in lines]
            store.add(storekit.source_run(findings=records, subject=subject))
        found = [row.fingerprint for row in store.findings(FindingFilter()).rows]
        assert found == ["one:1", "two:3", "one:5", "two:9"]
        assert [row.fingerprint for row in store.findings(FindingFilter(), 2, 3).rows] == ["two:9"]


KERNELS = [
    ("_Z1bv", "sm_90", 40, 16, ()),
    ("_Z1av", "sm_120", 24, None, ({"name": storekit.TILE_2D, "sites": []},)),
    ("_Z1av", "sm_90", 24, 0, ()),
    ("_Z1cv", "sm_120", None, 8, ({"name": "__cuda_syscall_x", "sites": []},)),
]


def test_kernels_by_target_function_name_and_order(tmp_path):
    with open_store(str(tmp_path / "s.db")) as store:
        rows = [
            storekit.kernel(
                name, target, registers=registers, stack_bytes=stack, syscalls=calls, demangled=f"{name[3]}()"
            )
            for name, target, registers, stack, calls in KERNELS
        ]
        store.add(storekit.source_run(kernels=rows, artifacts=[storekit.artifact()]))

        def places(page=1, size=50, **asked):
            found = store.kernels(KernelFilter(**asked), page, size)
            return [row.place for row in found.rows], found.total

        assert places() == ([0, 1, 2, 3], 4)
        assert places(target="sm_90") == ([0, 2], 2)
        assert places(with_syscall=True) == ([1, 3], 2)
        assert places(with_syscall=False, order="registers") == ([0, 2], 2)
        assert places(syscall=storekit.TILE_2D) == ([1], 1)
        assert places(syscall=storekit.TILE_2D[:-1]) == ([], 0)
        assert places(name="A()") == ([1, 2], 2)
        assert places(name="_z1") == ([0, 1, 2, 3], 4)
        assert places(name="%") == ([], 0)
        assert places(order="name") == ([1, 2, 0, 3], 4)
        assert places(order="registers") == ([0, 1, 2, 3], 4)
        assert places(order="stack") == ([0, 3, 2, 1], 4)
        assert places(2, 2, order="stack") == ([2, 1], 4)
        assert places(2, 1, target="sm_120", order="registers") == ([3], 2)
        facets = {
            (one.name, one.value): one.count for one in store.kernel_facets(KernelFilter(target="sm_120"))
        }
        assert facets == {("target", "sm_120"): 2, ("with_syscall", "yes"): 2}
        assert store.kernel(1, 3).name == "_Z1cv"
        assert store.kernel(1, 4) is None
        assert store.flagged_kernels() == ((1, 1), (1, 3))


def test_an_index_is_read_once_by_many_threads_and_dropped_when_too_large():
    cache = IndexCache(10, len)
    reads = []

    def read(name, size):
        reads.append(name)
        return [name] * size

    threads = [threading.Thread(target=cache.get, args=("s", "a", lambda: read("a", 6))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reads == ["a"]
    cache.get("s", "b", lambda: read("b", 6))  # both do not fit
    cache.get("s", "a", lambda: read("a", 6))
    assert reads == ["a", "b", "a"]
    assert cache.get("s", "huge", lambda: read("huge", 99)) == ["huge"] * 99

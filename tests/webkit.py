"""A small store with findings, kernels and a probe, and an application over it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace

from waitress.server import create_server

import storekit
from ptxguard.finding import Cost, Edit, Evidence, Fix, KernelPlace, Severity
from ptxguard.store.rows import Excerpt, StoredArtifact
from ptxguard.store.store import open_store
from ptxguard.store.write import NewRun

TOKEN = "a-token-of-the-tests"
T1, T2, T3 = (f"2026-12-0{day}T05:00:00Z" for day in (1, 2, 3))
OPCODE = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
KERNEL = "_Z4gemmPf"
SOURCE = """\
__device__ void load_tile(void *dst, const CUtensorMap *map) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1];"
      :: "r"(dst), "l"(map));
}"""


def cost(gpu="RTX 5090", sm="sm_120", mib=3382.7, basis="public measurement"):
    expected = None if mib is None else int(mib // 2) * 2
    low, high = (None, None) if mib is None else (mib - 40, mib + 340)
    return Cost(gpu, sm, 14608, mib, expected, low, high, basis, "somebody measured it")


def source_finding(fingerprint="00000000000000aa:1", **changed):
    fields = {
        "opcode": OPCODE,
        "line": 3,
        "column": 8,
        "end_line": 3,
        "end_column": 8 + len(OPCODE),
        "on_target": {"sm_90": "native", "sm_120": "syscall"},
        "cost": (cost(), cost("GB10", "sm_121", 954.9)),
        "kernels": (KernelPlace("gemm", "src/a.cu", 40),),
        "cluster": {
            "verdict": "one",
            "reason": "launched by <<<>>>",
            "evidence": [
                {"kind": "kernel", "path": "src/a.cu", "line": 40, "text": "__global__ gemm"},
                {"kind": "launch", "path": "src/a.cu", "line": 90, "text": "gemm<<<grid, block>>>(p)"},
            ],
        },
        "address": {
            "verdict": "local",
            "destination": "local",
            "mbarrier": "local",
            "reason": "smem is ours",
        },
        "performance": {"registers_at_least": 24, "abi_call_frame": True, "first_launch_waits": True},
        "evidence": (
            Evidence("asm", "src/a.cu", 3, OPCODE),
            Evidence("guard", "src/a.cu", 1, "#if __CUDA_ARCH__ >= 900"),
            Evidence("call", "src/a.cu", 44, "gemm calls load_tile"),
        ),
        "fix": Fix("safe", (Edit("src/a.cu", 3, 40, 3, 47, "cta"),)),
    }
    fields |= changed
    places = {name: fields.pop(name) for name in ("line", "column", "end_line", "end_column")}
    path = fields.pop("path", "src/a.cu")
    return replace(storekit.finding(fingerprint, path=path, **fields), **places)


def binary_finding(fingerprint="00000000000000bb:1", **changed):
    fields = {
        "code": "TMA101",
        "rule": "compiled-copy-syscall",
        "function": None,
        "kernels": (KernelPlace("gemm(float*)", None, None),),
        "targets": {"sm_120a": "compiled"},
        "on_target": {"sm_120a": "syscall"},
        "cluster": {},
        "address": {},
        "message": "1 kernel for sm_120a reaches it",
        "performance": {"kernels": 1, "registers_max": 40, "never runs": None},
        "evidence": (Evidence("binary", "lib.so", None, "call graph of 1 images"),),
    }
    return storekit.finding(fingerprint, path="lib.so", line=1, **{**fields, **changed})


def probe_record():
    """As `probe.json`, cut down to two launches."""
    verdict = {
        "load_mib": 0.0,
        "limit_before": 1024,
        "limit_after": 4096,
        "predicted_mib": 792.0,
        "measured_mib": 792.0,
        "agrees": True,
        "conclusion": "limit 1024 -> 4096 B, 792 MiB",
    }
    variants = [
        {"name": "frame.4096", "kind": "frame", "frame_bytes": 4096, "status": "done", "verdict": verdict},
        {
            "name": "refer.x",
            "kind": "refer",
            "status": "failed",
            "verdict": {"agrees": None},
            "error": "not there",
        },
    ]
    return {
        "version": 1,
        "tool": {"name": "ptxguard", "version": "0.1.0"},
        "date": T3,
        "card": {
            "name": "NVIDIA H200",
            "sm": "sm_90",
            "sm_count": 132,
            "threads_per_sm": 2048,
            "memory_bytes": 150_109_880_320,
            "integrated": False,
            "driver": "580.159.04",
            "cuda": "13.0",
            "toolkit": "13.0",
        },
        "summary": {"variants": 2, "agree": 1, "disagree": [], "not_finished": []},
        "variants": variants,
    }


def fill(store):
    """Three runs of a source tree, one of a library, one of a probe."""
    one = source_finding()
    warning = source_finding(
        "00000000000000ac:1",
        severity=Severity.WARNING,
        cluster={"verdict": "undecided", "reason": "no launch in sight"},
        address={"verdict": "unknown", "reason": "a parameter"},
        fix=None,
        cost=(),
        kernels=(),
        evidence=(),
        opcode=None,
    )
    excerpts = (Excerpt("src/a.cu", 1, SOURCE),)
    for created, findings in ((T1, [warning]), (T2, [one, warning]), (T3, [one])):
        records = [finding.record() for finding in findings]
        store.add(
            storekit.source_run(findings=records, excerpts=excerpts, created=created, revision="ab" * 20)
        )
    call = {"name": storekit.TILE_2D, "sites": [{"offset": 64, "source": []}]}
    kernels = [
        storekit.kernel(KERNEL, "sm_120a", demangled="gemm(float*)", registers=40, syscalls=(call,)),
        storekit.kernel(
            "_Z5otherv", "sm_90", stack_bytes=None, stack_unknown="recursion", cluster_dims=(2, 1, 1)
        ),
    ]
    store.add(
        NewRun(
            "binary",
            "lib",
            findings=[binary_finding().record()],
            kernels=kernels,
            artifacts=[StoredArtifact("lib.so", None, "0" * 64)],
            errors=[{"path": "x.so", "line": None, "message": "cannot check LTO-IR"}],
            created=T2,
        )
    )
    store.add(NewRun("probe", "NVIDIA H200", probe=probe_record(), created=T3))


def make_store(folder, place=None):
    """Path or URL of a filled store."""
    place = place or str(folder / "runs.db")
    with open_store(place) as store:
        fill(store)
    return place


@contextmanager
def serving(app):
    """Serve an application; gives its address."""
    server = create_server(app, host="127.0.0.1", port=0, threads=4)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.effective_port}"
    # Closed by its own loop: a socket closed by another thread is a bad descriptor to the loop's select().
    server.trigger.pull_trigger(server.close)
    thread.join(10)
    server.task_dispatcher.shutdown()

"""Processor time and memory of `check_ptx` on modules as a JIT compiler makes them: prints a table.

    python tests/bench/bench_check_ptx.py [--lines 2000] [--calls 1000]

Every call gets another text (a kernel of another name), so that no cache of whole modules can answer.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
import tracemalloc

import ptxguard

HEAD = ".version 8.7\n.target {target}\n.address_size 64\n.extern .shared .align 1024 .b8 pool[];\n"
COPY = (
    "cp.async.bulk.tensor.2d.shared::{space}.global.tile.mbarrier::complete_tx::bytes "
    "[%r{d}], [%rd2, {{%r5, %r6}}], [%r{b}];"
)


def module(lines: int, copies: int, space: str, number: int, target: str = "sm_120a") -> str:
    """One kernel with a pipeline: `copies` copies, each with the address arithmetic that leads to it."""
    body = ["mov.u32 %r1, pool;", "ld.param.u64 %rd1, [p0];", "cvta.to.global.u64 %rd2, %rd1;"]
    register = 10
    for stage in range(copies):
        body.append(f"add.s32 %r{register}, %r1, {1024 * stage};")
        body.append(f"add.s32 %r{register + 1}, %r1, {65536 + 8 * stage};")
        body.append(COPY.format(space=space, d=register, b=register + 1))
        register += 2
    # What stands between the copies in real kernels: fused multiply-adds, loads, predicated branches.
    while len(body) < lines - 12:
        label = len(body)
        body += [
            f"ld.shared.v4.f32 {{%f1, %f2, %f3, %f4}}, [%r{10 + label % max(register - 10, 1)}];",
            "fma.rn.f32 %f5, %f1, %f2, %f3;",
            f"setp.lt.s32 %p1, %r5, {label};",
            f"@%p1 bra $L_{label};",
            f"$L_{label}:",
        ]
    inner = "\n\t".join(
        [".reg .pred %p<4>;", ".reg .b32 %r<4096>;", ".reg .f32 %f<16>;", ".reg .b64 %rd<8>;"]
    )
    text = "\n\t".join(body)
    head = HEAD.format(target=target)
    return f"{head}\n.visible .entry kernel_{number}(.param .u64 p0)\n{{\n\t{inner}\n\t{text}\n\tret;\n}}\n"


def measure(lines: int, calls: int, copies: int, space: str) -> tuple[float, float, float, int, int]:
    """Median and worst processor time of a call (ms), growth (KiB), lines and findings of a module."""
    texts = [module(lines, copies, space, number) for number in range(8)]
    found = ptxguard.check_ptx(texts[0], "sm_120a")  # warm-up
    times = []
    for number in range(calls):
        text = module(lines, copies, space, number)
        start = time.process_time()
        ptxguard.check_ptx(text, "sm_120a")
        times.append((time.process_time() - start) * 1e3)
    return (*_spread(times), growth(lines, calls, copies, space), texts[0].count("\n"), len(found))


def _spread(times: list[float]) -> tuple[float, float]:
    return statistics.median(times), max(times)


def growth(lines: int, calls: int, copies: int, space: str) -> float:
    """KiB by which traced memory grows from call 100 to the last one."""
    tracemalloc.start()
    first = 0
    for number in range(calls):
        ptxguard.check_ptx(module(lines, copies, space, number), "sm_120a")
        if number == min(100, calls // 2):
            gc.collect()
            first = tracemalloc.get_traced_memory()[0]
    gc.collect()
    last = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (last - first) / 1024


def main() -> None:
    """Print a row for each kind of module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--calls", type=int, default=1000)
    given = parser.parse_args()
    print("copies  form     lines  findings  median ms  worst ms  growth KiB")
    for copies, space in ((0, "cta"), (4, "cta"), (4, "cluster"), (32, "cluster")):
        median, worst, kib, lines, found = measure(given.lines, given.calls, copies, space)
        print(f"{copies:6}  {space:7}  {lines:5}  {found:8}  {median:9.2f}  {worst:8.2f}  {kib:10.1f}")


if __name__ == "__main__":
    main()

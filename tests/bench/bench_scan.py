"""Speed of `scan` beside bare ZSTD decompression of the same entries.

python tests/bench/bench_scan.py LIBRARY          ratios on one library (transformer_engine_cu13's, say)
python tests/bench/bench_scan.py --tools LIBRARY  what cuobjdump needs beside it
"""

from __future__ import annotations

import argparse
import mmap
import os
import re
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from ptxguard.arch import SYSCALL_ARCHES
from ptxguard.binary import Wish, fatbin, inventory
from ptxguard.binary.cursor import MappedCursor
from ptxguard.output.scan_json import kernels_json, render


def entries(path):
    """(entry, payload) of every ZSTD entry of a file."""
    with Path(path).open("rb") as stream:
        cursor = MappedCursor(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    found = []
    while cursor.seek_any((fatbin.MAGIC,)):
        if fatbin.is_container(cursor.peek(fatbin.CONTAINER_BYTES)):
            found += fatbin.walk_container(cursor, 0)
        else:
            cursor.skip(4)
    return [(entry, payload) for entry, payload in found if entry.compression == "zstd"]


def timed(work):
    """(wall seconds, CPU seconds of this process and its children) of one call."""
    wall, before = time.perf_counter(), os.times()
    work()
    return time.perf_counter() - wall, sum(os.times()[:4]) - sum(before[:4])


class Memory:
    """Watches the anonymous memory of this process and its children, 50 times a second (Linux)."""

    def __enter__(self):
        self.most_kib, self._ended = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _watch(self):
        while not self._ended.wait(0.02):
            children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
            self.most_kib = max(self.most_kib, sum(self._anonymous(pid) for pid in ("self", *children)))

    def _anonymous(self, pid):
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            return 0
        # Pages that a forked child shares with its parent count once: the proportional part of each.
        return int(re.search(r"^Pss_Anon:\s+(\d+)", text, re.MULTILINE)[1])


def unpack_all(chosen):
    """Bare decompression into one buffer that is used again: what the scan is measured against."""
    import zstandard

    buffer = memoryview(bytearray(max(entry.full_bytes for entry, _ in chosen)))
    reader = zstandard.ZstdDecompressor()
    for entry, payload in chosen:
        reader.stream_reader(payload).readinto(buffer[: entry.full_bytes])


def facts_as_json(path, jobs):
    """What `scan --kernels all --output-format json` does, less the findings."""
    with tempfile.TemporaryFile("w", encoding="utf-8") as output:
        found = inventory(path, Wish(every_kernel=True, encode=kernels_json), jobs=jobs)
        output.writelines(render(found.artifacts, (), found.errors))


def speed(path, repeat, tools):
    """Print the best of some runs of each measurement, and its ratio to decompression."""
    every = entries(path)
    own = [(entry, payload) for entry, payload in every if entry.arch in SYSCALL_ARCHES]
    twelve = Wish(targets=frozenset(entry.target for entry, _ in own), digest=False)
    rows = [
        ("decompression, sm_12x", lambda: unpack_all(own), 0),
        ("decompression, all", lambda: unpack_all(every), 1),
        ("syscalls to kernels, sm_12x", lambda: inventory(path, twelve), 0),
        ("the same, 2 processes", lambda: inventory(path, twelve, jobs=2), 0),
        ("syscalls to kernels, all", lambda: inventory(path, Wish(digest=False)), 1),
        ("the same, 2 processes", lambda: inventory(path, Wish(digest=False), jobs=2), 1),
        ("facts of all kernels as JSON, 2 processes", lambda: facts_as_json(path, 2), 1),
    ]
    times = [[] for _ in rows]
    # Round after round, so that a busy moment of the machine meets all rows alike.
    for _ in range(repeat):
        for row, (_, work, _) in zip(times, rows, strict=True):
            row.append(timed(work))
    best = [[min(values) for values in zip(*row, strict=True)] for row in times]
    for (name, _, base), (wall, cpu) in zip(rows, best, strict=True):
        ratios = f"{wall / best[base][0]:5.2f} x wall {cpu / best[base][1]:5.2f} x CPU"
        print(f"{name:<42} {wall:7.2f} s wall {cpu:7.2f} s CPU  {ratios}")
    with Memory() as memory:
        facts_as_json(path, 2)
    print(f"anonymous memory of all processes together, the last row: {memory.most_kib >> 10} MiB")
    if tools:
        nvidia(path)


def nvidia(path):
    """What NVIDIA's tools need: the first names no kernel, the second is the only one that does."""
    search = r"grep -c '__cuda_syscall_\|\.nv\.info\.'"
    for command in (f"cuobjdump -symbols {path} | wc -l", f"cuobjdump -elf -arch sm_120f {path} | {search}"):
        started = time.perf_counter()
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        took = time.perf_counter() - started
        print(f"{command.replace(path, Path(path).name)}: {took:.1f} s, {done.stdout.strip()} lines")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path")
    parser.add_argument("--repeat", type=int, default=3, help="rounds; the best of each row counts")
    parser.add_argument("--tools", action="store_true", help="time cuobjdump too (minutes)")
    given = parser.parse_args()
    speed(given.path, given.repeat, given.tools)


if __name__ == "__main__":
    main()

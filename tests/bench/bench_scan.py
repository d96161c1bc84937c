"""Speed of `scan` beside bare ZSTD decompression of the same entries, and a long run of damaged images.

python tests/bench/bench_scan.py LIBRARY            ratios on one library (transformer_engine_cu13's, say)
python tests/bench/bench_scan.py --fuzz 20000 FILE  damaged copies of a small cubin or fatbin
"""

from __future__ import annotations

import argparse
import mmap
import random
import resource
import tempfile
import time
from pathlib import Path

from ptxguard.arch import SYSCALL_ARCHES
from ptxguard.binary import Wish, fatbin, inventory
from ptxguard.binary.cursor import MappedCursor
from ptxguard.output.scan_json import render


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
    """(wall seconds, CPU seconds) of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def unpack_all(chosen):
    """Bare decompression into one buffer that is used again: what the scan is measured against."""
    import zstandard

    buffer = memoryview(bytearray(max(entry.full_bytes for entry, _ in chosen)))
    reader = zstandard.ZstdDecompressor()
    for entry, payload in chosen:
        reader.stream_reader(payload).readinto(buffer[: entry.full_bytes])


def speed(path, repeat):
    """Print the best of some runs of each measurement, and its ratio to decompression."""
    every = entries(path)
    own = [(entry, payload) for entry, payload in every if entry.arch in SYSCALL_ARCHES]
    targets = frozenset(entry.target for entry, _ in own)

    def facts_as_json():
        with tempfile.TemporaryFile("w") as output:
            output.writelines(render(inventory(path, Wish(every_kernel=True)).artifacts, (), ()))

    rows = [
        ("decompression, sm_12x", lambda: unpack_all(own), None),
        ("syscalls to kernels, sm_12x", lambda: inventory(path, Wish(targets=targets)), 0),
        ("decompression, all", lambda: unpack_all(every), None),
        ("syscalls to kernels, all", lambda: inventory(path), 2),
        ("facts of all kernels as JSON", facts_as_json, 2),
    ]
    best = []
    for name, work, base in rows:
        wall, cpu = (min(values) for values in zip(*(timed(work) for _ in range(repeat)), strict=True))
        best.append(cpu)
        ratio = "" if base is None else f"  {cpu / best[base]:.2f} x decompression (CPU)"
        print(f"{name:<30} {wall:7.2f} s wall {cpu:7.2f} s CPU{ratio}")
    print(f"largest resident size {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


def fuzz(path, count, seed):
    """Scan damaged copies; any exception but an entry of the error list ends the run."""
    chance = random.Random(seed)
    original = Path(path).read_bytes()
    failed, silent, slowest = 0, 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / f"damaged{Path(path).suffix}"
        for _ in range(count):
            data = bytearray(original)
            for _ in range(chance.randrange(1, 6)):
                at = chance.randrange(len(data))
                width = chance.choice((1, 4, 8))
                data[at : at + width] = chance.choice(
                    (
                        bytes(width),
                        b"\xff" * width,
                        chance.randbytes(width),
                        bytes([data[at] ^ 1 << chance.randrange(8)]),
                    )
                )
            if chance.random() < 0.1:
                del data[chance.randrange(len(data)) :]
            target.write_bytes(data)
            started = time.perf_counter()
            found = inventory(str(target), Wish(every_kernel=True))
            slowest = max(slowest, time.perf_counter() - started)
            failed += bool(found.errors)
            silent += not (found.errors or found.artifacts)
    print(f"{count} damaged inputs, {failed} with an error entry, no crash; slowest {slowest * 1000:.0f} ms")
    print(f"{silent} cut or changed so that nothing says any more that they hold device code")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path")
    parser.add_argument("--fuzz", type=int, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    if given.fuzz:
        fuzz(given.path, given.fuzz, given.seed)
    else:
        speed(given.path, given.repeat)


if __name__ == "__main__":
    main()

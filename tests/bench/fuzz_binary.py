"""Reads damaged files without end, in bounded time: hypothesis changes the bytes, and only errors may come of it.

python tests/bench/fuzz_binary.py --count 20000       damaged copies of the fixtures, in every wrapping
"""

from __future__ import annotations

import argparse
import gzip
import io
import tarfile
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from ptxguard.binary import Wish, inventory

DATA = Path(__file__).parent.parent / "data" / "binary"
# A damaged copy of 50 KB is read in milliseconds; seconds would be an attack that works.
SLOWEST_SECONDS = 5.0


def zipped(data):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pkg/lib.so", data)
    return buffer.getvalue()


def tarred(data):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo("pkg/lib.so")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), mtime=0)


def seeds():
    """Name -> bytes of every fixture, and of one of them in archives."""
    found = {
        path.name: path.read_bytes() for path in sorted(DATA.iterdir()) if path.suffix not in (".json", ".cu")
    }
    found["lib.whl"], found["lib.tar.gz"] = zipped(found["copies.o"]), tarred(found["copies.zstd.fatbin"])
    return found


# Numbers that lengths, counts and offsets break at.
NUMBERS = st.sampled_from((0, 1, 0x7F, 0xFF, 0xFFFF, 1 << 31, (1 << 32) - 1, 1 << 62, 1 << 63, (1 << 64) - 1))
CHANGES = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.one_of(
            st.binary(min_size=1, max_size=16),
            NUMBERS.map(lambda value: value.to_bytes(8, "little")),
            NUMBERS.map(lambda value: (value & 0xFFFFFFFF).to_bytes(4, "little")),
        ),
    ),
    min_size=1,
    max_size=6,
)


def run(count, number):
    """Read `count` damaged files; returns how they ended and the longest time."""
    files, ends, slowest = seeds(), Counter(), [0.0]
    with tempfile.TemporaryDirectory() as folder:

        @seed(number)
        @settings(
            max_examples=count,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(st.sampled_from(sorted(files)), CHANGES, st.one_of(st.none(), st.floats(0, 1)), st.booleans())
        def damaged(name, changes, cut, every):
            data = bytearray(files[name])
            for place, change in changes:
                at = int(place * (len(data) - 1))
                data[at : at + len(change)] = change
            if cut is not None:
                del data[int(cut * len(data)) :]
            path = Path(folder) / name
            path.write_bytes(data)
            started = time.perf_counter()
            found = inventory(str(path), Wish(every_kernel=every))
            took = time.perf_counter() - started
            assert took < SLOWEST_SECONDS, f"{name} took {took:.1f} s"
            slowest[0] = max(slowest[0], took)
            kind = "error" if found.errors else "read" if found.artifacts else "no device code left"
            ends[kind] += 1
            if kind == "no device code left":
                assert not name.endswith((".cubin", ".fatbin", ".ptx")), f"{name} passed for clean"

        damaged()
    return ends, slowest[0]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    given_ = parser.parse_args()
    ends, slowest = run(given_.count, given_.seed)
    print(f"{sum(ends.values())} damaged files, no crash: {dict(ends)}; slowest {slowest * 1000:.0f} ms")


if __name__ == "__main__":
    main()

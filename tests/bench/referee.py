"""Referee between ptxguard and nvcc: generates programs, compares three answers, reports each disagreement.

    python tests/bench/referee.py --count 1000 --seed 1
    python tests/bench/referee.py --seeds tests/bench/seeds.txt

The truth about a program is known by its construction and confirmed by nvcc: per kernel, the driver functions
in the cubin must be those of the copies that the construction says are compiled and reached. Then ptxguard's
sites, verdicts and fixes are held against the truth; safe and unsafe fixes are applied and compiled again.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from generate import generate
from judged import Disagreement, compare, judge
from program import INSTALLED, World

from compiled import CompileError, compile_programs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from judged import Judgement
    from program import Program

_COMPILED_FOR = ("sm_120a", "sm_120a", "sm_121a", "sm_120", "sm_90a", "sm_120f")
_BATCH = 24


def expected_syscalls(program: Program, target: str) -> dict[str, set[str]]:
    """Kernel -> driver functions, by construction."""
    world = World(target, INSTALLED)
    found: dict[str, set[str]] = {}
    for site in program.sites:
        for passage in site.passages:
            names = found.setdefault(passage.kernel, set())
            if site.syscall and world.number in (1200, 1210) and site.compiled_in(world):
                names.add(site.syscall)
    return found


def confirm(program: Program, seen: dict[str, set[str]], target: str) -> Iterator[Disagreement]:
    """Construction against nvcc."""
    merged: dict[str, set[str]] = {}
    for mangled, names in seen.items():
        match = re.match(rf"_Z\d+({program.name}_k\d+)", mangled)
        if match:
            merged.setdefault(match[1], set()).update(names)
    for kernel, names in expected_syscalls(program, target).items():
        if kernel not in merged:
            yield Disagreement(program.name, "generator", f"kernel {kernel} is not in the cubin for {target}")
        elif merged[kernel] != names:
            yield Disagreement(
                program.name,
                "generator",
                f"{kernel} on {target}: built {sorted(names)}, nvcc {sorted(merged[kernel])}",
            )


def confirm_fixed(judged: Sequence[Judgement], seen: dict[str, set[str]]) -> Iterator[Disagreement]:
    """After the fixes, only copies without one may still call the driver."""
    for judgement in judged:
        program = judgement.program
        allowed: dict[str, set[str]] = {}
        for site in program.sites:
            if site not in judgement.fixed:
                for passage in site.passages:
                    allowed.setdefault(passage.kernel, set()).add(site.syscall)
        for mangled, names in seen.items():
            match = re.match(rf"_Z\d+({program.name}_k\d+)", mangled)
            if match and not names <= allowed.get(match[1], set()):
                left = sorted(names - allowed.get(match[1], set()))
                yield Disagreement(program.name, "fix", f"{match[1]} still calls {left} after the fixes")


def run_batch(seeds: Sequence[int], folder: Path, target: str, *, compiling: bool) -> list[Disagreement]:
    """Generate, judge, compile, fix and compile again."""
    programs = [generate(seed) for seed in seeds]
    judged, found = [], []
    for program in programs:
        home = folder / program.name
        for name, text in program.files.items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        judgement = judge(program, home)
        judged.append(judgement)
        found += compare(judgement)
    if not compiling:
        return found
    found += _compiled(programs, folder, target)
    for judgement in judged:
        judgement.apply_fixes(folder / judgement.program.name)
    try:
        found += confirm_fixed(judged, _syscalls(programs, folder, target))
    except CompileError as error:
        found.append(Disagreement("batch", "fix", f"nvcc refuses fixed programs {seeds}: {str(error)[:600]}"))
    return found


def _syscalls(programs: Sequence[Program], folder: Path, target: str) -> dict[str, set[str]]:
    units = [f"{program.name}/{unit}" for program in programs for unit in program.units]
    defines = {name: value for program in programs for name, value in program.defines.items()}
    return compile_programs(folder, units, defines, target)


def _compiled(programs: Sequence[Program], folder: Path, target: str) -> Iterator[Disagreement]:
    """Confirm programs by nvcc, one by one where the whole batch does not compile."""
    try:
        seen = _syscalls(programs, folder, target)
    except CompileError as error:
        if len(programs) == 1:
            yield Disagreement(programs[0].name, "generator", f"nvcc refuses it: {str(error)[:600]}")
            return
        half = len(programs) // 2
        yield from _compiled(programs[:half], folder, target)
        yield from _compiled(programs[half:], folder, target)
        return
    for program in programs:
        yield from confirm(program, seen, target)


def main() -> int:
    """Run the referee; 1 where anything but an incomplete verdict was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--count", type=int, default=100, help="programs to generate")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first one; the others follow")
    parser.add_argument("--seeds", type=Path, help="file with one seed a line instead (# begins a comment)")
    parser.add_argument("--no-nvcc", action="store_true", help="trust the construction; no compiler")
    parser.add_argument("--quiet", action="store_true", help="figures only")
    given = parser.parse_args()
    seeds = list(range(given.seed, given.seed + given.count))
    if given.seeds is not None:
        lines = given.seeds.read_text().splitlines()
        seeds = [int(line.split("#")[0]) for line in lines if line.split("#")[0].strip()]
    figures: Counter[str] = Counter()
    for number, start in enumerate(range(0, len(seeds), _BATCH)):
        batch = seeds[start : start + _BATCH]
        with tempfile.TemporaryDirectory() as folder:
            target = _COMPILED_FOR[number % len(_COMPILED_FOR)]
            found = run_batch(batch, Path(folder), target, compiling=not given.no_nvcc)
        for disagreement in found:
            figures[disagreement.kind] += 1
            if not given.quiet:
                print(disagreement, flush=True)
    print(
        f"{len(seeds)} programs; "
        + (", ".join(f"{k}: {n}" for k, n in sorted(figures.items())) or "no disagreement")
    )
    return int(any(not kind.startswith("incomplete") for kind in figures))


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C")
    sys.exit(main())

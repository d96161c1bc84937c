"""Random edits of a small tree: the cached answer has to equal a fresh one after each of them.

python tests/bench/cache_edits.py [EDITS] [SEED]
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from ptxguard import cache as caching
from ptxguard.cache import Cache
from ptxguard.source import trace
from ptxguard.source.analyse import Options, analyse

COPY = "cp.async.bulk.{}.global.mbarrier::complete_tx::bytes"
OPENING = {
    "helpers.cuh": (
        "#pragma once\n"
        '#define SPACE "shared::cluster"\n'
        "constexpr int kRanks = 1;\n"
        "__device__ inline void load(unsigned dst, const void *src, unsigned bar) {\n"
        '  asm volatile("cp.async.bulk." SPACE ".global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];"\n'
        '               :: "r"(dst), "l"(src), "r"(bar) : "memory");\n'
        "}\n"
    ),
    "kernel.cu": (
        '#include "helpers.cuh"\n'
        "__global__ void pull(const void *src) {\n"
        "  __shared__ alignas(128) float box[256];\n"
        "  __shared__ unsigned long long mb;\n"
        "  load((unsigned)__cvta_generic_to_shared(box), src, (unsigned)__cvta_generic_to_shared(&mb));\n"
        "}\n"
    ),
    "launch.cu": '#include "kernel.cu"\nvoid go(const void *p) { pull<<<1, 32>>>(p); }\n',
    "other.cpp": "int answer() { return 42; }\n",
    "config.h": "#define UNUSED 1\n",
    "CMakeLists.txt": 'set(CMAKE_CUDA_ARCHITECTURES "90a;120a")\n',
    "notes.md": "words\n",
}
LINES = (
    '#define SPACE "shared::cta"\n',
    '#define SPACE "shared::cluster"\n',
    "#undef SPACE\n",
    "#define pull push\n",
    "#define UNUSED 2\n",
    "#define ASM asm volatile\n",
    "#if __CUDA_ARCH__ >= 1200\n",
    "#endif\n",
    '#include "config.h"\n',
    '#include "kernel.cu"\n',
    "void more(const void *p) { pull<<<2, 64>>>(p); }\n",
    "void far(const void *p, cudaLaunchConfig_t c) { cudaLaunchKernelEx(&c, pull, p); }\n",
    "__global__ __cluster_dims__(2, 1, 1) void pull(const void *src);\n",
    "__global__ void push(unsigned dst, const void *s, unsigned b) { load(dst, s, b); }\n",
    "const int kRanks = 2;\n",
    "int unrelated = 3;\n",
    "// load is called elsewhere\n",
    'set(CMAKE_CUDA_ARCHITECTURES "90a")\n',
    "add_compile_options(-DSPACE=x)\n",
    "#if __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000\n#endif\n",
)
NEW_FILES = ("fresh.cu", "fresh.cuh", "sub/deep.cu", "plain.txt", "tools.cmake", "config.h", "launch.cu")


@dataclass
class Edits:
    """A tree, its cache, and how often which answer came from where.

    Attributes:
        root: the tree; the working directory while `run` works.
        folder: of the cache.
        chance: where the edits come from.
        kept: answers that the cache gave.
        wrong: (number, edit) of each answer that differed.
    """

    root: Path
    folder: Path
    chance: random.Random
    kept: int = 0
    wrong: list[tuple[int, str]] = field(default_factory=list)

    def run(self, count: int) -> None:
        """Make edits one by one and compare after each."""
        for name, text in OPENING.items():
            (self.root / name).write_text(text)
        for number in range(count):
            edit = self.one()
            if record(Cache(self.folder).analyse(["."], Options())) != record(analyse(["."], Options())):
                self.wrong.append((number, edit))

    def one(self) -> str:
        """One random edit; says what it was."""
        files = sorted(path for path in self.root.rglob("*") if path.is_file() and ".git" not in path.parts)
        path = self.chance.choice(files)
        kind = self.chance.choice(
            ("insert", "insert", "insert", "drop", "swap", "new", "delete", "touch", "reset")
        )
        lines = path.read_text().splitlines(keepends=True)
        place = self.chance.randrange(len(lines) + 1)
        if kind == "insert" and len(lines) < 60:
            path.write_text("".join([*lines[:place], self.chance.choice(LINES), *lines[place:]]))
        elif kind == "drop" and lines:
            path.write_text("".join(lines[:place] + lines[place + 1 :]))
        elif kind == "swap":
            lines.sort(key=lambda _: self.chance.random())
            path.write_text("".join(lines))
        elif kind == "new":
            path = self.root / self.chance.choice(NEW_FILES)
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(self.chance.sample(LINES, 3)))
        elif kind == "delete" and len(files) > 3:
            path.unlink()
        elif kind == "touch":
            os.utime(path)
        elif kind == "reset":
            path = self.root / self.chance.choice(list(OPENING))
            path.write_text(OPENING[path.name])
        return f"{kind} {path.relative_to(self.root)} at {place}"


def record(found):
    """Everything of an analysis that a rule or an output reads."""
    return (
        [
            (
                site.span.path,
                site.span.line,
                site.copy.opcode,
                site.targets,
                site.on_target,
                site.cluster.record(),
                site.address.record(),
                site.kernels,
                site.evidence,
                site.function,
                repr(site.build),
            )
            for site in found.sites
        ],
        [str(error) for error in found.errors],
        [(code.template.text, code.targets, code.evidence) for code in found.codes],
        [(one.span.line, one.covered, one.missed, one.built_missed) for one in found.arch_lists],
    )


def count_kept(edits: Edits) -> None:
    """Make the cache tell when it answers."""
    holds = trace.still_holds

    def counted(*arguments):
        answer = holds(*arguments)
        edits.kept += answer
        return answer

    caching.still_holds = counted


def main() -> None:
    """Run as many edits as asked for, over several trees."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    kept, wrong = 0, []
    for part in range(0, count, 50):
        with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as folder:
            os.chdir(root)
            subprocess.run(["git", "init", "-q"], check=True)
            edits = Edits(Path(root), Path(folder), random.Random(seed * 1000 + part))
            count_kept(edits)
            edits.run(min(50, count - part))
            kept += edits.kept
            wrong += [(seed * 1000 + part, *one) for one in edits.wrong]
            os.chdir("/")
    print(f"{count} edits, {kept} answers from the cache, {len(wrong)} wrong {wrong[:5]}")


if __name__ == "__main__":
    main()

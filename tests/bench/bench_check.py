"""Time and memory of `ptxguard check` on a tree, beside tree-sitter-cuda merely parsing the same files.

Run as `python tests/bench/bench_check.py TREE [CHANGED_FILE …]` in an environment that has ptxguard, tree-sitter
and tree-sitter-cuda. Every figure is processor time of a child process (best of three), so that other work on the
machine counts less; the ratios are what to compare.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile

PARSE = """
import sys
import tree_sitter_cuda
from tree_sitter import Language, Parser
from ptxguard.source.tree import read_tree
parser = Parser(Language(tree_sitter_cuda.language()))
count = 0
for file in read_tree([sys.argv[1]]).files:
    if file.ending != ".ptx":
        parser.parse(file.data())
        count += 1
print(count, "files")
"""


def processor_seconds(command: list[str]) -> tuple[float, float]:
    """(seconds, peak MiB) of a child process, the best of three runs."""
    best, peak = 1e9, 0.0
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), 1)
                os.dup2(nowhere.fileno(), 2)
            os.execvp(command[0], command)
        _, _, usage = os.wait4(pid, 0)
        best = min(best, usage.ru_utime + usage.ru_stime)
        peak = max(peak, usage.ru_maxrss / 1024)
    return best, peak


def main() -> None:
    """Print the table."""
    tree, changed = sys.argv[1], sys.argv[2:]
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(PARSE)
        script.flush()
        listed = subprocess.run(
            [sys.executable, script.name, tree], capture_output=True, text=True, check=True
        )
        base, memory = processor_seconds([sys.executable, script.name, tree])
    empty, _ = processor_seconds([sys.executable, "-c", "pass"])
    print(f"{'python -c pass':60} {empty:6.2f} s")
    print(f"{'tree-sitter-cuda, ' + listed.stdout.strip():60} {base:6.2f} s  {memory:6.0f} MiB")
    tool = [sys.executable, "-m", "ptxguard"]
    with tempfile.TemporaryDirectory() as cache:
        for path in [tree, *changed]:
            for label, option in (("cold", ["--no-cache"]), ("cached", ["--cache-dir", cache])):
                if label == "cached":
                    processor_seconds([*tool, "check", *option, path])  # fills it
                seconds, memory = processor_seconds([*tool, "check", *option, path])
                ratios = f"{seconds / base:5.2f} x parse, {seconds / empty:5.1f} x pass"
                name = f"check {os.path.relpath(path, tree)}, {label}"
                print(f"{name:60} {seconds:6.2f} s  {memory:6.0f} MiB  {ratios}")
    print(f"cores {os.cpu_count()}, limit on memory {resource.getrlimit(resource.RLIMIT_AS)[0]}")


if __name__ == "__main__":
    main()

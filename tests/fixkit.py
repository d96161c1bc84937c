"""Runs `check` with fixes on small trees, and the trees that the tests of fixes share."""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard import cli
from sourcekit import CLUSTER, copy, kernel, write

if TYPE_CHECKING:
    from pathlib import Path

# One kernel of its own memory; nobody has to see a launch.
LOCAL = kernel(copy("s", "b"))
PEER = kernel(
    'unsigned p; asm("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(p) : "r"(s)); ' + copy("p", "b"),
    head="__global__ void __cluster_dims__(2, 1, 1) push(const void *src)",
)
MULTICAST = kernel(
    copy("s", "b", opcode=f"{CLUSTER}.multicast::cluster"),
    head="__global__ void __cluster_dims__(2, 1, 1) cast(const void *src)",
)
PAIR = kernel(copy("s", "b"), head="__global__ void __cluster_dims__(2, 1, 1) pair(const void *src)")
# The destination is not proved; the only launch has one CTA per cluster.
LAUNCHED = f"""__global__ void far(const void *src, unsigned dst, unsigned bar) {{ {copy()} }}
void run(const void *src) {{ far<<<8, 256>>>(src, 0, 1024); }}
"""


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    status: int
    out: str
    err: str


def check(folder: Path, *arguments: str) -> Ran:
    """`ptxguard check . ARGUMENTS` in a folder."""
    out, err = io.StringIO(), io.StringIO()
    known = sys.argv
    sys.argv = ["ptxguard", "check", ".", *arguments]
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as ended:
        return Ran(int(ended.code or 0), out.getvalue(), err.getvalue())
    finally:
        sys.argv = known
    raise AssertionError("the command did not end")


def fix(folder: Path, files: dict[str, str | bytes], *arguments: str) -> dict[str, bytes]:
    """Bytes of a tree after `check --fix`."""
    write(folder, files)
    check(folder, "--fix", *arguments)
    return {name: (folder / name).read_bytes() for name in files}

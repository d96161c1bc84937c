"""Small source trees written to a folder and analysed there, so that a test reads like the code it judges."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ptxguard.arch import DEFAULT_TARGETS, Target
from ptxguard.source.analyse import Options, analyse
from ptxguard.source.callgraph import CallGraph
from ptxguard.source.constants import Constants
from ptxguard.source.project import Project
from ptxguard.source.tree import read_tree

if TYPE_CHECKING:
    from pathlib import Path

    from ptxguard.errors import PtxguardError
    from ptxguard.model import CopySite
    from ptxguard.source.cuda import Function
    from ptxguard.source.guards import CppFile

CLUSTER = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
CTA = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"


def copy(dst: str = "dst", bar: str = "bar", opcode: str = CLUSTER) -> str:
    """A plain bulk copy of 1,024 bytes as an asm statement."""
    return f'asm volatile("{opcode} [%0], [%1], 1024, [%2];" :: "r"({dst}), "l"(src), "r"({bar}) : "memory");'


# A helper whose destination nobody can see, and a kernel that calls it: the cluster size alone decides.
LOAD = f"__device__ void load(unsigned dst, const void *src, unsigned bar) {{\n  {copy()}\n}}\n"


def kernel(body: str, head: str = "__global__ void k(const void *src, unsigned peer)") -> str:
    """A kernel with shared memory `box`, `mb`, their shared addresses `s`, `b`, and a body."""
    return f"""{head} {{
  __shared__ alignas(128) float box[256];
  __shared__ alignas(8) unsigned long long mb;
  unsigned s = (unsigned)__cvta_generic_to_shared(box), b = (unsigned)__cvta_generic_to_shared(&mb);
  {body}
}}
"""


@dataclass(frozen=True)
class Found:
    """What an analysis found."""

    sites: tuple[CopySite, ...]
    errors: tuple[PtxguardError, ...]

    @property
    def only(self) -> CopySite:
        """The one site of a tree without errors."""
        assert self.errors == ()
        assert len(self.sites) == 1
        return self.sites[0]

    @property
    def messages(self) -> list[str]:
        """Errors as a user reads them."""
        return [str(error) for error in self.errors]


def write(folder: Path, files: dict[str, str | bytes]) -> None:
    """Write files below a folder, line ends as given."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)


def look(
    folder: Path,
    files: str | dict[str, str | bytes],
    *,
    paths: tuple[str, ...] = (".",),
    targets: tuple[str, ...] = DEFAULT_TARGETS,
    **options: Any,
) -> Found:
    """Analyse a tree; a text alone is the file `a.cu`."""
    write(folder, {"a.cu": files} if isinstance(files, str) else files)
    with contextlib.chdir(folder):
        found = analyse(paths, Options(targets=tuple(map(Target.parse, targets)), **options))
    return Found(found.sites, found.errors)


def verdicts(site: CopySite) -> set[str]:
    """What the guards say, over all targets."""
    return set(site.targets.values())


def places(site: CopySite, kind: str) -> list[tuple[str | None, int | None]]:
    """File and line of every evidence of a kind."""
    return [(item.path, item.line) for item in site.evidence if item.kind == kind]


@dataclass(frozen=True)
class Graph:
    """The call graph of a small tree."""

    project: Project
    graph: CallGraph
    constants: Constants

    def unit(self, name: str = "a.cu") -> CppFile:
        """A file as C++."""
        return next(self.project.units(file)[0] for file in self.project.tree.files if file.shown == name)

    def function(self, name: str) -> Function:
        """The one function of a qualified name."""
        found = [f for f in self.graph.functions_named(name.rsplit("::", 1)[-1]) if f.qualified == name]
        assert len(found) == 1
        return found[0]


def graph_of(folder: Path, files: str | dict[str, str | bytes]) -> Graph:
    """Call graph of a tree in which every place is live."""
    write(folder, {"a.cu": files} if isinstance(files, str) else files)
    with contextlib.chdir(folder):
        project = Project(read_tree(["."]), {})
        graph = CallGraph(project, lambda *_: True)
        assert len(list(project.with_word(""))) == len(project.tree.files)  # read while the folder is here
    return Graph(project, graph, Constants(graph))

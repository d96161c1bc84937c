"""Copy sites made by hand over real text, so that rules and outputs are tested without the analysis."""

from __future__ import annotations

from typing import Any

from ptxguard.arch import DEFAULT_TARGETS
from ptxguard.finding import Evidence, KernelPlace
from ptxguard.location import SourceFile, Span
from ptxguard.model import AddressVerdict, BulkCopy, ClusterVerdict, CopySite, Instruction

CLUSTER_2D = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
CLUSTER_1D = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"

LOCAL = AddressVerdict("local", "local", "box is a __shared__ array of the kernel")
UNKNOWN = AddressVerdict("unknown", "unknown", "dst is a parameter of a function without a caller in sight")
PEER = AddressVerdict("peer", "peer", "dst comes from mapa of rank 1")
ONE = ClusterVerdict("one", "every launch is a plain <<<>>>", launches_in_sight=True)
ONE_UNSEEN = ClusterVerdict("one", "__cluster_dims__(1, 1, 1)", launches_in_sight=False)
LARGER = ClusterVerdict("larger", "__cluster_dims__(2, 1, 1)", launches_in_sight=True)
UNDECIDED = ClusterVerdict("undecided", "no launch is in sight")

SYSCALL = dict.fromkeys(DEFAULT_TARGETS, "syscall")
COMPILED = dict.fromkeys(DEFAULT_TARGETS, "compiled")


def bulk_copy(opcode: str, unknown_modifiers: tuple[str, ...] = ()) -> BulkCopy:
    """A bulk copy by its opcode alone; operands play no part in rules."""
    parts = opcode.split(".")
    spaces = [part for part in parts if part.startswith("shared") or part == "global"]
    dims = next((int(part[0]) for part in parts if part[1:] == "d" and part[0].isdigit()), 0)
    modes = [part for part in parts if part.startswith(("tile", "im2col"))]
    return BulkCopy(
        instruction=Instruction(opcode, None, (), 0, len(opcode), len(opcode)),
        dims=dims,
        mode=modes[0] if modes else "tile" if dims else "",
        destination_space=spaces[0],
        source_space=spaces[1],
        multicast="multicast::cluster" in parts,
        cta_group=any(part.startswith("cta_group") for part in parts),
        destination=None,
        mbarrier=None,
        unknown_modifiers=unknown_modifiers,
    )


def find_span(file: SourceFile, text: str) -> Span:
    """The first place of a text in a file."""
    start = file.text.index(text)
    return Span(file, start, start + len(text))


def make_site(opcode: str = CLUSTER_2D, path: str = "copy.cuh", before: str = "", **changes: Any) -> CopySite:
    """A site in a file of three lines; keywords replace fields of `CopySite`."""
    text = f'{before}void load() {{\n  asm volatile("{opcode} [%0], [%1, {{%2, %3}}], [%4];"\n  );\n}}\n'
    file = SourceFile(path, text)
    span = find_span(file, opcode)
    word = span.start + opcode.find("cluster.global")
    fields: dict[str, Any] = {
        "span": span,
        "end_span": span,
        "kind": "cpp_inline_asm",
        "copy": bulk_copy(opcode),
        "function": "load",
        "targets": COMPILED,
        "on_target": SYSCALL,
        "cluster": ONE,
        "address": LOCAL,
        "kernels": (KernelPlace("k", "k.cu", 7),),
        "evidence": (
            Evidence("asm", path, span.line, opcode),
            Evidence("launch", "k.cu", 20, "k<<<1, 32>>>(p);"),
        ),
        "space_spans": (Span(file, word, word + len("cluster")),) if "cluster.global" in opcode else (),
    }
    return CopySite(**{**fields, **changes})

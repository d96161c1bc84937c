"""What the address flow knows of CUDA: conversions, rank mappings, masks, member shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxguard.finding import Evidence
    from ptxguard.source.exprs import Node

# A shared::cluster address carries the CTA rank from bit 24 on (cutlass and the driver's own code mask
# with 0xFEFFFFFF; shared memory of a CTA ends at 228 KiB).
RANK_BIT = 1 << 24

# Calls that keep the owner of their first argument.
CONVERSIONS = frozenset(
    "__cvta_generic_to_shared __cvta_shared_to_generic cast_smem_ptr_to_uint __nvvm_get_smem_pointer "
    "raw_pointer_cast make_smem_ptr recast_ptr launder move forward assume_aligned "
    "__builtin_assume_aligned uint32_t uint64_t uintptr_t size_t unsigned int to_address "
    "raw_smem_ptr_cast as_const".split()
)
# Warp-wide copies of a value: the value is the second argument (CUDA C++ guide, warp shuffle).
SECOND_ARGUMENT = frozenset({"__shfl_sync", "__shfl_up_sync", "__shfl_down_sync"})
RANK_MAPPINGS = frozenset({"map_shared_rank", "__cluster_map_shared_rank", "mapa"})
OWN_RANK = frozenset(
    {
        "block_rank",
        "block_rank_in_cluster",
        "__clusterRelativeBlockRank",
        "cluster_ctarank",
        "__cluster_ctarank",
    }
)
# Methods that return where their object keeps its elements.
OWNER_METHODS = frozenset({"data", "begin", "get", "ptr", "raw_ptr", "storage", "native_handle"})


@dataclass(frozen=True)
class Flow:
    """Result of following an address.

    Attributes:
        owner: local, peer, unknown, or none (a number that is no address).
        reason: one sentence.
        evidence: places, the root first.
    """

    owner: str
    reason: str
    evidence: tuple[Evidence, ...] = ()


def union(flows: Sequence[Flow]) -> Flow:
    """One owner for several possibilities: a peer anywhere decides, then unknown, then local."""
    for wanted in ("peer", "unknown", "local"):
        chosen = [flow for flow in flows if flow.owner == wanted]
        if not chosen:
            continue
        evidence: list[Evidence] = []
        for flow in chosen:
            evidence.extend(item for item in flow.evidence if item not in evidence)
        return Flow(wanted, chosen[0].reason, tuple(evidence))
    return flows[0] if flows else Flow("unknown", "nothing to follow")


def _is_alignment(node: Node) -> bool:
    """`~(x - 1)` or `-x`: the mask of an alignment whose value is not a constant in sight."""
    if node.kind == "cast":
        return _is_alignment(node.parts[0])
    if node.kind != "unary":
        return False
    inner = node.parts[0]
    while inner.kind == "cast":
        inner = inner.parts[0]
    one_less = inner.kind == "binary" and inner.text == "-" and inner.parts[1].text == "1"
    return (node.text == "~" and one_less) or (node.text == "-" and inner.kind == "name")


def mask_effect(operator: str, value: int | None, node: Node) -> str:
    """`keep` the owner, leave only an `offset`, address a `peer`, or `unknown`."""
    if value is None:
        return "keep" if operator == "&" and _is_alignment(node) else "unknown"
    bits = value & 0xFFFFFFFF
    if operator == "&":
        if bits >> 24 == 0xFF:
            return "keep"  # alignment: all rank bits stay
        return "offset" if 0 <= value < (1 << 18) else "peer"
    return "keep" if bits < RANK_BIT else "peer"

"""A multicast copy is compiled for a target that has no multicast and carries it out in software.

What it does
------------
Reports bulk copies from `.global` to `.shared::cluster` with `.multicast::cluster` that the guards
compile for sm_120 or sm_121. Clusters and distributed shared memory are legal there; only the
multicast is not in hardware: ptxas emits no TMA load at all and calls a driver function
(`__cuda_syscall_cp_async_bulk…_multicast`).

Why it matters
--------------
The reason for multicast is to read a tile once for several CTAs. In software it saves nothing, and
the driver function costs what it costs for TMA001: a stack of about 14 KB for every resident thread
of the card, at least 24 registers, `setmaxnreg` ignored, and a first launch that waits until all
running kernels have ended.

Fix safety
----------
No fix is offered: the copy writes the memory of other CTAs, and the form of the CTA cannot. For
sm_12x a kernel with one CTA per cluster and `.shared::cta` copies is the usual way.

References
----------
PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor" (`.multicast::cluster` is
optimised for sm_90a and the sm_100 family only).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ptxguard.effects import performance_of, price_copy, price_words, syscall_of, target_words
from ptxguard.finding import Confidence, Finding, Severity
from ptxguard.rule import Case, CheckOptions, Claim, Example, Rule, RuleMeta, finding_at, targets_where

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.model import CopySite

SOFTWARE = Case("multicast, whatever the destination and the cluster size", Severity.NOTE, Confidence.HIGH)
GUARD_UNDECIDED = Case(
    "the same, under guards that depend on a macro that nobody defines", Severity.NOTE, Confidence.LOW
)

META = RuleMeta(
    code="TMA002",
    name="software-multicast",
    summary="A multicast copy is software on sm_12x: a driver call, and no TMA load at all.",
    targets="sm_120 and sm_121, each with its a and f variants",
    since="0.1.0",
    cases=(SOFTWARE, GUARD_UNDECIDED),
)


def check(sites: Sequence[CopySite], options: CheckOptions) -> Iterator[Finding]:
    """One note a multicast copy."""
    for site in sites:
        if not site.copy.multicast or not site.copy.is_cluster_load or site.hidden is not None:
            continue
        compiled = targets_where(site, "syscall", "compiled")
        targets = compiled or targets_where(site, "syscall", "unknown")
        if not targets:
            continue
        cost, symbol = price_copy(site, targets, options.gpus), syscall_of(site)
        price = price_words(cost)
        message = (
            f"multicast is software on {target_words(targets)}: this copy becomes a call of {symbol}"
            f"{f' ({price})' if price else ''} and no TMA load; give sm_12x a variant with one CTA per "
            "cluster and shared::cta copies"
        )
        finding = finding_at(site, META, SOFTWARE if compiled else GUARD_UNDECIDED, message)
        yield replace(finding, syscall=symbol, cost=cost, performance=performance_of(site))


_MULTICAST = """\
#include <cstdint>
__global__ void __cluster_dims__(2, 1, 1) share(const float4* from, float* out) {
  __shared__ alignas(128) float box[256];
  __shared__ alignas(8) uint64_t full;
  uint32_t dst = (uint32_t)__cvta_generic_to_shared(box);
  uint32_t bar = (uint32_t)__cvta_generic_to_shared(&full);
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"  // !TMA002 note
      " [%0], [%1], 1024, [%2], %3;" ::"r"(dst), "l"(from), "r"(bar), "h"((uint16_t)3) : "memory");
  out[threadIdx.x] = box[threadIdx.x];
}
"""

EXAMPLES = (
    Example(
        title="one tile for two CTAs",
        source=_MULTICAST,
        claims=(Claim("sm_120a", syscall="__cuda_syscall_cp_async_bulk_multicast"), Claim("sm_90a")),
    ),
    Example(
        title="only for the data-centre targets: silent",
        source=_MULTICAST.replace("  // !TMA002 note", "").replace("void __cluster", "void\n__cluster"),
        targets=("sm_90a", "sm_100a"),
    ),
)

RULE = Rule(META, __doc__, check, EXAMPLES)

"""PTX for an older target, which the driver compiles on sm_12x, holds a cluster-form copy.

What it does
------------
Reports copies from `.global` to `.shared::cluster`, without multicast, that the guards exclude for every
sm_12x target asked for, but keep in PTX for compute_90 or compute_100: under `#if __CUDA_ARCH__ < 1200`,
for example, or in the branch for other targets of a macro that is set for sm_12x.

Why it matters
--------------
A card for which a library holds no cubin gets its kernels from PTX that the library ships for an older
target. The driver assembles it for the card it runs on, and the copy becomes a call of a driver function
with the same reserved stack as in a direct build: a guard on `__CUDA_ARCH__` was decided when the PTX was
made. Whether it happens depends on what is shipped, which only the build knows.

Fix safety
----------
As for TMA001: safe where the destination is proved to be the CTA's own shared memory, unsafe where only
the launches in sight speak for it. On sm_90 to sm_110 both spellings assemble to identical SASS.

References
----------
PTX ISA, ".target"; CUDA C++ Programming Guide, "Just-in-Time Compilation" and "PTX Compatibility".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ptxguard.effects import price_copy, price_words, syscall_of, target_words
from ptxguard.finding import Confidence, Finding, Severity
from ptxguard.fix.choice import destination_fix
from ptxguard.rule import Case, CheckOptions, Example, Rule, RuleMeta, finding_at
from ptxguard.rules.cluster_form_copy import advice, decide

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.model import CopySite

SHIPPED = Case(
    "the build ships that PTX, and no cubin for some of the targets", Severity.WARNING, Confidence.MEDIUM
)
NOT_SHIPPED = Case("no build file names that PTX", Severity.NOTE, Confidence.MEDIUM)

META = RuleMeta(
    code="TMA006",
    name="cluster-form-in-older-ptx",
    summary="PTX for an older target holds a copy to shared::cluster that reaches sm_12x through the driver.",
    targets="sm_120 and sm_121, each with its a and f variants",
    since="0.1.0",
    cases=(SHIPPED, NOT_SHIPPED),
)


def check(sites: Sequence[CopySite], options: CheckOptions) -> Iterator[Finding]:
    """One finding a copy; none about the memory of a peer, where the call is needed."""
    for site in sites:
        if site.jit and site.address.destination != "peer":
            yield _finding(site, options)


def _finding(site: CopySite, options: CheckOptions) -> Finding:
    called = tuple(name for name, behaviour in site.on_target.items() if behaviour == "syscall")
    proof = decide(site)
    shipped = site.build is not None and "compiled" in site.jit.values()
    case = SHIPPED if shipped else NOT_SHIPPED
    cost = price_copy(site, called, options.gpus)
    price = price_words(cost)
    reason = f"{site.build.reason}, and " if site.build is not None and shipped else ""
    message = (
        f"no build for {target_words(called)} holds this copy to shared::cluster, but {reason}PTX for "
        f"{' and '.join(site.jit)} does: where the driver compiles that, it calls {syscall_of(site)}"
        f"{f' ({price})' if price else ''}; {advice(site, proof, None)}"
    )
    finding = finding_at(site, META, case, message)
    return replace(
        finding,
        syscall=syscall_of(site),
        cost=cost,
        severity=min(case.severity, proof.severity),
        evidence=(*finding.evidence, *(site.build.evidence if site.build is not None else ())),
        fix=destination_fix(site, proof.fix, options.cuda_min) if proof.fix is not None else None,
    )


_SOURCE = """\
#include <cstdint>
__global__ void pull(const float4* from, float* out) {
  __shared__ alignas(128) float box[256];
  __shared__ alignas(8) uint64_t full;
  uint32_t dst = (uint32_t)__cvta_generic_to_shared(box);
  uint32_t bar = (uint32_t)__cvta_generic_to_shared(&full);
GUARD
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];"MARK
               ::"r"(dst), "l"(from), "r"(bar) : "memory");
#endif
  out[threadIdx.x] = box[threadIdx.x];
}
"""
_FIXED = (
    'asm volatile("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];"'
)


def _source(guard: str, mark: str) -> str:
    return _SOURCE.replace("GUARD", guard).replace("MARK", mark)


EXAMPLES = (
    Example(
        title="kept for targets before sm_120",
        source=_source("#if __CUDA_ARCH__ < 1200", "  // !TMA006 note"),
        fixed=_FIXED,
    ),
    Example(
        title="the same; the build ships PTX for compute_90, and no cubin for sm_121",
        source=_source("#if __CUDA_ARCH__ < 1200", "  // !TMA006 warning"),
        fixed=_FIXED,
        cmake='set(CMAKE_CUDA_ARCHITECTURES "90;120a")\n',
    ),
    Example(
        title="every card has a cubin",
        source=_source("#if __CUDA_ARCH__ < 1200", "  // !TMA006 note"),
        fixed=_FIXED,
        cmake='set(CMAKE_CUDA_ARCHITECTURES "90;120-real")\n',
    ),
    Example(
        title="no PTX is shipped",
        source=_source("#if __CUDA_ARCH__ < 1200", "  // !TMA006 note"),
        fixed=_FIXED,
        cmake='set(CMAKE_CUDA_ARCHITECTURES "90-real;120a")\n',
    ),
    Example(
        title="kept for sm_90a alone, whose PTX no other card takes: silent",
        source=_source("#ifdef __CUDA_ARCH_FEAT_SM90_ALL", ""),
    ),
    Example(
        title="kept for toolkits that do not know sm_12x: silent",
        source=_source("#if __CUDACC_VER_MAJOR__ < 12", ""),
    ),
)

RULE = Rule(META, __doc__, check, EXAMPLES)

"""A copy in the form of the CTA is compiled, by its guards, with toolkits that do not have that form.

What it does
------------
Reports bulk copies from `.global` to `.shared::cta` that the guards let through for a toolkit below
CUDA 12.8, where the project says with `--cuda-min` that it supports one.

Why it matters
--------------
`.shared::cta` as a destination exists since PTX ISA 8.6 (CUDA 12.8). An older ptxas ends the build
with "State space incorrect for instruction". This is what a repair of TMA001 without a guard does
to a project that still builds with CUDA 12.4.

Fix safety
----------
No fix is offered: the guard has to fit the macros of the project. It must test the toolkit
(`__CUDACC_VER_MAJOR__`, `CUDA_VERSION`, `__cccl_ptx_isa`) and not `__CUDA_ARCH__`.

References
----------
PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk", "PTX ISA Notes".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.finding import Confidence, Finding, Severity
from ptxguard.forms import first_toolkit
from ptxguard.rule import Case, CheckOptions, Claim, Example, Rule, RuleMeta, finding_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.model import CopySite

TOO_OLD = Case(
    "--cuda-min lies below the toolkit that has the form, and no guard asks for it",
    Severity.WARNING,
    Confidence.HIGH,
)

META = RuleMeta(
    code="TMA004",
    name="cta-form-below-toolkit",
    summary="A copy to shared::cta needs CUDA 12.8, and the project supports an older toolkit.",
    targets="every target asked for",
    since="0.1.0",
    cases=(TOO_OLD,),
)


def check(sites: Sequence[CopySite], options: CheckOptions) -> Iterator[Finding]:
    """One warning a copy; silent where the user names no lowest toolkit."""
    if options.cuda_min is None:
        return
    for site in sites:
        old, needed = site.cta_form_missing_below, first_toolkit(site.copy)
        if old is not None and options.cuda_min < needed:
            message = (
                f"this copy to shared::cta needs CUDA {needed[0]}.{needed[1]}, but its guards let it through "
                f"with CUDA {old[0]}.{old[1]}; keep the cluster form there, behind a guard on the toolkit"
            )
            yield finding_at(site, META, TOO_OLD, message)


_PULL = """\
#include <cstdint>
__global__ void pull(const float4* from, float* out) {
  __shared__ alignas(128) float box[256];
  __shared__ alignas(8) uint64_t full;
  uint32_t dst = (uint32_t)__cvta_generic_to_shared(box);
  uint32_t bar = (uint32_t)__cvta_generic_to_shared(&full);
  asm volatile(
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"MARK
      " [%0], [%1], 1024, [%2];" ::"r"(dst), "l"(from), "r"(bar) : "memory");
  out[threadIdx.x] = box[threadIdx.x];
}
"""

EXAMPLES = (
    Example(
        title="a project that still builds with CUDA 12.4",
        source=_PULL.replace("MARK", "  // !TMA004 warning"),
        cuda_min=(12, 4),
        claims=(Claim("sm_120a"), Claim("sm_90a")),
    ),
    Example(
        title="a project that needs CUDA 12.8 itself: silent",
        source=_PULL.replace("MARK", ""),
        cuda_min=(12, 8),
    ),
    Example(title="no lowest toolkit named: silent", source=_PULL.replace("MARK", "")),
    Example(
        title="behind a guard on the toolkit: silent",
        source="""\
#include <cstdint>
#if __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 8)
__global__ void pull(const float4* from, float* out) {
  __shared__ alignas(128) float box[256];
  __shared__ alignas(8) uint64_t full;
  uint32_t dst = (uint32_t)__cvta_generic_to_shared(box);
  uint32_t bar = (uint32_t)__cvta_generic_to_shared(&full);
  asm volatile(
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
      " [%0], [%1], 1024, [%2];" ::"r"(dst), "l"(from), "r"(bar) : "memory");
  out[threadIdx.x] = box[threadIdx.x];
}
#endif
""",
        cuda_min=(12, 4),
    ),
)

RULE = Rule(META, __doc__, check, EXAMPLES)

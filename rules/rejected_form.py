"""A bulk copy is compiled, by its guards, for a target for which ptxas refuses its form.

What it does
------------
Reports bulk copies whose modifiers ptxas does not accept for a target that the guards let through:
modifiers that the PTX ISA does not list for the instruction, `.cta_group` outside the sm_100
family, `.tile::gather4` into `.shared::cluster` on sm_12x.

Why it matters
--------------
The build for that target ends with an error of ptxas that names a line of generated PTX and not of
the source; in PTX that is shipped and assembled on the user's machine the error comes at run time,
from the driver. A kernel template that nobody instantiates for the target does not show it at all.

Fix safety
----------
No fix is offered: which form the target should get instead, or whether the code should be excluded
there, is the author's decision.

References
----------
PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor", "Target ISA Notes".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.effects import target_words
from ptxguard.finding import Confidence, Finding, Severity
from ptxguard.rule import Case, CheckOptions, Claim, Example, Rule, RuleMeta, finding_at, targets_where

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.model import BulkCopy, CopySite

NAMED_TARGET = Case(
    "the user names a target for which ptxas refuses the form", Severity.WARNING, Confidence.HIGH
)
DEFAULT_TARGET = Case("only the default targets suggest it", Severity.NOTE, Confidence.MEDIUM)

META = RuleMeta(
    code="TMA003",
    name="rejected-form",
    summary="ptxas refuses the form of this copy for a target that the guards let through.",
    targets="every target asked for",
    since="0.1.0",
    cases=(NAMED_TARGET, DEFAULT_TARGET),
)


def check(sites: Sequence[CopySite], options: CheckOptions) -> Iterator[Finding]:
    """One finding a copy, for all refusing targets together."""
    case = NAMED_TARGET if options.targets_named else DEFAULT_TARGET
    for site in sites:
        targets = targets_where(site, "rejected", "compiled")
        if targets and site.hidden is None:  # a library guards its own forms
            message = (
                f"ptxas refuses this copy for {target_words(targets)} ({_reason(site.copy)}), but the guards "
                "let it through; exclude it there or give these targets a form that they have"
            )
            yield finding_at(site, META, case, message)


def _reason(copy: BulkCopy) -> str:
    if copy.unknown_modifiers:
        return f"not a modifier of this instruction: .{', .'.join(copy.unknown_modifiers)}"
    if copy.cta_group:
        return ".cta_group needs a target of the sm_100 family"
    if copy.mode not in ("", "tile", "im2col"):
        return f".{copy.mode} with .{copy.destination_space} is not available there"
    return "the combination of its modifiers is not available there"


_PAIR = """\
#include <cuda.h>
#include <cstdint>
__global__ void pull(const __grid_constant__ CUtensorMap map, float* out) {
  __shared__ alignas(128) float box[256];
  __shared__ alignas(8) uint64_t full;
  uint32_t dst = (uint32_t)__cvta_generic_to_shared(box);
  uint32_t bar = (uint32_t)__cvta_generic_to_shared(&full);
#if GUARD
  asm volatile(
      "cp.async.bulk.tensor.1d.cta_group::1.shared::cluster.global.tile.mbarrier::complete_tx::bytes"MARK
      " [%0], [%1, {%2}], [%3];" ::"r"(dst), "l"(&map), "r"(0), "r"(bar) : "memory");
#endif
  out[threadIdx.x] = box[threadIdx.x];
}
"""


def _pair(guard: str, mark: str) -> str:
    return _PAIR.replace("GUARD", guard).replace("MARK", mark)


EXAMPLES = (
    Example(
        title="a form of the sm_100 family, for a target that the user names",
        source=_pair("__CUDA_ARCH__ >= 1000", "  // !TMA003 warning"),
        targets=("sm_100a", "sm_120a"),
        claims=(Claim("sm_120a", error="cta_group"), Claim("sm_100a")),
    ),
    Example(
        title="the same, suggested by the default targets alone",
        source=_pair("__CUDA_ARCH__ >= 1000", "  // !TMA003 note"),
    ),
    Example(
        title="the guard keeps it away from sm_12x: silent",
        source=_pair("__CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200", ""),
        targets=("sm_100a", "sm_120a"),
        claims=(Claim("sm_120a"), Claim("sm_100a")),
    ),
)

RULE = Rule(META, __doc__, check, EXAMPLES)

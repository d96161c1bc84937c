"""A bulk copy spelled for the cluster window is compiled for a target where it becomes a driver call.

What it does
------------
Reports `cp.async.bulk` and `cp.async.bulk.tensor` copies from `.global` to `.shared::cluster`,
without multicast, that the guards compile for sm_120 or sm_121. There ptxas emits, beside the copy,
a test whether the destination lies in another CTA of the cluster and a call of a driver function
(`__cuda_syscall_cp_async_bulk…_unicast`) for that case. Neither `__cluster_dims__(1,1,1)` nor a
local address removes the call; the `.shared::cta` form of the same copy never has it.

Why it matters
--------------
The driver function needs about 14 KB of stack. The first launch of a kernel that refers to it
raises the stack limit of the context from 1,024 bytes to that size for every resident thread of the
card, used or not, and the memory stays taken until the context ends or the limit is lowered:
several GiB on a large card, outside every allocator. `ptxas -v` and `cuobjdump -res-usage` show 0
to 16 bytes, because the stack belongs to the driver.

The call also costs speed. The kernel has an ABI call frame and at least 24 registers, and
`setmaxnreg` is ignored (ptxas C7506, an "info" that no `-Werror` catches). The launch that raises
the limit waits until all running kernels have ended: beside a persistent kernel that waits for it,
it hangs.

Fix safety
----------
The fix writes `.shared::cta`, which is the same copy as long as the destination lies in the issuing
CTA. On sm_90 to sm_110 both spellings assemble to identical SASS, so that a test there cannot catch
a wrong rewrite. It is safe where the destination is proved to be the CTA's own shared memory: then
any cluster size will do. It is unsafe where only the launches in sight, all of one CTA per cluster,
speak for it: a caller outside the tree may launch otherwise. It is never offered for the address of
a peer. The `.shared::cta` form needs CUDA 12.8 (PTX ISA 8.6); with a lower `--cuda-min` the fix stands
under a guard on the toolkit, not on `__CUDA_ARCH__`: PTX that is shipped for compute_90 and
assembled on the user's sm_120 passes a guard on the architecture and brings the call back.

References
----------
PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk" and "…: cp.async.bulk.tensor";
PTX ISA, "setmaxnreg"; NVIDIA/TransformerEngine issue 3765 (first public measurement).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ptxguard.effects import performance_of, price_copy, price_words, syscall_of, target_words
from ptxguard.finding import Confidence, Finding, Severity
from ptxguard.fix.choice import destination_fix, needs_guard
from ptxguard.fix.spelling import settle_shared
from ptxguard.fix.switch import switch_words
from ptxguard.rule import (
    BUILT_FOR_OTHERS,
    PTX_SHIPPED,
    Case,
    CheckOptions,
    Claim,
    Example,
    Rule,
    RuleMeta,
    finding_at,
    one_note,
    targets_where,
    weighed_by_build,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.model import CopySite

PEER = Case("the destination is the memory of a peer CTA", Severity.NOTE, Confidence.HIGH)
LOCAL = Case(
    "the destination lies in the issuing CTA; any cluster size, also without a launch in sight",
    Severity.ERROR,
    Confidence.HIGH,
    fix="safe",
)
LOCAL_PEER_MBARRIER = Case(
    "the destination lies in the issuing CTA, the mbarrier in a peer", Severity.WARNING, Confidence.MEDIUM
)
ALL_LAUNCHES_ONE = Case(
    "the destination is not proven; every launch is in sight, with one CTA per cluster; not public",
    Severity.ERROR,
    Confidence.MEDIUM,
    fix="unsafe",
)
PUBLIC_HEADER = Case(
    "the destination is not proven, in a header declared public: one note a file",
    Severity.NOTE,
    Confidence.LOW,
)
NOT_PROVEN = Case(
    "neither the destination nor the cluster size is proven", Severity.WARNING, Confidence.MEDIUM
)
GUARD_UNDECIDED = Case(
    "the guards depend on a macro that nobody defines: an error of the rows above becomes a warning",
    Severity.WARNING,
    Confidence.LOW,
)

META = RuleMeta(
    code="TMA001",
    name="cluster-form-copy",
    summary="A copy to shared::cluster calls the driver on sm_12x, which reserves stack on the whole card.",
    targets="sm_120 and sm_121, each with its a and f variants",
    since="0.1.0",
    cases=(
        PEER,
        LOCAL_PEER_MBARRIER,
        LOCAL,
        PUBLIC_HEADER,
        ALL_LAUNCHES_ONE,
        NOT_PROVEN,
        GUARD_UNDECIDED,
        BUILT_FOR_OTHERS,
        PTX_SHIPPED,
    ),
)


def decide(site: CopySite) -> Case:
    """The row of the table that holds for a copy, guards aside."""
    if site.address.destination == "peer":
        return PEER
    if site.address.destination == "local":
        return LOCAL_PEER_MBARRIER if site.address.mbarrier == "peer" else LOCAL
    all_one = site.cluster.verdict == "one" and site.cluster.launches_in_sight
    if site.public:
        return PUBLIC_HEADER
    return ALL_LAUNCHES_ONE if all_one else NOT_PROVEN


def check(sites: Sequence[CopySite], options: CheckOptions) -> Iterator[Finding]:
    """One finding a copy; copies of a public header about which nothing is proven share one note."""
    return iter(settle_shared(_findings(sites, options)))


def _findings(sites: Sequence[CopySite], options: CheckOptions) -> Iterator[Finding]:
    shared: dict[str, list[Finding]] = {}
    for site in sites:
        if site.copy.multicast or not site.copy.is_cluster_load or site.hidden is not None:
            continue
        compiled = targets_where(site, "syscall", "compiled")
        possible = targets_where(site, "syscall", "unknown")
        if not compiled and not possible:
            continue
        case = decide(site)
        finding = _finding(site, case, compiled, possible, options)
        if case is PUBLIC_HEADER:
            shared.setdefault(finding.path, []).append(finding)
        else:
            yield finding
    for findings in shared.values():
        yield one_note(findings)


def _finding(
    site: CopySite, case: Case, compiled: tuple[str, ...], possible: tuple[str, ...], options: CheckOptions
) -> Finding:
    targets = compiled or possible
    cost = price_copy(site, targets, options.gpus)
    finding = finding_at(site, META, case, "")
    finding = replace(finding, syscall=syscall_of(site), cost=cost, performance=performance_of(site))
    condition = ""
    if not compiled:
        severity = min(finding.severity, GUARD_UNDECIDED.severity)
        finding = replace(finding, severity=severity, confidence=GUARD_UNDECIDED.confidence)
        condition = f", if {_undecided_guard(site)} holds"
    price = price_words(cost)
    fact = (
        f"this copy to shared::cluster calls {finding.syscall} on {target_words(targets)}{condition}"
        f"{f' ({price})' if price else ''}"
    )
    if case.fix is not None:
        finding = replace(finding, fix=destination_fix(site, case.fix, options.cuda_min))
    guarded = options if needs_guard(options.cuda_min) and site.kind != "ptx" else None
    switch = switch_words(site)
    told = f"{advice(site, case, guarded)}{f'; {switch}' if switch else ''}"
    finding = replace(finding, message=f"{fact}; {told}")
    return weighed_by_build(finding, site, options)


def advice(site: CopySite, case: Case, guarded: CheckOptions | None) -> str:
    """What to do about a copy, and why; `guarded` where a guard on the toolkit is needed."""
    if case is PEER:
        return "its destination is a peer's memory, so the call is needed and the copy must stay as it is"
    if case is LOCAL_PEER_MBARRIER:
        return "its destination is this CTA's own memory, its mbarrier a peer's: find out which is meant"
    if case is NOT_PROVEN or case is PUBLIC_HEADER:
        return (
            "write shared::cta if every caller passes its own CTA's memory. What is missing: "
            f"{site.address.reason}; {site.cluster.reason}"
        )
    proof = (
        "its destination is this CTA's own memory"
        if case is LOCAL
        else "every launch has one CTA per cluster"
    )
    if guarded is not None and guarded.cuda_min is not None:
        return (
            f"{proof}: write shared::cta under a guard on CUDA >= 12.8, since --cuda-min is "
            f"{guarded.cuda_min[0]}.{guarded.cuda_min[1]}"
        )
    return f"{proof}: write shared::cta"


def _undecided_guard(site: CopySite) -> str:
    guards = [item.text for item in site.evidence if item.kind == "guard"]
    return " and ".join(f"`{text}`" for text in guards) or "a guard on a macro that nobody defines"


_UNICAST = "__cuda_syscall_cp_async_bulk_unicast"

_OWN = """\
#include <cstdint>
__global__ void pull(const float4* from, float* out) {
  __shared__ alignas(128) float box[256];
  __shared__ alignas(8) uint64_t full;
  uint32_t dst = (uint32_t)__cvta_generic_to_shared(box);
  uint32_t bar = (uint32_t)__cvta_generic_to_shared(&full);
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"  // !TMA001 error
      " [%0], [%1], 1024, [%2];" ::"r"(dst), "l"(from), "r"(bar) : "memory");
  out[threadIdx.x] = box[threadIdx.x];
}
"""


def _guarded(condition: str, mark: str) -> str:
    """The copy of `_OWN` under a preprocessor condition."""
    before, statement = _OWN.replace("  // !TMA001 error", mark).split("  asm volatile(")
    asm, after = statement.split("  out[")
    return f"{before}{condition}\n  asm volatile({asm}#endif\n  out[{after}"


_MARK = "  // !TMA001 error"

EXAMPLES = (
    Example(
        title="built for the data centre alone, and for no PTX that later cards would take",
        source=_OWN.replace(_MARK, "  // !TMA001 note"),
        cmake='set(CMAKE_CUDA_ARCHITECTURES "90a-real;100a-real")\n',
    ),
    Example(
        title="built for sm_90 with its PTX, which the driver compiles for sm_12x",
        source=_OWN.replace(_MARK, "  // !TMA001 warning"),
        fixed='"cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"',
        cmake="set(CMAKE_CUDA_ARCHITECTURES 90)\n",
    ),
    Example(
        title="built for sm_120 among others",
        source=_OWN,
        fixed='"cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"',
        cmake="set(CMAKE_CUDA_ARCHITECTURES 90a 120a)\n",
    ),
    Example(
        title="targets that the build computes count as unknown",
        source=_OWN,
        fixed='"cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"',
        cmake="set(CMAKE_CUDA_ARCHITECTURES 90a)\nset(CMAKE_CUDA_ARCHITECTURES native)\n",
    ),
    Example(
        title="the CTA's own memory, spelled as if it could be a peer's",
        source=_OWN,
        fixed='"cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"',
        claims=(Claim("sm_120a", syscall=_UNICAST), Claim("sm_121", syscall=_UNICAST), Claim("sm_90a")),
    ),
    Example(
        title="the same copy in the form of the CTA: silent",
        source=_OWN.replace("shared::cluster", "shared::cta").replace("  // !TMA001 error", ""),
        claims=(Claim("sm_120a"), Claim("sm_90a")),
    ),
    Example(
        title="the project still supports a toolkit without the form of the CTA: the fix is guarded",
        source=_OWN,
        fixed='"cp.async.bulk.shared::" TMA_LOAD_SPACE ".global.mbarrier::complete_tx::bytes"',
        cuda_min=(12, 4),
    ),
    Example(
        title="own destination, but the mbarrier of a peer: somebody has to say which is meant",
        source="""\
#include <cstdint>
__global__ void __cluster_dims__(2, 1, 1) pull(const float4* from, float* out) {
  __shared__ alignas(128) float box[256];
  __shared__ alignas(8) uint64_t full;
  uint32_t dst = (uint32_t)__cvta_generic_to_shared(box);
  uint32_t bar = (uint32_t)__cvta_generic_to_shared(&full), peer_bar;
  asm volatile("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(peer_bar) : "r"(bar));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"  // !TMA001 warning
      " [%0], [%1], 1024, [%2];" ::"r"(dst), "l"(from), "r"(peer_bar) : "memory");
  out[threadIdx.x] = box[threadIdx.x];
}
""",
        claims=(Claim("sm_120a", syscall=_UNICAST),),
    ),
    Example(
        title="a copy into the memory of a peer needs the call",
        source="""\
#include <cstdint>
__global__ void __cluster_dims__(2, 1, 1) push(const float4* from, float* out) {
  __shared__ alignas(128) float box[256];
  __shared__ alignas(8) uint64_t full;
  uint32_t dst = (uint32_t)__cvta_generic_to_shared(box), peer_dst;
  uint32_t bar = (uint32_t)__cvta_generic_to_shared(&full), peer_bar;
  asm volatile("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(peer_dst) : "r"(dst));
  asm volatile("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(peer_bar) : "r"(bar));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"  // !TMA001 note
      " [%0], [%1], 1024, [%2];" ::"r"(peer_dst), "l"(from), "r"(peer_bar) : "memory");
  out[threadIdx.x] = box[threadIdx.x];
}
""",
        claims=(Claim("sm_120a", syscall=_UNICAST),),
    ),
    Example(
        title="the address comes from outside, the only launch has one CTA per cluster",
        source="""\
#include <cstdint>
__global__ void pull(const float4* from, uint32_t dst, uint32_t bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"  // !TMA001 error
      " [%0], [%1], 1024, [%2];" ::"r"(dst), "l"(from), "r"(bar) : "memory");
}
void run(const float4* from) { pull<<<8, 256, 4096>>>(from, 0, 1024); }
""",
        fixed='"cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"',
        claims=(Claim("sm_120a", syscall=_UNICAST),),
    ),
    Example(
        title="neither the address nor a launch is in sight",
        source="""\
#include <cstdint>
__device__ void pull(uint32_t dst, const float4* from, uint32_t bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"  // !TMA001 warning
      " [%0], [%1], 1024, [%2];" ::"r"(dst), "l"(from), "r"(bar) : "memory");
}
""",
    ),
    Example(
        title="a public header about whose callers nothing is known: one note for the file",
        source="""\
#include <cstdint>
__device__ inline void pull(uint32_t dst, const float4* from, uint32_t bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"  // !TMA001 note
      " [%0], [%1], 1024, [%2];" ::"r"(dst), "l"(from), "r"(bar) : "memory");
}
__device__ inline void pull_twice(uint32_t dst, const float4* from, uint32_t bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1], 2048, [%2];" ::"r"(dst), "l"(from), "r"(bar) : "memory");
}
""",
        public=True,
    ),
    Example(
        title="compiled only under a macro that nobody defines",
        source=_guarded("#ifdef PULL_WITH_TMA", "  // !TMA001 warning"),
        fixed='"cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"',
        claims=(Claim("sm_120a"),),
    ),
    Example(
        title="compiled for sm_90a alone, whose PTX no other card takes: silent",
        source=_guarded("#ifdef __CUDA_ARCH_FEAT_SM90_ALL", ""),
        claims=(Claim("sm_120a"),),
    ),
    Example(
        title="a copy from one CTA's shared memory to another's is native everywhere: silent",
        source="""\
#include <cstdint>
__global__ void __cluster_dims__(2, 1, 1) push(float* out) {
  __shared__ alignas(128) float box[256];
  __shared__ alignas(8) uint64_t full;
  uint32_t src = (uint32_t)__cvta_generic_to_shared(box), peer_dst;
  uint32_t bar = (uint32_t)__cvta_generic_to_shared(&full), peer_bar;
  asm volatile("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(peer_dst) : "r"(src));
  asm volatile("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(peer_bar) : "r"(bar));
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
      " [%0], [%1], 1024, [%2];" ::"r"(peer_dst), "r"(src), "r"(peer_bar) : "memory");
  out[threadIdx.x] = box[threadIdx.x];
}
""",
        claims=(Claim("sm_120a"),),
    ),
)

RULE = Rule(META, __doc__, check, EXAMPLES)

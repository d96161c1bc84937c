"""A library call or type hides a bulk copy in the form that becomes a driver call on sm_12x.

What it does
------------
Reports uses of library wrappers whose inline assembly, out of sight in a header, copies from
`.global` to `.shared::cluster`: `cuda::ptx::cp_async_bulk` and `cp_async_bulk_tensor` with the tag
`space_cluster`, `cuda::device::experimental::cp_async_bulk_…_global_to_shared`,
`cuda::memcpy_async` and `cuda::device::memcpy_async_tx` with a barrier, the device-wide transforms
of Thrust and CUB, and the CuTe atoms `SM90_TMA_LOAD…` and `SM90_BULK_COPY_…`. A call is judged like
the assembly that it hides: by the owner of the memory it is given, the kernels that reach it and
their cluster size.

Why it matters
--------------
What TMA001 says holds for these calls too: the driver function, its stack for every resident thread
of the card, registers, `setmaxnreg`, the late first launch. Nothing at the call shows it, and a
search for `shared::cluster` finds nothing.

Which form a wrapper hides can depend on the version of its library: the copies of
`cuda::memcpy_async` and of the transforms are spelled for the own CTA since CCCL 3.2, the tile loads
of CuTe on sm_12x since CUTLASS 3.9. The version is read from the tree (`CCCL_VERSION`,
`CUTLASS_MAJOR`) or from `-D`. Where neither tells, the finding says so and is a warning.

Fix safety
----------
The assembly stands in the library. Where a tag at the call decides, the fix writes `space_shared` in
the place of `space_cluster`; an experimental helper becomes the call of `cuda::ptx` that it makes
itself, with that tag. Both need a CCCL in the tree that has the overload (2.8), and the conditions of
TMA001 for the rewrite hold. Elsewhere no fix is offered, and the message says what to write or which
version to build with.

References
----------
libcu++, "PTX" and "Asynchronous Operations"; CUTLASS, `include/cute/arch/copy_sm90_tma.hpp`;
PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ptxguard.effects import performance_of, price_copy, price_words, syscall_of, target_words
from ptxguard.finding import Confidence, Finding, Severity
from ptxguard.fix.choice import destination_fix
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
    targets_where,
    weighed_by_build,
)
from ptxguard.rules import cluster_form_copy as plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.model import CopySite, Hidden

MULTICAST = Case("multicast: software on sm_12x", Severity.NOTE, Confidence.HIGH)
PEER = replace(plain.PEER)
HOST_UNKNOWN = Case(
    "a host function whose kernel may make the copy: the version of the library is not in the tree",
    Severity.NOTE,
    Confidence.LOW,
)
HOST = Case(
    "a host function whose kernel makes the copy in the library's version in the tree",
    Severity.WARNING,
    Confidence.MEDIUM,
)
FORM_UNKNOWN = Case(
    "the form depends on a version, a type or a tag that the tree does not show",
    Severity.WARNING,
    Confidence.LOW,
)
LOCAL = replace(plain.LOCAL)
LOCAL_PEER_MBARRIER = replace(plain.LOCAL_PEER_MBARRIER)
PUBLIC_HEADER = replace(plain.PUBLIC_HEADER, condition="the destination is not proven, in a public header")
ALL_LAUNCHES_ONE = replace(plain.ALL_LAUNCHES_ONE)
NOT_PROVEN = replace(plain.NOT_PROVEN)
GUARD_UNDECIDED = replace(plain.GUARD_UNDECIDED)

META = RuleMeta(
    code="TMA005",
    name="hidden-by-wrapper",
    summary="A library call hides a copy to shared::cluster, which calls the driver on sm_12x.",
    targets="sm_120 and sm_121, each with its a and f variants",
    since="0.1.0",
    cases=(
        MULTICAST,
        PEER,
        HOST_UNKNOWN,
        HOST,
        FORM_UNKNOWN,
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
_LIKE_PLAIN = {
    plain.LOCAL_PEER_MBARRIER: LOCAL_PEER_MBARRIER,
    plain.LOCAL: LOCAL,
    plain.PUBLIC_HEADER: PUBLIC_HEADER,
    plain.ALL_LAUNCHES_ONE: ALL_LAUNCHES_ONE,
    plain.NOT_PROVEN: NOT_PROVEN,
}


def decide(site: CopySite, hidden: Hidden) -> Case:
    """The row of the table that holds for a wrapper, guards aside."""
    if site.copy.multicast:
        return MULTICAST
    if site.address.destination == "peer":
        return PEER
    if hidden.kind == "host":
        return HOST if hidden.certain else HOST_UNKNOWN
    return _LIKE_PLAIN[plain.decide(site)] if hidden.certain else FORM_UNKNOWN


def check(sites: Sequence[CopySite], options: CheckOptions) -> Iterator[Finding]:
    """One finding a use that hides, or may hide, the cluster form."""
    for site in sites:
        hidden = site.hidden
        if hidden is None or not site.copy.is_cluster_load:
            continue
        compiled = targets_where(site, "syscall", "compiled")
        targets = compiled or targets_where(site, "syscall", "unknown")
        if targets:
            yield _finding(site, hidden, targets, options, undecided=not compiled)


def _finding(
    site: CopySite, hidden: Hidden, targets: Sequence[str], options: CheckOptions, *, undecided: bool
) -> Finding:
    case = decide(site, hidden)
    cost, symbol = price_copy(site, targets, options.gpus), syscall_of(site)
    price = price_words(cost)
    may = "hides" if hidden.certain else "may hide"
    message = (
        f"{hidden.name} {may} a copy to shared::cluster, which calls {symbol} on {target_words(targets)}"
        f"{f' ({price})' if price else ''}; {_advice(site, hidden, case)}"
    )
    finding = finding_at(site, META, case, message)
    if undecided and finding.severity > GUARD_UNDECIDED.severity:
        finding = replace(finding, severity=GUARD_UNDECIDED.severity, confidence=GUARD_UNDECIDED.confidence)
    finding = replace(finding, syscall=symbol, cost=cost, performance=performance_of(site))
    if case.fix is not None:
        finding = replace(finding, fix=destination_fix(site, case.fix, options.cuda_min))
    return weighed_by_build(finding, site, options)


def _advice(site: CopySite, hidden: Hidden, case: Case) -> str:
    if case is PEER:
        return "its destination is a peer's memory, so the call is needed and must stay as it is"
    if case in (FORM_UNKNOWN, HOST_UNKNOWN):
        return f"{hidden.reason}: {hidden.instead}"
    if case in (NOT_PROVEN, PUBLIC_HEADER):
        return f"{hidden.instead}. What is not proven: {site.address.reason}; {site.cluster.reason}"
    return hidden.instead


_PULL = """\
#include <cuda/barrier>
namespace cde = cuda::device::experimental;
__global__ void pull(const float* from, float* out) {
  __shared__ alignas(128) float box[256];
  __shared__ cuda::barrier<cuda::thread_scope_block> full;
  if (threadIdx.x == 0) {
    init(&full, blockDim.x);
    CALL
  }
  out[threadIdx.x] = box[threadIdx.x];
}
"""
_PTX = """\
#include <cuda/ptx>
#include <cuda/std/type_traits>
__global__ void pull(const float* from, float* out) {
  __shared__ alignas(128) float box[256];
  __shared__ alignas(8) uint64_t full;
  cuda::ptx::cp_async_bulk(TAG, cuda::ptx::space_global, box, from, 1024, &full);MARK
  out[threadIdx.x] = box[threadIdx.x];
}
"""
_UNICAST = "__cuda_syscall_cp_async_bulk_unicast"

EXAMPLES = (
    Example(
        title="the experimental helper, through a namespace alias",
        source=_PULL.replace(
            "CALL", "cde::cp_async_bulk_global_to_shared(box, from, 1024, full);  // !TMA005 error"
        ),
        claims=(Claim("sm_120a", syscall=_UNICAST), Claim("sm_90a")),
    ),
    Example(
        title="cuda::ptx with the tag of the cluster window",
        source=_PTX.replace("TAG", "cuda::ptx::space_cluster").replace("MARK", "  // !TMA005 error"),
        claims=(Claim("sm_120a", syscall=_UNICAST),),
    ),
    Example(
        title="the same with a CCCL in the tree that has the other tag",
        source="#define CCCL_VERSION 3000001\n"
        + _PTX.replace("TAG", "cuda::ptx::space_cluster").replace("MARK", "  // !TMA005 error"),
        fixed="cuda::ptx::cp_async_bulk(cuda::ptx::space_shared, cuda::ptx::space_global, box, from, 1024, "
        "&full);",
        claims=(Claim("sm_120a", syscall=_UNICAST),),
    ),
    Example(
        title="a tag chosen by the toolkit's PTX version, old form still alive: silent from CUDA 12.8 on",
        source=_PTX.replace(
            "TAG",
            "cuda::std::conditional_t<__cccl_ptx_isa >= 860, cuda::ptx::space_shared_t, "
            "cuda::ptx::space_cluster_t>{}",
        ).replace("MARK", ""),
        claims=(Claim("sm_120a"),),
    ),
    Example(
        title="the tag of the own CTA's window: silent",
        source=_PTX.replace("TAG", "cuda::ptx::space_shared").replace("MARK", ""),
        claims=(Claim("sm_120a"),),
    ),
    Example(
        title="a call whose form depends on the version of CCCL, which the tree does not show",
        source=_PULL.replace(
            "CALL",
            "cuda::memcpy_async(box, from, cuda::aligned_size_t<16>(1024), full);  // !TMA005 warning",
        ),
    ),
    Example(
        title="the same with the version of the tree: older than 3.2",
        source="#define CCCL_VERSION 3000001\n"
        + _PULL.replace(
            "CALL", "cuda::memcpy_async(box, from, cuda::aligned_size_t<16>(1024), full);  // !TMA005 error"
        ),
    ),
    Example(
        title="the same with CCCL 3.2: silent",
        source="#define CCCL_VERSION 3002000\n"
        + _PULL.replace("CALL", "cuda::memcpy_async(box, from, cuda::aligned_size_t<16>(1024), full);"),
    ),
    Example(
        title="too little alignment for a bulk copy: silent",
        source=_PULL.replace("CALL", "cuda::memcpy_async(box, from, cuda::aligned_size_t<4>(1024), full);"),
    ),
    Example(
        title="a CuTe atom of a CUTLASS that the tree does not hold",
        source="""\
#include <cute/tensor.hpp>
using namespace cute;
template <class Tensor, class Layout>
auto make_load(Tensor const& source, Layout const& layout) {
  return make_tma_copy(SM90_TMA_LOAD{}, source, layout);  // !TMA005 warning
}
""",
    ),
    Example(
        title="a function of the project that has the name of a wrapper: silent",
        source="""\
namespace ptx {
__device__ void cp_async_bulk(int tag, int from_tag, float* to, const float* from, int size, void* bar);
__device__ void cp_async_bulk(int tag, int from_tag, float* to, const float* from, int size, void* bar) {}
}
__global__ void pull(const float* from) {
  __shared__ float box[256];
  ptx::cp_async_bulk(0, 1, box, from, 1024, nullptr);
}
""",
    ),
    Example(
        title="built for the data centre alone",
        source=_PTX.replace("TAG", "cuda::ptx::space_cluster").replace("MARK", "  // !TMA005 note"),
        cmake='set(CMAKE_CUDA_ARCHITECTURES "90a")\n',
    ),
    Example(
        title="not for sm_12x: silent",
        source=_PTX.replace("TAG", "cuda::ptx::space_cluster").replace("MARK", ""),
        targets=("sm_90a", "sm_100a"),
    ),
)

RULE = Rule(META, __doc__, check, EXAMPLES)

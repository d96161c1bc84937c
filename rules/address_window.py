"""An instruction gets an address of the wrong window: generic where it wants shared, or the other way round.

What it does
------------
Reports loads, stores, atomics, `ldmatrix`, `stmatrix` and mbarrier instructions in inline assembly that
name no state space, and so take a generic address, but get an offset in the shared window (the result
of `__cvta_generic_to_shared` and the like, in a 32-bit register); and those that name `.shared` but get
a pointer that nothing has converted. What an operand holds is followed through variables, helpers and
callers; where nothing tells, nothing is reported.

Why it matters
--------------
nvcc and ptxas say nothing. PTX leaves the result undefined; which targets hide the mistake changes. A
pointer works where the low half of a generic address happens to be the offset. `ldmatrix` without
`.shared`, fed with a converted address, works on sm_90, sm_100 and sm_120, and reads elsewhere on sm_80
and sm_89, where ptxas subtracts the base of the window from an address that is already relative. The
first error that shows is one of an unrelated call.

Fix safety
----------
No fix is offered: the instruction needs its state space, or the operand another conversion.

References
----------
PTX ISA, "Addresses as Operands" and "State Space: Generic Addressing"; CUDA C++ Programming Guide,
"Address Space Conversion Functions".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ptxguard.finding import Confidence, Finding, Severity
from ptxguard.rule import Case, CheckOptions, Example, Rule, RuleMeta, finding_in
from ptxguard.semantics import address_space, first_address

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.model import AsmArgument, AsmCode, Instruction

SHARED_AS_GENERIC = Case(
    "no state space, but the address is an offset in the shared window", Severity.ERROR, Confidence.HIGH
)
GENERIC_AS_SHARED = Case(
    "the state space is shared, but the address is a pointer that nothing has converted",
    Severity.WARNING,
    Confidence.MEDIUM,
)

META = RuleMeta(
    code="ASM003",
    name="address-window",
    summary="An address of the shared window is used as a generic one, or the other way round.",
    targets="every target",
    since="0.1.0",
    cases=(SHARED_AS_GENERIC, GENERIC_AS_SHARED),
)


def check(codes: Sequence[AsmCode], options: CheckOptions) -> Iterator[Finding]:
    """One finding an instruction."""
    del options  # it is wrong on every target, also where it happens to work
    for code in codes:
        for instruction in code.instructions:
            space, address = address_space(instruction), first_address(instruction)
            argument = code.bound(address.text) if address is not None else None
            if space is not None and argument is not None:
                finding = _judge(code, instruction, space, argument)
                if finding is not None:
                    yield finding


def _judge(code: AsmCode, instruction: Instruction, space: str, argument: AsmArgument) -> Finding | None:
    places = ", ".join(f"{link.path}:{link.line}" for link in argument.evidence)
    if space == "" and argument.window == "shared":
        message = (
            f"{instruction.parts[0]} without a state space takes a generic address, but {argument.text} is "
            f"an offset in the shared window ({places}): write .shared"
        )
        return _shown(finding_in(code, instruction, META, SHARED_AS_GENERIC, message), argument)
    if space.startswith("shared") and argument.window == "generic":
        message = (
            f"{instruction.parts[0]}.{space} takes an offset in the shared window, but {argument.text} is a "
            f"generic address ({places}): convert it with __cvta_generic_to_shared"
        )
        return _shown(finding_in(code, instruction, META, GENERIC_AS_SHARED, message), argument)
    return None


def _shown(finding: Finding, argument: AsmArgument) -> Finding:
    return replace(finding, evidence=(*finding.evidence, *argument.evidence))


EXAMPLES = (
    Example(
        title="ldmatrix without its state space, the address converted by the caller",
        source="""\
#include <cstdint>
__device__ uint32_t fragment(uint32_t at) {
  uint32_t value;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.b16 {%0}, [%1];"  // !ASM003 error
               : "=r"(value) : "r"(at) : "memory");
  return value;
}
__global__ void use(uint32_t* out) {
  __shared__ alignas(16) uint32_t tile[256];
  out[threadIdx.x] = fragment((uint32_t)__cvta_generic_to_shared(tile) + 16 * threadIdx.x);
}
""",
    ),
    Example(
        title="a pointer where the instruction wants an offset",
        source="""\
#include <cstdint>
__device__ uint32_t get(const uint32_t* from) {
  uint32_t value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "l"(from));  // !ASM003 warning
  return value;
}
""",
    ),
    Example(
        title="converted, with the state space: silent",
        source="""\
#include <cstdint>
__device__ uint32_t get(const uint32_t* from) {
  uint32_t value;
  asm volatile("ld.shared.u32 %0, [%1];"
               : "=r"(value) : "r"((uint32_t)__cvta_generic_to_shared(from)));
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_shared(from)));
  asm volatile("ld.u32 %0, [%1];" : "=r"(value) : "l"(from));
  return value;
}
""",
    ),
    Example(
        title="nothing tells what the register holds: silent",
        source="""\
#include <cstdint>
__device__ uint32_t get(uint32_t at, uint64_t wide) {
  uint32_t value;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.b16 {%0}, [%1];" : "=r"(value) : "r"(at));
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "l"(wide));
  return value;
}
""",
    ),
    Example(
        title="callers disagree: silent",
        source="""\
#include <cstdint>
__device__ uint32_t get(uint64_t at) {
  uint32_t value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "l"(at));
  return value;
}
__device__ uint32_t both(const uint32_t* from) {
  return get((uint64_t)from) + get(__cvta_generic_to_shared(from));
}
""",
    ),
)

RULE = Rule(META, __doc__, check, EXAMPLES, subject="codes")

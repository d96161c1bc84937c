"""The PTX of an asm statement writes an input operand, or names an operand that is not in the list.

What it does
------------
Reports instructions of inline assembly whose result goes into an operand of the input list (`%1` that
stands behind the second colon), and operand numbers at or past the end of the list.

Why it matters
--------------
nvcc compiles a write to an input without a word: the register that holds the caller's value is
overwritten, and what the caller wanted as a result is never set. An index past the list ends nvcc with
an internal error, but only once somebody instantiates the template that the statement stands in. Both
sleep in helpers that no test calls.

Fix safety
----------
No fix is offered: whether the operand is meant as an output (`"=r"`), as both (`"+r"`), or whether the
number is wrong, is the author's decision.

References
----------
"Inline PTX Assembly in CUDA", "Parameters"; PTX ISA, the syntax of each instruction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.finding import Confidence, Finding, Severity
from ptxguard.rule import Case, CheckOptions, Example, Rule, RuleMeta, finding_in
from ptxguard.semantics import placeholders, written_operands

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.model import AsmCode, Instruction

INPUT_WRITTEN = Case("an instruction writes an input operand", Severity.ERROR, Confidence.HIGH)
PAST_THE_LIST = Case("an operand number past the end of the list", Severity.ERROR, Confidence.HIGH)

META = RuleMeta(
    code="ASM001",
    name="asm-operand-list",
    summary="Inline PTX writes an input operand, or names an operand that is not there.",
    targets="every target",
    since="0.1.0",
    cases=(INPUT_WRITTEN, PAST_THE_LIST),
)


def check(codes: Sequence[AsmCode], options: CheckOptions) -> Iterator[Finding]:
    """One finding an operand of an instruction."""
    del options  # the operand list is the same for every target
    for code in codes:
        for instruction in code.instructions:
            yield from _written(code, instruction)
            if code.complete:
                yield from _missing(code, instruction)


def _written(code: AsmCode, instruction: Instruction) -> Iterator[Finding]:
    for operand in written_operands(instruction):
        argument = code.bound(operand.text) if operand.kind == "placeholder" else None
        if argument is not None and not argument.output:
            message = (
                f"{instruction.parts[0]} writes {operand.text}, which is the input "
                f'"{argument.constraint}"({argument.text}): make it an output with "=" or "+"'
            )
            yield finding_in(code, instruction, META, INPUT_WRITTEN, message)


def _missing(code: AsmCode, instruction: Instruction) -> Iterator[Finding]:
    for operand in placeholders(instruction):
        if operand.text[1:].isdigit() and code.bound(operand.text) is None:
            count = len(code.arguments)
            message = (
                f"{operand.text} is not in the operand list, which ends with %{count - 1}: nvcc fails with "
                "an internal error once this is instantiated"
            )
            yield finding_in(code, instruction, META, PAST_THE_LIST, message)


EXAMPLES = (
    Example(
        title="a result that goes into an input",
        source="""\
__global__ void widen(unsigned long long* out, unsigned value) {
  const unsigned long long wide = 0;
  asm volatile("cvt.u64.u32 %0, %1;" ::"l"(wide), "r"(value));  // !ASM001 error
  out[threadIdx.x] = wide;
}
""",
    ),
    Example(
        title="the same as an output: silent",
        source="""\
__global__ void widen(unsigned long long* out, unsigned value) {
  unsigned long long wide;
  asm volatile("cvt.u64.u32 %0, %1;" : "=l"(wide) : "r"(value));
  out[threadIdx.x] = wide;
}
""",
    ),
    Example(
        title="an index past the list, in a template that nobody instantiates",
        source="""\
template <int N>
__device__ void arrive(unsigned bar) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%1];" ::"r"(bar));  // !ASM001 error
}
""",
    ),
    Example(
        title="one of the registers of a vector",
        source="""\
__device__ void load(unsigned (&into)[2], const uint2* from) {
  asm("ld.global.v2.u32 {%0, %1}, [%2];"  // !ASM001 error
      : "=r"(into[0])
      : "r"(into[1]), "l"(from));
}
""",
    ),
    Example(
        title="instructions that write memory or nothing: silent",
        source="""\
__device__ void store(unsigned to, unsigned value, unsigned bar, unsigned long long state) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(value));
  asm volatile("bar.sync %0;" ::"r"(bar));
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(bar));
  asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(bar));
}
""",
    ),
)

RULE = Rule(META, __doc__, check, EXAMPLES, subject="codes")

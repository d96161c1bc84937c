"""An output operand of an asm statement has no `=` or `+`.

What it does
------------
Reports operands between the first and the second colon of an asm statement whose constraint begins
neither with `=` (written) nor with `+` (read and written).

Why it matters
--------------
nvcc refuses such a statement, but in a template only when it is instantiated: a helper that no test
calls carries the mistake until its first user.

Fix safety
----------
No fix is offered: `=` and `+` differ, and only the author knows whether the old value is read.

References
----------
"Inline PTX Assembly in CUDA", "Parameters".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.finding import Confidence, Finding, Severity
from ptxguard.rule import Case, CheckOptions, Example, Rule, RuleMeta, finding_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.model import AsmCode

UNMARKED = Case("an output whose constraint begins with neither = nor +", Severity.ERROR, Confidence.HIGH)

META = RuleMeta(
    code="ASM002",
    name="asm-output-marker",
    summary="An output operand of inline PTX has neither = nor +.",
    targets="every target",
    since="0.1.0",
    cases=(UNMARKED,),
)


def check(codes: Sequence[AsmCode], options: CheckOptions) -> Iterator[Finding]:
    """One finding an operand, at the first instruction of its statement."""
    del options  # the operand list is the same for every target
    for code in codes:
        for number, argument in enumerate(code.arguments):
            if argument.output and code.instructions and argument.constraint[:1] not in ("=", "+", ""):
                message = (
                    f'output %{number}, "{argument.constraint}"({argument.text}), has neither "=" nor "+": '
                    "nvcc refuses it once this is instantiated"
                )
                yield finding_in(code, code.instructions[0], META, UNMARKED, message)


EXAMPLES = (
    Example(
        title="an output without a marker, in a template that nobody instantiates",
        source="""\
template <int N>
__device__ int lane() {
  int value;
  asm("mov.u32 %0, %%laneid;" : "r"(value));  // !ASM002 error
  return value + N;
}
""",
    ),
    Example(
        title="written, read and written: silent",
        source="""\
__device__ int count(int value) {
  int lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm("add.s32 %0, %0, %1;" : "+r"(value) : "r"(lane));
  return value;
}
""",
    ),
    Example(
        title="a constraint that a macro hides: silent",
        source="""\
__device__ int lane() {
  int value;
  asm("mov.u32 %0, %%laneid;" : OUT_OF_SIGHT(value));
  return value;
}
""",
    ),
)

RULE = Rule(META, __doc__, check, EXAMPLES, subject="codes")

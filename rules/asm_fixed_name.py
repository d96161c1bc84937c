"""A label, register or variable of inline PTX is declared outside braces, and again by each of its copies.

What it does
------------
Reports fixed names that the text of an asm statement declares outside `{ }`: labels to which a `bra` of
the text goes, `.reg`, `.local` and `.shared` declarations.

Why it matters
--------------
An asm statement is text. nvcc writes it once for every place where its function is inlined and for every
round of an unrolled loop, and ptxas then meets the name twice in one kernel: "Duplicate definition of
label" or "of variable". A helper that is used once today fails with its second caller, or when the
compiler unrolls a loop around it. Inside braces names are local, as often as the text is repeated.

Fix safety
----------
No fix is offered: braces around the text are right unless another statement uses the name.

References
----------
PTX ISA, "Scoping" of labels and variables; "Inline PTX Assembly in CUDA", "Namespace Conflicts".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.finding import Confidence, Finding, Severity
from ptxguard.rule import Case, CheckOptions, Claim, Example, Rule, RuleMeta, finding_between

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.model import AsmCode

IN_HELPER = Case("in a function that is inlined into its callers", Severity.ERROR, Confidence.HIGH)
IN_KERNEL = Case(
    "in a kernel itself, where only an unrolled loop repeats it", Severity.WARNING, Confidence.MEDIUM
)

META = RuleMeta(
    code="ASM004",
    name="asm-fixed-name",
    summary="Inline PTX declares a fixed name outside braces, which its second copy declares again.",
    targets="every target",
    since="0.1.0",
    cases=(IN_HELPER, IN_KERNEL),
)


def check(codes: Sequence[AsmCode], options: CheckOptions) -> Iterator[Finding]:
    """One finding a statement, at its first such name."""
    del options  # ptxas says the same for every target
    for code in codes:
        if not code.names:
            continue
        first = code.names[0]
        names = ", ".join(dict.fromkeys(name.name for name in code.names))
        verb = "is" if len(code.names) == 1 else "are"
        message = (
            f"{names} {verb} declared outside braces: a second copy of this "
            f"statement (inlined or unrolled) declares {first.kind} {first.name} again, which ptxas refuses; "
            "put the text into { } or end the name with %="
        )
        case = IN_KERNEL if code.in_kernel else IN_HELPER
        yield finding_between(code, (first.start, first.start + len(first.name)), META, case, message)


_WAIT = """\
__device__ __forceinline__ void wait_on(unsigned bar) {
  asm volatile(
      "TEXT"MARK
      :: "r"(bar) : "memory");
}
__global__ void twice(unsigned first, unsigned second) {
  wait_on(first);
  wait_on(second);
}
"""
_LOOP = "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra AGAIN;"

EXAMPLES = (
    Example(
        title="a wait loop without braces",
        source=_WAIT.replace("TEXT", ".reg .pred p; " + _LOOP).replace("MARK", "  // !ASM004 error"),
        claims=(
            Claim("sm_90a", error="Duplicate definition of"),
            Claim("sm_120a", error="Duplicate definition of"),
        ),
    ),
    Example(
        title="a scratch register, in a helper that is called once today",
        source="""\
__device__ int square(int x) {
  int y;
  asm(".reg .u32 t; mul.lo.u32 t, %1, %1; mov.u32 %0, t;" : "=r"(y) : "r"(x));  // !ASM004 error
  return y;
}
""",
    ),
    Example(
        title="in a kernel itself",
        source="""\
__global__ void lane_of(int *out) {
  asm volatile(".reg .u32 t; mov.u32 t, %%laneid; st.u32 [%0], t;" :: "l"(out));  // !ASM004 warning
}
""",
    ),
    Example(
        title="the same in braces: silent",
        source=_WAIT.replace("TEXT", "{ .reg .pred p; " + _LOOP + " }").replace("MARK", ""),
        claims=(Claim("sm_90a"), Claim("sm_120a")),
    ),
    Example(
        title="names that %= makes unique: silent",
        source=_WAIT.replace(
            "TEXT",
            ".reg .pred p%=; "
            + _LOOP.replace("AGAIN", "AGAIN%=").replace(" p,", " p%=,").replace("!p", "!p%="),
        ).replace("MARK", ""),
        claims=(Claim("sm_90a"),),
    ),
    Example(
        title="braces that stand in statements of their own: silent",
        source="""\
__device__ void scoped(unsigned bar) {
  asm volatile("{");
  asm volatile(".reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%0], 0;" :: "r"(bar));
  asm volatile("}");
}
""",
    ),
    Example(
        title="the assembler of the host has labels too: silent",
        source="""\
inline void spin(int count) {
  asm volatile("again: dec %0; jnz again;" : "+r"(count));
}
""",
    ),
)

RULE = Rule(META, __doc__, check, EXAMPLES, subject="codes")

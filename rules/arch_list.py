"""A hand-kept list of architectures, compared by `==`, misses a target that is being built.

What it does
------------
Reports preprocessor conditions that compare `__CUDA_ARCH__` by `==` with two or more values, hold for
some of the targets being built, and do not hold for another one that lies between the values or in the
generation of the last, where no other branch of the same `#if` is there for it. The targets being built
are those named with `--target`, else those that the project's build files name, else the defaults.

Why it matters
--------------
What the list guards is left out for the missing target without a message. A list of 900, 1000, 1030 and
1200 around `setmaxnreg` compiles for sm_110a to a kernel without it: the same code, 529 MB of spill
traffic, 1.33 ms instead of 0.76 ms.

Fix safety
----------
No fix is offered: the list may mean what it says. A range (`>= 900`), a family macro
(`__CUDA_ARCH_FAMILY_SPECIFIC__`) or the feature macro of the instruction ages better than a list.

References
----------
CUDA C++ Programming Guide, "Application Compatibility" and "Feature Availability".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.effects import target_words
from ptxguard.finding import Confidence, Evidence, Finding, Severity
from ptxguard.rule import Case, CheckOptions, Example, Rule, RuleMeta

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.model import ArchList

NAMED_TARGET = Case("the user names the missed target", Severity.WARNING, Confidence.MEDIUM)
BUILT_TARGET = Case(
    "a build file of the project names the missed target", Severity.WARNING, Confidence.MEDIUM
)
DEFAULT_TARGET = Case("one of the default targets is missed", Severity.WARNING, Confidence.LOW)

META = RuleMeta(
    code="ARCH001",
    name="arch-list",
    summary="A list of architectures compared by == misses a target that is being built.",
    targets="every target asked for",
    since="0.1.0",
    cases=(NAMED_TARGET, BUILT_TARGET, DEFAULT_TARGET),
)


def check(lists: Sequence[ArchList], options: CheckOptions) -> Iterator[Finding]:
    """One finding a condition."""
    for found in lists:
        by_build = bool(found.built_covered or found.built_missed) and not options.targets_named
        covered = found.built_covered if by_build else found.covered
        missed = found.built_missed if by_build else found.missed
        if covered and missed:
            case = NAMED_TARGET if options.targets_named else BUILT_TARGET if by_build else DEFAULT_TARGET
            yield _finding(found, covered, missed, case)


def _finding(found: ArchList, covered: tuple[str, ...], missed: tuple[str, ...], case: Case) -> Finding:
    line, column = found.span.begin_position
    end_line, end_column = found.span.end_position
    values = ", ".join(map(str, found.listed))
    message = (
        f"this list of architectures ({values}) holds for {target_words(covered)} but misses "
        f"{target_words(missed)}, for which the code under it is left out without a message"
    )
    return Finding(
        code=META.code,
        rule=META.name,
        severity=case.severity,
        confidence=case.confidence,
        path=found.span.path,
        line=line,
        column=column,
        end_line=end_line,
        end_column=end_column,
        message=message,
        targets={**dict.fromkeys(covered, "compiled"), **dict.fromkeys(missed, "excluded")},
        evidence=(
            Evidence("guard", found.span.path, line, found.span.text),
            *(found.build if case is BUILT_TARGET else ()),
        ),
    )


_LIST = """\
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000 || __CUDA_ARCH__ == 1200)MARK
#define HAVE_SETMAXNREG 1
#endif
template <int N>
__device__ void shrink() {
#ifdef HAVE_SETMAXNREG
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
#endif
}
"""

EXAMPLES = (
    Example(
        title="a target between those of the list, named by the user",
        source=_LIST.replace("MARK", "  // !ARCH001 warning"),
        targets=("sm_100a", "sm_110a"),
    ),
    Example(
        title="a target that the project builds",
        source=_LIST.replace("MARK", "  // !ARCH001 warning"),
        cmake='set(CMAKE_CUDA_ARCHITECTURES "90a;100a;103a")\\n',
    ),
    Example(
        title="only the default targets: sm_121 beside sm_120",
        source=_LIST.replace("MARK", "  // !ARCH001 warning"),
    ),
    Example(
        title="a range instead of a list: silent",
        source=_LIST.replace("MARK", "").replace(
            "__CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000 || __CUDA_ARCH__ == 1200", "__CUDA_ARCH__ >= 900"
        ),
        targets=("sm_100a", "sm_110a"),
    ),
    Example(
        title="a target older than the list is left out on purpose: silent",
        source=_LIST.replace("MARK", ""),
        targets=("sm_80", "sm_90a", "sm_100a"),
    ),
    Example(
        title="a list of one generation, and a target of another: silent",
        source=_LIST.replace("MARK", "").replace("900 ", "1000 ").replace("== 1200", "== 1030"),
        targets=("sm_100a", "sm_103a", "sm_120a"),
    ),
    Example(
        title="a list for which none of the targets is built: silent",
        source=_LIST.replace("MARK", ""),
        targets=("sm_103a", "sm_110a"),
    ),
    Example(
        title="another branch of the same condition is there for it: silent",
        source=_LIST.replace("MARK", "").replace(
            "#endif\ntemplate", "#elif __CUDA_ARCH__ == 1100\n#endif\ntemplate"
        ),
        targets=("sm_100a", "sm_110a"),
    ),
    Example(
        title="an #else is there for all others: silent",
        source=_LIST.replace("MARK", "").replace("#endif\ntemplate", "#else\n#endif\ntemplate"),
        targets=("sm_100a", "sm_110a"),
    ),
    Example(
        title="a condition around it excludes the target: silent",
        source=f"#if __CUDA_ARCH__ != 1100\n{_LIST.replace('MARK', '')}#endif\n",
        targets=("sm_100a", "sm_110a"),
    ),
    Example(
        title="a single value is no list: silent",
        source=_LIST.replace("MARK", "").replace(
            "__CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000 || __CUDA_ARCH__ == 1200", "__CUDA_ARCH__ == 1200"
        ),
        targets=("sm_120a", "sm_121a"),
    ),
)

RULE = Rule(META, __doc__, check, EXAMPLES, subject="arch_lists")

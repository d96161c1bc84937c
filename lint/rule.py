"""What a rule is: metadata, the rows of its severity table, examples, and one check over facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ptxguard.finding import Confidence, Evidence, Finding, Severity

if TYPE_CHECKING:
    from ptxguard.arch import Target
    from ptxguard.memcost import Gpu
    from ptxguard.model import AsmCode, CopySite, Instruction

HEADINGS = ("What it does", "Why it matters", "Fix safety", "References")


@dataclass(frozen=True)
class Case:
    """One row of a rule's severity table; `check` decides by these rows and `explain` prints them.

    Attributes:
        condition: what has to hold, in words.
        severity: on a target that compiles the copy.
        confidence: how sure the condition makes us.
        fix: "safe", "unsafe", or None where no fix is offered.
    """

    condition: str
    severity: Severity
    confidence: Confidence
    fix: str | None = None


@dataclass(frozen=True)
class Claim:
    """What ptxas does with an example for one target; a test compiles it where nvcc is there.

    Attributes:
        target: `sm_120a`.
        syscall: full name of the driver function that the code refers to, or None for none at all.
        error: part of the message with which ptxas refuses the code, or None where it assembles.
    """

    target: str
    syscall: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Example:
    """A small CUDA file; `// !CODE severity` at the end of a line says that this line is reported.

    Attributes:
        title: what it shows, in one line.
        source: the text; lines without a marker are not reported.
        fixed: the marked line after the fix, without indentation and marker; None: no fix is offered.
        claims: what ptxas does with the text.
        targets: targets named by the user; none stands for the defaults.
        cuda_min: lowest toolkit (major, minor) that the user names, or None.
        public: whether the file stands in a header declared public.
        cmake: text of a CMakeLists.txt beside the file; none stands for no such file.
    """

    title: str
    source: str
    fixed: str | None = None
    claims: tuple[Claim, ...] = ()
    targets: tuple[str, ...] = ()
    cuda_min: tuple[int, int] | None = None
    public: bool = False
    cmake: str = ""


@dataclass(frozen=True)
class RuleMeta:
    """What is said about a rule beside its prose.

    Attributes:
        code: stable code, `TMA001`.
        name: stable name in words joined by dashes.
        summary: one sentence.
        targets: architectures on which it can report, in words.
        since: version of ptxguard that brought it.
        cases: the severity table, in the order in which it is decided.
    """

    code: str
    name: str
    summary: str
    targets: str
    since: str
    cases: tuple[Case, ...]

    @property
    def fix_safety(self) -> tuple[str, ...]:
        """The kinds of fix that some case offers, in the order of the table."""
        return tuple(dict.fromkeys(case.fix for case in self.cases if case.fix is not None))


@dataclass(frozen=True)
class CheckOptions:
    """What a check may ask about the run.

    Attributes:
        targets: targets asked for.
        targets_named: whether the user named them (False: the defaults of the contract).
        cuda_min: lowest toolkit that the project supports, or None (12.8, nothing is guarded).
        gpus: cards on which findings are priced.
    """

    targets: tuple[Target, ...]
    targets_named: bool = False
    cuda_min: tuple[int, int] | None = None
    gpus: tuple[Gpu, ...] = ()


# What a rule looks at: all facts of one kind of an analysis (a field of `Analysis`).
Check = Callable[[Sequence[Any], CheckOptions], Iterable[Finding]]


@dataclass(frozen=True)
class Rule:
    """One rule as its module in `ptxguard.rules` declares it (`RULE`).

    Attributes:
        meta: code, name, table.
        documentation: docstring of the module, with the headings of `HEADINGS`.
        check: yields the findings among all facts of a run.
        examples: good and bad code.
        subject: the field of `Analysis` that it checks: sites, codes or arch_lists.
    """

    meta: RuleMeta
    documentation: str
    check: Check
    examples: tuple[Example, ...]
    subject: str = "sites"


def targets_where(site: CopySite, behaviour: str, guard: str) -> tuple[str, ...]:
    """Targets on which ptxas shows a behaviour (syscall, rejected) and the guards say compiled or unknown."""
    return tuple(
        name
        for name, on_target in site.on_target.items()
        if on_target == behaviour and site.targets.get(name) == guard
    )


def chain_of(site: CopySite) -> tuple[Evidence, ...]:
    """Everything that the verdicts about a site rest on, each link once."""
    return tuple(dict.fromkeys((*site.evidence, *site.cluster.evidence, *site.address.evidence)))


BUILT_FOR_OTHERS = Case(
    "the project's build files name targets, none of them one of these",
    Severity.NOTE,
    Confidence.MEDIUM,
)
PTX_SHIPPED = Case(
    "the same, but the build ships PTX with the copy that the driver compiles for these",
    Severity.WARNING,
    Confidence.MEDIUM,
)


def weighed_by_build(finding: Finding, site: CopySite, options: CheckOptions) -> Finding:
    """The finding as the project's build files have it; targets that the user names come before them."""
    build = site.build
    if build is None or options.targets_named:
        return finding
    if build.verdict in ("named", "unknown"):
        link = build.evidence[0] if build.evidence else Evidence("build", None, None, build.reason)
        return replace(finding, evidence=(*finding.evidence, link))
    case = PTX_SHIPPED if build.ptx_targets else BUILT_FOR_OTHERS
    return replace(
        finding,
        severity=min(finding.severity, case.severity),
        confidence=min(finding.confidence, case.confidence),
        message=f"{finding.message} ({build.reason})",
        evidence=(*finding.evidence, *build.evidence),
        fix=finding.fix if case is PTX_SHIPPED else None,
    )


def finding_at(site: CopySite, meta: RuleMeta, case: Case, message: str) -> Finding:
    """A finding at a copy, with all that is known about the copy; cost and fix are added by the rule."""
    end_line, end_column = site.end_span.end_position
    return Finding(
        code=meta.code,
        rule=meta.name,
        severity=case.severity,
        confidence=case.confidence,
        path=site.span.path,
        line=site.span.line,
        column=site.span.column,
        end_line=end_line,
        end_column=end_column,
        message=message,
        opcode=site.copy.opcode,
        function=site.function,
        kernels=site.kernels,
        targets=dict(site.targets),
        on_target=dict(site.on_target),
        cluster=site.cluster.record(),
        address=site.address.record(),
        evidence=chain_of(site),
    )


def one_note(findings: Sequence[Finding]) -> Finding:
    """One note for all unproven copies of a public header; the copies after the first become evidence."""
    first, others = findings[0], findings[1:]
    if not others:
        return first
    kernels = tuple(dict.fromkeys(kernel for finding in findings for kernel in finding.kernels))
    links = tuple(Evidence("asm", finding.path, finding.line, finding.opcode or "") for finding in others)
    evidence = tuple(dict.fromkeys((*first.evidence, *links)))
    message = f"{first.message} (the same holds for {len(others)} more copies of this header)"
    return replace(first, kernels=kernels, evidence=evidence, message=message)


def finding_in(code: AsmCode, instruction: Instruction, meta: RuleMeta, case: Case, message: str) -> Finding:
    """A finding at an instruction of an asm statement."""
    return replace(
        finding_between(code, (instruction.start, instruction.mnemonic_end), meta, case, message),
        opcode=instruction.opcode,
    )


def finding_between(
    code: AsmCode, place: tuple[int, int], meta: RuleMeta, case: Case, message: str
) -> Finding:
    """A finding at some characters of an asm statement's text: offsets of the first and behind the last."""
    pieces = code.template.spans(*place)
    first, last = pieces[0], pieces[-1]
    here = Evidence("asm", first.path, first.line, code.template.text[slice(*place)])
    return Finding(
        code=meta.code,
        rule=meta.name,
        severity=case.severity,
        confidence=case.confidence,
        path=first.path,
        line=first.line,
        column=first.column,
        end_line=last.end_position[0],
        end_column=last.end_position[1],
        message=message,
        function=code.function,
        targets=dict(code.targets),
        evidence=(here, *code.evidence),
    )

"""What ptxguard says of a generated program, held against the truth, in order of what matters."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from program import TARGETS

from ptxguard.arch import Target
from ptxguard.engine import run_rules, select_rules
from ptxguard.finding import Severity
from ptxguard.rule import CheckOptions
from ptxguard.source.analyse import Analysis, Options, analyse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from program import Program, Site

    from ptxguard.finding import Finding
    from ptxguard.model import CopySite


@dataclass(frozen=True)
class Disagreement:
    """One difference.

    Attributes:
        program: its name (`p` and the seed).
        kind: missed, extra, targets, wrong fix, wrong local, wrong one, wrong peer, wrong larger, kernels,
            false error, error entry, incomplete …, fix, generator.
        text: what differs.
    """

    program: str
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.program}: {self.kind}: {self.text}"


@dataclass
class Judgement:
    """ptxguard's answer for a program.

    Attributes:
        program: the program.
        analysis: sites and errors.
        findings: of all rules.
        fixed: sites of the truth that its fixes rewrite.
    """

    program: Program
    analysis: Analysis
    findings: list[Finding]
    fixed: list[Site] = field(default_factory=list)

    def apply_fixes(self, home: Path) -> None:
        """Write all fixes, safe and unsafe, into the files below a folder."""
        edits = {edit for finding in self.findings if finding.fix for edit in finding.fix.edits}
        by_file: dict[str, list] = {}
        for edit in edits:
            by_file.setdefault(edit.path, []).append(edit)
        for path, changes in by_file.items():
            file = home / path
            lines = file.read_text().split("\n")
            for edit in sorted(changes, key=lambda e: (e.line, e.column), reverse=True):
                line = lines[edit.line - 1]
                lines[edit.line - 1] = line[: edit.column - 1] + edit.text + line[edit.end_column - 1 :]
            file.write_text("\n".join(lines))


def judge(program: Program, home: Path) -> Judgement:
    """Run the analysis and all rules in the folder of a program."""
    before = Path.cwd()
    os.chdir(home)
    try:
        targets = tuple(Target.parse(name) for name in TARGETS)
        analysis = analyse(["."], Options(targets=targets, defines=program.defines))
        options = CheckOptions(targets=targets, targets_named=False, cuda_min=None, gpus=())
        # What only PTX for older targets holds is no matter of the targets that the truth is about.
        findings = run_rules(analysis, select_rules((), ("TMA006",)), options)
    finally:
        os.chdir(before)
    return Judgement(program, analysis, findings)


def compare(judgement: Judgement) -> Iterator[Disagreement]:
    """Every difference between answer and truth; fills `fixed`."""
    program = judgement.program
    answers = {(s.span.path, s.span.line, s.copy.opcode): s for s in judgement.analysis.sites}
    for error in judgement.analysis.errors:
        yield Disagreement(program.name, "error entry", str(error))
    for truth in program.sites:
        answer = answers.pop((truth.path, truth.line, truth.opcode), None)
        where = f"{truth.path}:{truth.line} {truth.opcode}"
        if answer is None:
            yield Disagreement(program.name, "missed", where)
            continue
        for kind, text in (*_targets(truth, answer), *_verdicts(truth, answer), *_finding(judgement, truth)):
            yield Disagreement(program.name, kind, f"{where}: {text}")
    for path, line, opcode in answers:
        yield Disagreement(program.name, "extra", f"{path}:{line} {opcode}")


def _targets(truth: Site, answer: CopySite) -> Iterator[tuple[str, str]]:
    for target, said in answer.targets.items():
        wanted = truth.on(target)
        if said != wanted:
            kind = "incomplete target" if said == "unknown" else "targets"
            yield kind, f"{target} is {wanted}, not {said}"
        form = "syscall" if truth.is_cluster_load and target.startswith("sm_12") else "native"
        if answer.on_target[target] != form:
            yield "targets", f"the form is {form} on {target}, not {answer.on_target[target]}"


def _verdicts(truth: Site, answer: CopySite) -> Iterator[tuple[str, str]]:
    cluster, said = truth.cluster, answer.cluster.verdict
    if said != cluster:
        kind = "incomplete cluster" if said == "undecided" else f"wrong {said}"
        yield kind, f"cluster is {cluster}, not {said}: {answer.cluster.reason}"
    pairs = (("destination", truth.destination), ("mbarrier", truth.mbarrier))
    for role, wanted in pairs:
        said = getattr(answer.address, role)
        if not truth.passages and said == "peer":
            continue  # nobody calls it, but its own code maps the address: no way makes it this CTA's
        if said == wanted or (role == "mbarrier" and ".bulk_group" in truth.opcode):
            continue
        kind = f"incomplete {role}" if said == "unknown" else f"wrong {said}"
        reason = answer.address.reason if role == "destination" else ""
        yield kind, f"{role} is {wanted}, not {said}: {reason}"
    reached = {kernel.name.rsplit("::", 1)[-1] for kernel in answer.kernels}
    wanted_kernels = {passage.kernel for passage in truth.passages}
    compiled = any(truth.on(target) != "excluded" for target in TARGETS)
    if reached != wanted_kernels and compiled:
        kind = "incomplete kernels" if wanted_kernels < reached else "kernels"
        yield kind, f"reached by {sorted(wanted_kernels)}, not {sorted(reached)}"


def _finding(judgement: Judgement, truth: Site) -> Iterator[tuple[str, str]]:
    key = (truth.path, truth.line, truth.opcode)
    found = [f for f in judgement.findings if (f.path, f.line, f.opcode) == key]
    certain = any(truth.on(target) == "compiled" for target in TARGETS if target.startswith("sm_12"))
    possible = any(truth.on(target) != "excluded" for target in TARGETS if target.startswith("sm_12"))
    for finding in found:
        if finding.fix is not None:
            judgement.fixed.append(truth)
            if truth.fix == "none" or (truth.fix == "unsafe" and finding.fix.safety == "safe"):
                yield "wrong fix", f"{finding.fix.safety} fix offered where {truth.fix} is allowed"
        if finding.severity is Severity.ERROR and (truth.fix == "none" or not certain):
            yield "false error", finding.message
        if finding.fix is None and truth.fix == "safe":
            yield "incomplete fix", finding.message
    needed = truth.is_cluster_load and possible
    if needed and not found:
        yield "missed finding", "no finding"
    if found and not needed:
        yield "false error", f"a finding where none is due: {found[0].message}"

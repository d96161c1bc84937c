"""Leaves out findings that a comment in the source suppresses, and reports comments that suppress nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.finding import Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ptxguard.directive import Directive

UNUSED = ("SUP001", "unused-suppression")
WITHOUT_CODE = ("SUP002", "suppression-without-code")


@dataclass(frozen=True)
class Kept:
    """What is left of the findings.

    Attributes:
        findings: those that no comment suppresses, and one for each comment that is wrong.
        suppressed: number of the others.
    """

    findings: list[Finding]
    suppressed: int


@dataclass(eq=False)
class _Comments:
    """The comments of one file, with those that have suppressed something."""

    directives: list[Directive] = field(default_factory=list)
    used: set[Directive] = field(default_factory=set)

    def suppress(self, finding: Finding) -> bool:
        """Whether a comment is about a finding; every such comment counts as used."""
        about = [directive for directive in self._about(finding) if _names(directive, finding.code)]
        self.used.update(about)
        return bool(about)

    def _about(self, finding: Finding) -> Iterable[Directive]:
        return (directive for directive in self.directives if self._covers(directive, finding))

    def _covers(self, directive: Directive, finding: Finding) -> bool:
        if directive.kind == "ignore":
            return any(finding.line <= line <= finding.end_line for line in directive.lines)
        if directive.kind == "disable":
            return directive.line <= finding.line < self._end(directive)
        return directive.kind == "file-ignore"

    def _end(self, start: Directive) -> float:
        """Line of the `enable` that ends a range; a range without one goes to the end of the file."""
        ends = [
            directive.line
            for directive in self.directives
            if directive.kind == "enable"
            and directive.line > start.line
            and (not directive.codes or set(directive.codes) & set(start.codes))
        ]
        return min(ends, default=float("inf"))

    def wrong(self, selected: Iterable[str]) -> Iterable[Finding]:
        """Comments without a code, and those about selected rules that have suppressed nothing."""
        codes = tuple(selected)
        for directive in self.directives:
            if directive.kind == "enable":
                continue
            if not directive.codes:
                what = f"{directive.text} names no code; write {directive.text.split('[')[0].strip()}[TMA001]"
                yield _finding(directive, WITHOUT_CODE, f"{what}, or another one")
            elif directive not in self.used and any(_names(directive, code) for code in codes):
                yield _finding(directive, UNUSED, f"{directive.text} suppresses nothing; remove it")


def suppress(findings: Sequence[Finding], directives: Iterable[Directive], selected: Iterable[str]) -> Kept:
    """Apply the comments of the files to their findings.

    Args:
        findings: in file order.
        directives: comments of all files that were asked about.
        selected: codes of the rules that ran; a comment about another rule is not called unused.
    """
    files: dict[str, _Comments] = {}
    for directive in directives:
        files.setdefault(directive.path, _Comments()).directives.append(directive)
    if not files:
        return Kept(list(findings), 0)
    left = [f for f in findings if f.path not in files or not files[f.path].suppress(f)]
    codes = tuple(selected)
    wrong = [finding for comments in files.values() for finding in comments.wrong(codes)]
    left_and_wrong = sorted([*left, *wrong], key=lambda f: (f.path, f.line, f.column, f.code))
    return Kept(left_and_wrong, len(findings) - len(left))


def _names(directive: Directive, code: str) -> bool:
    return any(code.startswith(prefix) for prefix in directive.codes)


def _finding(directive: Directive, rule: tuple[str, str], message: str) -> Finding:
    return Finding(
        code=rule[0],
        rule=rule[1],
        severity=Severity.WARNING,
        confidence=Confidence.HIGH,
        path=directive.path,
        line=directive.line,
        column=directive.column,
        end_line=directive.line,
        end_column=directive.column + len(directive.text),
        message=message,
        fingerprint=f"{rule[0].lower()}:{directive.path}:{directive.line}",
    )

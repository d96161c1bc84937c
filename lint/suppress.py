"""Leaves out findings that a comment in the source suppresses, and reports comments that suppress nothing."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.finding import Confidence, Finding, Severity, with_fingerprints

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
            return directive.line <= finding.line and not self._enabled(finding, directive.line)
        return directive.kind == "file-ignore"

    def _enabled(self, finding: Finding, since: int) -> bool:
        """Whether an `enable` between a line and a finding is about its code."""
        return any(
            directive.kind == "enable"
            and since < directive.line <= finding.line
            and _names(directive, finding.code)
            for directive in self.directives
        )

    def _ends_a_range(self, enable: Directive) -> bool:
        """Whether some `disable` above shares a code with an `enable`."""
        return any(
            directive.kind == "disable" and directive.line < enable.line and _overlap(directive, enable)
            for directive in self.directives
        )

    def wrong(self, selected: Iterable[str], known: Sequence[str]) -> Iterable[Finding]:
        """Comments whose code is missing or is none, and those that do nothing though their rule ran."""
        codes = tuple(selected)
        for directive in self.directives:
            text = directive.text
            strange = [code for code in directive.codes if not any(name.startswith(code) for name in known)]
            if not directive.codes:
                what = f"{text} names no code; write {text.split('[')[0].strip()}[TMA001]"
                yield _finding(directive, WITHOUT_CODE, f"{what}, or another one")
            elif strange:
                yield _finding(directive, UNUSED, f"{text}: there is no rule {_hint(strange[0], known)}")
            elif directive.kind == "enable":
                if not self._ends_a_range(directive):
                    yield _finding(directive, UNUSED, f"{text} ends no range; remove it")
            elif directive not in self.used and any(_names(directive, code) for code in codes):
                yield _finding(directive, UNUSED, f"{text} suppresses nothing; remove it")


def suppress(
    findings: Sequence[Finding],
    directives: Iterable[Directive],
    selected: Iterable[str],
    known: Iterable[str],
) -> Kept:
    """Apply the comments of the files to their findings.

    Args:
        findings: in file order.
        directives: comments of all files that were asked about.
        selected: codes of the rules that ran; a comment about another rule is not called unused.
        known: every code that ptxguard reports.
    """
    files: dict[str, _Comments] = {}
    for directive in directives:
        files.setdefault(directive.path, _Comments()).directives.append(directive)
    if not files:
        return Kept(list(findings), 0)
    left = [f for f in findings if f.path not in files or not files[f.path].suppress(f)]
    chosen, names = tuple(selected), tuple(known)
    wrong = [finding for comments in files.values() for finding in comments.wrong(chosen, names)]
    left_and_wrong = sorted(
        [*left, *with_fingerprints(wrong)], key=lambda f: (f.path, f.line, f.column, f.code)
    )
    return Kept(left_and_wrong, len(findings) - len(left))


def _names(directive: Directive, code: str) -> bool:
    return any(code.startswith(prefix) for prefix in directive.codes)


def _overlap(one: Directive, other: Directive) -> bool:
    return any(a.startswith(b) or b.startswith(a) for a in one.codes for b in other.codes)


def _hint(code: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(code, known, n=1)
    return f"{code}; did you mean {near[0]}?" if near else f"{code}; `ptxguard explain` lists them"


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
    )

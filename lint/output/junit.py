"""JUnit XML, which nearly every build server shows: a suite for each file, a test case for each finding."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from ptxguard.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.errors import PtxguardError
    from ptxguard.finding import Finding
    from ptxguard.output.report import Report


def render(report: Report) -> Iterator[str]:
    """Errors and warnings are failures, notes are skipped, an input that could not be judged is an error.

    A run without any of them holds one case that passes, since build servers take an empty report for a
    broken job.
    """
    found, errors = report.findings, report.errors
    failures = sum(finding.severity > Severity.NOTE for finding in found)
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    total = len(found) + len(errors) or 1
    yield f'<testsuites name="ptxguard" tests="{total}" failures="{failures}" errors="{len(errors)}">\n'
    for path, group in groupby(sorted(found, key=lambda f: f.path), key=lambda f: f.path):
        yield from _suite(path, list(group))
    if errors:
        yield f'  <testsuite name="inputs" tests="{len(errors)}" errors="{len(errors)}" failures="0">\n'
        yield from map(_error_case, errors)
        yield "  </testsuite>\n"
    if not found and not errors:
        yield '  <testsuite name="ptxguard" tests="1" errors="0" failures="0">\n'
        yield f'    <testcase name={quoteattr(report.command)} classname="ptxguard"/>\n  </testsuite>\n'
    yield "</testsuites>\n"


def _suite(path: str, findings: list[Finding]) -> Iterator[str]:
    failures = sum(finding.severity > Severity.NOTE for finding in findings)
    yield (
        f'  <testsuite name={_attribute(path)} tests="{len(findings)}" errors="0" failures="{failures}" '
        f'skipped="{len(findings) - failures}">\n'
    )
    for finding in findings:
        yield from _case(finding)
    yield "  </testsuite>\n"


def _case(finding: Finding) -> Iterator[str]:
    name = f"{finding.code} {finding.rule} at {finding.line}:{finding.column}"
    place = f"file={_attribute(finding.path)} line={quoteattr(str(finding.line))}"
    yield f"    <testcase name={_attribute(name)} classname={_attribute(finding.path)} {place}>\n"
    message = _attribute(finding.message)
    if finding.severity is Severity.NOTE:
        yield f"      <skipped message={message}/>\n"
    else:
        yield f"      <failure type={quoteattr(finding.severity.word)} message={message}>"
        yield f"{escape(_clean(_details(finding)))}</failure>\n"
    yield "    </testcase>\n"


def _details(finding: Finding) -> str:
    """The place and the links of the evidence, a line each."""
    lines = [f"{finding.path}:{finding.line}:{finding.column}"]
    lines += [f"{item.kind} {item.path or '-'}:{item.line or '-'} {item.text}" for item in finding.evidence]
    return "\n".join(lines)


def _error_case(error: PtxguardError) -> str:
    message = _attribute(error.message)
    return (
        f'    <testcase name={_attribute(str(error))} classname="inputs">\n'
        f'      <error type="not-judged" message={message}/>\n    </testcase>\n'
    )


def _attribute(text: str) -> str:
    return quoteattr(_clean(text))


def _clean(text: str) -> str:
    """XML 1.0 has no control characters beside tab and line ends, no surrogates and no U+FFFE, U+FFFF."""
    return "".join(char if _allowed(char) else "\N{REPLACEMENT CHARACTER}" for char in text)


def _allowed(char: str) -> bool:
    return char in "\t\n\r" or " " <= char < "\ud800" or "\ue000" <= char < "\ufffe" or char > "\uffff"

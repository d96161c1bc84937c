"""Reports for the tests of output formats: the sample tree, checked once, and findings made by hand."""

from __future__ import annotations

import contextlib
from functools import cache
from pathlib import Path

from ptxguard.arch import DEFAULT_TARGETS, Target
from ptxguard.engine import all_rules, run_rules
from ptxguard.finding import Confidence, Edit, Evidence, Finding, Fix, Severity, with_fingerprints
from ptxguard.location import SourceFile
from ptxguard.memcost import find_gpu
from ptxguard.output.report import Report
from ptxguard.rule import CheckOptions
from ptxguard.source.analyse import Options, analyse

SAMPLES = Path(__file__).parent.parent / "samples"
ASM = 'asm("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];");'


def check(folder, *, targets=()):
    """The report of `ptxguard check .` in a folder."""
    options = Options(targets=tuple(Target.parse(name) for name in targets or DEFAULT_TARGETS))
    with contextlib.chdir(folder):
        analysis = analyse(["."], options)
    asked = CheckOptions(options.targets, bool(targets), gpus=(find_gpu("RTX 5090"),))
    return Report(
        findings=tuple(run_rules(analysis, all_rules(), asked)),
        sites=analysis.sites,
        errors=analysis.errors,
        targets=tuple(target.name for target in options.targets),
        targets_named=bool(targets),
    )


@cache
def samples():
    """The report of the sample tree: an error with its way from two launches, and a note."""
    return check(SAMPLES)


def finding(path="a.cu", line=2, column=3, **changes):
    """A finding without a place in the analysis."""
    fields = {
        "code": "TMA001",
        "rule": "cluster-form-copy",
        "severity": Severity.ERROR,
        "confidence": Confidence.HIGH,
        "path": path,
        "line": line,
        "column": column,
        "end_line": line,
        "end_column": column + 4,
        "message": "a copy",
        "evidence": (Evidence("asm", path, line, "cp.async"), Evidence("build", None, None, "unknown")),
    }
    return Finding(**{**fields, **changes})


def report(*findings, files=(), errors=()):
    """A report of findings, marked as the engine marks them."""
    held = tuple(SourceFile(path, text) for path, text in files)
    return Report(tuple(with_fingerprints(list(findings))), errors=tuple(errors), files=held)


def fix(path="a.cu", line=2, column=3, text="cta"):
    """A fix of one edit over four characters."""
    return Fix("safe", (Edit(path, line, column, line, column + 4, text),))

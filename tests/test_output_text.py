"""Text for people: carets under the exact bytes, nothing lost in silence, 100 columns, no control codes."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ptxguard.arch import DEFAULT_TARGETS, Target
from ptxguard.engine import all_rules, run_rules
from ptxguard.finding import Edit, Evidence, Fix, KernelPlace
from ptxguard.location import SourceFile
from ptxguard.memcost import find_gpu
from ptxguard.model import Analysis
from ptxguard.output.report import Report
from ptxguard.output.style import Style, columns, printable, wants_color
from ptxguard.output.text import render
from ptxguard.rule import CheckOptions
from sitekit import CLUSTER_2D, UNDECIDED, UNKNOWN, find_span, make_site

OPTIONS = CheckOptions(
    tuple(map(Target.parse, DEFAULT_TARGETS)), gpus=(find_gpu("RTX 5090"), find_gpu("GB10"))
)


def report_of(*sites, **fields):
    findings = tuple(run_rules(Analysis(sites), all_rules(), OPTIONS))
    return Report(findings=findings, sites=sites, **fields)


def text_of(*sites, color=False, **fields):
    return "".join(render(report_of(*sites, **fields), Style(color)))


def under_carets(text):
    """The characters above each row of carets."""
    lines = text.splitlines()
    rows = [index for index, line in enumerate(lines) if re.search(r"\| *\^+$", line)]
    return [lines[index - 1][lines[index].index("^") : len(lines[index])] for index in rows]


def test_carets_stand_under_the_opcode():
    assert under_carets(text_of(make_site("cp.async.bulk.shared::cluster.global"))) == [
        "cp.async.bulk.shared::cluster.global"
    ]


@pytest.mark.parametrize("lead", ["\t\t", "\x1b[31m", "    /* é */ "])
def test_carets_hold_behind_tabs_control_characters_and_accents(lead):
    file = SourceFile("k.cu", f'{lead}asm("cp.async.bulk.x");\n')
    span = find_span(file, "cp.async.bulk.x")
    assert under_carets(text_of(make_site(span=span, end_span=span))) == ["cp.async.bulk.x"]


def test_wide_characters_take_two_cells():
    file = SourceFile("k.cu", '/* 漢字 */ asm("cp.async.bulk.x");\n')
    span = find_span(file, "cp.async.bulk.x")
    lines = text_of(make_site(span=span, end_span=span)).splitlines()
    row = next(index for index, line in enumerate(lines) if "^" in line)
    assert columns(lines[row - 1].split("cp.async")[0]) == lines[row].index("^")


def test_a_mnemonic_over_two_lines_is_marked_on_both():
    file = SourceFile("k.cu", 'asm("cp.async.bulk.shared::"\n    "cluster.global [%0];");\n')
    site = make_site(
        span=find_span(file, "cp.async.bulk.shared::"), end_span=find_span(file, "cluster.global")
    )
    assert under_carets(text_of(site)) == ["cp.async.bulk.shared::", "cluster.global"]


def test_a_huge_line_is_shown_as_a_window():
    file = SourceFile("k.cu", "x" * 1_000_000 + 'asm("cp.async.bulk.x");' + "y" * 1_000_000)
    span = find_span(file, "cp.async.bulk.x")
    text = text_of(make_site(span=span, end_span=span))
    assert under_carets(text) == ["cp.async.bulk.x"]
    assert len(text) < 5000


def test_nothing_is_wider_than_100_columns_but_places_that_cannot_be_cut():
    kernels = tuple(KernelPlace(f"quantize_kernel_{index}", f"common/{index}.cuh", 40) for index in range(14))
    launches = tuple(
        Evidence("launch", "common/cast.cuh", index, "k<<<grid, block>>>(x);" * 9) for index in range(14)
    )
    text = text_of(
        make_site(kernels=kernels, evidence=launches, uses_setmaxnreg=True), targets=DEFAULT_TARGETS
    )
    assert max(columns(line) for line in text.splitlines()) <= 100


def test_long_kernel_lists_are_shortened_and_say_so():
    kernels = tuple(KernelPlace(f"kernel_{index}", "k.cu", index) for index in range(1, 15))
    text = " ".join(text_of(make_site(kernels=kernels)).split())
    assert "14: kernel_1 (k.cu:1)" in text
    assert "and 10 more (--output-format json lists them)" in text


def test_the_chain_runs_from_launch_to_asm_for_the_kernel_that_is_launched():
    evidence = (
        Evidence("asm", "copy.cuh", 2, "cp.async.bulk"),
        Evidence("launch", "a.cu", 9, "other<<<1, 1>>>();"),
        Evidence("launch", "b.cu", 30, "wanted<<<1, 1>>>();"),
        Evidence("kernel", "b.cu", 10, "__global__ void wanted()"),
        Evidence("call", "b.cu", 12, "load();"),
    )
    text = text_of(make_site(evidence=evidence, kernels=(KernelPlace("ns::wanted", "b.cu", 10),)))
    links = re.findall(r"^ +(?:evidence +)?\d\. (\w+) (\S+)", text, re.MULTILINE)
    assert links == [("launch", "b.cu:30"), ("kernel", "b.cu:10"), ("call", "b.cu:12"), ("asm", "copy.cuh:2")]
    assert "and 1 more" in text


def test_price_effects_and_fix():
    text = text_of(make_site(uses_setmaxnreg=True))
    flat = " ".join(text.split())
    assert "RTX 5090 14,608 3,382 3,342.9 to 3,723.4" in flat
    assert "predicted, not measured here" in flat
    assert "unknown until probed" in flat
    assert "setmaxnreg ignored (ptxas C7506)" in flat
    assert "copy.cuh:2:49-56 becomes `cta` (safe, proved by the destination)" in flat


def test_a_fix_of_many_edits_is_told_in_short():
    (finding,) = report_of(make_site()).findings
    edits = (Edit("a.cuh", 3, 1, 3, 1, "#if X\n#endif\n"), Edit("a.cuh", 9, 4, 9, 4, "int("))
    edits += tuple(Edit("a.cuh", line, 1, line, 8, "") for line in range(10, 15))
    fixed = replace(finding, fix=Fix("unsafe", edits))
    flat = " ".join("".join(render(Report((fixed,)), Style(False))).split())
    assert "fix 2 lines are put before a.cuh:3, a.cuh:9:4 gets `int(`, a.cuh:10:1-8 is removed," in flat
    assert "a.cuh:11:1-8 is removed and 3 more edits (unsafe, rests on the launches in sight)" in flat


def test_the_price_table_is_printed_once():
    text = text_of(make_site(), make_site(path="other.cuh"))
    assert text.count("MiB range") == 1
    assert "predicted 3382 MiB on RTX 5090, table at copy.cuh:2" in text


def test_verdicts_and_what_is_missing():
    flat = " ".join(text_of(make_site(address=UNKNOWN, cluster=UNDECIDED, kernels=())).split())
    assert "undecided: no launch is in sight" in flat
    assert "unknown: dst is a parameter of a function without a caller in sight" in flat
    assert "kernels none in sight" in flat


def test_targets_are_grouped_by_what_happens_there():
    site = make_site(
        targets={"sm_90a": "compiled", "sm_120": "unknown", "sm_120a": "compiled", "sm_121": "excluded"},
        on_target={"sm_90a": "native", "sm_120": "syscall", "sm_120a": "syscall", "sm_121": "syscall"},
    )
    flat = " ".join(text_of(site).split())
    assert "native on sm_90a; driver call if its guard holds on sm_120; driver call on sm_120a;" in flat
    assert "not compiled on sm_121" in flat


def test_summary_counts_and_hidden_findings():
    text = text_of(make_site(), make_site(CLUSTER_2D + ".multicast::cluster", path="m.cu"), hidden=3)
    assert (
        text.splitlines()[-1] == "1 error, 1 note among 2 bulk copies in 2 files; 3 more below --min-severity"
    )
    assert text_of() == "nothing to report among 0 bulk copies in 0 files\n"


def test_color_only_changes_escapes():
    site = make_site()
    colored = text_of(site, color=True)
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == text_of(site)
    assert "\x1b" not in text_of(replace(site, function="f\x1b[2J"))


class Stream:
    def __init__(self, terminal):
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.mark.parametrize(
    ("choice", "environment", "terminal", "expected"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_who_decides_about_color(monkeypatch, choice, environment, terminal, expected):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert wants_color(choice, Stream(terminal)) is expected


def test_printable_leaves_nothing_that_moves_the_cursor():
    assert printable("a\tb\x1b[2Jc\r\u202ed") == "a    b·[2Jc··d"

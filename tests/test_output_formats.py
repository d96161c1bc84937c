"""The formats of build servers and review tools, each read by a reader of its own kind."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from outkit import finding, fix, report, samples
from ptxguard.errors import ParseError
from ptxguard.finding import Confidence, Evidence, Severity
from ptxguard.output import github, github_summary, gitlab, grouped, junit, rdjsonl
from ptxguard.output.style import Style

ERROR = ParseError("holds NUL bytes; exclude it", path="b.cu", line=7)
EVERY = (
    finding(line=2),
    finding(line=3, severity=Severity.WARNING, code="TMA005", message="100% of, these: two\nlines"),
    finding("c.cu", line=4, severity=Severity.NOTE, message='<k> & "q" \x07'),
)


def text(module, rendered):
    return "".join(module.render(rendered))


# GitHub annotations: read back as the runner's ActionCommand does (split at the first `::`, unescape).
COMMAND = re.compile(r"::(?P<name>\w+) (?P<properties>[^\n]*?)::(?P<data>[^\n]*)\n")


def commands(rendered):
    written = text(github, rendered)
    found = []
    for match in COMMAND.finditer(written):
        pairs = dict(part.split("=", 1) for part in match["properties"].split(","))
        plain = {key: _plain(value) for key, value in pairs.items()}
        found.append((match["name"], plain, _plain(match["data"])))
    assert "".join(match[0] for match in COMMAND.finditer(written)) == written
    return found


def _plain(value):
    for code, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        value = value.replace(code, char)
    return value


def test_github_annotations_survive_the_runners_unescaping():
    unreadable, error, warning, note = commands(report(*EVERY, errors=[ERROR]))
    assert error == (
        "error",
        {
            "file": "a.cu",
            "line": "2",
            "endLine": "2",
            "col": "3",
            "endColumn": "7",
            "title": "ptxguard TMA001 cluster-form-copy",
        },
        "a copy",
    )
    assert (unreadable[0], unreadable[1]["file"], unreadable[1]["line"]) == ("error", "b.cu", "7")
    assert (warning[0], warning[2]) == ("warning", "100% of, these: two\nlines")
    assert (note[0], note[1]["file"]) == ("notice", "c.cu")


def test_github_columns_are_left_out_over_several_lines():
    ((_, properties, _),) = commands(report(finding(end_line=4)))
    assert properties["endLine"] == "4"
    assert not {"col", "endColumn"} & set(properties)


def test_github_shows_ten_of_a_level_and_counts_the_rest():
    errors = [finding(line=line, confidence=Confidence.MEDIUM) for line in range(1, 13)]
    sure = finding("z.cu", line=99)
    shown = commands(report(*errors, sure, *(finding(line=1, severity=Severity.NOTE) for _ in range(10))))
    assert [name for name, _, _ in shown] == ["error"] * 10 + ["notice"] * 10
    assert shown[0][1]["line"] == "99"
    assert shown[9][2].startswith("4 more findings of this level")


def test_github_summary_stays_below_a_mebibyte_and_says_what_is_missing():
    many = [finding(line=line, message="m" * 400) for line in range(1, 6001)]
    written = text(github_summary, report(*many))
    assert 900_000 < len(written.encode()) < 1 << 20
    rows = written.count("| error |")
    assert f"{6000 - rows:,} more findings" in written
    assert "6,000 errors." in written


def test_github_summary_keeps_the_table_whole():
    written = text(github_summary, report(finding(message="a|b\n<i>`c`"), errors=[ERROR]))
    (row,) = [line for line in written.splitlines() if line.startswith("| error")]
    assert row == r"| error | TMA001 | a.cu:2 | a\|b \<i\>\`c\` |"
    assert "b.cu:7: holds NUL bytes" in written
    assert text(github_summary, report()) == "## ptxguard\n\nNothing to report.\n\n"


# GitLab: the fields and values that its documentation of Code Quality demands.
CODE_QUALITY = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": "^(?!\\./).+"},
                    "lines": {"type": "object", "required": ["begin"]},
                },
            },
        },
    },
}


def test_gitlab_entries_are_told_apart():
    jsonschema = pytest.importorskip("jsonschema")
    same = [finding(line=line) for line in (2, 5, 9)]
    written = text(gitlab, report(*same, *EVERY[1:], finding("sub/a.cu"), errors=[ERROR]))
    entries = json.loads(written)
    jsonschema.validate(entries, CODE_QUALITY)
    assert not written.startswith("\ufeff")
    assert len({entry["fingerprint"] for entry in entries}) == len(entries) == 7
    severities = [(entry["location"]["path"], entry["severity"]) for entry in entries]
    assert ("b.cu", "blocker") in severities
    assert ("c.cu", "info") in severities


def test_rdjsonl_counts_columns_in_utf8_bytes():
    line = "  é\U0001f600 cluster;"
    marked = finding(line=1, column=6, end_column=13, fix=fix(line=1, column=6), message="m")
    (record,) = map(json.loads, text(rdjsonl, report(marked, files=[("a.cu", f"{line}\n")])).splitlines())
    where = record["location"]["range"]
    encoded = line.encode()
    assert encoded[where["start"]["column"] - 1 : where["end"]["column"] - 1] == b"cluster"
    assert (where["start"]["line"], where["end"]["line"]) == (1, 1)
    (suggestion,) = record["suggestions"]
    assert suggestion["text"] == "cta"
    assert encoded[suggestion["range"]["start"]["column"] - 1 :].startswith(b"cluster")
    assert record["severity"] == "ERROR"
    assert [entry["location"]["path"] for entry in record["related_locations"]] == ["a.cu"]


def test_rdjsonl_suggests_nothing_for_another_file():
    (record,) = map(json.loads, text(rdjsonl, report(finding(fix=fix("macro.h")))).splitlines())
    assert "suggestions" not in record


def test_rdjsonl_fits_the_schema_of_reviewdog():
    jsonschema = pytest.importorskip("jsonschema")
    folder = os.environ.get("PTXGUARD_TEST_SCHEMAS")
    if folder is None:
        pytest.skip(
            "PTXGUARD_TEST_SCHEMAS names no folder with Diagnostic.json (reviewdog/reviewdog, proto/rdf)"
        )
    schema = json.loads(Path(folder, "Diagnostic.json").read_text("utf-8"))
    for rendered in (samples(), report(*EVERY, errors=[ERROR])):
        for line in text(rdjsonl, rendered).splitlines():
            jsonschema.validate(json.loads(line), schema)


def test_junit_counts_what_it_holds():
    root = ET.fromstring(text(junit, report(*EVERY, errors=[ERROR])))
    assert (root.tag, root.attrib) == (
        "testsuites",
        {"name": "ptxguard", "tests": "4", "failures": "2", "errors": "1"},
    )
    cases = root.findall("./testsuite/testcase")
    kinds = [child.tag for case in cases for child in case]
    assert sorted(kinds) == ["error", "failure", "failure", "skipped"]
    assert {suite.get("name") for suite in root} == {"a.cu", "c.cu", "inputs"}
    note = root.find(".//skipped")
    assert note is not None
    assert note.get("message") == '<k> & "q" \N{REPLACEMENT CHARACTER}'


@pytest.mark.parametrize(
    ("findings", "counts"), [((), (1, 0, 0, 0)), (EVERY, (4, 2, 1, 1))], ids=["clean", "findings"]
)
def test_junit_is_read_by_junitparser(tmp_path, findings, counts):
    junitparser = pytest.importorskip("junitparser")
    path = tmp_path / "out.xml"
    path.write_text(text(junit, report(*findings, errors=[ERROR] if findings else ())), "utf-8")
    read = junitparser.JUnitXml.fromfile(str(path))
    suites = list(read)
    declared = sum(suite.tests for suite in suites)
    assert (declared, sum(suite.failures for suite in suites)) == counts[:2]
    results = [result for suite in suites for case in suite for result in case.result]
    by_kind = [
        sum(isinstance(one, kind) for one in results) for kind in (junitparser.Error, junitparser.Skipped)
    ]
    assert tuple(by_kind) == counts[2:]


def test_grouped_names_each_file_once():
    lines = text_lines = "".join(grouped.render(report(*EVERY, finding(line=20), errors=[ERROR]), Style()))
    assert text_lines.count("a.cu") == 1
    assert "a.cu (3 findings)\n   2:3  error    TMA001  a copy\n" in lines
    assert lines.endswith("2 errors, 1 warning, 1 note; 1 input could not be judged\n")
    assert "".join(grouped.render(report(), Style())) == "nothing to report\n"


def test_grouped_marks_repairs():
    evidence = (Evidence("asm", "a.cu", 2, "cp"),)
    assert "a copy [safe fix]" in "".join(
        grouped.render(report(finding(fix=fix(), evidence=evidence)), Style())
    )

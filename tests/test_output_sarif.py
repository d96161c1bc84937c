"""SARIF: fields and limits of GitHub, code flows, fixes, and fingerprints that survive moved lines."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from outkit import SAMPLES, check, finding, fix, report, samples
from ptxguard.errors import ParseError
from ptxguard.finding import Evidence, KernelPlace, Severity
from ptxguard.location import SourceFile
from ptxguard.output import sarif
from ptxguard.output.linehash import LineHashes
from ptxguard.output.report import Report
from ptxguard.source.tree import decode


def document(rendered):
    return json.loads("".join(sarif.render(rendered)))


def only_run(rendered):
    (run,) = document(rendered)["runs"]
    return run


def strings(value):
    if isinstance(value, dict):
        for part in value.values():
            yield from strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from strings(part)
    elif isinstance(value, str):
        yield value


def steps(result):
    return [
        [
            (
                step["location"]["physicalLocation"]["artifactLocation"]["uri"],
                step["location"]["physicalLocation"]["region"]["startLine"],
                step["location"]["message"]["text"].partition(":")[0],
            )
            for step in flow["threadFlows"][0]["locations"]
        ]
        for flow in result["codeFlows"]
    ]


def test_the_sample_tree_has_one_result_a_source_line():
    run = only_run(samples())
    found = [
        (
            result["ruleId"],
            result["level"],
            result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
            result["locations"][0]["physicalLocation"]["region"]["startLine"],
        )
        for result in run["results"]
    ]
    # The figures are those of samples/MANIFEST.toml.
    assert found == [
        ("TMA001", "error", "quantize/common/ptx.cuh", 45),
        ("TMA002", "note", "quantize/gemm/shared_operand.cu", 13),
    ]
    assert [run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] for result in run["results"]] == [
        "TMA001",
        "TMA002",
    ]


def test_code_flows_lead_from_a_launch_through_the_wrapper_to_the_asm():
    result = only_run(samples())["results"][0]
    lines = {
        path.relative_to(SAMPLES).as_posix(): path.read_text("utf-8").splitlines()
        for path in SAMPLES.rglob("*.cu*")
    }
    flows = steps(result)
    assert len(flows) == result["properties"]["kernelCount"] == 3
    for flow in flows:
        assert [kind for _, _, kind in flow][:2] == ["launch", "kernel"]
        assert {kind for _, _, kind in flow[2:-1]} == {"call"}
        assert flow[-1] == ("quantize/common/ptx.cuh", 45, "asm")
        path, line, _ = flow[0]
        assert "<<<" in lines[path][line - 1] or "Launch" in lines[path][line - 1]
        path, line, _ = flow[-2]
        assert "(" in lines[path][line - 1]


def test_all_that_github_asks_for_is_there():
    record = document(samples())
    assert (record["version"], record["$schema"]) == ("2.1.0", sarif.SCHEMA)
    assert "" not in list(strings(record))
    (run,) = record["runs"]
    assert run["automationDetails"]["id"] == "ptxguard/check/default-targets/"
    root = run["originalUriBaseIds"]["%SRCROOT%"]["uri"]
    assert unquote(urlparse(root).path) == Path.cwd().as_posix() + "/"
    for rule in run["tool"]["driver"]["rules"]:
        assert 0 < len(rule["shortDescription"]["text"]) <= 1024
        assert 0 < len(rule["fullDescription"]["text"]) <= 1024
        assert rule["fullDescription"]["text"].startswith("Reports")
        assert len(rule["name"]) <= 255
        assert len(rule["properties"]["tags"]) <= 10
        assert "## Fix safety" in rule["help"]["markdown"]
        assert "---" not in rule["help"]["markdown"]
    for result in run["results"]:
        region = result["locations"][0]["physicalLocation"]["region"]
        assert set(region) == {"startLine", "startColumn", "endLine", "endColumn"}
        assert len(result["relatedLocations"]) <= 100


def test_the_fix_replaces_the_characters_of_the_word():
    result = only_run(samples())["results"][0]
    (change,) = result["fixes"][0]["artifactChanges"]
    (replacement,) = change["replacements"]
    region = replacement["deletedRegion"]
    line = (
        (SAMPLES / change["artifactLocation"]["uri"]).read_text("utf-8").splitlines()[region["startLine"] - 1]
    )
    assert line[region["startColumn"] - 1 : region["endColumn"] - 1] == "cluster"
    assert replacement["insertedContent"] == {"text": "cta"}


def test_an_edit_that_only_removes_inserts_nothing():
    run = only_run(report(finding(fix=fix(text=""))))
    (replacement,) = run["results"][0]["fixes"][0]["artifactChanges"][0]["replacements"]
    assert set(replacement) == {"deletedRegion"}


def prints(folder, targets=()):
    runs = document(check(folder, targets=targets))["runs"]
    return [result["partialFingerprints"] for run in runs for result in run["results"]]


def test_fingerprints_are_equal_after_200_lines_above(tmp_path, monkeypatch):
    tree = tmp_path / "tree"
    shutil.copytree(SAMPLES, tree)
    monkeypatch.chdir(tree)
    before = prints(tree)
    for path in tree.rglob("*.cu*"):
        added = "".join(f"// note {number}\n" for number in range(200))
        path.write_text(added + path.read_text("utf-8"), "utf-8")
    assert prints(tree) == before
    assert len({entry["primaryLocationLineHash"] for entry in before}) == len(before) == 2
    assert {key for entry in before for key in entry} == {"primaryLocationLineHash", "ptxguard/v1"}


# Computed with github/codeql-action (f3f1edb), src/fingerprints.ts, over these bytes.
HASHES = {
    b"int a;\n\tint  b;\n\nint c;": [
        "e9b60be2258de375:1",
        "fb959e4a8e333c94:1",
        "496e7337fa62d6a2:1",
        "a4d6811131287300:1",
    ],
    b"one\r\ntwo\rthree\r \nfour\r\n": [
        "60c469652c9ac601:1",
        "6d21a3ee00875e7d:1",
        "7d2325de22e4ec95:1",
        "d7f9d9fd98d18bc7:1",
        "3efc5ba11728a159:1",
    ],
    b"x" * 150 + b"\n" + b"x" * 150 + b"\n" + b"x" * 150 + b"\nend\n": [
        "52b56201ffb58620:1",
        "52b56201ffb58620:2",
        "52b56201ffb58620:3",
        "fe2be582c6296f40:1",
        "c129715d7a2bc9a3:1",
    ],
    "// \U0001f600 é 中\n".encode() * 12: ["e5fce8ba56fbebdf:1", "a238f8e7d8b81a88:1", "6bc34b212a17fe1d:1"],
    b"\xef\xbb\xbfint a;\nint b;\n": ["104caecd70c58bd1:1", "bd39bb1f00ad510d:1", "c129715d7a2bc9a3:1"],
    b"// caf\xe9\nint b;\n": ["f740abb12cc47de0:1", "bd39bb1f00ad510d:1", "c129715d7a2bc9a3:1"],
}


@pytest.mark.parametrize("data", HASHES, ids=lambda data: repr(data[:12]))
def test_the_line_hash_is_githubs(data):
    hashes = LineHashes(SourceFile("f", *decode(data, "f")))
    lines = range(1, len(HASHES[data]) + 1)
    assert [hashes.of_line(line) for line in lines] == HASHES[data]
    assert hashes.of_line(0) is None
    assert hashes.of_line(1000) is None


def test_named_targets_have_a_run_each_with_what_is_compiled_there(tmp_path, monkeypatch):
    guarded = "#if __CUDA_ARCH__ == 1200\n{}\n#endif\n"
    source = (SAMPLES / "quantize/common/ptx.cuh").read_text("utf-8")
    (tmp_path / "a.cuh").write_text(guarded.format(source), "utf-8")
    monkeypatch.chdir(tmp_path)
    runs = document(check(tmp_path, targets=("sm_120a", "sm_121a")))["runs"]
    assert [run["automationDetails"]["id"] for run in runs] == [
        "ptxguard/check/sm_120a/",
        "ptxguard/check/sm_121a/",
    ]
    assert [len(run["results"]) for run in runs] == [1, 0]


def test_limits_hold_and_what_is_left_out_is_named(monkeypatch):
    kernels = tuple(KernelPlace(f"k{number}", "k.cu", number) for number in range(1, 2001))
    many = finding(kernels=kernels, cluster={"verdict": "one", "reason": "", "evidence": []})
    result = only_run(report(many))["results"][0]
    assert len(result["relatedLocations"]) == 100
    assert sum(len(flow["threadFlows"][0]["locations"]) for flow in result["codeFlows"]) == 1000
    monkeypatch.setattr(sarif, "MOST_RESULTS", 2)
    notes = [finding(line=line, severity=Severity.NOTE) for line in (1, 2)]
    run = only_run(report(*notes, finding(line=9)))
    assert [result["level"] for result in run["results"]] == ["note", "error"]
    (said,) = run["invocations"][0]["toolExecutionNotifications"]
    assert said["message"]["text"].startswith("1 findings of the lowest severity are left out")


def test_more_named_targets_than_runs_share_one():
    names = tuple(f"sm_{number}" for number in range(80, 101))
    rendered = Report((finding(),), targets=names, targets_named=True)
    assert only_run(rendered)["automationDetails"]["id"] == "ptxguard/check/named-targets/"


def test_a_file_that_cannot_be_read_makes_the_run_unsuccessful():
    error = ParseError("holds NUL bytes", path="b c.cu", line=3)
    (invocation,) = only_run(report(errors=[error]))["invocations"]
    assert invocation["executionSuccessful"] is False
    (note,) = invocation["toolExecutionNotifications"]
    place = note["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]) == ("b%20c.cu", {"startLine": 3})


def test_places_outside_of_the_root_are_absolute():
    evidence = (Evidence("launch", "../other/k.cu", 4, "k<<<1, 1>>>()"),)
    (related,) = only_run(report(finding(evidence=evidence)))["results"][0]["relatedLocations"]
    wanted = Path("../other/k.cu").resolve().as_uri()
    assert related["physicalLocation"]["artifactLocation"] == {"uri": wanted}


def test_the_official_schema_accepts_it():
    jsonschema = pytest.importorskip("jsonschema")
    folder = os.environ.get("PTXGUARD_TEST_SCHEMAS")
    if folder is None:
        pytest.skip(
            "PTXGUARD_TEST_SCHEMAS names no folder with sarif-schema-2.1.0.json (oasis-tcs/sarif-spec)"
        )
    schema = json.loads(Path(folder, "sarif-schema-2.1.0.json").read_text("utf-8"))
    error = ParseError("holds NUL bytes", path="b.cu")
    for rendered in (samples(), report(errors=[error]), report(finding(fix=fix(text="")))):
        jsonschema.validate(document(rendered), schema)

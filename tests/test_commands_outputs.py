"""Several formats in one run, their files, exit status with SARIF, and the printed schema."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET

import pytest

from binkit import DATA
from outkit import SAMPLES
from ptxguard import cli
from ptxguard.output.formats import FORMATS


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["ptxguard", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return call


def test_formats_and_files_are_pairs_in_order(run, tmp_path):
    xml, record = tmp_path / "out.xml", tmp_path / "out.json"
    status, out, err = run(
        "check", SAMPLES,
        "--output-format", "junit", "--output-format", "grouped", "--output-format", "json-v1",
        "--output-file", xml, "--output-file", "-", "--output-file", record,
    )  # fmt: skip
    assert (status, err) == (1, "")
    assert ET.parse(xml).getroot().tag == "testsuites"
    assert out.endswith("1 error, 1 note\n")
    assert json.loads(record.read_text("utf-8"))["version"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--output-format", "text", "--output-format", "sarif"], "2 --output-format and 0 --output-file"),
        (["--output-format", "sarif", "--output-file", "a", "--output-file", "b"], "1 --output-format and 2"),
        (
            [
                "--output-format",
                "json",
                "--output-format",
                "sarif",
                "--output-file",
                "-",
                "--output-file",
                "-",
            ],
            "two formats would be written to standard output",
        ),
        (["--output-format", "yaml"], "'yaml' is not one of"),
    ],
)
def test_what_does_not_pair_is_an_error(run, arguments, words):
    status, out, err = run("check", SAMPLES, *arguments)
    assert (status, out) == (2, "")
    assert words in err


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_writes_and_only_sarif_passes(run, name):
    status, out, err = run("check", SAMPLES, "--output-format", name)
    assert (status, err) == (0 if name == "sarif" else 1, "")
    assert "ptx.cuh" in out


def test_sarif_beside_another_format_keeps_the_status(run, tmp_path):
    files = ["--output-file", "-", "--output-file", tmp_path / "out.sarif"]
    status, _, _ = run("check", SAMPLES, "--output-format", "text", "--output-format", "sarif", *files)
    assert status == 1


def test_sarif_does_not_hide_a_failure(run, tmp_path):
    (tmp_path / "bad.cu").write_bytes(b"int a;\0\1\2")
    status, out, _ = run("check", tmp_path, "--output-format", "sarif")
    assert status == 2
    assert json.loads(out)["runs"][0]["invocations"][0]["executionSuccessful"] is False


def test_the_schema_accepts_what_check_writes(run):
    jsonschema = pytest.importorskip("jsonschema")
    status, out, _ = run("schema")
    schema = json.loads(out)
    assert status == 0
    jsonschema.Draft202012Validator.check_schema(schema)
    record = json.loads(run("check", SAMPLES, "--output-format", "json")[1])
    jsonschema.validate(record, schema)
    assert len(record["findings"]) == 2
    record["findings"][0]["severity"] = "fatal"
    with pytest.raises(jsonschema.ValidationError, match="fatal"):
        jsonschema.validate(record, schema)


@pytest.mark.parametrize("name", [name for name in FORMATS if not name.startswith("json")])
def test_scan_writes_every_format(run, name):
    status, out, err = run("scan", DATA / "copies.o", "--output-format", name)
    assert (status, err) == (0 if name == "sarif" else 1, "")
    assert "cp_async_bulk_tensor" in out.replace("\\_", "_")
    assert "copies.o" in out

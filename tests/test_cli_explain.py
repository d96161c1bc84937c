"""`ptxguard explain`: all of a rule's documentation, or the nearest code."""

from __future__ import annotations

import sys

import pytest

from ptxguard import cli
from ptxguard.engine import all_rules
from ptxguard.otherrules import other_rules
from ptxguard.rule import HEADINGS


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["ptxguard", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return call


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.meta.code)
def test_explain_shows_prose_table_and_examples(run, rule):
    status, out, _ = run("explain", rule.meta.code)
    assert status == 0
    lines = out.splitlines()
    assert all(heading in lines for heading in HEADINGS)
    assert all(case.condition in out for case in rule.meta.cases)
    assert all(f"    {line}" in lines for example in rule.examples for line in example.source.splitlines())
    assert all(example.fixed in out for example in rule.examples if example.fixed is not None)


def test_without_a_code_all_rules_are_listed(run):
    status, out, _ = run("explain")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == [rule.meta.code for rule in all_rules()] + [
        other.code for other in other_rules()
    ]


def test_an_unknown_code_suggests_one(run):
    status, out, err = run("explain", "TMA0O1")
    assert (status, out) == (2, "")
    assert "did you mean TMA001?" in err


@pytest.mark.parametrize("other", other_rules(), ids=lambda other: other.code)
def test_codes_of_scan_and_of_comments_are_explained_too(run, other):
    status, out, _ = run("explain", other.code.lower())
    assert status == 0
    assert out.startswith(f"{other.code} {other.name}")
    for heading in HEADINGS:
        assert heading in out
    assert run("explain", other.name)[1] == out

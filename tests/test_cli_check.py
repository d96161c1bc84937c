"""`ptxguard check`: exit status, filters, options and errors, with an analysis made by hand."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from types import ModuleType

import pytest

from ptxguard import cli
from ptxguard.arch import DEFAULT_TARGETS
from ptxguard.cache import Cache
from ptxguard.errors import ParseError
from ptxguard.model import Analysis
from sitekit import CLUSTER_2D, UNDECIDED, UNKNOWN, make_site

ERROR = make_site()
WARNING = make_site(path="warning.cuh", address=UNKNOWN, cluster=UNDECIDED)
NOTE = make_site(CLUSTER_2D + ".multicast::cluster", path="note.cuh")
BROKEN = ParseError("this string literal does not end; close it", path="bad.cu", line=3, column=5)


@dataclass(frozen=True)
class Options:
    targets: tuple
    cuda_min: tuple | None
    defines: dict
    public: tuple
    exclude: tuple
    force_exclude: bool


@dataclass
class Fake:
    sites: tuple = ()
    errors: tuple = ()
    calls: list = field(default_factory=list)

    def analyse(self, paths, options, progress=None, overlay=None):
        self.calls.append((tuple(paths), options))
        return Analysis(self.sites, self.errors)


@pytest.fixture
def analysis(monkeypatch):
    fake = Fake()
    module = ModuleType("ptxguard.source.analyse")
    module.Options, module.analyse = Options, fake.analyse
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(Cache, "analyse", lambda _, *given: sys.modules[module.__name__].analyse(*given))
    return fake


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["ptxguard", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return call


@pytest.mark.parametrize(
    ("sites", "arguments", "status"),
    [
        ((), [], 0),
        ((ERROR,), [], 1),
        ((WARNING,), [], 0),
        ((WARNING,), ["--fail-on", "warning"], 1),
        ((NOTE,), ["--fail-on", "warning"], 0),
        ((NOTE,), ["--fail-on", "note"], 1),
        ((ERROR,), ["--exit-zero"], 0),
        ((ERROR,), ["--ignore", "TMA001"], 0),
        ((ERROR,), ["--select", "TMA002"], 0),
        ((ERROR,), ["--select", "TMA"], 1),
        ((ERROR,), ["--target", "sm_90a"], 1),
        ((WARNING,), ["--min-severity", "error", "--fail-on", "warning"], 1),
    ],
)
def test_exit_status(analysis, run, sites, arguments, status):
    analysis.sites = sites
    assert run("check", ".", *arguments)[0] == status


@pytest.mark.parametrize("arguments", [[], ["--exit-zero"]])
def test_unreadable_input_is_never_clean(analysis, run, arguments):
    analysis.errors = (BROKEN,)
    status, _, err = run("check", ".", *arguments)
    assert status == 2
    assert err == "ptxguard: bad.cu:3:5: this string literal does not end; close it\n"


def test_errors_and_findings_stand_in_one_json_document(analysis, run):
    analysis.sites, analysis.errors = (ERROR, WARNING, NOTE), (BROKEN,)
    status, out, _ = run("check", ".", "--output-format", "json")
    record = json.loads(out)
    assert status == 2
    assert [finding["severity"] for finding in record["findings"]] == ["error", "note", "warning"]
    assert record["errors"] == [{"path": "bad.cu", "line": 3, "message": BROKEN.message}]


def test_hidden_findings_are_counted(analysis, run):
    analysis.sites = (ERROR, WARNING, NOTE)
    _, out, _ = run("check", ".", "--min-severity", "error")
    assert "warning[" not in out
    assert "2 more below --min-severity" in out


def test_options_reach_the_analysis(analysis, run):
    run(
        "check",
        "a",
        "b",
        "--cuda-min",
        "12.4",
        "-D",
        "A",
        "-D",
        "B=1 2",
        "-D",
        "C=",
        "--public",
        "include/**",
    )
    ((paths, options),) = analysis.calls
    assert paths == ("a", "b")
    assert [target.name for target in options.targets] == list(DEFAULT_TARGETS)
    assert options.cuda_min == (12, 4)
    assert options.defines == {"A": None, "B": "1 2", "C": ""}
    assert options.public == ("include/**",)


def test_named_targets_replace_the_defaults(analysis, run):
    run("check", ".", "--target", "sm_120a", "--target", "sm_90a", "--target", "compute_120a")
    assert [target.name for target in analysis.calls[0][1].targets] == ["sm_120a", "sm_90a"]


def test_price_on_the_named_card(analysis, run):
    analysis.sites = (ERROR,)
    record = json.loads(run("check", ".", "--gpu", "rtx 5090 laptop", "--output-format", "json")[1])
    assert [(cost["gpu"], cost["mib"]) for cost in record["findings"][0]["cost"]] == [
        ("RTX 5090 Laptop", 1631.7)
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target", "gfx942"], "'gfx942' is no GPU target"),
        (["--cuda-min", "twelve"], "no toolkit version"),
        (["-D", "1X"], "defines no macro"),
        (["--gpu", "RTX 5091"], "did you mean"),
        (["--select", "TMA01"], "did you mean TMA001"),
        (["--fail-on", "panic"], "panic"),
        (["--no-such-option"], "No such option"),
    ],
)
def test_wrong_options_are_one_sentence_and_exit_2(analysis, run, arguments, words):
    status, out, err = run("check", ".", *arguments)
    assert (status, out) == (2, "")
    assert words in err
    assert "Traceback" not in err
    assert analysis.calls == []


def test_no_path_is_an_error(analysis, run):
    status, _, err = run("check")
    assert status == 2
    assert "PATH" in err


def test_output_file_leaves_standard_output_empty(analysis, run, tmp_path):
    analysis.sites = (ERROR,)
    target = tmp_path / "out.txt"
    status, out, _ = run("check", ".", "--output-file", str(target))
    assert (status, out) == (1, "")
    assert target.read_text().startswith("error[TMA001]")


def test_color_only_when_asked_or_watched(analysis, run, monkeypatch):
    analysis.sites = (ERROR,)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert "\x1b" not in run("check", ".")[1]
    assert "\x1b[" in run("check", ".", "--color", "always")[1]


def test_an_internal_error_is_no_finding(analysis, run, monkeypatch):
    monkeypatch.setattr(sys.modules["ptxguard.source.analyse"], "analyse", lambda *_: 1 / 0)
    status, _, err = run("check", ".")
    assert status == 2
    assert "internal error" in err
    assert "ZeroDivisionError" in err


def test_sites_exit_0_or_2(analysis, run):
    analysis.sites = (ERROR, NOTE)
    status, out, _ = run("sites", ".", "--output-format", "json")
    assert status == 0
    assert [site["multicast"] for site in json.loads(out)["sites"]] == [False, True]
    assert run("sites", ".")[1].endswith("2 bulk copies\n")
    analysis.errors = (BROKEN,)
    status, out, err = run("sites", ".", "--output-format", "json")
    assert status == 2
    assert "bad.cu:3:5" in err
    assert json.loads(out)["errors"][0]["path"] == "bad.cu"

"""Formats whose readers follow links lead to the findings site, where the links are answered."""

from __future__ import annotations

import json
import sys

import pytest

from binkit import DATA
from ptxguard import cli

SITE = "https://ptx.example.org/site"


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "copies.cu").write_text((DATA / "copies.cu").read_text())

    def call(output, *arguments):
        monkeypatch.setattr(
            sys, "argv", ["ptxguard", "check", "copies.cu", "--output-format", output, *arguments]
        )
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return call


def test_sarif_links_results_and_rules(check):
    (run,) = json.loads(check("sarif", "--site-url", f"{SITE}/")[1])["runs"]
    (result,) = run["results"]
    fingerprint = result["partialFingerprints"]["ptxguard/v1"]
    assert result["hostedViewerUri"] == f"{SITE}/findings/{fingerprint.replace(':', '-')}"
    assert run["tool"]["driver"]["rules"][0]["helpUri"] == f"{SITE}/rules/TMA001"
    plain = check("sarif")[1]
    assert "hostedViewerUri" not in plain
    assert "helpUri" not in plain


def test_annotations_and_reviewdog_link_findings(check):
    assert f"%0A{SITE}/findings/" in check("github", "--site-url", SITE)[1]
    record = json.loads(check("rdjsonl", "--site-url", SITE)[1].splitlines()[0])
    assert record["code"]["url"].startswith(f"{SITE}/findings/")
    assert "url" not in json.loads(check("rdjsonl")[1].splitlines()[0])["code"]


def test_the_configuration_names_the_site(check, tmp_path):
    (tmp_path / "ptxguard.toml").write_text(f'site-url = "{SITE}"\n')
    assert f"{SITE}/findings/" in check("github")[1]
    (tmp_path / "ptxguard.toml").write_text('site-url = "javascript:alert(1)"\n')
    status, _, err = check("github")
    assert (status, "no http address" in err) == (2, True)
    assert check("github", "--site-url", "ftp://x")[0] == 2


def test_the_site_answers_the_links(check, tmp_path):
    pytest.importorskip("flask", reason="the site needs the extra [web]")
    from ptxguard.web.app import create_app
    from ptxguard.web.export import export_site
    from ptxguard.web.settings import Settings

    linked = check("rdjsonl", "--site-url", SITE, "--store", "runs.db")[1]
    path = json.loads(linked.splitlines()[0])["code"]["url"].removeprefix(SITE)
    assert "TMA001" in create_app(Settings("runs.db")).test_client().get(path).text
    export_site(Settings("runs.db"), tmp_path / "site")
    assert (tmp_path / "site" / path.lstrip("/") / "index.html").is_file()
    assert (tmp_path / "site" / "rules" / "TMA001" / "index.html").is_file()

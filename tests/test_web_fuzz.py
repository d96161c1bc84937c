"""Requests made from the OpenAPI description get the answers that it promises, by Schemathesis."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flask", reason="the site needs the extra [web]")

from jsonschema import Draft202012Validator

import webkit
from ptxguard.web.app import create_app
from ptxguard.web.openapi import description
from ptxguard.web.settings import Settings

EXAMPLES = os.environ.get("PTXGUARD_FUZZ_EXAMPLES", "15")


@pytest.fixture
def site(tmp_path):
    """Address of a served site that takes any number of uploads."""
    place = webkit.make_store(tmp_path)
    app = create_app(Settings(place, token=webkit.TOKEN, uploads_per_minute=1_000_000))
    with webkit.serving(app) as address:
        yield address


@pytest.mark.fuzz
def test_no_request_gets_an_answer_that_is_not_described(site, tmp_path):
    beside = Path(sys.executable).with_name("schemathesis")
    command = str(beside) if beside.is_file() else shutil.which("schemathesis")
    if command is None:
        pytest.skip("schemathesis is not installed")
    done = subprocess.run(
        [
            *(command, "run", f"{site}/openapi.json", "--checks", "all", "--no-color", "--seed", "1"),
            *("--phases", "coverage,fuzzing", "--max-examples", EXAMPLES, "--workers", "1"),
            *("-H", f"Authorization: Bearer {webkit.TOKEN}"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    tested = re.search(r"Tested: (\d+)", done.stdout)
    assert int(tested[1]) == len(description(Settings("unused.db", token=webkit.TOKEN))["paths"])


def test_the_description_refers_only_to_what_it_holds():
    record = description(Settings("unused.db", token=webkit.TOKEN))
    assert record["openapi"] == "3.1.0"
    schemas = record["components"]["schemas"]
    for part in schemas.values():
        Draft202012Validator.check_schema(part)
    used = {part.partition('"')[0] for part in json.dumps(record).split('"#/components/schemas/')[1:]}
    assert used <= schemas.keys()


def test_without_a_token_no_upload_is_described():
    assert "/api/runs" not in description(Settings("unused.db"))["paths"]

"""Advisories: the table is sound, versions are compared by number, and `scan` says what to do."""

from __future__ import annotations

import re
import zipfile

import pytest

from binkit import DATA
from ptxguard.advisories import advisories, advisory_for
from ptxguard.binary.inventory import inventory
from ptxguard.compiled import find_all
from ptxguard.memcost import find_gpu


@pytest.mark.parametrize("row", advisories(), ids=lambda row: row.package)
def test_every_row_is_whole(row):
    assert re.fullmatch(r"[a-z0-9_]+", row.package)
    assert row.source.startswith("https://")
    assert row.what
    assert row.end == row.repaired  # what is repaired ends there


@pytest.mark.parametrize(
    ("name", "repaired"),
    [
        ("tilelang-0.1.8-cp38-abi3-manylinux_2_28_x86_64.whl", "0.1.9"),
        ("dist/TileLang-0.1.8+cu128-cp38-abi3-linux_x86_64.whl", "0.1.9"),
        ("tilelang-0.1.9-cp38-abi3-linux_x86_64.whl", None),
        ("tilelang-0.1.10-cp38-abi3-linux_x86_64.whl", None),
        ("transformer_engine_cu13-2.20.2-py3-none-linux_x86_64.whl", ""),
        ("transformer_engine_cu13-2.9.0-py3-none-linux_x86_64.whl", None),
        ("tilelang.so", None),
        ("numpy-2.0.0-cp312-cp312-linux_x86_64.whl", None),
    ],
)
def test_versions_are_compared_by_number(name, repaired):
    found = advisory_for(name)
    assert (found.repaired if found is not None else None) == repaired


@pytest.mark.parametrize(("version", "told"), [("0.1.8", True), ("0.1.9", False)])
def test_scan_says_which_release_to_take(tmp_path, version, told):
    wheel = tmp_path / f"tilelang-{version}-cp38-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(DATA / "copies.zstd.fatbin", "tilelang/lib.fatbin")
    found = find_all(inventory(str(wheel)).artifacts, (find_gpu("RTX 5090"),), [])
    errors = [finding for finding in found if finding.code == "TMA101"]
    assert errors
    assert all(("upgrade to 0.1.9" in finding.message) is told for finding in errors)

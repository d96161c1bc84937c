"""Child processes read the same as one process does, damage included, and their death is an error."""

from __future__ import annotations

import json
import os
import zipfile

import pytest

from binkit import DATA, container, entry, errors_of
from ptxguard.binary import Wish, inventory, readers
from ptxguard.output import scan_json

ELF = (DATA / "facts.sm_120a.cubin").read_bytes()
OLD = (DATA / "facts.sm_80.cubin").read_bytes()
DAMAGED = entry(b"\0" * 64, flags=0x8000, stored=64, full=100)
FATBIN = container(entry(ELF), DAMAGED, entry(OLD, arch=80)) + b"host" * 9 + container(entry(ELF))


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(readers, "_WORTHWHILE_BYTES", 0)


@pytest.fixture(params=["lib.bin", "lib.whl"])
def path(request, tmp_path):
    """The bytes as a file, which children map themselves, and as a member, which they are sent."""
    found = tmp_path / request.param
    if found.suffix == ".whl":
        with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("pkg/lib.so", FATBIN)
    else:
        found.write_bytes(FATBIN)
    return str(found)


@pytest.mark.parametrize("every", [False, True])
def test_two_processes_find_what_one_finds(path, every):
    one, two = (inventory(path, Wish(every_kernel=every), jobs=jobs) for jobs in (1, 2))
    assert one.artifacts == two.artifacts
    assert errors_of(one) == errors_of(two)
    counts = [image.kernel_count for image in two.artifacts[0].images]
    assert counts == [13, None, 8, 13]
    assert "image 1" in errors_of(two)[0]


def test_payloads_under_way_are_bounded(path, monkeypatch):
    monkeypatch.setattr(readers, "_MAX_WAITING_BYTES", 1)
    assert inventory(path, jobs=2).artifacts == inventory(path).artifacts


@pytest.mark.parametrize("jobs", [1, 2])
def test_encoded_kernels_are_those_of_the_record(path, jobs):
    plain = inventory(path, Wish(every_kernel=True))
    packed = inventory(path, Wish(every_kernel=True, encode=scan_json.kernels_json), jobs=jobs)
    texts = ["".join(scan_json.render(found.artifacts, (), ())) for found in (plain, packed)]
    assert texts[0] == texts[1]
    assert len(json.loads(texts[1])["artifacts"][0]["kernels"]) == 13 + 8 + 13
    # Only the flagged ones stay: three with a driver call, two with an unknown stack.
    assert [len(image.kernels) for image in packed.artifacts[0].images] == [5, 0, 2, 5]


def test_a_child_that_dies_leaves_errors_and_no_clean_file(path, monkeypatch):
    monkeypatch.setattr(readers, "read_entry", lambda *_: os._exit(9))
    # Each container is waited for, so that the second one meets a pool that is broken already.
    monkeypatch.setattr(readers, "_MAX_WAITING_BYTES", -1)
    found = inventory(path, jobs=2)
    assert len(found.errors) == 4
    assert all("ended from outside" in message for message in errors_of(found))
    assert [image.kernel_count for image in found.artifacts[0].images] == [None] * 4


def test_little_work_starts_no_process(path, monkeypatch):
    monkeypatch.setattr(readers, "_WORTHWHILE_BYTES", 1 << 20)
    monkeypatch.setattr(readers, "ProcessPoolExecutor", None)
    assert len(inventory(path, jobs=2).artifacts) == 1

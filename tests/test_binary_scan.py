"""`ptxguard scan`: records, exit status, price and options, on fixtures compiled from data/binary."""

from __future__ import annotations

import json
import re
import sys
import zipfile

import pytest

from binkit import DATA, SYSCALL_1D, SYSCALL_2D, SYSCALL_PLAIN, container, entry
from ptxguard import cli
from ptxguard.memcost import find_gpu, reservation_mib

CUBIN = str(DATA / "facts.sm_120a.cubin")
IMAGE_KEYS = {"index", "kind", "target", "compressed_bytes", "bytes", "toolkit", "kernels"}
KERNEL_KEYS = {
    "name",
    "demangled",
    "target",
    "image",
    "registers",
    "stack_bytes",
    "stack_known",
    "cluster_dims",
    "syscalls",
    "externs",
}
SUMMARY_KEYS = {"path", "member", "target", "images", "kernels", "kernels_with_syscall", "syscalls"}


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["ptxguard", "scan", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return call


def as_json(run, *arguments):
    status, out, _ = run("--output-format", "json", *arguments)
    return status, json.loads(out)


def test_the_record_has_the_fields_of_the_contract(run):
    status, record = as_json(run, CUBIN)
    assert (status, record["version"]) == (1, 1)
    assert set(record) == {"version", "artifacts", "summary", "findings", "errors"}
    (artifact,) = record["artifacts"]
    assert set(artifact) == {"path", "member", "sha256", "images", "kernels"}
    assert {frozenset(image) for image in artifact["images"]} == {frozenset(IMAGE_KEYS)}
    assert {frozenset(kernel) for kernel in artifact["kernels"]} == {frozenset(KERNEL_KEYS)}
    assert {frozenset(row) for row in record["summary"]} == {frozenset(SUMMARY_KEYS)}


def test_summary_and_kernels_count_the_same(run):
    _, record = as_json(run, CUBIN)
    (row,) = record["summary"]
    assert (row["target"], row["kernels"], row["kernels_with_syscall"]) == ("sm_120a", 13, 3)
    assert row["syscalls"] == {SYSCALL_2D: 3, SYSCALL_PLAIN: 2}
    named = [s["name"] for kernel in record["artifacts"][0]["kernels"] for s in kernel["syscalls"]]
    assert {name: named.count(name) for name in named} == row["syscalls"]
    assert len(record["artifacts"][0]["kernels"]) == 5


def test_all_kernels_on_request(run):
    _, record = as_json(run, "--kernels", "all", CUBIN)
    kernels = {kernel["name"]: kernel for kernel in record["artifacts"][0]["kernels"]}
    assert len(kernels) == 13
    assert kernels["_Z9clusteredPi"]["cluster_dims"] == [2, 1, 1]
    assert (kernels["_Z8recursesPii"]["stack_known"], kernels["_Z8recursesPii"]["stack_bytes"]) == (
        False,
        None,
    )
    assert kernels["_Z6framedPii"]["stack_bytes"] == 512


def test_each_call_comes_with_its_lines_innermost_first(run):
    _, record = as_json(run, CUBIN)
    kernel = next(k for k in record["artifacts"][0]["kernels"] if k["name"] == "_Z11copies_tile3Mapi")
    (site,) = kernel["syscalls"][0]["sites"]
    assert [link["function"] for link in site["source"]] == ["_Z9load_tilejPK3Mapjii", "_Z11copies_tile3Mapi"]


def test_the_price_is_a_maximum_over_the_forms(run):
    _, record = as_json(run, "--gpu", "RTX 5090", CUBIN)
    costs = {f["syscall"]: f["cost"][0]["mib"] for f in record["findings"] if f["cost"]}
    gpu = find_gpu("RTX 5090")
    assert costs == {
        SYSCALL_2D: round(reservation_mib(gpu, 14_608), 1),
        SYSCALL_PLAIN: round(reservation_mib(gpu, 14_448), 1),
    }
    _, text, _ = run("--gpu", "RTX 5090", CUBIN)
    assert "RTX 5090: 3,382 MiB expected" in text


def test_members_with_the_same_kernels_are_counted_apart(run, tmp_path):
    wheel = tmp_path / "pkg-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("a.so", "b.so"):
            archive.write(CUBIN, name)
    _, text, _ = run("--gpu", "RTX 5090", wheel)
    counts = re.findall(r"^ +(\d+) x (copies_\w+)", text, re.MULTILINE)
    alone = re.findall(r"^ +(\d+) x (copies_\w+)", run("--gpu", "RTX 5090", CUBIN)[1], re.MULTILINE)
    assert alone
    assert counts == alone * 2


def test_recursion_and_pointers_are_notes(run):
    _, record = as_json(run, CUBIN)
    notes = {f["kernels"][0]["name"]: f["message"] for f in record["findings"] if f["code"] == "TMA104"}
    assert set(notes) == {"recurses(int*, int)", "points(int*, int)"}
    assert "recursion" in notes["recurses(int*, int)"]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ((CUBIN,), 1),
        ((CUBIN, "--fail-above", "4 GiB", "--gpu", "RTX 5090"), 0),
        ((CUBIN, "--fail-above", "256 MiB", "--gpu", "RTX 5090"), 1),
        ((CUBIN, "--target", "sm_80"), 0),
        ((DATA / "facts.sm_80.cubin",), 0),
        ((DATA / "facts.sm_80.cubin", "--fail-on", "note"), 1),
        ((DATA / "copies.lto.fatbin",), 0),
        ((DATA / "copies.lto.fatbin", "--fail-on", "warning"), 1),
        ((DATA / "copies.ptx",), 1),
        ((DATA / "none.so",), 2),
        ((CUBIN, "--fail-above", "much"), 2),
        ((CUBIN, "--gpu", "RTX 9999"), 2),
        ((), 2),
    ],
)
def test_exit_status(run, arguments, status):
    assert run(*arguments)[0] == status


def test_what_cannot_be_read_is_never_clean(run, tmp_path):
    path = tmp_path / "half.fatbin"
    path.write_bytes((DATA / "copies.none.fatbin").read_bytes()[:4000])
    status, record = as_json(run, path)
    assert status == 2
    assert record["errors"][0]["path"] == str(path)
    assert set(record["errors"][0]) == {"path", "line", "message"}
    assert record["errors"][0]["message"].startswith("at byte 0x10: ")


def test_ptx_counts_where_no_cubin_is_taken(run):
    _, record = as_json(run, DATA / "copies.lz4.fatbin")
    by_code = {f["code"]: f for f in record["findings"]}
    # The cubin is for sm_120a only, so an sm_121 device assembles the PTX.
    assert (by_code["TMA102"]["severity"], by_code["TMA102"]["syscall"]) == ("error", SYSCALL_1D)
    _, record = as_json(run, DATA / "copies.zstd.fatbin")
    assert {f["code"]: f["severity"] for f in record["findings"]} == {"TMA101": "error", "TMA102": "note"}


def test_lto_ir_is_never_called_clean(run):
    _, text, _ = run(DATA / "copies.lto.fatbin")
    assert "cannot be checked" in text


@pytest.mark.parametrize(
    ("symbol", "code"),
    [("__cuda_syscall_cnpv2LaunchDeviceV2", "TMA103"), ("__cuda_syscall_cp_async_bulk_multicast", "TMA101")],
)
def test_multicast_and_device_runtime_are_notes(run, tmp_path, symbol, code):
    old, new = (name.encode() for name in (SYSCALL_2D, symbol))
    data = (DATA / "facts.sm_120a.cubin").read_bytes()
    assert data.count(old + b"\0") == 1
    (tmp_path / "renamed.cubin").write_bytes(data.replace(old, new.ljust(len(old), b"\0")))
    _, record = as_json(run, tmp_path / "renamed.cubin")
    found = {f["syscall"]: (f["code"], f["severity"]) for f in record["findings"] if f["syscall"]}
    assert found == {symbol: (code, "note"), SYSCALL_PLAIN: ("TMA101", "error")}


def test_output_file_is_written_in_one_piece(run, tmp_path):
    target = tmp_path / "out.json"
    status, out, _ = run("--output-format", "json", "--output-file", target, CUBIN)
    assert (status, out) == (1, "")
    assert json.loads(target.read_text())["version"] == 1


def test_several_paths_are_several_artifacts(run, tmp_path):
    (tmp_path / "x.fatbin").write_bytes(container(entry((DATA / "facts.sm_80.cubin").read_bytes(), arch=80)))
    _, record = as_json(run, CUBIN, tmp_path / "x.fatbin")
    assert [artifact["path"] for artifact in record["artifacts"]] == [CUBIN, str(tmp_path / "x.fatbin")]
    assert len({artifact["sha256"] for artifact in record["artifacts"]}) == 2

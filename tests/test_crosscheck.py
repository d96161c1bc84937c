"""Source beside compiled code: the fixtures' sources are held against what nvcc made of them."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from binkit import DATA
from ptxguard import cli
from ptxguard.crosscheck import origin
from ptxguard.output.formats import FORMATS

SYSCALL = "__cuda_syscall_cp_async_bulk_tensor_1d_tile_unicast"


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    """Findings of an edited `copies.cu` beside the fatbin of the original."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(DATA / "copies.zstd.fatbin", "lib.fatbin")

    def call(edit, *arguments):
        (tmp_path / "copies.cu").write_text(edit((DATA / "copies.cu").read_text()))
        command = ["ptxguard", "check", "copies.cu", "--output-format", "json", *arguments]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        found = json.loads(out)["findings"] if out else []
        return ended.value.code, found, err

    return call


def verdicts(found):
    return [(f["code"], f["severity"], f["performance"].get("binary", {}).get("verdict")) for f in found]


def test_a_finding_is_confirmed_with_its_kernels(check):
    status, found, _ = check(str, "--binary", "lib.fatbin")
    assert (status, verdicts(found)) == (1, [("TMA001", "error", "confirmed")])
    assert found[0]["performance"]["binary"]["families"] == {"copies": 1}
    link = found[0]["evidence"][-1]
    assert (link["kind"], link["path"]) == ("binary", "lib.fatbin")
    assert link["text"] == f"1 kernels of copies for sm_120f call {SYSCALL}"


def test_a_kernel_without_the_call_refutes_the_finding(check):
    # A second form in the kernel, which the library's build of it does not hold.
    plain = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 64, [%2];"
    second = (
        f'  asm volatile("{plain}" ::"r"((uint32_t)__cvta_generic_to_shared(tile)), "l"(&map),'
        ' "r"((uint32_t)__cvta_generic_to_shared(&bar)) : "memory");\n#endif'
    )
    status, found, _ = check(lambda text: text.replace("#endif", second, 1), "--binary", "lib.fatbin")
    assert status == 1
    assert verdicts(found) == [("TMA001", "error", "confirmed"), ("TMA001", "note", "refuted")]
    assert "refuted by lib.fatbin" in found[1]["message"]
    assert found[1]["fix"] is None


def test_the_same_call_of_a_kernel_that_nothing_explains_refutes_nothing(check):
    _, found, _ = check(
        lambda text: (
            text.replace("void copies(", "void other(")
            .replace("void plain(int *out)", "void copies()")
            .replace("void other(", "void plain(")
        ),
        "--binary",
        "lib.fatbin",
    )
    assert verdicts(found) == [("TMA001", "error", "unseen"), ("TMA101", "error", None)]
    assert "no line explains" in found[0]["evidence"][-1]["text"]


def test_a_kernel_that_is_not_there_is_unseen(check):
    _, found, _ = check(lambda text: text.replace("void copies(", "void absent("), "--binary", "lib.fatbin")
    assert verdicts(found) == [("TMA001", "error", "unseen"), ("TMA101", "error", None)]
    assert "not compiled in for these targets: absent" in found[0]["evidence"][-1]["text"]


def test_a_call_that_no_line_explains_is_a_finding_of_its_own(check):
    status, found, _ = check(
        lambda text: text.replace("shared::cluster", "shared::cta"), "--binary", "lib.fatbin"
    )
    assert (status, verdicts(found)) == (1, [("TMA101", "error", None)])
    assert found[0]["path"] == "lib.fatbin"
    assert found[0]["syscall"] == SYSCALL
    assert "comes from a header outside this tree: copies" in found[0]["message"]


@pytest.mark.parametrize("output", FORMATS)
def test_every_format_takes_findings_that_only_compiled_code_made(check, capsys, output, monkeypatch):
    check(lambda text: text.replace("shared::cluster", "shared::cta"), "--binary", "lib.fatbin")
    command = ["ptxguard", "check", "copies.cu", "--binary", "lib.fatbin", "--output-format", output]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    assert ended.value.code == (0 if output == "sarif" else 1), err
    assert "TMA101" in out


def test_cards_that_are_not_asked_for_say_nothing(check):
    assert check(str, "--binary", "lib.fatbin", "--target", "sm_90a")[1] == []
    # A cubin for sm_120f runs on sm_121 too.
    found = check(str, "--binary", "lib.fatbin", "--target", "sm_121a")[1]
    assert verdicts(found) == [("TMA001", "error", "confirmed")]


def test_a_namespace_may_be_left_out(check):
    wrapped = "namespace a { namespace {\n"
    _, found, _ = check(
        lambda text: text.replace("__global__ void copies", wrapped + "__global__ void copies") + "} }\n",
        "--binary",
        "lib.fatbin",
    )
    assert verdicts(found) == [("TMA001", "error", "confirmed")]


def test_line_numbers_confirm_what_names_do_not(check, tmp_path):
    # facts.sm_120a.cubin was compiled with -lineinfo from facts.cu.
    shutil.copy(DATA / "facts.cu", "facts.cu")
    shutil.copy(DATA / "facts.sm_120a.cubin", "facts.cubin")
    _, found, _ = check(str, "facts.cu", "--binary", "facts.cubin")
    mine = [f for f in found if f["path"] == "facts.cu" and f["syscall"]]
    assert mine
    assert {f["performance"]["binary"]["verdict"] for f in mine} == {"confirmed"}
    assert any("of them by line" in link["text"] for f in mine for link in f["evidence"])


@pytest.mark.parametrize("content", [None, b"", b"\x7fELF", b"words"])
def test_a_library_that_cannot_be_read_is_an_error(check, tmp_path, content):
    if content is not None:
        (tmp_path / "bad.so").write_bytes(content)
    status, found, err = check(str, "--binary", "bad.so")
    assert (status, found) == (2, [])
    assert "bad.so" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("_Z6copies3Mapi", "copies"),
        (
            "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalINS1_17GroupProblemShapeIiEENS_4arch4Sm90EEEEEvv",
            "CUTLASS Sm90 grouped GEMM",
        ),
    ],
)
def test_a_name_tells_where_a_kernel_comes_from(name, words):
    assert origin(name) == words

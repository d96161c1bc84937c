"""Forms of bulk copies against every row of the syscall atlas, and against ptxas itself."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ptxguard.arch import Target
from ptxguard.forms import first_toolkit, on_target, read_bulk_copy, syscall_name
from ptxguard.source.ptx import parse_asm

ATLAS = Path(__file__).parent / "data" / "bulk_copy_atlas.tsv"
MBARRIER = "mbarrier::complete_tx::bytes"

FORMS = Path(__file__).parent / "data" / "bulk_copy_forms.tsv"


def copy_of(text):
    copy = read_bulk_copy(parse_asm(text)[0])
    assert copy is not None, text
    return copy


def atlas():
    for line in ATLAS.read_text().splitlines()[3:]:
        instruction, outcome, targets, versions = line.split("\t")
        if ".prefetch." not in instruction:
            for target in targets.split(","):
                yield instruction, outcome, target, len(versions.split(","))


def more_forms():
    lines = FORMS.read_text().splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


def test_every_atlas_row():
    rows = 0
    for instruction, outcome, target, versions in atlas():
        copy = copy_of(instruction + " [a], [b], c, [d];")
        expected = "syscall" if outcome.startswith("__cuda") else outcome
        assert on_target(copy, Target.parse(target)) == expected, (instruction, target)
        if expected == "syscall":
            assert syscall_name(copy) == outcome
        rows += versions
    assert rows == 1752


def test_names_only_where_the_atlas_has_one():
    named = {instruction for instruction, outcome, _, _ in atlas() if outcome.startswith("__cuda")}
    for instruction in {instruction for instruction, _, _, _ in atlas()} - named:
        assert syscall_name(copy_of(instruction + " [a], [b], c, [d];")) is None, instruction
    assert len({syscall_name(copy_of(name + " [a], [b], c, [d];")) for name in named}) == 18


@pytest.mark.parametrize(
    "text",
    [
        "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [a, {b, c}];",
        "cp.async.bulk.prefetch.L2.global [a], 16;",
        "cp.async.bulk.commit_group;",
        "cp.async.bulk.wait_group.read 0;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [a], [b], 16;",
        "cp.async.ca.shared.global [a], [b], 16;",
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [a], b, [c];",
    ],
)
def test_no_bulk_copy(text):
    assert read_bulk_copy(parse_asm(text)[0]) is None


@pytest.mark.parametrize(
    ("text", "destination", "mbarrier"),
    [
        (
            "tensor.2d.shared::cluster.global.tile.MB.L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5",
            "[%0]",
            "[%2]",
        ),
        ("tensor.3d.shared::cluster.global.im2col.MB [%0], [%1, {%3, %4, %5}], [%2], {%6}", "[%0]", "[%2]"),
        ("tensor.1d.shared::cluster.global.MB.multicast::cluster [%0], [%1, {%3}], [%2], %4", "[%0]", "[%2]"),
        ("shared::cta.global.MB.ignore_oob [%0], [%1], %2, %3, %4, [%5]", "[%0]", "[%5]"),
        ("shared::cluster.global.MB [%0 + 16], [%1], %2, [%3]", "[%0 + 16]", "[%3]"),
        ("shared::cluster.shared::cta.MB [%0], [%1], %2, [%3]", "[%0]", "[%3]"),
        ("global.shared::cta.bulk_group.L2::cache_hint.cp_mask [%0], [%1], %2, %3, %4", "[%0]", None),
        ("tensor.1d.global.shared::cta.tile.bulk_group [%0, {%2}], [%1]", "[%0, {%2}]", None),
        ("shared::cluster.global.MB [%0], [%1], %2", None, None),
    ],
)
def test_roles_of_operands(text, destination, mbarrier):
    copy = copy_of(f"cp.async.bulk.{text};".replace("MB", MBARRIER))
    assert (copy.destination and copy.destination.text) == destination
    assert (copy.mbarrier and copy.mbarrier.text) == mbarrier


def test_unknown_words_are_kept_and_rejected():
    copy = copy_of(f"cp.async.bulk.shared::cluster.global.{MBARRIER}.evict::later [a], [b], 16, [c];")
    assert copy.unknown_modifiers == ("evict::later",)
    assert copy.is_cluster_load
    assert on_target(copy, Target.parse("sm_120a")) == "rejected"
    assert syscall_name(copy) is None


@pytest.mark.parametrize(
    ("opcode", "toolkit"),
    [
        (f"cp.async.bulk.shared::cluster.global.{MBARRIER}", (12, 0)),
        (f"cp.async.bulk.tensor.1d.shared::cluster.global.tile.{MBARRIER}", (12, 0)),
        (f"cp.async.bulk.tensor.1d.shared::cta.global.tile.{MBARRIER}", (12, 8)),
        (f"cp.async.bulk.tensor.2d.shared::cluster.global.tile.{MBARRIER}.cta_group::1", (12, 8)),
        ("cp.async.bulk.global.shared::cta.bulk_group.cp_mask", (12, 8)),
        ("cp.async.bulk.global.shared::cta.bulk_group", (12, 0)),
        (f"cp.async.bulk.shared::cta.global.{MBARRIER}.ignore_oob", (13, 2)),
    ],
)
def test_first_toolkit(opcode, toolkit):
    # ptxas names the PTX ISA version in its error: 8.0 (CUDA 12.0), 8.6 (12.8), 9.2 (13.2).
    assert first_toolkit(copy_of(f"{opcode} [a], [b], c, [d];")) == toolkit


def assemble(folder, opcode, operands, target):
    """What ptxas does with one copy: rejected, native, or the symbol."""
    (folder / "a.ptx").write_text(
        f".version 9.0\n.target {target}\n.address_size 64\n"
        ".visible .entry k(.param .u64 g, .param .u32 s) {\n"
        ".reg .b32 d, m, c; .reg .b64 p, pol; .reg .b16 h, h2;\n"
        "ld.param.u64 p, [g]; ld.param.u64 pol, [g]; ld.param.u32 d, [s]; ld.param.u32 m, [s];\n"
        f"ld.param.u32 c, [s]; mov.b16 h, 3; mov.b16 h2, 1;\n{opcode} {operands};\nret;\n}}\n"
    )
    command = ["ptxas", f"-arch={target}", "-o", "a.cubin", "a.ptx"]
    if subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode:
        return "rejected"
    match = re.search(rb"__cuda_syscall_cp_async_bulk\w*", (folder / "a.cubin").read_bytes())
    return match[0].decode() if match else "native"


@pytest.mark.ptxas
@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas on PATH")
@pytest.mark.parametrize(
    "target",
    [
        *("sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103", "sm_110a"),
        *("sm_120", "sm_120a", "sm_120f", "sm_121", "sm_121f"),
    ],
)
def test_more_forms_with_ptxas(tmp_path, target):
    for opcode, operands in more_forms():
        copy = copy_of(f"{opcode} {operands};")
        found = on_target(copy, Target.parse(target))
        expected = assemble(tmp_path, opcode, operands, target)
        assert (syscall_name(copy) if found == "syscall" else found) == expected, (opcode, target)

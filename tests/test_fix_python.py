"""Fixes in the strings of Python programs: only in the literal that holds the instruction itself."""

from __future__ import annotations

import ast
import shutil

import pytest

from fixkit import LOCAL, check, fix
from sourcekit import CLUSTER, write

CLUSTER_TEXT, CTA_TEXT = "shared::cluster.global", "shared::cta.global"
ASM = """from cutlass._mlir.dialects import llvm

SPACE = "shared::cluster"


def pull(dst, src, bar):
    llvm.inline_asm(
        None,
        [dst, src, bar],
        TEXT,
        "r,l,r",
    )
"""
OPERANDS = "[$0], [$1], 1024, [$2];"
WHOLE = f'"{CLUSTER} {OPERANDS}"'
BY_CONSTANT = "f" + WHOLE.replace("shared::cluster", "{SPACE}")
VOUCHED = ("--unsafe-fixes", "--assume-local", "pull")


def test_code_in_a_raw_string(tmp_path):
    text = f'CODE = r"""\n{LOCAL}"""\n'
    assert fix(tmp_path, {"a.py": text})["a.py"].decode() == text.replace(CLUSTER_TEXT, CTA_TEXT)


def test_code_cut_into_literals(tmp_path):
    pieces = (
        LOCAL.replace("\\", "\\\\").replace('"', '\\"').replace("shared::cluster.", 'shared::clu"\n  "ster.')
    )
    text = (
        'CODE = ("'
        + pieces.replace(" {\n", ' {\\n"\n  "').replace(";\n", ';\\n"\n  "').replace("}\n", "}")
        + '")\n'
    )
    assert ast.literal_eval(text.removeprefix("CODE = ")).split() == LOCAL.split()
    after = fix(tmp_path, {"a.py": text})["a.py"].decode()
    assert after == text.replace('clu"', 'cta"').replace('"ster.', '".')
    fixed = ast.literal_eval(after.removeprefix("CODE = "))
    assert fixed.split() == LOCAL.replace(CLUSTER_TEXT, CTA_TEXT).split()


def test_an_asm_call(tmp_path):
    text = ASM.replace("TEXT", WHOLE)
    after = fix(tmp_path, {"a.py": text}, *VOUCHED)["a.py"].decode()
    assert after == text.replace(CLUSTER_TEXT, CTA_TEXT)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (ASM.replace("TEXT", BY_CONSTANT), ()),  # the constant may be part of anything
        (ASM.replace("TEXT", WHOLE), ("--cuda-min", "12.4")),  # there is no preprocessor to guard it
    ],
    ids=["constant", "old toolkit"],
)
def test_what_stays(text, options, tmp_path):
    assert fix(tmp_path, {"a.py": text}, *VOUCHED, *options)["a.py"].decode() == text


@pytest.mark.ptxas
@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not on PATH")
def test_the_copy_alone_is_verified(tmp_path):
    write(tmp_path, {"a.py": ASM.replace("TEXT", WHOLE)})
    ran = check(tmp_path, "--fix", *VOUCHED, "--verify", "--target", "sm_120a")
    assert "the copy alone in a generated kernel" in ran.err
    assert "sm_120a: driver calls 1 -> 0" in ran.err
    assert "sm_90a, sm_100a, sm_103a, sm_110a: code identical" in ran.err

"""Bulk copies in Python strings: each way to write the text, its place, and texts that are no site."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import ptxguard

OPCODE = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
COPY = OPCODE + " [$0], [$1], $2, [$3];"


def check(tmp_path, monkeypatch, **files):
    """Sites and errors of files given as `name=text`; the name's last underscore stands for the dot."""
    monkeypatch.chdir(tmp_path)
    for name, text in files.items():
        stem, _, ending = name.rpartition("_")
        (tmp_path / f"{stem}.{ending}").write_text(textwrap.dedent(text))
    return ptxguard.check_paths(["."])


def called(text, before=""):
    """A Python file whose kernel passes an expression to inline asm."""
    return f"""{before}
@cute.jit
def copy(dst, src, size, mbar):
    llvm.inline_asm(None, [dst, src, size, mbar], {text}, "r,l,r,r", has_side_effects=True)
"""


def kernel(text, before=""):
    return "from cutlass._mlir.dialects import llvm\nimport cutlass.cute as cute\n" + called(text, before)


SPELLINGS = {
    "plain": kernel(repr(COPY)),
    "triple-quoted": kernel(f'"""\n        {COPY}\n    """'),
    "raw": kernel(f'r"{COPY}"'),
    "adjacent": kernel(
        '"cp.async.bulk.shared::cluster" ".global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];"'
    ),
    "added": kernel(
        '"cp.async.bulk.shared::cluster.global." + "mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];"'
    ),
    "formatted": kernel(
        '"cp.async.bulk.shared::{}.global.{how} [$0], [$1], $2, [$3];".format("cluster", how="mbarrier::complete_tx::bytes")'
    ),
    "percent": kernel(
        '"cp.async.bulk.shared::%s.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];" % "cluster"'
    ),
    "f-string": kernel(
        'f"cp.async.bulk.shared::{SPACE}.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];"',
        'SPACE = "cluster"',
    ),
    "dedent": kernel(f'textwrap.dedent("""\n        {COPY}\n    """)', "import textwrap"),
    "module constant": kernel("TEXT", f"TEXT = {COPY!r}"),
    "joined list": kernel('"\\n".join(["{ .reg .pred p;", TEXT, "}"])', f"TEXT = {COPY!r}"),
    "helper": kernel(
        "made('cluster')",
        'def made(space):\n    return f"cp.async.bulk.shared::{space}.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];"',
    ),
    "register in braces": kernel('"' + COPY.replace("$2", "${2:x}").replace("[$0]", "[${0}]") + '"'),
}


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS)
def test_a_copy_is_found_however_its_text_is_written(text, tmp_path, monkeypatch):
    found = check(tmp_path, monkeypatch, kernels_py=text)
    assert [str(error) for error in found.errors] == []
    assert [(site.kind, site.copy.opcode, site.function) for site in found.sites] == [
        ("python_string", OPCODE, "copy")
    ]
    site = found.sites[0]
    written = (tmp_path / "kernels.py").read_text().splitlines()[site.span.line - 1]
    assert written[site.span.column - 1 :].startswith("cp.async.bulk.shared::")


def test_both_values_of_a_choice_are_sites(tmp_path, monkeypatch):
    chosen = f'"{COPY}" if wide else "{COPY.replace(".shared::cluster", ".shared::cta")}"'
    found = check(tmp_path, monkeypatch, kernels_py=kernel(chosen))
    assert {site.copy.destination_space for site in found.sites} == {"shared::cluster", "shared::cta"}


def test_columns_count_code_points(tmp_path, monkeypatch):
    found = check(tmp_path, monkeypatch, kernels_py=kernel(f'"/* é𝄞 */ {COPY}"'))
    line = (tmp_path / "kernels.py").read_text().splitlines()[found.sites[0].span.line - 1]
    assert found.sites[0].span.column == line.index("cp.async") + 1


def test_triton_text_is_read(tmp_path, monkeypatch):
    text = f'''
    import triton
    import triton.language as tl

    @triton.jit
    def load(dst, src, mbar):
        tl.inline_asm_elementwise("""
            {{
                .reg .b32 a;
                {COPY}
            }}
        """, "=r,l,r,r", [dst, src, 16, mbar], dtype=tl.int32, is_pure=False, pack=1)
    '''
    found = check(tmp_path, monkeypatch, kernels_py=text)
    assert [site.copy.opcode for site in found.sites] == [OPCODE]


def test_operands_pass_through_a_wrapper(tmp_path, monkeypatch):
    text = f'''
    from cutlass._mlir.dialects import llvm

    def emit(asm, operands):
        return llvm.inline_asm(None, operands, asm, "r,l,r,r")

    def load(dst, src, size, mbar):
        emit("{COPY}", [dst, src, size, mbar])
    '''
    found = check(tmp_path, monkeypatch, kernels_py=text)
    assert [(site.copy.opcode, site.function) for site in found.sites] == [(OPCODE, "load")]


SILENT = {
    "comment": f"# {COPY}\nx = 1\n",
    "docstring": f'def f():\n    """Emits {COPY}"""\n',
    "message": f'def f():\n    raise ValueError("no {COPY}")\n',
    "print": f'print("{COPY}")\n',
    "membership": f'def test(ptx):\n    assert "{OPCODE}" in ptx\n',
    "comparison": f'def test(ptx):\n    return ptx == "{COPY}"\n',
    "table": f'NAMES = {{"{OPCODE}": 1}}\n',
    "comment of the text": kernel(f'"mov.b32 $0, $1; // {COPY}"'),
}


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT)
def test_text_that_reaches_no_asm_call_is_no_site(text, tmp_path, monkeypatch):
    found = check(tmp_path, monkeypatch, kernels_py=text)
    assert found.sites == ()
    assert found.errors == ()


def test_an_opcode_that_is_not_in_sight_is_an_error(tmp_path, monkeypatch):
    text = kernel('f"cp.async.bulk.{form} [$0], [$1], $2, [$3];"', "from elsewhere import form")
    found = check(tmp_path, monkeypatch, kernels_py=text)
    assert found.sites == ()
    (error,) = found.errors
    assert "cannot be read: a field decides which instruction this is" in str(error)
    assert error.path == "kernels.py"
    assert "{form}" in text.splitlines()[error.line - 1]


def test_text_that_is_no_ptx_is_an_error(tmp_path, monkeypatch):
    found = check(tmp_path, monkeypatch, kernels_py=kernel(f'"{COPY[:-1]} ]];"'))
    assert found.sites == ()
    assert [error.path for error in found.errors] == ["kernels.py"]


def test_a_file_that_is_no_text_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "kernels.py").write_bytes(b"x = '" + COPY.encode() + b"'\n\x00\x01\x02\x00")
    monkeypatch.chdir(tmp_path)
    found = ptxguard.check_paths(["."])
    assert [error.path for error in found.errors] == ["kernels.py"]


def test_newer_and_broken_syntax_is_read(tmp_path, monkeypatch):
    text = (
        kernel(f'"{COPY}"')
        + "\ntype X[T: int = 3] = list[T]\nmatch x:\n    case {'a': 1, **rest}: pass\ndef broken(:\n"
    )
    found = check(tmp_path, monkeypatch, kernels_py=text)
    assert [site.copy.opcode for site in found.sites] == [OPCODE]


def test_an_architecture_test_excludes_targets(tmp_path, monkeypatch):
    text = f'''
    from cutlass._mlir.dialects import llvm

    def load(dst, src, size, mbar, arch):
        if arch == 90:
            llvm.inline_asm(None, [dst, src, size, mbar], "{COPY}", "r,l,r,r")
    '''
    found = check(tmp_path, monkeypatch, kernels_py=text)
    assert set(found.sites[0].targets.values()) == {"excluded"}


def test_a_tree_without_python_text_never_loads_the_grammar(tmp_path):
    (tmp_path / "a.cu").write_text('__global__ void k() { asm volatile("mov.b32 %0, %1;"); }\n')
    (tmp_path / "b.py").write_text("x = 1\n")
    program = "import sys, ptxguard; ptxguard.check_paths(['.']); print('tree_sitter' in sys.modules)"
    out = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert out.stdout == "False\n"

"""Which files a run reads: walks, git, vendored trees, content of odd endings, encodings, include reach."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from ptxguard.errors import ParseError
from ptxguard.source.project import Project
from ptxguard.source.tree import MAX_CPP_BYTES, TreeFile, decode, read_tree
from sourcekit import LOAD, graph_of, kernel, look, write

ASM = 'void f() { asm("x;"); }\n'


def listed(folder, *paths: str) -> dict[str, str]:
    """Files of a tree: `reported`, `named` or `evidence`."""
    here = os.getcwd()
    os.chdir(folder)
    try:
        tree = read_tree(paths or (".",))
    finally:
        os.chdir(here)
    assert tree.errors == []
    return {f.shown: "named" if f.named else "reported" if f.reported else "evidence" for f in tree.files}


@pytest.mark.parametrize(
    "name",
    ["a.cu", "a.cuh", "a.h", "a.hpp", "a.hh", "a.hxx", "a.inl", "a.inc", "a.impl", "a.ipp", "a.cpp", "a.cc",
     "a.cxx", "a.CU", "a.ptx"],
)  # fmt: skip
def test_kinds_by_ending(tmp_path, name):
    write(tmp_path, {name: ASM})
    assert listed(tmp_path) == {name: "reported"}


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("header", '__device__ void f() { asm("x;"); }', True),
        ("gemm.cu.in", '__global__ void f() { asm("x;"); }', True),
        ("header", "__device__ void f();", False),
        ("notes", 'say asm("x;")', False),
        ("a.py", '"__device__ asm"', False),
        ("a.md", "`__device__` asm", False),
        ("a.bin", "__device__ asm", False),
        ("weights", "__device__ asm \0", False),
        ("empty", "", False),
    ],
)
def test_other_endings_by_content(tmp_path, name, text, read):
    write(tmp_path, {name: text})
    assert listed(tmp_path) == ({name: "reported"} if read else {})


def test_a_folder_brings_what_lies_below_it(tmp_path):
    write(tmp_path, {"src/a.cu": ASM, "src/deep/b.cuh": ASM, "other/c.cu": ASM})
    assert listed(tmp_path, "src") == {"src/a.cu": "reported", "src/deep/b.cuh": "reported"}


def test_a_file_brings_its_neighbours_as_evidence(tmp_path):
    write(tmp_path, {"src/a.cu": ASM, "src/b.cuh": ASM, "src/deep/c.cuh": ASM})
    assert listed(tmp_path, "src/a.cu") == {"src/a.cu": "named", "src/b.cuh": "evidence"}


def test_several_paths_are_one_tree(tmp_path):
    write(tmp_path, {"a/a.cu": ASM, "b/b.cu": ASM})
    assert listed(tmp_path, "a", "b/b.cu", "a/a.cu") == {"a/a.cu": "named", "b/b.cu": "named"}


@pytest.mark.parametrize("name", ["3rdparty", "third_party", "vendor", "external", "_deps"])
def test_vendored_trees_are_evidence_unless_named(tmp_path, name):
    write(tmp_path, {"a.cu": ASM, f"lib/{name}/x/b.cuh": ASM})
    assert listed(tmp_path) == {"a.cu": "reported", f"lib/{name}/x/b.cuh": "evidence"}
    assert listed(tmp_path, f"lib/{name}")[f"lib/{name}/x/b.cuh"] == "reported"
    assert listed(tmp_path, f"lib/{name}/x/b.cuh")[f"lib/{name}/x/b.cuh"] == "named"


def test_paths_are_relative_to_the_working_directory(tmp_path):
    write(tmp_path, {"a/a.cu": ASM, "b/b.cu": ASM})
    assert listed(tmp_path / "b", "../a") == {"../a/a.cu": "reported"}
    assert listed(tmp_path / "b", str(tmp_path / "b" / "b.cu")) == {"b.cu": "named"}


def test_links_out_of_the_tree_and_in_circles(tmp_path):
    write(tmp_path, {"a/a.cu": ASM})
    (tmp_path / "a" / "again").symlink_to(tmp_path / "a", target_is_directory=True)
    assert listed(tmp_path, "a") == {"a/a.cu": "reported"}


def test_a_missing_path_is_an_error(tmp_path):
    assert look(tmp_path, ASM, paths=("nowhere",)).messages == ["nowhere: no such file or directory"]


# Git -----------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path):
    if shutil.which("git") is None:
        pytest.skip("git is not on PATH")
    write(
        tmp_path,
        {"tracked.cu": ASM, "sub/tracked.cuh": ASM, "gone.cu": ASM, ".gitignore": "build/\n*.gen.cu\n"},
    )
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True, capture_output=True)
    (tmp_path / "gone.cu").unlink()
    write(tmp_path, {"new.cu": ASM, "build/made.cu": ASM, "x.gen.cu": ASM})
    return tmp_path


def test_git_says_what_belongs_to_the_tree(checkout):
    assert listed(checkout) == {
        "tracked.cu": "reported",
        "sub/tracked.cuh": "reported",
        "new.cu": "reported",
    }


def test_a_part_of_a_checkout_has_the_rest_as_evidence(checkout):
    assert listed(checkout, "sub") == {
        "tracked.cu": "evidence",
        "sub/tracked.cuh": "reported",
        "new.cu": "evidence",
    }


def test_an_ignored_file_is_read_when_it_is_named(checkout):
    assert listed(checkout, "build/made.cu")["build/made.cu"] == "named"


def test_a_launch_elsewhere_in_the_checkout_is_evidence(checkout):
    write(checkout, {
        "sub/load.cuh": LOAD,
        "main.cu": '#include "sub/load.cuh"\n' + kernel("load(peer, src, b);") + "void f() { k<<<1, 1>>>(0, 0); }\n",
    })  # fmt: skip
    site = look(checkout, {}, paths=("sub/load.cuh",)).only
    assert (site.span.path, site.cluster.verdict) == ("sub/load.cuh", "one")


# Text ----------------------------------------------------------------------------------------------

TEXT = "// größe\r\nint x;\n"


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (TEXT.encode(), "utf-8"),
        (TEXT.encode("utf-8-sig"), "utf-8-sig"),
        (TEXT.encode("latin-1"), "latin-1"),
        (TEXT.encode("utf-16"), "utf-16"),
        (b"\xfe\xff" + TEXT.encode("utf-16-be"), "utf-16"),
        (TEXT.encode("utf-16-le"), "utf-16-le"),
        (TEXT.encode("utf-16-be"), "utf-16-be"),
        (b"", None),
    ],
)
def test_decode(data, encoding):
    text, found = decode(data, "a.cu")
    assert text == (TEXT if data else "")
    assert encoding is None or found == encoding


@pytest.mark.parametrize(
    ("data", "reason", "line"),
    [
        (b"\x7fELF\x02\x01\x01\0\0\0", "NUL bytes", 1),
        (b"int x;\nint y;\n\0", "NUL bytes", 3),
        (bytes(range(128, 256)) + bytes(range(1, 32)) * 20, "control characters", 1),
        (b"\xef\xbb\xbf\xff", "not valid utf-8", 1),
        (b"\xff\xfea", "not valid utf-16", 1),
        (b"\xff\xfe\x00\xdc", "not valid utf-16", 1),
    ],
)
def test_what_is_no_text(data, reason, line):
    with pytest.raises(ParseError, match=reason) as caught:
        decode(data, "a.cu")
    assert (caught.value.path, caught.value.line) == ("a.cu", line)


def test_every_byte_string_is_text_or_an_error():
    for seed in range(400):
        data = bytes((seed * 31 + i * i * 7) % 256 for i in range(seed % 37))
        try:
            text, encoding = decode(data, "a.cu")
        except ParseError:
            continue
        assert isinstance(text, str)
        assert encoding


def test_a_file_over_the_limit_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "big.cu"
    with path.open("wb") as file:
        file.truncate(MAX_CPP_BYTES + 1)
    with pytest.raises(ParseError, match="over the limit of 32 MiB"):
        TreeFile(str(path), "big.cu", reported=True).data()


# Includes ------------------------------------------------------------------------------------------

INCLUDES = {
    "a.cu": '#include "x.h"\n#include <lib/y.h>\n',
    "b.cu": '#  include "sub/../x.h"\n',
    "c.cu": "#include <string>\n",
    "x.h": '#include "z.h"\n',
    "inc/lib/y.h": "\n",
    "z.h": '#include "x.h"\n',
    "lonely.h": "\n",
    "sub/x.h": "\n",
}


@pytest.mark.parametrize(
    ("one", "other", "connected"),
    [
        ("a.cu", "a.cu", True),
        ("a.cu", "x.h", True),
        ("x.h", "a.cu", True),
        ("a.cu", "z.h", True),
        ("x.h", "inc/lib/y.h", True),
        ("b.cu", "x.h", True),
        ("b.cu", "inc/lib/y.h", False),
        ("a.cu", "b.cu", False),
        ("a.cu", "lonely.h", False),
        ("c.cu", "x.h", False),
        ("a.cu", "sub/x.h", False),
    ],
)
def test_connected(tmp_path, one, other, connected):
    kit = graph_of(tmp_path, INCLUDES)
    assert kit.project.connected(kit.unit(one), kit.unit(other)) is connected


def test_files_that_hold_a_word_are_found_by_their_bytes(tmp_path):
    kit = graph_of(tmp_path, {"a.cu": "int needle;", "b.cu": "int other;", "c.cu": "// needle"})
    assert sorted(unit.file.path for unit in kit.project.with_word("needle")) == ["a.cu", "c.cu"]


def test_keywords_for_asm_come_from_the_tree(tmp_path):
    files = {"a.h": "#define ASM __asm__ __volatile__\n#define VOL volatile\n#define NOT asm(1)\n"}
    kit = graph_of(tmp_path, files)
    assert kit.project.asm_keywords == {"asm", "__asm__", "__asm", "ASM"}
    assert isinstance(kit.project, Project)

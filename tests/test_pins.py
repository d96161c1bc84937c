"""Pinned libraries: submodules by the commit in git's index, downloads by their tag in CMake."""

from __future__ import annotations

import subprocess

import pytest

from ptxguard.source.analyse import Options, analyse
from ptxguard.source.pins import version_of

ATOM = "void load(int n) {\n  auto copy = make_tma_copy(cute::SM90_TMA_LOAD{}, tensor, layout);\n}\n"
# Commits of github.com/NVIDIA/cutlass, with the version that their header names.
CUTLASS_3_8 = "afa1772203677c5118fcd82537a9c8fefbcc7008"  # tag v3.8.0
CUTLASS_4_2 = "57e3cfb47a2d9e0d46eb6335c3dc411498efa198"


def tree(tmp_path, monkeypatch, files):
    monkeypatch.chdir(tmp_path)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], check=True)


def wrappers_in(tmp_path):
    found = analyse(["."], Options())
    assert found.errors == ()
    return [site for site in found.sites if site.kind == "wrapper"]


def submodule(url, commit):
    entry = f'[submodule "x"]\n\tpath = 3rdparty/other\n[submodule "c"]\n\tpath = deps/c\n\turl = {url}\n'
    with open(".gitmodules", "w") as file:
        file.write(entry)
    subprocess.run(["git", "update-index", "--add", "--cacheinfo", f"160000,{commit},deps/c"], check=True)


@pytest.mark.parametrize(
    ("revision", "version"),
    [
        ("v4.2.1", (4, 2)),
        ("3.9", (3, 9)),
        (CUTLASS_4_2, (4, 2)),
        (CUTLASS_4_2[:12], (4, 2)),
        ("0" * 40, None),
        ("main", None),
        ("", None),
    ],
)
def test_a_revision_names_a_version_or_none(revision, version):
    assert version_of("CUTLASS", revision) == version


def test_a_commit_counts_for_its_own_library_only():
    assert version_of("CCCL", CUTLASS_4_2) is None


@pytest.mark.parametrize("url", ["https://github.com/NVIDIA/cutlass.git", "git@github.com:nvidia/cutlass"])
@pytest.mark.parametrize(("commit", "space"), [(CUTLASS_3_8, "cluster"), (CUTLASS_4_2, "cta")])
def test_a_submodule_tells_the_form(tmp_path, monkeypatch, url, commit, space):
    tree(tmp_path, monkeypatch, {"a.cu": ATOM})
    submodule(url, commit)
    found = wrappers_in(tmp_path)
    assert [site.copy.destination_space for site in found] == [f"shared::{space}"]
    pinned = next(link for link in found[0].evidence if link.kind == "build")
    assert (pinned.path, pinned.line) == (".gitmodules", 3)
    assert commit[:12] in pinned.text


@pytest.mark.parametrize("url", ["https://github.com/someone/cutlass-fork", "https://github.com/NVIDIA/cccl"])
def test_another_repository_tells_nothing(tmp_path, monkeypatch, url):
    tree(tmp_path, monkeypatch, {"a.cu": ATOM})
    submodule(url, CUTLASS_4_2)
    assert not any(link.kind == "build" for site in wrappers_in(tmp_path) for link in site.evidence)


FETCH = (
    "FetchContent_Declare(cutlass\n  GIT_REPOSITORY https://github.com/nvidia/cutlass.git\n  GIT_TAG {})\n"
)


@pytest.mark.parametrize(
    ("text", "space"),
    [
        (FETCH.format("v3.5.1"), "shared::cluster"),
        (FETCH.format("v4.2.1"), "shared::cta"),
        (f'set(REVISION "v4.2.1" CACHE STRING "which")\n{FETCH.format("${REVISION}")}', "shared::cta"),
    ],
)
def test_a_download_tells_the_form(tmp_path, monkeypatch, text, space):
    tree(tmp_path, monkeypatch, {"a.cu": ATOM, "CMakeLists.txt": text})
    assert [site.copy.destination_space for site in wrappers_in(tmp_path)] == [space]


def test_a_tag_of_the_next_download_is_not_taken(tmp_path, monkeypatch):
    text = (
        "FetchContent_Declare(cutlass GIT_REPOSITORY https://github.com/nvidia/cutlass)\nx(GIT_TAG v4.2.1)\n"
    )
    tree(tmp_path, monkeypatch, {"a.cu": ATOM, "CMakeLists.txt": text})
    assert not any(link.kind == "build" for site in wrappers_in(tmp_path) for link in site.evidence)


def test_the_version_header_of_the_tree_comes_first(tmp_path, monkeypatch):
    header = "#define CUTLASS_MAJOR 3\n#define CUTLASS_MINOR 8\n"
    tree(tmp_path, monkeypatch, {"a.cu": ATOM, "version.h": header, "CMakeLists.txt": FETCH.format("v4.2.1")})
    assert [site.copy.destination_space for site in wrappers_in(tmp_path)] == ["shared::cluster"]

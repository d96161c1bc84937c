"""The cache of analyses: what keeps an answer, what ends it, and a folder that others cannot poison."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "bench"))
from cache_edits import OPENING, Edits, record

from ptxguard import cache as caching
from ptxguard.cache import Cache, default_folder
from ptxguard.source.analyse import Options, analyse


@pytest.fixture
def tree(tmp_path, monkeypatch):
    root = tmp_path / "tree"
    root.mkdir()
    monkeypatch.chdir(root)
    subprocess.run(["git", "init", "-q"], check=True)
    for name, text in OPENING.items():
        (root / name).write_text(text)
    return root


@pytest.fixture
def kept(tree, tmp_path, monkeypatch):
    """A function that analyses and says whether the cache gave the answer, which is compared with a fresh one."""
    cache = Cache(tmp_path / "cache")
    asked = []
    fresh = caching.analyse_tree
    monkeypatch.setattr(caching, "analyse_tree", lambda *given: asked.append(1) or fresh(*given))

    def answer(paths=(".",), options=None):
        before = len(asked)
        options = options or Options()
        found = cache.analyse(list(paths), options)
        assert record(found) == record(analyse(list(paths), options))
        return len(asked) == before

    answer.cache = cache
    return answer


def test_an_unchanged_tree_is_answered_from_the_cache(kept):
    assert [kept(), kept(), kept()] == [False, True, True]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("other.cpp", "int answer() { return 43; }\n"),
        ("notes.md", "pull<<<1, 1>>>(p);\n"),
        ("fresh.txt", "pull\n"),
        ("config.h", "#define UNUSED 2\n"),
    ],
)
def test_what_plays_no_part_may_change(kept, tree, name, text):
    kept()
    (tree / name).write_text(text)
    assert kept()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kernel.cu", "\n" + OPENING["kernel.cu"]),
        ("helpers.cuh", OPENING["helpers.cuh"].replace("shared::cluster", "shared::cta")),
        ("launch.cu", OPENING["launch.cu"].replace("<<<1, 32>>>", "<<<2, 32>>>")),
        ("other.cpp", "void again(const void *p) { pull<<<1, 32>>>(p); }\n"),
        ("fresh.cu", "__global__ void push(unsigned d, const void *s, unsigned b) { load(d, s, b); }\n"),
        ("fresh.cuh", '#include "kernel.cu"\n'),
        ("config.h", '#define SPACE "shared::cta"\n'),
        ("config.h", "#define ASSEMBLE asm volatile\n"),
        ("CMakeLists.txt", 'set(CMAKE_CUDA_ARCHITECTURES "90a")\n'),
        ("fresh.cmake", 'set(CMAKE_CUDA_ARCHITECTURES "100a")\n'),
        ("fresh.ptx", ".version 8.6\n.target sm_120a\n.address_size 64\n"),
    ],
)
def test_what_plays_a_part_ends_the_answer(kept, tree, name, text):
    kept()
    (tree / name).write_text(text)
    assert not kept()
    assert kept()


@pytest.mark.parametrize("name", ["kernel.cu", "helpers.cuh", "launch.cu"])
def test_a_file_that_is_gone_ends_the_answer(kept, tree, name):
    kept()
    (tree / name).unlink()
    assert not kept()


def test_an_edit_that_keeps_size_and_time_of_content_is_seen(kept, tree):
    path = tree / "launch.cu"
    kept()
    before = path.stat()
    path.write_text(path.read_text().replace("pull", "push"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not kept()


def test_options_and_paths_have_answers_of_their_own(kept):
    assert not kept()
    assert not kept(options=Options(defines={"SPACE": '"shared::cta"'}))
    assert not kept(["helpers.cuh"])
    assert [kept(), kept(["helpers.cuh"])] == [True, True]


def test_errors_are_looked_at_again(kept, tree):
    (tree / "helpers.cuh").write_text(OPENING["helpers.cuh"] + "#if 1\n")
    assert [kept(), kept()] == [False, False]


def test_an_entry_that_is_broken_or_foreign_is_computed_anew(kept):
    kept()
    for data in (b"", b"\x80\x04.", pickle.dumps((99, None, None)), b"words"):
        for entry in kept.cache.folder.iterdir():
            entry.write_bytes(data)
        assert not kept()
    assert kept()


@pytest.mark.skipif(os.name == "nt", reason="rights of a folder are a matter of POSIX here")
def test_a_folder_that_others_can_write_to_is_not_used(kept):
    kept.cache.folder.mkdir(mode=0o700)
    kept.cache.folder.chmod(0o777)
    assert [kept(), kept()] == [False, False]
    assert not any(kept.cache.folder.iterdir())


def test_the_folder_is_made_for_its_user_alone(kept):
    kept()
    assert kept.cache.folder.stat().st_mode & 0o777 == 0o700


def test_the_entries_used_longest_ago_go_first(tree, tmp_path):
    cache = Cache(tmp_path / "cache")
    cache.analyse(["."], Options())
    size = sum(entry.stat().st_size for entry in cache.folder.iterdir())
    small = Cache(cache.folder, max_bytes=2 * size + size // 2)
    for number in range(6):
        small.analyse(["."], Options(defines={"X": str(number)}))
        assert sum(entry.stat().st_size for entry in cache.folder.iterdir()) <= small.max_bytes
    assert len(list(cache.folder.iterdir())) == 2


def test_an_entry_above_the_bound_is_not_kept(tree, tmp_path):
    cache = Cache(tmp_path / "cache", max_bytes=10)
    cache.analyse(["."], Options())
    assert not any(cache.folder.iterdir())


def test_runs_side_by_side_give_whole_answers(tree, tmp_path):
    cache = Cache(tmp_path / "cache")
    found = []
    runs = [
        threading.Thread(target=lambda: found.append(record(cache.analyse(["."], Options()))))
        for _ in range(6)
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert found == [found[0]] * 6
    assert len(list(cache.folder.iterdir())) == 1


@pytest.mark.parametrize("seed", [1, 2])
def test_random_edits_never_bring_an_old_answer(tree, tmp_path, seed):
    edits = Edits(tree, tmp_path / "cache", random.Random(seed))
    edits.run(40)
    assert edits.wrong == []


def test_the_folder_is_that_of_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("PTXGUARD_CACHE_DIR", str(tmp_path / "own"))
    assert default_folder() == tmp_path / "own"
    monkeypatch.delenv("PTXGUARD_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "ptxguard"

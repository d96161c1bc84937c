"""Versions of libraries that a project pins without holding them: submodules and what CMake downloads."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from ptxguard.finding import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ptxguard.builds import BuildFile, Builds
    from ptxguard.source.wrappers import Library, Version

GITMODULES = ".gitmodules"
_PREFIX = 8  # hex digits of a commit in `pins.txt`; no two commits there share them
_TAG = re.compile(r"v?(\d+)\.(\d+)(?:\.|\Z)")
_COMMIT = re.compile(r"[0-9a-f]{8,40}\Z")
_DOWNLOAD = re.compile(r"GIT_TAG\s+\"?([\w.${}/-]+)")
_VARIABLE = re.compile(r"\$\{(\w+)\}\Z")


@dataclass(frozen=True)
class Pin:
    """A version with the place that pins it."""

    version: Version
    evidence: Evidence


def read_pins(library: Library, builds: Builds) -> tuple[Pin, ...]:
    """Versions of a library that build files pin; none for a commit that `pins.txt` does not know.

    Args:
        library: the library; its `repository` is looked for.
        builds: build files and `.gitmodules` of a tree.
    """
    found: list[Pin] = []
    for file, data in builds.holding([library.repository.encode()]):
        text = data.decode("utf-8", "replace")
        if file.real.endswith(GITMODULES):
            found.extend(_submodules(library, builds, file, text))
        else:
            found.extend(_downloads(library, file, text))
    return tuple(dict.fromkeys(found))


def version_of(library: str, revision: str) -> Version | None:
    """Version that a tag or a commit of a library holds; None where that is not known."""
    if (match := _TAG.match(revision)) is not None:
        return int(match[1]), int(match[2])
    return _commits(library).get(revision[:_PREFIX]) if _COMMIT.match(revision) else None


@lru_cache(maxsize=4)
def _commits(library: str) -> Mapping[str, Version]:
    """First hex digits of a commit -> version, from the first parents of main, releases and tags."""
    text = resources.files("ptxguard.source").joinpath("pins.txt").read_text("utf-8")
    known: dict[str, Version] = {}
    for line in text.splitlines():
        name, number, *commits = line.split(" ")
        if name == library:  # a comment has "#" there
            major, _, minor = number.partition(".")
            known.update(dict.fromkeys(commits, (int(major), int(minor))))
    return known


def _submodules(library: Library, builds: Builds, file: BuildFile, text: str) -> Iterator[Pin]:
    """The commit that git's index holds for each submodule with the library's repository."""
    for section in text.split("[submodule")[1:]:
        path = _value(section, "path")
        url = _value(section, "url").removesuffix(".git").rstrip("/")
        if not path or not url.lower().endswith(library.repository.lower()):
            continue
        root = str(Path(file.real).parent)
        commit = builds.commits[root, path] = index_commit(root, path)
        version = version_of(library.name, commit)
        if version is not None:
            line = text[: text.find(section)].count("\n") + 1
            shown = f"submodule {path} is at {commit[:12]}, {library.name} {version[0]}.{version[1]}"
            yield Pin(version, Evidence("build", file.shown, line, shown))


def _value(section: str, key: str) -> str:
    match = re.search(rf"^\s*{key}\s*=\s*(.+)$", section, re.MULTILINE)
    return match[1].strip() if match is not None else ""


def index_commit(root: str, path: str) -> str:
    """Commit of a submodule, or "" where git cannot tell."""
    command = ["git", "-C", root, "ls-files", "-s", "--", path]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return ""
    words = done.stdout.decode("utf-8", "replace").split()
    return words[1] if words[:1] == ["160000"] else ""


def _downloads(library: Library, file: BuildFile, text: str) -> Iterator[Pin]:
    """`GIT_TAG` behind the library's repository, in the same command of CMake."""
    start = 0
    lower, wanted = text.lower(), library.repository.lower()
    while (start := lower.find(wanted, start)) >= 0:
        start += len(wanted)
        end = text.find(")", start)
        match = _DOWNLOAD.search(text, start, end if end >= 0 else len(text))
        if match is None:
            continue
        version = version_of(library.name, _resolved(match[1], text))
        if version is not None:
            line = text.count("\n", 0, match.start()) + 1
            yield Pin(version, Evidence("build", file.shown, line, match[0].strip()))


def _resolved(word: str, text: str) -> str:
    """A word of CMake; a variable is looked up where the same file sets it."""
    variable = _VARIABLE.match(word)
    if variable is None:
        return word
    match = re.search(rf"\bset\s*\(\s*{variable[1]}\s+\"?([\w.-]+)", text)
    return match[1] if match is not None else ""

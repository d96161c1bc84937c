"""Targets that a project's own build files name, per file where that can be told."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ptxguard.cmake import read_cmake
from ptxguard.finding import Evidence
from ptxguard.flags import Built, build_line, built_by_flags, built_by_lists, leaves_targets_open
from ptxguard.model import BuildVerdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ptxguard.arch import Target

# Bytes without which a file names no target.
_MARKS = (b"compute_", b"-arch", b"CUDA_ARCH", b"ARCHS", b"sm_{", b'sm_"', b"sm_'")
_CMAKE_NAMES = ("CMakeLists.txt", ".cmake")


@dataclass(frozen=True)
class BuildFile:
    """A file that may name targets; read when something asks.

    Attributes:
        real: path for the operating system.
        shown: path for the user.
    """

    real: str
    shown: str

    def data(self) -> bytes:
        """Its bytes; none where it cannot be read, which is no error of the code under analysis."""
        try:
            return Path(self.real).read_bytes()
        except OSError:
            return b""


@dataclass(eq=False)
class Builds:
    """What the build files of a tree say.

    Attributes:
        files: in path order.
        searched: bytes that were searched for, in lower case.
        commits: (root, path) -> commit of each submodule that was asked for.
    """

    files: Sequence[BuildFile]
    searched: set[bytes] = field(default_factory=set)
    commits: dict[tuple[str, str], str] = field(default_factory=dict)
    _defines: dict[str, tuple[str | None, Evidence] | None] = field(default_factory=dict, repr=False)

    def targets_of(self, path: str) -> tuple[Built, ...]:
        """Targets for which a file is built: its own where they can be told, else all the project's."""
        own = self._read[1].get(path)
        return own if own is not None else self._read[0]

    def holding(self, words: Iterable[bytes]) -> Iterator[tuple[BuildFile, bytes]]:
        """Files that hold one of some words, in any case of letters, with their bytes."""
        wanted = [word.lower() for word in words]
        self.searched.update(wanted)
        for file in self.files:
            data = file.data()
            lower = data.lower()
            if any(word in lower for word in wanted):
                yield file, data

    def tells(self, path: str) -> bool:
        """Whether a file has targets of its own."""
        return path in self._read[1]

    @property
    def open_ended(self) -> Evidence | None:
        """A place where targets are computed, so that more than those named are built; or None."""
        return self._read[2]

    @cached_property
    def _read(self) -> tuple[tuple[Built, ...], dict[str, tuple[Built, ...]], Evidence | None]:
        named: list[Built] = []
        per_file: dict[str, tuple[Built, ...]] = {}
        open_ended = None
        for file, data in self.holding(_MARKS):
            text = data.decode("utf-8", "replace")
            if file.shown.endswith("compile_commands.json"):
                for path, built in _compile_commands(file, text):
                    per_file[path] = tuple(dict.fromkeys((*per_file.get(path, ()), *built)))
                continue
            if file.shown.endswith(_CMAKE_NAMES):
                whole, own = read_cmake(file.shown, text)
                named.extend(whole)
                per_file.update(own)
            else:
                named.extend(built_by_lists(file.shown, text))
            named.extend(built_by_flags(file.shown, text))
            open_ended = open_ended or leaves_targets_open(file.shown, text)
        return (
            tuple(one for one in dict.fromkeys(named) if not _is_comment(one.evidence)),
            per_file,
            open_ended,
        )

    def define(self, name: str) -> tuple[str | None, Evidence] | None:
        """Value and place of a `-D` that some build of the project gives; None where none does."""
        if name not in self._defines:
            self._defines[name] = next(self._definitions(name), None)
        return self._defines[name]

    def _definitions(self, name: str) -> Iterator[tuple[str | None, Evidence]]:
        flag = re.compile(rf"-D\s?{re.escape(name)}(?:=([\w.]+))?(?![\w=])")
        command = re.compile(rf"compile_definitions\s*\([^()]*?\b{re.escape(name)}(?:=([\w.]+))?(?![\w=])")
        for file, data in self.holding([name.encode()]):
            text = data.decode("utf-8", "replace")
            for pattern in (flag, command):
                for match in pattern.finditer(text):
                    evidence = build_line(file.shown, text, match.end())
                    if not _is_comment(evidence):
                        yield match[1], evidence


def _is_comment(evidence: Evidence) -> bool:
    """Whether a build line is a whole-line comment: every format read here writes `#`, or has none (JSON)."""
    return evidence.text.startswith("#")


def _compile_commands(file: BuildFile, text: str) -> Iterator[tuple[str, list[Built]]]:
    """Every source file of a compilation database, with the targets of its command."""
    try:
        entries = json.loads(text)
    except ValueError:
        return
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or not isinstance(entry.get("file"), str):
            continue
        arguments = entry.get("arguments")
        command = (
            " ".join(map(str, arguments)) if isinstance(arguments, list) else str(entry.get("command", ""))
        )
        built = list(built_by_flags(file.shown, command))
        place = os.path.join(str(entry.get("directory", "")), entry["file"])  # noqa: PTH118 (joins as cmake does)
        line = text.count("\n", 0, max(text.find(entry["file"]), 0)) + 1
        if built:
            yield _shown(place), [Built(one.target, one.kind, _at_line(one.evidence, line)) for one in built]


def _at_line(evidence: Evidence, line: int) -> Evidence:
    return Evidence(evidence.kind, evidence.path, line, evidence.text)


def _shown(path: str) -> str:
    return os.path.relpath(os.path.realpath(path)).replace(os.sep, "/")


def judge(builds: Builds, paths: Sequence[str], targets: Iterable[Target]) -> BuildVerdict:
    """Whether the project builds one of the files for any of the targets, as far as its build files tell."""
    built = tuple(dict.fromkeys(one for path in paths for one in builds.targets_of(path)))
    wanted = {target.number for target in targets}
    for one in built:
        if one.target.number in wanted:
            return BuildVerdict("named", f"the build names {one.target}", (one.evidence,))
    if not built:
        return BuildVerdict("unknown", "no build file of the tree names targets")
    if builds.open_ended is not None and not all(map(builds.tells, paths)):
        place = f"{builds.open_ended.path}:{builds.open_ended.line}"
        return BuildVerdict("unknown", f"the targets are computed ({place})", (builds.open_ended,))
    names = ", ".join(dict.fromkeys(one.target.name for one in sorted(built, key=lambda one: one.target)))
    evidence = tuple(dict.fromkeys(one.evidence for one in built))
    compiled = [one for one in built if one.kind == "ptx" and any(_reaches(one.target, n) for n in wanted)]
    if compiled:
        reason = f"the build names {names}, and ships PTX that the driver compiles for later cards"
        return BuildVerdict("ptx", reason, evidence, tuple(dict.fromkeys(one.target for one in compiled)))
    return BuildVerdict("others", f"the build names {names} only", evidence)


def ships_ptx(
    builds: Builds, paths: Sequence[str], virtual: Iterable[str], targets: Iterable[Target]
) -> BuildVerdict | None:
    """The build lines that ship PTX for one of some virtual architectures, and what the driver makes of it.

    None where there are none, or where the build ships a cubin for each of the targets: that comes first.
    """
    wanted = set(virtual)
    built = tuple(dict.fromkeys(one for path in paths for one in builds.targets_of(path)))
    shipped = [
        one
        for one in built
        if one.kind == "ptx" and not one.target.suffix and f"compute_{one.target.number}" in wanted
    ]
    cubins = [one.target for one in built if one.kind != "ptx"]
    if not shipped or all(any(_loads(cubin, target.number) for cubin in cubins) for target in targets):
        return None
    names = ", ".join(dict.fromkeys(f"compute_{one.target.number}" for one in shipped))
    evidence = tuple(dict.fromkeys(one.evidence for one in shipped))
    targets = tuple(dict.fromkeys(one.target for one in shipped))
    return BuildVerdict("ptx", f"the build ships PTX for {names}", evidence, targets)


def _loads(cubin: Target, number: int) -> bool:
    """Whether a card takes a cubin: of its own number, or of an older one of its generation without `a`."""
    if cubin.suffix == "a":
        return cubin.number == number
    return cubin.number // 10 == number // 10 and cubin.number <= number


def _reaches(written: Target, number: int) -> bool:
    """Whether the driver compiles PTX for a target that is not its own (PTX ISA, ".target").

    `a` PTX goes to its own architecture alone, `f` PTX within its family.
    """
    if written.suffix == "a" or written.number > number:
        return False
    return written.suffix != "f" or written.number // 10 == number // 10

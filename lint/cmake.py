"""Targets that a CMake file names, with the source files that belong to them alone."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.finding import Evidence
from ptxguard.flags import Built, built_by_flags, built_by_list

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMENT = re.compile(r"#[^\n]*")
_COMMAND = re.compile(r"\b(\w+)\s*\(((?:\"[^\"]*\"|[^()\"]|\([^()]*\))*)\)")
_WORD = re.compile(r"\"([^\"]*)\"|([^\s\"]+)")
# Variables that hold targets: CMAKE_CUDA_ARCHITECTURES, and what projects call their own lists.
_ARCH_VARIABLE = re.compile(r"\w*(?:CUDA_ARCHITECTURES|ARCHS?(?:_\w+)?)\Z")
_MAKES_TARGET = frozenset({"add_library", "add_executable", "cuda_add_library", "pybind11_add_module"})
_NO_DEFAULT = re.compile(r"CUDA_ARCHITECTURES\s+\"?(?:OFF|FALSE)\b")
_ARCH_WORDS = re.compile(r"(?:\d{2,3}[af]?(?:-real|-virtual)?;?)+\Z")


@dataclass(frozen=True)
class _Command:
    """One command: lower-case name, arguments, offset."""

    name: str
    words: tuple[str, ...]
    offset: int


def read_cmake(path: str, text: str) -> tuple[list[Built], dict[str, tuple[Built, ...]]]:
    """Targets that a CMake file names for everything, and those of single source files.

    Args:
        path: as shown; source files are seen from its folder.
        text: the file.
    """
    reader = _Reader(path, text)
    for command in _commands(text):
        reader.read(command)
    return reader.result()


@dataclass(eq=False)
class _Reader:
    """What the commands of one file have said so far."""

    path: str
    text: str
    whole: list[Built] = field(default_factory=list)
    of_target: dict[str, list[Built]] = field(default_factory=dict)
    sources: dict[str, list[str]] = field(default_factory=dict)
    of_file: dict[str, list[Built]] = field(default_factory=dict)

    def read(self, command: _Command) -> None:
        """Take one command in."""
        name, words = command.name, command.words
        if name == "set" and words and _ARCH_VARIABLE.match(words[0]):
            self.whole.extend(self.listed(command, words[1:]))
        elif name == "list" and words[:1] in (("APPEND",), ("PREPEND",)) and _is_arch_list(words[1:2]):
            self.whole.extend(self.listed(command, words[2:]))
        elif name in _MAKES_TARGET and words:
            self.sources.setdefault(words[0], []).extend(words[1:])
        elif name in ("set_target_properties", "set_property"):
            targets, values = _parted(words, "PROPERTIES" if name[4] == "t" else "PROPERTY")
            if "CUDA_ARCHITECTURES" in values:
                built = list(self.listed(command, values[values.index("CUDA_ARCHITECTURES") + 1 :]))
                self.give(self.of_target, targets, built)
        elif name == "target_compile_options" and words:
            self.give(self.of_target, words[:1], self.flagged(command))
        elif name == "set_source_files_properties":
            files, _ = _parted(words, "PROPERTIES")
            self.give(self.of_file, tuple(_beside(self.path, file) for file in files), self.flagged(command))

    def give(self, table: dict[str, list[Built]], names: tuple[str, ...], built: list[Built]) -> None:
        """Note targets for each of some names, if there are any."""
        for name in names if built else ():
            table.setdefault(name, []).extend(built)

    def listed(self, command: _Command, values: tuple[str, ...]) -> Iterator[Built]:
        """Targets of a list of architectures."""
        for word in values:
            if _ARCH_WORDS.match(word):
                yield from built_by_list(self.path, self.text, command.offset, word)

    def flagged(self, command: _Command) -> list[Built]:
        """Targets of compiler flags, at the line of their command."""
        words = " ".join(command.words)
        line = self.text.count("\n", 0, command.offset) + 1
        place = Evidence("build", self.path, line, f"{command.name}({words})"[:160])
        return [Built(one.target, one.kind, place) for one in built_by_flags(self.path, words)]

    def result(self) -> tuple[list[Built], dict[str, tuple[Built, ...]]]:
        """What `read_cmake` returns."""
        # Flags of a file come beside what holds for all files, unless that is switched off.
        beside = [] if _NO_DEFAULT.search(self.text) else list(self.whole)
        per_file = {file: (*built, *beside) for file, built in self.of_file.items()}
        for target, built in self.of_target.items():
            self.whole.extend(built)
            for source in self.sources.get(target, ()):
                place = _beside(self.path, source)
                per_file[place] = (*per_file.get(place, ()), *built)
        return self.whole, per_file


def _is_arch_list(words: tuple[str, ...]) -> bool:
    return bool(words) and _ARCH_VARIABLE.match(words[0]) is not None


def _parted(words: tuple[str, ...], keyword: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words before and behind a keyword; none at all where it is missing."""
    if keyword not in words:
        return (), ()
    place = words.index(keyword)
    return words[:place], words[place + 1 :]


def _commands(text: str) -> Iterator[_Command]:
    """The commands of a file, comments blanked so that offsets stay."""
    blanked = _COMMENT.sub(lambda match: " " * len(match[0]), text)
    for match in _COMMAND.finditer(blanked):
        words = tuple(quoted or plain for quoted, plain in _WORD.findall(match[2]))
        yield _Command(match[1].lower(), words, match.start())


def _beside(path: str, name: str) -> str:
    """A source file as shown, seen from the folder of the CMake file."""
    name = name.removeprefix("${CMAKE_CURRENT_SOURCE_DIR}/").removeprefix("${CMAKE_CURRENT_LIST_DIR}/")
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), name))

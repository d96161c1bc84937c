"""Targets that a CMake file names, with the source files that belong to them alone."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
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
    whole: list[Built] = []
    of_target: dict[str, list[Built]] = {}
    sources: dict[str, list[str]] = {}
    per_file: dict[str, tuple[Built, ...]] = {}
    for command in _commands(text):
        words = command.words
        if command.name in ("set", "list") and words:
            variable, values = (words[0], words[1:]) if command.name == "set" else (words[1:2], words[2:])
            name = variable if isinstance(variable, str) else "".join(variable)
            if _ARCH_VARIABLE.match(name) and words[0] not in ("FIND", "REMOVE_ITEM", "FILTER"):
                whole.extend(_listed(path, text, command, values))
        elif command.name in ("add_library", "add_executable", "cuda_add_library", "pybind11_add_module"):
            sources.setdefault(words[0] if words else "", []).extend(words[1:])
        elif command.name in ("set_target_properties", "set_property", "target_compile_options"):
            for target, built in _of_targets(path, text, command):
                of_target.setdefault(target, []).extend(built)
        elif command.name == "set_source_files_properties":
            built = tuple(built_by_flags(path, " ".join(words)))
            located = tuple(Built(one.target, one.kind, _place(path, text, command)) for one in built)
            for word in words[: words.index("PROPERTIES")] if "PROPERTIES" in words and located else ():
                per_file[_beside(path, word)] = located
    if not _NO_DEFAULT.search(text):  # flags of a file come beside what holds for all
        per_file = {source: (*built, *whole) for source, built in per_file.items()}
    for target, built_list in of_target.items():
        whole.extend(built_list)
        for source in sources.get(target, ()):
            place = _beside(path, source)
            per_file[place] = (*per_file.get(place, ()), *built_list)
    return whole, per_file


def _commands(text: str) -> Iterator[_Command]:
    """The commands of a file, comments blanked so that offsets stay."""
    blanked = _COMMENT.sub(lambda match: " " * len(match[0]), text)
    for match in _COMMAND.finditer(blanked):
        words = tuple(quoted or plain for quoted, plain in _WORD.findall(match[2]))
        yield _Command(match[1].lower(), words, match.start())


def _listed(path: str, text: str, command: _Command, values: tuple[str, ...]) -> Iterator[Built]:
    for word in values:
        if _ARCH_WORDS.match(word):
            yield from built_by_list(path, text, command.offset, word)


def _of_targets(path: str, text: str, command: _Command) -> Iterator[tuple[str, list[Built]]]:
    """Targets of CMake with the GPU targets that a property or an option gives them."""
    words = command.words
    if "CUDA_ARCHITECTURES" in words:
        values = words[words.index("CUDA_ARCHITECTURES") + 1 :]
        built = list(_listed(path, text, command, values))
        first = 1 if command.name == "set_property" else 0
        stop = words.index("PROPERTY" if command.name == "set_property" else "PROPERTIES")
        for target in words[first:stop] if built else ():
            yield target, built
    elif command.name == "target_compile_options" and words:
        found = built_by_flags(path, " ".join(words))
        located = [Built(one.target, one.kind, _place(path, text, command)) for one in found]
        if located:
            yield words[0], located


def _place(path: str, text: str, command: _Command) -> Evidence:
    line = text.count("\n", 0, command.offset) + 1
    return Evidence("build", path, line, f"{command.name}({' '.join(command.words)})"[:160])


def _beside(path: str, name: str) -> str:
    """A source file as shown, seen from the folder of the CMake file."""
    name = name.removeprefix("${CMAKE_CURRENT_SOURCE_DIR}/").removeprefix("${CMAKE_CURRENT_LIST_DIR}/")
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), name))

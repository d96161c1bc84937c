"""Versions of the C++ libraries that a tree holds (version headers) or pins (submodules, downloads)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.finding import Evidence
from ptxguard.source.pins import read_pins

if TYPE_CHECKING:
    from ptxguard.source.guards import Definition
    from ptxguard.source.project import Project
    from ptxguard.source.wrappers import Library, Version

_NUMBER = re.compile(r"\(?\s*(\d+)\s*[uUlL]*\s*\)?\Z")


@dataclass(frozen=True)
class Found:
    """Versions of one library.

    Attributes:
        versions: every one that the tree or the user names; none where nothing tells.
        evidence: where.
        own_folders: folders of the tree that are the library itself, each with "/" at its end.
    """

    versions: frozenset[Version]
    evidence: tuple[Evidence, ...] = ()
    own_folders: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """`3.8`, `3.8 and 4.2`, or "" where nothing tells."""
        return " and ".join(f"{major}.{minor}" for major, minor in sorted(self.versions))


@dataclass(eq=False)
class LibraryVersions:
    """Versions asked for so far.

    Attributes:
        project: the tree; `-D` of the user comes before it.
    """

    project: Project
    _known: dict[str, Found] = field(default_factory=dict, repr=False)

    def of(self, library: Library) -> Found:
        """Versions of a library that the tree holds."""
        known = self._known.get(library.name)
        if known is None:
            known = self._known[library.name] = self._find(library)
        return known

    def _find(self, library: Library) -> Found:
        places: dict[object, dict[str, tuple[int, Definition]]] = {}
        for macro in library.macros:
            for definition in self.project.definitions(macro):
                number = _number(definition.value)
                if number is not None:
                    places.setdefault(definition.unit, {})[macro] = (number, definition)
        whole = [place for place in places.values() if len(place) == len(library.macros)]
        versions = frozenset(_joined([place[macro][0] for macro in library.macros]) for place in whole)
        evidence = tuple(_evidence(definition) for place in whole for _, definition in place.values())
        folders = tuple(folder for link in evidence for folder in _folders(link.path or "", library))
        if not versions:
            pins = read_pins(library, self.project.builds)
            versions, evidence = frozenset(pin.version for pin in pins), tuple(pin.evidence for pin in pins)
        given = [_number(self.project.defines.get(macro)) for macro in library.macros]
        if all(number is not None for number in given):
            return Found(frozenset({_joined([number or 0 for number in given])}), (), folders)
        return Found(versions, evidence, folders)


def _folders(header: str, library: Library) -> list[str]:
    if not f"/{header}".endswith(f"/{library.header}"):
        return []
    start = header.removesuffix(library.header)
    return [f"{start}{folder}/" for folder in library.folders]


def _joined(numbers: list[int]) -> Version:
    """Major and minor, from the two or from major * 1000000 + minor * 1000 + patch."""
    if len(numbers) > 1:
        return numbers[0], numbers[1]
    return numbers[0] // 1_000_000, numbers[0] // 1000 % 1000


def _number(text: str | None) -> int | None:
    match = _NUMBER.match(text.strip()) if text is not None else None
    return int(match[1]) if match is not None else None


def _evidence(definition: Definition) -> Evidence:
    text = f"#define {definition.name} {definition.value}"
    return Evidence("macro", definition.unit.file.path, definition.line, text)

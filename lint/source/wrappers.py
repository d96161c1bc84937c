"""The table of library calls and types that hide a bulk copy, and what each hides in which version."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Version = tuple[int, int]


@dataclass(frozen=True)
class Library:
    """A library with the macros that spell its version.

    Attributes:
        name: as findings call it.
        macros: one for the whole version, or those of major and minor.
        header: where they are defined, as an include names it.
        repository: owner and name of its public repository.
        folders: folders of the library, seen from where its includes start.
    """

    name: str
    macros: tuple[str, ...]
    header: str
    repository: str
    folders: tuple[str, ...]


@dataclass(frozen=True)
class Wrapper:
    """One name of the table (`wrappers.toml` explains the fields).

    Attributes:
        name: as written at the call, without qualifiers.
        namespace: where it lives, outermost first.
        kind: call, atom or host.
        library: what it belongs to.
        opcode: what it hides, with `{space}` and, where only the call tells, `{rank}`.
        rank: tensor rank that the name tells, 0 where it tells none.
        tagged: whether the first two arguments name the windows.
        shared_since: first version with a call for the own CTA's window, or None.
        becomes: qualified name of that call, "" where the tag alone decides.
        arguments: positions of arguments.
        barrier_object: whether the barrier is passed by reference.
        spaces: (first version, window) in order.
        instead: what to write instead.
    """

    name: str
    namespace: tuple[str, ...]
    kind: str
    library: Library
    opcode: str
    rank: int
    tagged: bool
    shared_since: Version | None
    becomes: str
    arguments: Mapping[str, int]
    barrier_object: bool
    spaces: tuple[tuple[Version, str], ...]
    instead: str

    @property
    def qualified(self) -> str:
        """Name with its namespaces."""
        return "::".join((*self.namespace, self.name))

    def space_in(self, version: Version) -> str | None:
        """The window that a version of the library spells; None for one that lacks the wrapper."""
        found = [space for first, space in self.spaces if first <= version]
        return found[-1] if found else None

    def spaces_in(self, versions: Iterable[Version]) -> frozenset[str]:
        """Windows that some of the versions spell; of all versions where none is known."""
        known = {space for version in versions if (space := self.space_in(version)) is not None}
        return frozenset(known or {space for _, space in self.spaces})


@lru_cache(maxsize=1)
def wrappers() -> Mapping[str, Wrapper]:
    """Every wrapper by its name."""
    import tomllib  # a tree without these names never reads the table

    text = resources.files("ptxguard.source").joinpath("wrappers.toml").read_text("utf-8")
    table = tomllib.loads(text)
    libraries = {
        name: Library(name, tuple(row["macros"]), row["header"], row["repository"], tuple(row["folders"]))
        for name, row in table["library"].items()
    }
    return {wrapper.name: wrapper for row in table["wrapper"] for wrapper in _read(row, libraries)}


def _read(row: Mapping[str, Any], libraries: Mapping[str, Library]) -> Iterator[Wrapper]:
    for name in row["names"]:
        for rank in row.get("ranks", [0]):
            yield Wrapper(
                name=name.replace("{rank}", str(rank)),
                namespace=tuple(row["namespace"].split("::")),
                kind=row["kind"],
                library=libraries[row["library"]],
                opcode=row["opcode"].replace("{rank}", str(rank)) if rank else row["opcode"],
                rank=rank,
                tagged=row.get("tagged", False),
                shared_since=_version(row["shared_since"]) if "shared_since" in row else None,
                becomes=row.get("becomes", ""),
                arguments=_arguments(row, rank),
                barrier_object=row.get("barrier") == "object",
                spaces=tuple((_version(first), space) for first, space in row["spaces"]),
                instead=row["instead"],
            )


def _arguments(row: Mapping[str, Any], rank: int) -> Mapping[str, int]:
    given: dict[str, int] = row.get("arguments", {})
    return {**given, "destination": -1 - rank} if row.get("coordinates_last") else given


def _version(text: str) -> Version:
    major, _, minor = text.partition(".")
    return int(major or 0), int(minor or 0)

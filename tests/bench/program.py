"""A generated program with the truth about each of its bulk copies, and the marks that carry their lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# One private-use character stands before each mnemonic until the files are written.
_FIRST_MARK = 0xE000
_LAST_MARK = 0xF8FF

TARGETS = ("sm_120", "sm_120a", "sm_120f", "sm_121", "sm_121a", "sm_121f", "sm_90a")
# Toolkits that the truth ranges over, and the one that confirms it.
TOOLKITS = ((12, 8), (12, 9), (13, 0), (13, 1), (13, 2), (13, 3), (13, 4), (13, 5))
INSTALLED = (13, 0)


@dataclass(frozen=True)
class World:
    """What one compilation sees.

    Attributes:
        target: `sm_120a`.
        toolkit: (major, minor).
        extra: macro that nobody in the tree defines -> whether it is defined here.
    """

    target: str
    toolkit: tuple[int, int]
    extra: bool = False

    @property
    def number(self) -> int:
        """Value of `__CUDA_ARCH__`."""
        return int(self.target.removeprefix("sm_").rstrip("af")) * 10

    @property
    def suffix(self) -> str:
        """ "", "a" or "f"."""
        return self.target[-1] if self.target[-1] in "af" else ""


@dataclass(frozen=True)
class Guard:
    """A preprocessor condition and its value in a world."""

    text: str
    holds: Callable[[World], bool]


@dataclass(frozen=True)
class Passage:
    """One way from a kernel to a copy.

    Attributes:
        kernel: base name of the kernel.
        destination: owner of the destination on this way: local, peer or unknown.
        mbarrier: owner of the mbarrier.
        cluster: one, larger or undecided.
        in_sight: whether the kernel has launches and all are in the program.
    """

    kernel: str
    destination: str
    mbarrier: str
    cluster: str
    in_sight: bool


@dataclass
class Site:
    """The truth about one copy.

    Attributes:
        mark: the character before its mnemonic.
        opcode: whole dotted opcode.
        guards: conditions that must all hold.
        passages: ways that reach it; empty for code that nobody calls.
        path, line: filled when the program is written.
    """

    mark: str
    opcode: str
    guards: tuple[Guard, ...]
    passages: list[Passage] = field(default_factory=list)
    path: str = ""
    line: int = 0

    @property
    def multicast(self) -> bool:
        """Whether it goes to several CTAs."""
        return ".multicast::cluster" in self.opcode

    @property
    def is_cluster_load(self) -> bool:
        """Whether sm_12x makes a driver call of it."""
        return ".shared::cluster.global" in self.opcode

    @property
    def syscall(self) -> str:
        """The driver function that it becomes on sm_12x (`facts/syscall_atlas.tsv`), or ""."""
        if not self.is_cluster_load:
            return ""
        words = self.opcode.split(".")
        rank = next((word for word in words if word in ("1d", "2d", "3d", "4d", "5d")), "")
        mode = "im2col" if "im2col" in words else "tile"
        shape = f"_tensor_{rank}_{mode}" if rank else ""
        return f"__cuda_syscall_cp_async_bulk{shape}_{'multicast' if self.multicast else 'unicast'}"

    def compiled_in(self, world: World) -> bool:
        """Whether its guards hold in a world."""
        return all(guard.holds(world) for guard in self.guards)

    def on(self, target: str) -> str:
        """compiled, excluded or unknown over the toolkits that know a target.

        A macro of which the tree says nothing is not defined in a build of the tree as it stands: what
        compiles then is compiled, what compiles only with that macro is unknown.
        """
        first = (12, 9) if "121" in target or target.endswith("f") else (12, 8)
        toolkits = [toolkit for toolkit in TOOLKITS if toolkit >= first]
        plain, extra = (
            any(self.compiled_in(World(target, toolkit, extra)) for toolkit in toolkits)
            for extra in (False, True)
        )
        return "compiled" if plain else "unknown" if extra else "excluded"

    @property
    def destination(self) -> str:
        """Owner over every way: a peer anywhere decides, then unknown."""
        return worst((p.destination for p in self.passages), ("peer", "unknown", "local"), "unknown")

    @property
    def mbarrier(self) -> str:
        """Owner of the mbarrier over every way."""
        return worst((p.mbarrier for p in self.passages), ("peer", "unknown", "local"), "unknown")

    @property
    def cluster(self) -> str:
        """Cluster size over every kernel that reaches it."""
        return worst((p.cluster for p in self.passages), ("larger", "undecided", "one"), "undecided")

    @property
    def fix(self) -> str:
        """Strongest fix that `CONTRACT.md` allows: safe, unsafe or none."""
        if self.multicast or not self.is_cluster_load or self.destination == "peer":
            return "none"
        if self.destination == "local":
            return "none" if self.mbarrier == "peer" else "safe"
        seen = self.cluster == "one" and all(passage.in_sight for passage in self.passages)
        return "unsafe" if seen else "none"


def worst(values: Iterable[str], order: tuple[str, ...], default: str) -> str:
    """The first of an order that occurs."""
    found = set(values)
    return next((value for value in order if value in found), default)


@dataclass
class Program:
    """A generated tree.

    Attributes:
        name: prefix of every name in it, and its folder.
        files: name -> text.
        defines: `-D` given to the compiler and to the lint.
        sites: truth, in no order.
        units: files that nvcc compiles; the others are included.
    """

    name: str
    files: dict[str, str]
    defines: dict[str, str]
    sites: list[Site]
    units: tuple[str, ...]


def mark_of(number: int) -> str:
    """The mark of a statement."""
    if _FIRST_MARK + number > _LAST_MARK:
        raise ValueError(f"a program holds at most {_LAST_MARK - _FIRST_MARK} marks")
    return chr(_FIRST_MARK + number)


def is_mark(character: str) -> bool:
    """Whether a character is a mark."""
    return _FIRST_MARK <= ord(character) <= _LAST_MARK


def settle(files: dict[str, str], sites: list[Site]) -> dict[str, str]:
    """Read the place of each site off its mark; the files without marks."""
    places = {
        character: (path, number)
        for path, text in files.items()
        for number, line in enumerate(text.split("\n"), 1)
        for character in line
        if is_mark(character)
    }
    for site in sites:
        site.path, site.line = places[site.mark]
    return {path: "".join(c for c in text if not is_mark(c)) for path, text in files.items()}

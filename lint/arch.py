"""GPU targets: `sm_120a` parsed and ordered, the macros nvcc defines for it, its first toolkit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ptxguard.errors import ConfigError

_TARGET = re.compile(r"(?:sm|compute)_(\d{2,3})([af]?)\Z")

# The targets whose ptxas turns a global -> shared::cluster bulk copy into a driver syscall
# (facts measured with ptxas 13.0.88 and 13.5.37; no other target does).
SYSCALL_ARCHES = frozenset({120, 121})

DEFAULT_TARGETS = ("sm_120", "sm_120a", "sm_120f", "sm_121", "sm_121a", "sm_121f")

# First CUDA toolkit that compiles for an architecture (CUDA release notes).
_FIRST_TOOLKIT = {
    90: (11, 8),
    100: (12, 8),
    101: (12, 8),
    103: (12, 9),
    110: (13, 0),
    120: (12, 8),
    121: (12, 9),
}
_FAMILY_TOOLKIT = (12, 9)


@dataclass(frozen=True, order=True)
class Target:
    """A real GPU target as ptxas spells it.

    Attributes:
        number: 120 for sm_120.
        suffix: "" (all later minor versions), "f" (family specific) or "a" (this architecture only).
    """

    number: int
    suffix: str = ""

    @classmethod
    @lru_cache(maxsize=256)
    def parse(cls, text: str) -> Target:
        """Read `sm_120a` or `compute_120a`.

        Raises:
            ConfigError: the text names no target.
        """
        match = _TARGET.match(text.strip())
        if match is None:
            raise ConfigError(f"{text!r} is no GPU target; write it like sm_120, sm_120a or sm_120f")
        return cls(int(match[1]), match[2])

    @property
    def name(self) -> str:
        """The spelling of ptxas: `sm_120a`."""
        return f"sm_{self.number}{self.suffix}"

    @property
    def arch_macro(self) -> int:
        """Value of `__CUDA_ARCH__`: 1200 for sm_120."""
        return self.number * 10

    @property
    def calls_driver(self) -> bool:
        """Whether ptxas turns cluster-form bulk copies into syscalls here."""
        return self.number in SYSCALL_ARCHES

    @property
    def first_toolkit(self) -> tuple[int, int]:
        """First CUDA toolkit (major, minor) that has this target; (0, 0) where every supported one has."""
        first = _FIRST_TOOLKIT.get(self.number, (0, 0))
        return max(first, _FAMILY_TOOLKIT) if self.suffix == "f" else first

    def macros(self) -> dict[str, int]:
        """Architecture macros of the device pass, as `nvcc --dryrun` of 13.0.88 lists them."""
        macros = {"__CUDA_ARCH__": self.arch_macro, "__CUDA_ARCH_LIST__": self.arch_macro}
        if self.suffix:
            macros["__CUDA_ARCH_FAMILY_SPECIFIC__"] = self.arch_macro
        if self.suffix == "a":
            macros["__CUDA_ARCH_SPECIFIC__"] = self.arch_macro
            macros[f"__CUDA_ARCH_FEAT_SM{self.number}_ALL"] = 1
        return macros

    def __str__(self) -> str:
        return self.name

"""Packages with published builds that call the driver, and the release that repairs them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

# `name-version-…whl` (wheel file names, PyPA specifications) and `name-version.dist-info`.
_WHEEL = re.compile(r"(?:^|/)([A-Za-z0-9_.]+)-(\d[\w.]*?)(?:\+[\w.]+)?-[^/]*\.whl\Z")
_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True)
class Advisory:
    """One row of `advisories.toml`.

    Attributes:
        package: name, with "_" for "-", in lower case.
        first: version from which it holds, "" for all.
        end: version from which it holds no more, "" where it still does.
        repaired: release to take instead, "" where none is known.
        what: the mistake, in one sentence without its dot.
        source: where it was read.
    """

    package: str
    first: str
    end: str
    repaired: str
    what: str
    source: str

    def holds_for(self, package: str, version: str) -> bool:
        """Whether a version of a package is affected."""
        if normal(package) != self.package:
            return False
        after = not self.first or _numbers(version) >= _numbers(self.first)
        return after and (not self.end or _numbers(version) < _numbers(self.end))

    @property
    def advice(self) -> str:
        """What to do, in one sentence without its dot."""
        if self.repaired:
            return f"upgrade to {self.repaired} ({self.what}; {self.source})"
        return f"no repaired release is known ({self.what}; {self.source})"


@lru_cache(maxsize=1)
def advisories() -> tuple[Advisory, ...]:
    """Every row of the table."""
    table = tomllib.loads(files("ptxguard").joinpath("advisories.toml").read_text("utf-8"))
    return tuple(
        Advisory(
            package=normal(row["package"]),
            first=row["versions"][0],
            end=row["versions"][1],
            repaired=row["repaired"],
            what=row["what"],
            source=row["source"],
        )
        for row in table["advisory"]
    )


def advisory_for(path: str) -> Advisory | None:
    """The advisory about a wheel, by its file name; None for other files and for wheels without one."""
    match = _WHEEL.search(path.replace("\\", "/"))
    if match is None:
        return None
    return next((row for row in advisories() if row.holds_for(match[1], match[2])), None)


def normal(package: str) -> str:
    """A package name as wheels spell it (PyPA, "Names and normalization")."""
    return re.sub(r"[-_.]+", "_", package).lower()


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, without zeros at its end; what stands behind them (rc1, dev0) is left out."""
    release = re.match(r"[\d.]*", version)
    numbers = [int(number) for number in _NUMBERS.findall(release[0] if release is not None else "")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)

"""Findings that a project already knows, as sorted text of fingerprints with counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ptxguard.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ptxguard.finding import Finding

_HEAD = "# Findings that `ptxguard check --baseline` leaves out: fingerprint, count, what it was.\n"


@dataclass(frozen=True)
class Compared:
    """Findings beside a baseline.

    Attributes:
        new: those that it does not hold, or holds fewer times.
        known: number of the others.
        gone: its lines that nothing matches any more, as written, each with the number that is gone.
    """

    new: list[Finding]
    known: int
    gone: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Baseline:
    """What a file holds.

    Attributes:
        counts: fingerprint without its number -> how many findings have it.
        lines: fingerprint -> its line.
    """

    counts: Mapping[str, int]
    lines: Mapping[str, str]

    def compare(self, findings: Sequence[Finding]) -> Compared:
        """Tell new findings from known ones; of equal ones the first in file order count as known."""
        left = Counter(self.counts)
        new = []
        for finding in findings:
            key = _key(finding)
            if left[key] > 0:
                left[key] -= 1
            else:
                new.append(finding)
        gone = tuple((self.lines[key], count) for key, count in sorted(left.items()) if count > 0)
        return Compared(new, len(findings) - len(new), gone)


def read_baseline(path: str) -> Baseline:
    """The baseline in a file.

    Raises:
        ConfigError: it is not there, or a line of it is none.
    """
    try:
        text = Path(path).read_text("utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"the baseline cannot be read ({reason}); write one with `ptxguard baseline`", path=path
        ) from None
    except UnicodeDecodeError:
        raise ConfigError("the baseline is no text; write one with `ptxguard baseline`", path=path) from None
    counts: dict[str, int] = {}
    lines: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0] == "#":
            continue
        if len(words) < 2 or not words[1].isdigit():
            raise ConfigError("no baseline: fingerprint and count are wanted", path=path, line=number)
        counts[words[0]] = counts.get(words[0], 0) + int(words[1])
        lines[words[0]] = line.strip()
    return Baseline(counts, lines)


def render_baseline(findings: Sequence[Finding]) -> Iterator[str]:
    """The text of a baseline, one line a fingerprint, sorted by fingerprint."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(_key(finding), []).append(finding)
    yield _HEAD
    for key, group in sorted(groups.items()):
        first = group[0]
        place = " ".join(f"{first.code} {first.path} {first.function or ''}".split())
        yield f"{key} {len(group)} {place}\n"


def _key(finding: Finding) -> str:
    """The fingerprint without the number that tells equal ones apart."""
    return finding.fingerprint.rpartition(":")[0] or finding.fingerprint

"""Findings that a project already knows, as sorted text of fingerprints with counts."""

from __future__ import annotations

import os
import shlex
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
class Entry:
    """One line of a baseline.

    Attributes:
        text: as written.
        code: of the rule, "" where the line does not say it.
        path: file that held the first such finding, seen from the working directory; "" likewise.
    """

    text: str
    code: str = ""
    path: str = ""


@dataclass(frozen=True)
class Scope:
    """What a run looked at: only entries from there can be told to be gone.

    Attributes:
        paths: files and folders as the user named them.
        files: those that were read.
        codes: of the rules that ran, and of comments.
    """

    paths: Sequence[str]
    files: frozenset[str]
    codes: frozenset[str]

    def holds(self, entry: Entry) -> bool:
        """Whether a finding of this entry would have been seen: its file was read, or is there no more."""
        if entry.code not in self.codes:
            return False
        return entry.path in self.files or (not Path(entry.path).exists() and self._below(entry.path))

    def _below(self, path: str) -> bool:
        whole = Path(os.path.abspath(path))  # noqa: PTH100 (joins "..", follows no link)
        return any(whole.is_relative_to(os.path.abspath(named)) for named in self.paths)  # noqa: PTH100


@dataclass(frozen=True)
class Baseline:
    """What a file holds.

    Attributes:
        counts: fingerprint without its number -> how many findings have it.
        entries: fingerprint -> its line.
    """

    counts: Mapping[str, int]
    entries: Mapping[str, Entry]

    def compare(self, findings: Sequence[Finding], scope: Scope, unseen: Sequence[Finding] = ()) -> Compared:
        """Tell new findings from known ones; of equal ones the first in file order count as known.

        Args:
            findings: in file order.
            scope: what the run looked at.
            unseen: findings that other options of the run leave out, and which are therefore not gone.
        """
        left = Counter(self.counts)
        new = []
        for finding in findings:
            key = _key(finding)
            if left[key] > 0:
                left[key] -= 1
            else:
                new.append(finding)
        left.subtract(map(_key, unseen))
        gone = tuple(
            (self.entries[key].text, count)
            for key, count in sorted(left.items())
            if count > 0 and scope.holds(self.entries[key])
        )
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
    entries: dict[str, Entry] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = _words(line)
        if not words or words[0] == "#":
            continue
        if len(words) < 2 or not words[1].isdigit():
            raise ConfigError("no baseline: fingerprint and count are wanted", path=path, line=number)
        counts[words[0]] = counts.get(words[0], 0) + int(words[1])
        code, place = (*words[2:4], "", "")[:2]
        shown = _moved(place, Path(path).parent, Path.cwd()) if place else ""
        entries[words[0]] = Entry(line.strip(), code, shown)
    return Baseline(counts, entries)


def render_baseline(findings: Sequence[Finding], path: str | None = None) -> Iterator[str]:
    """The text of a baseline, one line a fingerprint, sorted by fingerprint.

    Args:
        findings: in file order.
        path: the file that it will be; paths are seen from its folder. None: from the working directory.
    """
    folder = Path(path).parent if path is not None else Path.cwd()
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(_key(finding), []).append(finding)
    yield _HEAD
    for key, group in sorted(groups.items()):
        first = group[0]
        words = (first.code, _moved(first.path, Path.cwd(), folder), first.function or "")
        yield f"{key} {len(group)} {' '.join(shlex.quote(word) for word in words if word)}\n"


def _words(line: str) -> list[str]:
    """Words of a line; a name with a space stands in quotes."""
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _moved(path: str, source: Path, target: Path) -> str:
    """A path that is seen from one folder, as seen from another."""
    return os.path.relpath(source / path, target).replace(os.sep, "/")


def _key(finding: Finding) -> str:
    """The fingerprint without the number that tells equal ones apart."""
    return finding.fingerprint.rpartition(":")[0] or finding.fingerprint

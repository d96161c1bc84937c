"""Which lines differ from a revision of git, and which findings they touch."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ptxguard.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ptxguard.finding import Evidence, Finding

# What the user's configuration of git may say otherwise.
_FLAGS = (
    "--unified=0 --no-color --no-ext-diff --no-textconv --find-renames --no-relative "
    "--src-prefix=a/ --dst-prefix=b/"
).split()
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
# git writes a name with a quote, a backslash or a control character as a C string.
_ESCAPE = re.compile(r"\\([0-7]{3}|.)")
_ESCAPED = dict(zip("abtnvfr", "\a\b\t\n\v\f\r", strict=True))


@dataclass(eq=False)
class Changes:
    """Changed lines of a checkout.

    Attributes:
        lines: path as shown -> 1-based lines that differ.
        whole: paths of new files.
    """

    lines: dict[str, set[int]] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)

    def has(self, path: str | None, first: int | None, last: int | None = None) -> bool:
        """Whether some line of a range differs."""
        if path is None or first is None:
            return False
        if path in self.whole:
            return True
        return any(line in self.lines.get(path, ()) for line in range(first, (last or first) + 1))

    def touched(self, findings: Sequence[Finding]) -> Iterator[Finding]:
        """Findings of which some line changed: their own, or one that their evidence names.

        Where their own line did not change, they are told at the first changed line of their evidence too, so
        that an annotation stands where the change is.
        """
        for finding in findings:
            if self.has(finding.path, finding.line, finding.end_line):
                yield finding
                continue
            link = next((link for link in finding.evidence if self.has(link.path, link.line)), None)
            if link is not None:
                yield finding
                yield _at_link(finding, link)


def read_changes(revision: str, diff_filter: str | None, paths: Iterable[str] = ()) -> Changes:
    """Lines of the working tree that differ from a revision, untracked files included.

    Args:
        revision: a commit as git understands it; `$(git merge-base main HEAD)` for what a branch changes.
        diff_filter: kinds of changed files as `git diff --diff-filter` takes them, or None.
        paths: what is checked, all of it in this checkout.

    Raises:
        ConfigError: this is no checkout, git is missing, the revision is unknown, or a path lies elsewhere.
    """
    root = _git("rev-parse", "--show-toplevel").removesuffix("\n")
    for path in paths:
        _check_inside(path, Path(root))
    base = _git("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}").strip()
    chosen = [f"--diff-filter={diff_filter}"] if diff_filter else []
    changes = Changes()
    diff = _git("-C", root, "-c", "core.quotepath=off", "diff", *_FLAGS, *chosen, base, "--")
    for path, line in _added(diff):
        changes.lines.setdefault(_shown(root, path), set()).add(line)
    if not diff_filter or "A" in diff_filter:
        others = _git("-C", root, "ls-files", "-z", "--others", "--exclude-standard")
        changes.whole.update(_shown(root, path) for path in others.split("\0") if path)
    return changes


def _added(diff: str) -> Iterator[tuple[str, int]]:
    """(path, line) of every line that the newer side of a diff has; of removed ones, those around."""
    path, body = "", 0
    for line in diff.split("\n"):
        if body > 0:  # text of a hunk, which may look like a heading
            body -= not line.startswith("\\")  # "\ No newline at end of file" is counted nowhere
        elif line.startswith("+++ "):
            path = _name(line[4:]).removeprefix("b/")
        elif (match := _HUNK.match(line)) is not None:
            removed, first, count = int(match[1] or 1), int(match[2]), int(match[3] or 1)
            body = removed + count
            lines = range(first, first + count) if count else range(max(first, 1), first + 2)
            yield from ((path, number) for number in lines)


def _name(text: str) -> str:
    """A file name as a diff writes it: in quotes with escapes, or with a tab behind one that has spaces."""
    if not text.startswith('"'):
        return text.split("\t")[0]

    def plain(match: re.Match[str]) -> str:
        word = match[1]
        return chr(int(word, 8)) if len(word) == 3 else _ESCAPED.get(word, word)

    return _ESCAPE.sub(plain, text[1 : text.rindex('"')])


def _check_inside(path: str, root: Path) -> None:
    """Refuse a path of another checkout, a submodule included: its changes are not in this one's diff."""
    place = Path(path).absolute()
    place = place.parent.resolve() / place.name if place.name != ".." else place.resolve()
    around = next((folder for folder in (place, *place.parents) if (folder / ".git").exists()), None)
    if around is None or around != root.resolve():
        raise ConfigError(f"--new-from-rev: {path} is not in the checkout {root}; run ptxguard in its own")


def _at_link(finding: Finding, link: Evidence) -> Finding:
    """The same finding at a line of its evidence."""
    line = link.line or 1
    return replace(
        finding,
        path=link.path or finding.path,
        line=line,
        column=1,
        end_line=line,
        end_column=2,
        message=f"this {link.kind} changed; {finding.path}:{finding.line} depends on it: {finding.message}",
        fix=None,
        fingerprint=f"{finding.fingerprint}@{link.kind}",
    )


def _shown(root: str, path: str) -> str:
    return os.path.relpath(os.path.join(root, path)).replace(os.sep, "/")  # noqa: PTH118 (as the tree shows paths)


def _git(*arguments: str) -> str:
    try:
        command = ["git", *arguments]
        done = subprocess.run(command, capture_output=True, check=True, timeout=120)
    except OSError:
        raise ConfigError("--new-from-rev needs git, which cannot be started") from None
    except subprocess.CalledProcessError as error:
        lines: Iterable[str] = error.stderr.decode("utf-8", "replace").strip().splitlines()
        reason = next(iter(lines), "no reason given").removeprefix("fatal: ")
        raise ConfigError(f"--new-from-rev: git says: {reason}") from None
    except subprocess.TimeoutExpired:
        raise ConfigError("--new-from-rev: git took more than two minutes") from None
    return done.stdout.decode("utf-8", "surrogateescape")

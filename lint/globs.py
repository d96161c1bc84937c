"""Globs over paths as users write them in excludes and per-file ignores."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def matches(path: str, globs: Iterable[str]) -> bool:
    """Whether a path with "/" is meant by one of some globs.

    A glob means the whole path, everything under a folder that it names, or, without "/", a name anywhere in
    the path; `*` and `**` cross folders.
    """
    parts = path.split("/")
    return any(_matches(path, parts, glob.removeprefix("./").rstrip("/")) for glob in globs)


def _matches(path: str, parts: list[str], glob: str) -> bool:
    if fnmatch.fnmatchcase(path, glob) or fnmatch.fnmatchcase(path, f"{glob}/*"):
        return True
    if glob.startswith("**/") and fnmatch.fnmatchcase(path, glob[3:]):
        return True
    return "/" not in glob and any(fnmatch.fnmatchcase(part, glob) for part in parts)

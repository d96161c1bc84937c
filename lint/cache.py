"""Keeps analyses of source on disk with what each rests on, and gives one back only if that still holds."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle  # the folder belongs to the user alone; see `_own_folder`
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import ptxguard
from ptxguard.source.analyse import Options, analyse_tree
from ptxguard.source.trace import still_holds, take
from ptxguard.source.tree import read_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ptxguard.model import Analysis
    from ptxguard.source.trace import Trace

MAX_BYTES = 64 << 20
_FORMAT = 1


@dataclass(frozen=True)
class Cache:
    """A folder of analyses, one file for each set of paths and options.

    Attributes:
        folder: made with mode 0700 where it is missing; one that others may write to is not used.
        max_bytes: what it may hold; the entries that were used longest ago go first.
    """

    folder: Path
    max_bytes: int = MAX_BYTES

    def analyse(
        self,
        paths: Sequence[str],
        options: Options,
        progress: Callable[[int, int, str], None] | None = None,
    ) -> Analysis:
        """As `ptxguard.source.analyse.analyse`, from the folder where the tree still gives the same answer.

        An analysis with errors is not kept: what cannot be read is looked at again.
        """
        taken_ns = time.time_ns()
        tree = read_tree(paths)
        usable = _own_folder(self.folder)
        place = self.folder / _key(paths, options)
        if usable and (kept := _load(place)) is not None and still_holds(kept[0], tree):
            with contextlib.suppress(OSError):
                os.utime(place)
            return kept[1]
        found, project = analyse_tree(tree, options, progress)
        if usable and project is not None and not found.errors:
            trace = take(project, taken_ns)
            if trace is not None:
                self._store(place, pickle.dumps((_FORMAT, trace, found), pickle.HIGHEST_PROTOCOL))
        return found

    def _store(self, place: Path, data: bytes) -> None:
        """Write one entry in one piece; a folder that cannot be written to costs the entry, nothing else."""
        if len(data) > self.max_bytes:
            return
        with contextlib.suppress(OSError):
            handle, temporary = tempfile.mkstemp(dir=self.folder)
            try:
                with os.fdopen(handle, "wb") as stream:
                    stream.write(data)
                Path(temporary).replace(place)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
            self._shrink()

    def _shrink(self) -> None:
        """Remove what was used longest ago until the folder keeps its bound."""
        entries = []
        for path in self.folder.iterdir():
            with contextlib.suppress(OSError):  # another run may have removed it
                entries.append((path.stat().st_mtime_ns, path.stat().st_size, path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.max_bytes:
                break
            path.unlink(missing_ok=True)
            total -= size


def default_folder() -> Path:
    """`$PTXGUARD_CACHE_DIR`, else `ptxguard` in the user's cache folder (XDG base directories)."""
    named = os.environ.get("PTXGUARD_CACHE_DIR")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".cache") / "ptxguard"


def _own_folder(folder: Path) -> bool:
    """Whether nobody but the user can have written to a folder, which is made where it is missing."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError:
        return False
    if os.name == "nt":  # the profile's own rights hold there
        return True
    return found.st_uid == os.getuid() and not found.st_mode & 0o022


def _load(place: Path) -> tuple[Trace, Analysis] | None:
    try:
        version, trace, found = pickle.loads(place.read_bytes())  # noqa: S301 (the folder is the user's own)
    except Exception:
        return None
    return (trace, found) if version == _FORMAT else None


def _key(paths: Sequence[str], options: Options) -> str:
    """Name of an entry: everything beside the files that an answer depends on."""
    asked = (
        _FORMAT,
        ptxguard.__version__,
        _own_code(),
        sys.version,
        str(Path.cwd()),
        list(paths),
        [target.name for target in options.targets],
        options.cuda_min,
        sorted(options.defines.items(), key=repr),
        options.public,
        options.exclude,
        options.force_exclude,
    )
    return hashlib.sha256(repr(asked).encode("utf-8", "surrogatepass")).hexdigest()


def _own_code() -> int:
    """Newest change of the package itself, for those who work on it."""
    root = Path(ptxguard.__file__).parent
    return max(
        path.stat().st_mtime_ns
        for path in root.rglob("*")
        if path.suffix in (".py", ".toml", ".txt", ".lark")
    )

"""What an analysis asked of its tree, and whether a changed tree would still give the same answer."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ptxguard.errors import PtxguardError
from ptxguard.source import candidates
from ptxguard.source.tree import PYTHON_ENDINGS, stamp_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ptxguard.source.project import Project
    from ptxguard.source.tree import Stamp, Tree, TreeFile

# Clocks of file systems are coarse: a file that changed so shortly before is compared by its content.
_COARSE_NS = 2_000_000_000


@dataclass(frozen=True)
class Seen:
    """One file as an analysis met it.

    Attributes:
        stamp: size and times before it was read.
        digest: of its bytes.
        used: whether its text was looked into, so that any other content could give another answer.
        brings: what it does to files that never name it (`_brings`).
    """

    stamp: Stamp
    digest: bytes
    used: bool
    brings: object = None


@dataclass(frozen=True)
class Trace:
    """Everything that an answer rests on.

    Attributes:
        roles: real path of each source file -> whether it was asked about and named.
        files: real path of each source file that was read.
        build_files: real path of each build file; none where none was asked.
        words: searched for in every source file.
        macros: whose definitions were searched for.
        constants: whose values were searched for.
        includes: whether includes were followed.
        python: whether names were followed through the Python files.
        keywords: words that stood for asm.
        build_words: searched for in every build file, in any case of letters.
        commits: (root, path, commit) of each submodule that was asked for.
        taken_ns: time when the analysis began.
    """

    roles: Mapping[str, tuple[bool, bool]]
    files: Mapping[str, Seen]
    build_files: Mapping[str, Seen]
    words: tuple[bytes, ...]
    macros: frozenset[bytes]
    constants: frozenset[bytes]
    includes: bool
    python: bool
    keywords: tuple[bytes, ...]
    build_words: tuple[bytes, ...]
    commits: tuple[tuple[str, str, str], ...]
    taken_ns: int


def take(project: Project, taken_ns: int) -> Trace | None:
    """The trace of an analysis that has ended; None where a file changed under its hands."""
    asked = project.asked()
    files: dict[str, Seen] = {}
    for file in project.tree.every_file():
        if file.stamp is None:  # never read, or not readable
            continue
        if stamp_of(file.real) != file.stamp:
            return None
        data = file.data()
        brings = _brings(data, includes=asked.includes)
        files[file.real] = Seen(file.stamp, _digest(data), file in asked.used, brings)
    build_files: dict[str, Seen] = {}
    for path in project.tree.build_files if asked.build_words else ():
        stamp, data = stamp_of(path), _read(path)
        if stamp is None or max(stamp[1:3]) >= taken_ns:
            return None
        build_files[path] = Seen(stamp, _digest(data), _holds(data, asked.build_words))
    return Trace(
        roles={file.real: (file.reported, file.named) for file in project.tree.every_file()},
        files=files,
        build_files=build_files,
        words=asked.words,
        macros=asked.macros,
        constants=asked.constants,
        includes=asked.includes,
        python=asked.python,
        keywords=tuple(word.encode() for word in sorted(project.asm_keywords)),
        build_words=asked.build_words,
        commits=asked.commits,
        taken_ns=taken_ns,
    )


def still_holds(trace: Trace, tree: Tree) -> bool:
    """Whether the analysis of a tree would give the answer that the trace belongs to."""
    from ptxguard.source.pins import index_commit

    now = {file.real: file for file in tree.every_file()}
    gone = trace.roles.keys() - now.keys()
    if any(trace.includes or (real in trace.files and trace.files[real].used) for real in gone):
        return False
    if trace.python and any(file.real not in trace.roles for file in tree.python_files):
        return False
    if not all(_same_file(trace, file) for file in now.values()):
        return False
    if trace.build_words and not _same_builds(trace, tree.build_files):
        return False
    return all(index_commit(root, path) == commit for root, path, commit in trace.commits)


def _same_file(trace: Trace, file: TreeFile) -> bool:
    """Whether a file is as it was, or neither it nor what it was could play a part."""
    role = (file.reported, file.named)
    known = trace.roles.get(file.real)
    if known is None and trace.includes and file.ending not in (".ptx", *PYTHON_ENDINGS):
        return False  # may be what an include means, or include two files that nothing joined
    if known is not None and known != role:
        return False
    seen = trace.files.get(file.real)
    unread = seen is None and known is not None and file.ending not in PYTHON_ENDINGS
    if unread and file.ending == ".ptx":
        return not file.reported  # read only where it is asked about
    if seen is not None and _is_fresh(seen, file.real, trace.taken_ns):
        return True
    try:
        data = file.data()
    except PtxguardError:
        return unread  # as unreadable as it was
    if unread:
        return False
    if seen is not None and _digest(data) == seen.digest:
        return True
    if seen is not None and seen.used:
        return False
    brings = seen.brings if seen is not None else _brings(b"", includes=trace.includes)
    if _brings(data, includes=trace.includes) != brings or any(word in data for word in trace.words):
        return False
    if trace.macros & candidates.defined_macros(data) or trace.constants & candidates.valued_names(data):
        return False
    return not file.reported or not candidates.wants_parsing(file, data, trace.keywords)


def _same_builds(trace: Trace, paths: Iterable[str]) -> bool:
    now = set(paths)
    if any(seen.used for path, seen in trace.build_files.items() if path not in now):
        return False
    for path in now:
        seen = trace.build_files.get(path)
        if seen is not None and _is_fresh(seen, path, trace.taken_ns):
            continue
        data = _read(path)
        if seen is not None and _digest(data) == seen.digest:
            continue
        if (seen is not None and seen.used) or _holds(data, trace.build_words):
            return False
    return True


def _is_fresh(seen: Seen, path: str, taken_ns: int) -> bool:
    return max(seen.stamp[1:3]) < taken_ns - _COARSE_NS and stamp_of(path) == seen.stamp


def _brings(data: bytes, *, includes: bool) -> object:
    """Macros for asm and volatile, which hold in the whole tree, and includes, which join other files."""
    return (
        frozenset(candidates.asm_macros(data)),
        frozenset(candidates.volatile_macros(data)),
        tuple(candidates.included_names(data)) if includes else (),
    )


def _holds(data: bytes, words: Iterable[bytes]) -> bool:
    lower = data.lower()
    return any(word.lower() in lower for word in words)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""

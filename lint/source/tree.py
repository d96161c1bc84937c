"""The files of a run: those reported on and those that only serve as evidence, read once and late."""

from __future__ import annotations

import itertools
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from ptxguard.errors import ParseError, PtxguardError
from ptxguard.location import SourceFile
from ptxguard.source.templates import without_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# Text over this size is a generated table, not a kernel; reading tokens of it would break the time bound.
MAX_CPP_BYTES = 32 << 20
MAX_PTX_BYTES = 1 << 30

CPP_ENDINGS = frozenset(
    ".cu .cuh .h .hpp .hh .hxx .h++ .inl .inc .impl .ipp .tcc .tpp .txx .cpp .cc .cxx .c++ .c .cuda "
    ".ixx .cppm".split()
)
PYTHON_ENDINGS = frozenset({".py", ".pyi"})
# Jinja templates that make C++.
TEMPLATE_ENDINGS = frozenset({".jinja", ".jinja2", ".j2"})
_TEMPLATE_MARKS = (b"__global__", b"__device__", b"<<<", b"LaunchKernel", b"#include")
UNIT_ENDINGS = frozenset([".cu", ".cpp", ".cc", ".cxx", ".c++", ".c", ".cuda"])
_CUDA_MARKS = (b"__device__", b"__global__", b"asm")
# Endings that cannot hold CUDA code of their own and would only cost time to look into.
_OTHER_ENDINGS = frozenset(
    ".md .rst .txt .json .yaml .yml .toml .cmake .sh .so .a .o .lib .dll .png .jpg .svg .gif "
    ".pdf .ipynb .csv .tsv .npy .npz .pt .pth .bin .whl .zip .gz .xz .tar .html .css .js .ts .cubin "
    ".fatbin .lock .cfg .ini .tmp".split()
)
_VENDOR_NAMES = frozenset(
    {
        "3rdparty",
        "third_party",
        "third-party",
        "thirdparty",
        "vendor",
        "vendored",
        "external",
        "_deps",
        "node_modules",
    }
)
# Files that may say for which targets the project is built.
_BUILD_ENDINGS = frozenset([".py", ".cmake", ".mk", ".sh", ".yml", ".yaml", ".bzl", ".toml"])
_BUILD_NAMES = (
    "CMakeLists.txt",
    "CMakePresets.json",
    "Makefile",
    "GNUmakefile",
    "Dockerfile",
    "meson.build",
    ".gitmodules",  # which version of a library is built
)
# Flags in tests and documents are not those of the build.
_NO_BUILD = frozenset({"test", "tests", "testing", "docs", "doc"})
_COMPILE_COMMANDS = ("compile_commands.json", f"build{os.sep}compile_commands.json")
_SKIPPED_NAMES = frozenset({".git", ".hg", ".svn", "__pycache__"})


Stamp = tuple[int, int, int, int]


def stamp_of(path: str) -> Stamp | None:
    """Size in bytes, times of content and inode (ns) and inode of a file; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


@dataclass(eq=False)
class TreeFile:
    """One file of the tree.

    Attributes:
        real: path for the operating system.
        shown: path for the user, relative to the working directory, with "/".
        reported: whether findings in it are asked for (else it is evidence).
        named: whether the user named this very file.
        overlay: bytes that stand for those on disk, or None.
        stamp: of the file before it was read; None as long as it has not been.
    """

    real: str
    shown: str
    reported: bool
    named: bool = False
    overlay: bytes | None = None
    stamp: Stamp | None = None
    _data: bytes | None = field(default=None, repr=False)
    _source: SourceFile | None = field(default=None, repr=False)

    @property
    def ending(self) -> str:
        """Lower-case ending with its dot, "" without one."""
        return os.path.splitext(self.real)[1].lower()

    @property
    def is_unit(self) -> bool:
        """Whether compilers start from it (a translation unit), as far as its name tells."""
        return self.ending in UNIT_ENDINGS

    def data(self) -> bytes:
        """Raw bytes, read once.

        Raises:
            ParseError: the file vanished, cannot be read or is too large.
        """
        if self._data is None:
            try:
                stamp = stamp_of(self.real)
                size = stamp[0] if stamp is not None else 0
                if self.overlay is not None:
                    size = len(self.overlay)
                limit = MAX_PTX_BYTES if self.ending == ".ptx" else MAX_CPP_BYTES
                if size > limit:
                    message = f"{size >> 20} MiB is over the limit of {limit >> 20} MiB; exclude the file"
                    raise ParseError(message, path=self.shown, line=1)
                data = Path(self.real).read_bytes() if self.overlay is None else self.overlay
                # Searches are for UTF-8 bytes, so text in UTF-16 is kept as UTF-8 beside its encoding.
                if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data[:4]:
                    text, encoding = decode(data, self.shown)
                    self._source = SourceFile(self.shown, text, encoding)
                    data = text.encode("utf-8", "surrogatepass")
                self._data, self.stamp = data, stamp
            except OSError as error:
                reason = error.strerror or str(error)
                raise ParseError(f"cannot be read: {reason}", path=self.shown) from None
        return self._data

    def source(self) -> SourceFile:
        """Decoded text, read once.

        Raises:
            ParseError: as `data`, or the bytes are no text.
        """
        if self._source is None:
            text, encoding = decode(self.data(), self.shown)
            self._source = SourceFile(self.shown, text, encoding)
            if self.ending in TEMPLATE_ENDINGS:
                self._source = SourceFile(self.shown, without_fields(text), encoding, self._source)
        return self._source


# UTF-32 first: its little-endian mark begins with that of UTF-16.
_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)


def decode(data: bytes, path: str) -> tuple[str, str]:
    """Text and encoding of bytes: byte order marks, UTF-8, else Latin-1.

    Raises:
        ParseError: NUL bytes or mostly control characters say that it is no text.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return data.decode(encoding), encoding
            except UnicodeDecodeError as error:
                raise ParseError(f"not valid {encoding} at byte {error.start}", path=path, line=1) from None
    if b"\0" in data:
        head = data[:4096]
        for encoding, odd in (("utf-16-le", 1), ("utf-16-be", 0)):
            if len(head) > 1 and head[odd::2].count(0) > len(head) * 0.4 and not head[1 - odd :: 2].count(0):
                try:
                    return data.decode(encoding), encoding
                except UnicodeDecodeError:
                    break
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise ParseError(
            "holds NUL bytes, so it is no source text; exclude it or name a text file", path=path, line=line
        )
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    sample = text[:65536]
    control = sum(1 for char in sample if char < " " and char not in "\t\n\r\f\v\x1b")
    if control * 20 > len(sample):
        raise ParseError("holds control characters, so it is no source text; exclude it", path=path, line=1)
    return text, "latin-1"


@dataclass(eq=False)
class Tree:
    """All files of a run.

    Attributes:
        files: candidates that can hold C++ or PTX in path order, reported ones and evidence.
        errors: what could not be listed.
        build_files: real paths of files that may say how the project is built.
        python_files: Python files in path order, likewise.
    """

    files: list[TreeFile]
    errors: list[PtxguardError]
    build_files: tuple[str, ...] = ()
    python_files: list[TreeFile] = field(default_factory=list)

    def reported(self) -> Iterator[TreeFile]:
        """Files whose findings are asked for."""
        return (file for file in self.every_file() if file.reported)

    def every_file(self) -> Iterator[TreeFile]:
        """All files that can hold a copy."""
        return itertools.chain(self.files, self.python_files)


def read_tree(paths: Sequence[str], overlay: Mapping[str, bytes] = MappingProxyType({})) -> Tree:
    """Collect the files that the paths name and the evidence around them.

    A path inside a git checkout brings the whole checkout as evidence; outside git a folder brings
    itself, and a file brings the files beside it.

    Args:
        paths: files and folders.
        overlay: real path -> bytes that stand for those on disk (a fix that is not written yet).
    """
    found: dict[str, TreeFile] = {}
    errors: list[PtxguardError] = []
    build_files: set[str] = set()
    for path in paths:
        if not os.path.lexists(path):
            errors.append(ParseError("no such file or directory", path=shown_path(path)))
            continue
        for file in _files_of(path, errors, build_files):
            known = found.get(file.real)
            if known is None:
                found[file.real] = file
            else:
                known.reported |= file.reported
                known.named |= file.named
    for file in found.values() if overlay else ():
        file.overlay = overlay.get(os.path.realpath(file.real))  # a link in the tree shows the same bytes
    files = sorted(found.values(), key=lambda file: file.shown)
    python = [file for file in files if file.ending in PYTHON_ENDINGS]
    cpp = [file for file in files if file.ending not in PYTHON_ENDINGS]
    return Tree(cpp, errors, tuple(sorted(build_files)), python)


def shown_path(path: str) -> str:
    """A path as records spell it: relative to the working directory, with "/"."""
    here = os.getcwd() + os.sep
    if (
        path.startswith(here) and f"{os.sep}." not in path and os.sep * 2 not in path
    ):  # relpath takes twenty times as long
        relative = path[len(here) :].rstrip(os.sep) or "."
    else:
        try:
            relative = os.path.relpath(path)
        except ValueError:  # another drive on Windows
            relative = path
    return relative.replace(os.sep, "/")


def _files_of(path: str, errors: list[PtxguardError], build_files: set[str]) -> Iterator[TreeFile]:
    real = os.path.realpath(path)
    folder = real if os.path.isdir(real) else os.path.dirname(real)
    root = _git_root(folder)
    listed: Iterable[str] | None = _git_files(root, errors) if root is not None else None
    if listed is None:
        listed = _walk(folder, errors) if os.path.isdir(real) else _siblings(folder, errors)
    prefix, base = real + os.sep, (root or folder) + os.sep
    vendored_ok = _is_vendored(os.path.relpath(real, root or folder))
    if not os.path.isdir(real):
        yield TreeFile(real, shown_path(real), reported=True, named=True)
    for name in (f"{root or folder}{os.sep}{place}" for place in _COMPILE_COMMANDS):
        if os.path.isfile(name):  # made by a build, and so ignored by git
            build_files.add(name)
    for name in listed:
        ending = os.path.splitext(name)[1].lower()
        if ending in _BUILD_ENDINGS or name.rpartition(os.sep)[2].startswith(_BUILD_NAMES):
            parts = name.removeprefix(base).split(os.sep)
            if _NO_BUILD.isdisjoint(parts) and (vendored_ok or _VENDOR_NAMES.isdisjoint(parts)):
                build_files.add(name)
        inside = os.path.isdir(real) and name.startswith(prefix)
        if name == real or not _may_hold_code(name, ending):
            continue
        reported = inside and (vendored_ok or not _is_vendored(name[len(prefix) :]))
        yield TreeFile(name, shown_path(name), reported=reported)


def _is_vendored(relative: str) -> bool:
    return not _VENDOR_NAMES.isdisjoint(relative.split(os.sep))


def _may_hold_code(name: str, ending: str) -> bool:
    """Known endings at once; others by content (generators and headers without ending)."""
    if ending in CPP_ENDINGS or ending in PYTHON_ENDINGS or ending == ".ptx":
        return True
    if ending in _OTHER_ENDINGS:
        return False
    try:
        if not 0 < os.stat(name).st_size <= (4 << 20):
            return False
        data = Path(name).read_bytes()
    except OSError:
        return False
    if ending in TEMPLATE_ENDINGS:
        return any(mark in data for mark in _TEMPLATE_MARKS)
    return b"\0" not in data and b"asm" in data and any(mark in data for mark in _CUDA_MARKS[:2])


def _git_root(folder: str) -> str | None:
    while True:
        if os.path.exists(os.path.join(folder, ".git")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def _git_files(root: str, errors: list[PtxguardError]) -> list[str] | None:
    """Tracked and untracked-not-ignored files; None where git cannot tell (missing, foreign owner)."""
    command = ["git", "-C", root, "ls-files", "-z", "-c", "-o", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=120)
    except (OSError, subprocess.SubprocessError):
        return None
    for line in done.stderr.decode("utf-8", "replace").splitlines():
        if line.startswith("warning: could not open directory"):
            errors.append(ParseError(line.removeprefix("warning: "), path=shown_path(root)))
    files = []
    for raw in set(done.stdout.split(b"\0")):
        if not raw:
            continue
        name = os.path.join(root, os.fsdecode(raw).replace("/", os.sep)).rstrip(os.sep)
        if os.path.isdir(name) and not os.path.islink(name):  # a submodule: evidence
            files.extend(_walk(name, errors))
        elif os.path.exists(name):  # a tracked file may be deleted, a link may dangle
            files.append(name)
    return files


def _walk(folder: str, errors: list[PtxguardError]) -> list[str]:
    def failed(error: OSError) -> None:
        reason = error.strerror or "unreadable"
        errors.append(ParseError(f"cannot be listed: {reason}", path=shown_path(str(error.filename))))

    files: list[str] = []
    for place, folders, names in os.walk(folder, onerror=failed):
        folders[:] = [name for name in folders if name not in _SKIPPED_NAMES]
        paths = (os.path.join(place, name) for name in names)
        files.extend(path for path in paths if os.path.exists(path))  # a dangling link holds nothing
    return files


def _siblings(folder: str, errors: list[PtxguardError]) -> Iterable[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_file(follow_symlinks=False)]
    except OSError as error:
        errors.append(ParseError(f"cannot be listed: {error.strerror}", path=shown_path(folder)))
        return []

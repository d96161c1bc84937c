"""What a command hands to an output format, and how the result reaches its file in one piece."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxguard.errors import ParseError, ToolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ptxguard.errors import PtxguardError
    from ptxguard.finding import Finding
    from ptxguard.location import SourceFile
    from ptxguard.model import CopySite


@dataclass(frozen=True)
class Report:
    """The result of one run.

    Attributes:
        findings: what the rules reported and the filters let through, in file order.
        sites: every bulk copy.
        errors: inputs that could not be read or parsed.
        hidden: findings that `--min-severity` hides.
        targets: names of the targets asked for.
        files: files with findings that are about no copy.
        fixed: findings that the run has repaired; they are not among `findings`.
        targets_named: whether the user named the targets (False: the defaults of the contract).
        command: check or scan.
        site: address of the findings site that links lead to, without a final slash; empty: no links.
    """

    findings: tuple[Finding, ...] = ()
    sites: tuple[CopySite, ...] = ()
    errors: tuple[PtxguardError, ...] = ()
    hidden: int = 0
    targets: tuple[str, ...] = ()
    files: tuple[SourceFile, ...] = ()
    fixed: int = 0
    targets_named: bool = False
    command: str = "check"
    site: str = ""
    _files: dict[str, SourceFile | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for site in self.sites:
            for span in (site.span, site.end_span):
                self._files.setdefault(span.path, span.file)
        for file in self.files:
            self._files.setdefault(file.path, file)

    def source_line(self, path: str, line: int) -> str | None:
        """The text of a line of a source file; None where the file is no text or is not there."""
        file = self.source_file(path)
        return file.line_text(line) if file is not None else None

    def source_file(self, path: str) -> SourceFile | None:
        """A source file by its path; one that holds only evidence is read when it is asked for."""
        if path not in self._files:
            self._files[path] = _read_source(path)
        return self._files[path]


def _read_source(path: str) -> SourceFile | None:
    """A text file from the disk; None for what is no text (a library), too large or not there."""
    from ptxguard.location import SourceFile
    from ptxguard.source.tree import MAX_CPP_BYTES, decode

    try:
        if Path(path).stat().st_size > MAX_CPP_BYTES:
            return None
        data = Path(path).read_bytes()
        return None if b"\0" in data[:4096] else SourceFile(path, *decode(data, path))
    except (OSError, ParseError):
        return None


def error_records(errors: Iterable[PtxguardError]) -> list[Mapping[str, Any]]:
    """The `errors` list of every JSON record."""
    return [{"path": error.path, "line": error.line, "message": error.message} for error in errors]


def deliver(chunks: Iterable[str], output_file: str | None) -> None:
    """Write to standard output, or to a file that is replaced only when everything has been written.

    Raises:
        ToolError: the file cannot be written; what was there before is untouched.
    """
    if output_file is None:
        _print(chunks)
        return
    target = Path(output_file)
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent or ".")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="\n") as stream:
                stream.writelines(chunks)
            Path(temporary).chmod(0o666 & ~_umask())
            Path(temporary).replace(target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ToolError(
            f"cannot write the output ({error.strerror}); name a file in a folder that you may write to",
            path=output_file,
        ) from error


def _print(chunks: Iterable[str]) -> None:
    """Write to standard output; a reader that goes away early (`| head`) ends the command with status 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a path or a comment may hold what the terminal cannot show
    try:
        for chunk in chunks:
            sys.stdout.write(chunk)
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more when it ends, and click would end with 1, which means findings.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(2) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

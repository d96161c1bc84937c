"""Makes runs for a store out of what `check`, `scan` and `probe` have found."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxguard.binary.demangle import demangle
from ptxguard.output.report import error_records
from ptxguard.output.scan_json import syscall_records
from ptxguard.store.excerpts import excerpts_of
from ptxguard.store.rows import StoredArtifact
from ptxguard.store.write import NewKernel, NewRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ptxguard.binary.facts import Artifact
    from ptxguard.errors import PtxguardError
    from ptxguard.finding import Finding

_GIT_S = 60


def source_run(
    paths: Sequence[str],
    findings: Sequence[Finding],
    errors: Iterable[PtxguardError],
    subject: str | None,
    line_text: Callable[[str, int], str | None],
) -> NewRun:
    """A run of `check` over some paths; the subject is the repository with the paths in it by default.

    `line_text` gives a 1-based line of a source file, or None where that cannot be read.
    """
    top = _git("rev-parse", "--show-toplevel")
    return NewRun(
        kind="source",
        subject=subject or _source_subject(paths, top or str(Path.cwd())),
        findings=[finding.record() for finding in findings],
        errors=error_records(errors),
        revision=_revision() if top else "",
        excerpts=excerpts_of(findings, line_text),
    )


def binary_run(
    artifacts: Sequence[Artifact],
    findings: Iterable[Finding],
    errors: Iterable[PtxguardError],
    subject: str | None,
) -> NewRun:
    """A run of `scan`; the subject is the name of the file, or of the folder of all files, by default."""
    toolkits = {image.toolkit for artifact in artifacts for image in artifact.images if image.toolkit}
    return NewRun(
        kind="binary",
        subject=subject or _binary_subject([artifact.path for artifact in artifacts]),
        findings=[finding.record() for finding in findings],
        artifacts=[StoredArtifact(artifact.path, artifact.member, artifact.sha256) for artifact in artifacts],
        kernels=_kernels(artifacts),
        errors=error_records(errors),
        toolchain=", ".join(sorted(toolkits)),
    )


def probe_run(result: Mapping[str, Any]) -> NewRun:
    """A run of `probe`; the subject is the card."""
    card = result["card"]
    return NewRun(
        kind="probe",
        subject=card["name"],
        probe=result,
        tool=result["tool"]["version"],
        toolchain=card["toolkit"],
        created=result["date"],
    )


def _source_subject(paths: Sequence[str], top: str) -> str:
    inside = sorted({os.path.relpath(os.path.realpath(path), os.path.realpath(top)) for path in paths})
    name = Path(top).name
    return name if inside == ["."] else f"{name}: {' '.join(inside)}"


def _binary_subject(paths: Sequence[str]) -> str:
    names = sorted(set(paths))
    if len(names) == 1:
        return Path(names[0]).name
    return Path(os.path.commonpath([os.path.realpath(name) for name in names])).name if names else "nothing"


def _revision() -> str:
    head = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return f"{head}+" if head and changed else head


def _git(*arguments: str) -> str:
    """What git prints; empty where it is not there or the folder is no repository."""
    try:
        done = subprocess.run(  # an fsmonitor of the repository's own configuration would be run
            ["git", "-c", "core.fsmonitor=false", *arguments],  # noqa: S607 - git of the user's PATH
            capture_output=True,
            check=False,
            timeout=_GIT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return os.fsdecode(done.stdout).strip() if done.returncode == 0 else ""


def _kernels(artifacts: Sequence[Artifact]) -> Iterator[NewKernel]:
    for place, artifact in enumerate(artifacts):
        for image in artifact.images:
            for kernel in image.kernels:
                yield NewKernel(
                    artifact=place,
                    image=image.index,
                    name=kernel.name,
                    demangled=demangle(kernel.name),
                    target=image.target,
                    registers=kernel.registers,
                    stack_bytes=None if kernel.stack_unknown else kernel.stack_bytes,
                    stack_unknown=kernel.stack_unknown,
                    cluster_dims=kernel.cluster_dims,
                    syscalls=syscall_records(kernel),
                    externs=kernel.externs,
                    sass=kernel.sass.record() if kernel.sass is not None else None,
                )

"""Turns what a command has found into a run of the store, with the revision of the checkout it is about."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

from ptxguard.store.facts import NewRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ptxguard.binary.facts import Artifact
    from ptxguard.finding import Finding


def source_run(paths: Sequence[str], findings: Iterable[Finding], settings: Mapping[str, Any]) -> NewRun:
    """A run of `check`."""
    records = tuple(finding.record() for finding in findings)
    return NewRun("source", " ".join(paths), revision(), settings, findings=records)


def binary_run(paths: Sequence[str], artifacts: Iterable[Artifact], findings: Iterable[Finding]) -> NewRun:
    """A run of `scan`, with the kernels that were read."""
    held = tuple(artifacts)
    kernels = tuple(
        (
            artifact.label,
            image.target,
            kernel.name,
            kernel.registers,
            kernel.stack_bytes,
            tuple(syscall.name for syscall in kernel.syscalls),
        )
        for artifact in held
        for image in artifact.images
        for kernel in image.kernels
    )
    files = tuple({"path": one.path, "member": one.member, "sha256": one.sha256} for one in held)
    records = tuple(finding.record() for finding in findings)
    return NewRun("binary", " ".join(paths), artifacts=files, findings=records, kernels=kernels)


def probe_run(result: Mapping[str, Any]) -> NewRun:
    """A run of `probe`."""
    return NewRun("probe", str(result["card"]["name"]), probe=result)


def revision() -> str:
    """Commit of the checkout around the working directory, "" where there is none."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()

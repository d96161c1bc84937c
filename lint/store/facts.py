"""What goes into the store and comes out of it, all frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

STATUSES = ("confirmed", "intended", "false alarm")


@dataclass(frozen=True)
class NewRun:
    """A run to be kept.

    Attributes:
        kind: source, binary or probe.
        subject: what was judged, as the user named it.
        revision: commit of the repository, "" where there is none.
        settings: targets and options.
        artifacts: path, member and sha256 of each file that was scanned.
        findings: records as `check --output-format json` writes them.
        kernels: (artifact, target, name, registers, stack_bytes, syscalls) of each kernel.
        probe: the result of `probe`, for that kind.
    """

    kind: str
    subject: str
    revision: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    artifacts: tuple[Mapping[str, Any], ...] = ()
    findings: tuple[Mapping[str, Any], ...] = ()
    kernels: tuple[tuple[str, str, str, int | None, int | None, tuple[str, ...]], ...] = ()
    probe: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Run:
    """A run that was kept.

    Attributes:
        id: number in the store.
        kind: source, binary or probe.
        subject: what was judged.
        tool: version of ptxguard.
        revision: commit of the repository, or "".
        started: UTC, ISO 8601.
        findings: number of them.
    """

    id: int
    kind: str
    subject: str
    tool: str
    revision: str
    started: str
    findings: int


@dataclass(frozen=True)
class History:
    """The findings of a run beside those of the runs before it with the same kind and subject.

    Attributes:
        new: fingerprints that no earlier run had.
        reopened: those that an earlier run had, and the last one had not.
        unchanged: those that the last run had too.
        resolved: those that only the last run had.
    """

    new: tuple[str, ...]
    reopened: tuple[str, ...]
    unchanged: tuple[str, ...]
    resolved: tuple[str, ...]


@dataclass(frozen=True)
class Review:
    """What a person has said about a finding; it survives later runs.

    Attributes:
        fingerprint: of the finding.
        status: one of `STATUSES`.
        note: why.
        at: UTC, ISO 8601.
    """

    fingerprint: str
    status: str
    note: str
    at: str

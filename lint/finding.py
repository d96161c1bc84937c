"""What a rule reports: findings with severity, confidence, evidence, cost and fix."""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass, field, replace
from typing import Any


class Severity(enum.IntEnum):
    """How much a finding matters; ordered so that `max` is the worst."""

    NOTE = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        """Lower-case name, as records spell it."""
        return self.name.lower()


class Confidence(enum.IntEnum):
    """How sure the evidence makes us; apart from severity."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3

    @property
    def word(self) -> str:
        """Lower-case name, as records spell it."""
        return self.name.lower()


@dataclass(frozen=True)
class Evidence:
    """One link of the chain that made a verdict.

    Attributes:
        kind: asm, macro, guard, call, kernel, launch, attribute, address, build or binary.
        path: file, or None where the link has no place in a file.
        line: 1-based line, or None.
        text: one sentence or the source text itself.
    """

    kind: str
    path: str | None
    line: int | None
    text: str

    def record(self) -> dict[str, Any]:
        """The JSON form."""
        return {"kind": self.kind, "path": self.path, "line": self.line, "text": self.text}


@dataclass(frozen=True)
class KernelPlace:
    """A kernel that carries a finding, with the place of its definition."""

    name: str
    path: str | None
    line: int | None

    def record(self) -> dict[str, Any]:
        """The JSON form."""
        return {"name": self.name, "path": self.path, "line": self.line}


@dataclass(frozen=True)
class Cost:
    """Device memory that one context loses on one GPU, net of the 1,024 B default limit.

    Attributes:
        gpu: name as in `gpus.toml`.
        sm: target of the GPU, `sm_120`.
        bytes_per_thread: stack limit that the driver sets.
        mib: exact, one decimal.
        expected_mib: rounded down to the driver's 2 MiB granularity.
        low_mib: with the smallest known stack need of the form.
        high_mib: with the largest known one.
        basis: measured, declared by driver, public measurement or unknown.
        source: where the figure comes from.
    """

    gpu: str
    sm: str
    bytes_per_thread: int | None
    mib: float | None
    expected_mib: int | None
    low_mib: float | None
    high_mib: float | None
    basis: str
    source: str

    def record(self) -> dict[str, Any]:
        """The JSON form."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Edit:
    """Replace the text between two places of one file; positions 1-based, end exclusive."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str

    def record(self) -> dict[str, Any]:
        """The JSON form."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Fix:
    """Edits that repair a finding.

    Attributes:
        safety: "safe" (proved by the destination) or "unsafe" (proved only by the launches in sight).
        edits: in file order, without overlap.
        replaces: the text that the edits take away; another one there means that the place is not understood.
        statements: (path, line, column) of the asm statements of the finding that the edits change.
        users: the same of statements of other findings, which have to be fixed too.
        twin: (path, line, column) of the copy that callers use after edits at them; None for other edits.
    """

    safety: str
    edits: tuple[Edit, ...]
    replaces: str = ""
    statements: tuple[tuple[str, int, int], ...] = ()
    users: tuple[tuple[str, int, int], ...] = ()
    twin: tuple[str, int, int] | None = None

    def record(self) -> dict[str, Any]:
        """The JSON form."""
        return {"safety": self.safety, "edits": [edit.record() for edit in self.edits]}


@dataclass(frozen=True)
class Finding:
    """One reported place; the fields are those of the contract's JSON record, and `subject`.

    Attributes:
        subject: what a finding of compiled code is about, without the counts that its message holds; names it
            from one build to the next.
    """

    code: str
    rule: str
    severity: Severity
    confidence: Confidence
    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    message: str
    opcode: str | None = None
    function: str | None = None
    kernels: tuple[KernelPlace, ...] = ()
    targets: dict[str, str] = field(default_factory=dict)
    on_target: dict[str, str] = field(default_factory=dict)
    cluster: dict[str, Any] = field(default_factory=dict)
    address: dict[str, Any] = field(default_factory=dict)
    syscall: str | None = None
    cost: tuple[Cost, ...] = ()
    performance: dict[str, Any] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    fix: Fix | None = None
    fingerprint: str = ""
    subject: str = ""

    def record(self) -> dict[str, Any]:
        """The JSON form of the contract."""
        return {
            "code": self.code,
            "rule": self.rule,
            "severity": self.severity.word,
            "confidence": self.confidence.word,
            "path": self.path,
            "line": self.line,
            "column": self.column,
            "end_line": self.end_line,
            "end_column": self.end_column,
            "message": self.message,
            "fingerprint": self.fingerprint,
            "opcode": self.opcode,
            "function": self.function,
            "kernels": [kernel.record() for kernel in self.kernels],
            "targets": self.targets,
            "on_target": self.on_target,
            "cluster": self.cluster,
            "address": self.address,
            "syscall": self.syscall,
            "cost": [cost.record() for cost in self.cost],
            "performance": self.performance,
            "evidence": [evidence.record() for evidence in self.evidence],
            "fix": self.fix.record() if self.fix is not None else None,
        }


def with_fingerprints(findings: list[Finding]) -> list[Finding]:
    """Give each finding a fingerprint that survives moved lines and renamed files.

    It hashes rule, enclosing function and opcode, of compiled code rule and subject; equal ones are told
    apart by their order.
    """
    seen: dict[str, int] = {}
    marked = []
    for finding in sorted(findings, key=lambda f: (f.path, f.line, f.column, f.code)):
        named: tuple[str, ...] = (finding.subject,)
        if not finding.subject:
            named = (finding.function or "", finding.opcode or finding.message)
        key = "\0".join((finding.code, *named))
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        seen[digest] = seen.get(digest, 0) + 1
        marked.append(replace(finding, fingerprint=f"{digest}:{seen[digest]}"))
    return marked

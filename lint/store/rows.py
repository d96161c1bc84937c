"""What a store gives back: frozen records of runs, findings, kernels and probes, and filters to ask with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

Row = TypeVar("Row")

KINDS = ("source", "binary", "probe")
STATES = ("new", "unchanged", "reopened", "resolved")
STATUSES = ("confirmed", "intended", "false alarm")
UNREVIEWED = "not reviewed"


@dataclass(frozen=True)
class StoredArtifact:
    """A file that a run has read; `member` is its path inside an archive, or None."""

    path: str
    member: str | None
    sha256: str


@dataclass(frozen=True)
class Excerpt:
    """Lines of a source file as they were when the run was made; `first_line` from 1."""

    path: str
    first_line: int
    text: str


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        number: in this store, from 1, in the order of arrival.
        key: the same in every store that it is merged into.
        kind: source, binary or probe.
        subject: what was looked at; runs of one subject are compared with each other.
        created: UTC, ISO 8601.
        tool: version of ptxguard.
        toolchain: empty where none took part.
        revision: commit of the repository, with `+` where the tree had changes; empty outside git.
        errors: inputs that could not be read: path, line, message.
        finding_count: findings reported.
        kernel_count: kernels stored.
        thinned: whether `store gc` has taken its findings and kernels away; the counts and the history stay.
        artifacts: files read, of binary runs.
    """

    number: int
    key: str
    kind: str
    subject: str
    created: str
    tool: str
    toolchain: str
    revision: str
    errors: tuple[Mapping[str, Any], ...]
    finding_count: int
    kernel_count: int
    thinned: bool
    artifacts: tuple[StoredArtifact, ...] = ()


@dataclass(frozen=True)
class Review:
    """What people decided about a finding: confirmed, intended or false alarm, with a note."""

    subject: str
    fingerprint: str
    status: str
    note: str
    changed: str


@dataclass(frozen=True)
class StoredFinding:
    """A finding of one run.

    Attributes:
        run: number of the run.
        subject: of the run.
        state: new, unchanged or reopened, against the runs of the subject before it.
        record: the JSON record of the contract; in lists without `kernels` and `evidence`, but with
            `kernel_count`.
        review: what people decided, or None.
    """

    run: int
    subject: str
    state: str
    record: Mapping[str, Any]
    review: Review | None

    @property
    def fingerprint(self) -> str:
        """Names the finding across runs."""
        return str(self.record["fingerprint"])


@dataclass(frozen=True)
class RunPrice:
    """What a run costs on one card: the maximum over its kernels.

    Attributes:
        run: number of the run.
        gpu: card.
        record: of the finding with that price, as lists have it.
    """

    run: int
    gpu: str
    record: Mapping[str, Any]


@dataclass(frozen=True)
class HistoryEntry:
    """What became of a finding in one run: new, unchanged, reopened or resolved."""

    run: int
    created: str
    revision: str
    state: str


@dataclass(frozen=True)
class StoredKernel:
    """A compiled kernel of one run.

    Attributes:
        run: number of the run.
        place: position in the run, from 0; with `run` it names the kernel.
        artifact: file, with its member.
        image: number of the image in the artifact.
        name: mangled.
        demangled: for people.
        target: of the image.
        registers: a thread, or None where the image does not say.
        stack_bytes: a thread, or None where unknown.
        stack_unknown: why; empty where it is known.
        cluster_dims: (x, y, z) compiled in, or None.
        syscalls: driver functions that it reaches, each with its call sites.
        externs: other driver functions.
    """

    run: int
    place: int
    artifact: str
    image: int
    name: str
    demangled: str
    target: str
    registers: int | None
    stack_bytes: int | None
    stack_unknown: str
    cluster_dims: tuple[int, ...] | None
    syscalls: tuple[Mapping[str, Any], ...]
    externs: tuple[str, ...]


@dataclass(frozen=True)
class ProbeRun:
    """A stored `probe.json`; `measured` is when it ran on the card (UTC)."""

    run: int
    card: str
    sm: str
    driver: str
    measured: str
    record: Mapping[str, Any]


@dataclass(frozen=True)
class Facet:
    """A value that findings can be filtered by, with the number of findings that have it."""

    name: str
    value: str
    count: int


@dataclass(frozen=True)
class Hit:
    """Something that a search found: kind is file, function or kernel."""

    run: int
    kind: str
    name: str


@dataclass(frozen=True)
class Page(Generic[Row]):
    """A part of a list.

    Attributes:
        rows: of this page.
        number: of this page, from 1.
        size: rows of a full page.
        total: rows of the whole list.
    """

    rows: tuple[Row, ...]
    number: int
    size: int
    total: int

    @property
    def count(self) -> int:
        """Pages, at least 1."""
        return max(1, -(-self.total // self.size))


@dataclass(frozen=True)
class FindingFilter:
    """Which findings; a field that is None filters nothing.

    Attributes:
        run: number; None: the newest run of every subject.
        subject: whole name.
        code: of the rule, `TMA001`.
        severity: error, warning or note.
        confidence: high, medium or low.
        target: one that the guards let compile.
        verdict: of the cluster size: one, larger, undecided.
        destination: of the address: local, peer, unknown.
        path: whole path.
        status: confirmed, intended, false alarm or not reviewed.
        state: new, unchanged or reopened.
        basis: of a price: measured, declared by driver, public measurement, unknown; on `gpu` where given.
        witness: of compiled code: confirmed, refuted or unseen.
        gpu: that it has a price on.
        min_mib: lowest price on `gpu` (any card where that is None).
    """

    run: int | None = None
    subject: str | None = None
    code: str | None = None
    severity: str | None = None
    confidence: str | None = None
    target: str | None = None
    verdict: str | None = None
    destination: str | None = None
    path: str | None = None
    status: str | None = None
    state: str | None = None
    basis: str | None = None
    witness: str | None = None
    gpu: str | None = None
    min_mib: float | None = None


@dataclass(frozen=True)
class KernelFilter:
    """Which kernels; a field that is None filters nothing.

    Attributes:
        run: number; None: the newest run of every subject.
        target: of the image.
        name: part of the mangled or demangled name.
        with_syscall: True: reaches a driver function; False: reaches none.
        syscall: full name of a driver function that it reaches.
        order: place, name, registers, stack or syscalls; the last three largest first.
    """

    run: int | None = None
    target: str | None = None
    name: str | None = None
    with_syscall: bool | None = None
    syscall: str | None = None
    order: str = "place"

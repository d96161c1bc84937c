"""Puts runs and reviews into a store: a run is one transaction."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ptxguard import __version__
from ptxguard.errors import ConfigError
from ptxguard.finding import Confidence, Severity
from ptxguard.store.brief import brief_of, price_rows, witness_of
from ptxguard.store.history import add_history, unread_paths
from ptxguard.store.rows import KINDS, STATUSES, UNREVIEWED, Excerpt, StoredArtifact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ptxguard.store.database import Database

MAX_NOTE = 4000


def utc_now() -> str:
    """Now, as a store writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class NewKernel:
    """A kernel on its way into a store; the fields are those of `StoredKernel`, `artifact` a position."""

    artifact: int
    image: int
    name: str
    demangled: str
    target: str
    registers: int | None
    stack_bytes: int | None
    stack_unknown: str
    cluster_dims: tuple[int, ...] | None
    syscalls: Sequence[Mapping[str, Any]]
    externs: Sequence[str]
    sass: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class NewRun:
    """A run on its way into a store.

    Attributes:
        kind: source, binary or probe.
        subject: what was looked at; runs of one subject are compared with each other.
        findings: JSON records of the contract, each with a fingerprint of its own.
        artifacts: files read.
        kernels: read once.
        excerpts: lines of source around the findings, without overlap.
        probe: a `probe.json`, of probe runs.
        errors: inputs that could not be read: path, line, message.
        toolchain: of nvcc or NVRTC, empty where none took part.
        revision: of the repository.
        tool: version of ptxguard.
        created: UTC.
        key: the same in every store.
    """

    kind: str
    subject: str
    findings: Sequence[Mapping[str, Any]] = ()
    artifacts: Sequence[StoredArtifact] = ()
    kernels: Iterable[NewKernel] = ()
    excerpts: Sequence[Excerpt] = ()
    probe: Mapping[str, Any] | None = None
    errors: Sequence[Mapping[str, Any]] = ()
    toolchain: str = ""
    revision: str = ""
    tool: str = __version__
    created: str = field(default_factory=utc_now)
    key: str = field(default_factory=lambda: uuid.uuid4().hex)


def add_run(database: Database, run: NewRun) -> int:
    """Store a run with the history of its findings; its number is given back once it is safe on disk.

    Raises:
        ConfigError: its kind is none, two findings share a fingerprint, or the store has it already.
        ToolError: the database failed; nothing of the run was kept.
    """
    _check(run)
    with database.writing():
        if database.rows("SELECT 1 FROM run WHERE run_key = :key", {"key": run.key}):
            raise ConfigError(f"the store has run {run.key} already", path=database.label)
        number: int = database.rows("SELECT COALESCE(MAX(number), 0) + 1 FROM run")[0][0]
        _add_head(database, run, number)
        _add_findings(database, run, number)
        kernels, names = _add_kernels(database, run, number)
        database.run(
            "UPDATE run SET kernel_count = :count WHERE number = :run", {"count": kernels, "run": number}
        )
        _add_words(database, run, number, names)
        if run.probe is not None:
            _add_probe(database, run.probe, number)
        if run.kind != "probe":
            present = {plain(finding["fingerprint"]) for finding in run.findings}
            add_history(database, plain(run.subject), number, present, unread_paths(run.errors))
    return number


def set_review(database: Database, subject: str, fingerprint: str, status: str, note: str = "") -> None:
    """Note what people decided about a finding; `not reviewed` takes a decision back.

    Raises:
        ConfigError: no such finding was ever stored, the status is none, or the note is too long.
    """
    if status not in (*STATUSES, UNREVIEWED):
        raise ConfigError(f"{status!r} is no status; use one of {', '.join((*STATUSES, UNREVIEWED))}")
    if len(note) > MAX_NOTE:
        raise ConfigError(f"the note has {len(note)} characters; {MAX_NOTE} are kept")
    key = {"subject": plain(subject), "fingerprint": plain(fingerprint)}
    with database.writing():
        known = "SELECT 1 FROM history WHERE subject = :subject AND fingerprint = :fingerprint LIMIT 1"
        if not database.rows(known, key):
            raise ConfigError(f"no finding {fingerprint} of {subject} is in the store", path=database.label)
        database.run("DELETE FROM review WHERE subject = :subject AND fingerprint = :fingerprint", key)
        if status != UNREVIEWED:
            database.run(
                "INSERT INTO review (subject, fingerprint, status, note, changed)"
                " VALUES (:subject, :fingerprint, :status, :note, :changed)",
                {**key, "status": status, "note": plain(note), "changed": utc_now()},
            )


def plain(text: str | None) -> str:
    """Text that every database takes: no NUL, no lone surrogates; empty for None."""
    return (text or "").replace("\0", "\ufffd").encode("utf-8", "backslashreplace").decode("utf-8")


def plain_json(value: Any) -> str:
    """JSON of a value whose texts every database and every page takes."""
    dumped = json.dumps(value)
    if "\\u0000" in dumped or "\\ud" in dumped:  # what `plain` would change, as JSON writes it
        return json.dumps(_plain_value(value))
    return dumped


def _plain_value(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {plain(key): _plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_value(item) for item in value]
    return value


def _check(run: NewRun) -> None:
    if run.kind not in KINDS:
        raise ConfigError(f"{run.kind!r} is no kind of run; use one of {', '.join(KINDS)}")
    prints = [finding.get("fingerprint") for finding in run.findings]
    if not all(prints) or len(set(prints)) != len(prints):
        raise ConfigError("each finding of a run needs a fingerprint of its own")


def _insert(database: Database, table: str, columns: str, rows: Iterable[Mapping[str, Any]]) -> None:
    values = ", ".join(f":{name}" for name in columns.split())
    names = ", ".join(columns.split())
    database.run_many(f"INSERT INTO {table} ({names}) VALUES ({values})", rows)


def _add_head(database: Database, run: NewRun, number: int) -> None:
    head = {
        "number": number,
        "run_key": run.key,
        "kind": run.kind,
        "subject": plain(run.subject),
        "created": run.created,
        "tool": plain(run.tool),
        "toolchain": plain(run.toolchain),
        "revision": plain(run.revision),
        "errors": plain_json(list(run.errors)),
        "finding_count": len(run.findings),
        "kernel_count": 0,
        "thinned": 0,
    }
    _insert(database, "run", " ".join(head), [head])
    rows = (
        {
            "run": number,
            "place": place,
            "path": plain(artifact.path),
            "member": plain(artifact.member),
            "sha256": artifact.sha256,
        }
        for place, artifact in enumerate(run.artifacts)
    )
    _insert(database, "artifact", "run place path member sha256", rows)
    lines = (
        {"run": number, "path": plain(one.path), "first_line": one.first_line, "text": plain(one.text)}
        for one in run.excerpts
    )
    _insert(database, "excerpt", "run path first_line text", lines)


def _finding_row(run: NewRun, number: int, place: int, record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "run": number,
        "place": place,
        "subject": plain(run.subject),
        "fingerprint": plain(record["fingerprint"]),
        "code": plain(record["code"]),
        "rule": plain(record["rule"]),
        "severity": int(Severity[record["severity"].upper()]),
        "confidence": int(Confidence[record["confidence"].upper()]),
        "path": plain(record["path"]),
        "line": record["line"],
        "function": plain(record["function"]),
        "verdict": plain(record["cluster"].get("verdict")),
        "destination": plain(record["address"].get("verdict")),
        "record": json.dumps(record),
        "brief": json.dumps(brief_of(record)),
        "witness": plain(witness_of(record)),
    }


_FINDING = (
    "run place subject fingerprint code rule severity confidence path line function"
    " verdict destination record brief witness"
)


def _add_findings(database: Database, run: NewRun, number: int) -> None:
    numbered = [(place, json.loads(plain_json(record))) for place, record in enumerate(run.findings)]
    _insert(database, "finding", _FINDING, (_finding_row(run, number, place, one) for place, one in numbered))
    prices = (
        {
            "run": number,
            "place": place,
            "gpu": plain(cost["gpu"]),
            "mib": cost["mib"],
            "basis": plain(cost["basis"]),
        }
        for place, record in numbered
        for cost in record["cost"]
    )
    _insert(database, "price", "run place gpu mib basis", prices)
    costs = price_rows(number, [record for _, record in numbered])
    _insert(database, "run_price", "run gpu record", costs)
    targets = (
        {"run": number, "place": place, "target": plain(target)}
        for place, record in numbered
        for target, word in record["targets"].items()
        if word != "excluded"
    )
    _insert(database, "finding_target", "run place target", targets)


_KERNEL = (
    "run place artifact image name demangled target registers stack_bytes stack_unknown cluster_dims"
    " syscall_count syscalls externs"
)


def _add_kernels(database: Database, run: NewRun, number: int) -> tuple[int, dict[str, str]]:
    """How many there were, and mangled -> demangled names."""
    names: dict[str, str] = {}
    sass: list[dict[str, Any]] = []

    def rows() -> Iterator[dict[str, Any]]:
        for place, kernel in enumerate(run.kernels):
            name, demangled = plain(kernel.name), plain(kernel.demangled)
            names[name] = demangled
            if kernel.sass is not None:
                sass.append({"run": number, "place": place, "record": plain_json(dict(kernel.sass))})
            yield {
                "run": number,
                "place": place,
                "artifact": kernel.artifact,
                "image": kernel.image,
                "name": name,
                "demangled": demangled,
                "target": plain(kernel.target),
                "registers": kernel.registers,
                "stack_bytes": kernel.stack_bytes,
                "stack_unknown": plain(kernel.stack_unknown),
                "cluster_dims": ",".join(map(str, kernel.cluster_dims or ())),
                "syscall_count": len(kernel.syscalls),
                "syscalls": plain_json(list(kernel.syscalls)),
                "externs": plain_json(list(kernel.externs)),
            }

    _insert(database, "kernel", _KERNEL, rows())
    _insert(database, "sass", "run place record", sass)
    count: int = database.rows("SELECT COUNT(*) FROM kernel WHERE run = :run", {"run": number})[0][0]
    return count, names


def _add_words(database: Database, run: NewRun, number: int, kernels: Mapping[str, str]) -> None:
    files = {plain(finding["path"]) for finding in run.findings}
    files |= {plain(artifact.path) for artifact in run.artifacts}
    functions = {plain(finding["function"]) for finding in run.findings if finding["function"]}
    carriers = {plain(kernel["name"]) for finding in run.findings for kernel in finding["kernels"]}
    named = [("file", name, name) for name in sorted(files)]
    named += [("function", name, name) for name in sorted(functions)]
    named += [("kernel", name, name) for name in sorted(carriers - kernels.keys() - set(kernels.values()))]
    named += [("kernel", name, f"{name} {text}" if text != name else name) for name, text in kernels.items()]
    rows = ({"text": text, "run": number, "kind": kind, "name": name} for kind, name, text in named)
    _insert(database, "words", "text run kind name", rows)


def _add_probe(database: Database, record: Mapping[str, Any], number: int) -> None:
    card = record["card"]
    row = {
        "run": number,
        "card": plain(card["name"]),
        "sm": plain(card["sm"]),
        "driver": plain(card["driver"]),
        "measured": plain(record["date"]),
        "record": plain_json(record),
    }
    _insert(database, "probe", " ".join(row), [row])

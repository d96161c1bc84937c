"""Turns filters into conditions of SQL; every value goes in as a parameter, never as text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ptxguard.errors import ConfigError
from ptxguard.finding import Confidence, Severity
from ptxguard.store.rows import STATUSES, UNREVIEWED

if TYPE_CHECKING:
    from ptxguard.store.rows import FindingFilter, KernelFilter

# The newest run of every subject, by its time.
_NEWEST = (
    "IN (SELECT number FROM (SELECT number, ROW_NUMBER() OVER"
    " (PARTITION BY subject ORDER BY created DESC, number DESC) AS back"
    " FROM run WHERE kind <> 'probe') AS ordered WHERE back = 1)"
)

FINDINGS_FROM = (
    "finding AS f"
    " JOIN history AS h ON h.subject = f.subject AND h.fingerprint = f.fingerprint AND h.run = f.run"
    " LEFT JOIN review AS v ON v.subject = f.subject AND v.fingerprint = f.fingerprint"
)

_SAME_FINDING = {
    "subject": "f.subject",
    "code": "f.code",
    "verdict": "f.verdict",
    "destination": "f.destination",
    "path": "f.path",
    "state": "h.state",
    "witness": "f.witness",
}

KERNEL_ORDERS = {
    "place": "k.run, k.place",
    "name": "k.name, k.run, k.place",
    "registers": "COALESCE(k.registers, -1) DESC, k.run, k.place",
    "stack": "COALESCE(k.stack_bytes, -1) DESC, k.run, k.place",
    "syscalls": "k.syscall_count DESC, k.run, k.place",
}


def finding_condition(wanted: FindingFilter) -> tuple[str, dict[str, Any]]:
    """A condition on `FINDINGS_FROM`, with its values.

    Raises:
        ConfigError: a word of the filter is none that findings have.
    """
    parts = [f"f.run {_NEWEST}" if wanted.run is None else "f.run = :run"]
    values: dict[str, Any] = {} if wanted.run is None else {"run": wanted.run}
    for name, column in _SAME_FINDING.items():
        if (value := getattr(wanted, name)) is not None:
            parts.append(f"{column} = :{name}")
            values[name] = value
    for name, kinds in (("severity", Severity), ("confidence", Confidence)):
        if (word := getattr(wanted, name)) is not None:
            parts.append(f"f.{name} = :{name}")
            values[name] = _level(word, name, kinds)
    if wanted.target is not None:
        parts.append(
            "EXISTS (SELECT 1 FROM finding_target AS t"
            " WHERE t.run = f.run AND t.place = f.place AND t.target = :target)"
        )
        values["target"] = wanted.target
    _add_status(wanted, parts, values)
    _add_price(wanted, parts, values)
    return " AND ".join(parts), values


def _level(word: str, name: str, kinds: Any) -> int:
    known = {level.word: int(level) for level in kinds}
    if word not in known:
        raise ConfigError(f"{word!r} is no {name}; use one of {', '.join(known)}")
    return known[word]


def _add_status(wanted: FindingFilter, parts: list[str], values: dict[str, Any]) -> None:
    if wanted.status == UNREVIEWED:
        parts.append("v.status IS NULL")
    elif wanted.status in STATUSES:
        parts.append("v.status = :status")
        values["status"] = wanted.status
    elif wanted.status is not None:
        raise ConfigError(f"{wanted.status!r} is no status; use one of {', '.join((*STATUSES, UNREVIEWED))}")


def _add_price(wanted: FindingFilter, parts: list[str], values: dict[str, Any]) -> None:
    conditions = {
        "p.gpu = :gpu": wanted.gpu,
        "p.basis = :basis": wanted.basis,
        "p.mib >= :min_mib": wanted.min_mib,
    }
    asked = {text: value for text, value in conditions.items() if value is not None}
    if asked:
        parts.append(
            "EXISTS (SELECT 1 FROM price AS p WHERE p.run = f.run AND p.place = f.place"
            + "".join(f" AND {text}" for text in asked)
            + ")"
        )
        values.update({text.rpartition(":")[2]: value for text, value in asked.items()})


def kernel_condition(wanted: KernelFilter) -> tuple[str, dict[str, Any]]:
    """A condition on `kernel AS k`, with its values."""
    parts = [f"k.run {_NEWEST}" if wanted.run is None else "k.run = :run"]
    values: dict[str, Any] = {} if wanted.run is None else {"run": wanted.run}
    if wanted.target is not None:
        parts.append("k.target = :target")
        values["target"] = wanted.target
    if wanted.name is not None:
        parts.append("(k.name LIKE :name ESCAPE '!' OR k.demangled LIKE :name ESCAPE '!')")
        values["name"] = f"%{_escaped(wanted.name)}%"
    if wanted.with_syscall is not None:
        parts.append("k.syscall_count > 0" if wanted.with_syscall else "k.syscall_count = 0")
    if wanted.syscall is not None:
        parts.append("k.syscall_count > 0 AND k.syscalls LIKE :syscall ESCAPE '!'")
        values["syscall"] = f'%"name": {_escaped(json.dumps(wanted.syscall))}%'
    return " AND ".join(parts), values


def _escaped(text: str) -> str:
    """Text of a LIKE pattern that stands for itself, with `!` as the escape."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")

"""Thins out a store, merges another one into it, and writes it out as lines of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from ptxguard.store.write import NewKernel, NewRun, add_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.store.database import Database
    from ptxguard.store.rows import Run
    from ptxguard.store.store import Store

EXPORT_VERSION = 1
_BULK = ("finding", "price", "finding_target", "kernel", "words", "excerpt", "sass")
_OLD = (
    "SELECT number FROM (SELECT number, thinned, ROW_NUMBER() OVER"
    " (PARTITION BY subject ORDER BY created DESC, number DESC) AS back FROM run WHERE kind <> 'probe')"
    " AS ordered WHERE back > :keep AND thinned = 0 ORDER BY number"
)


def thin_out(database: Database, keep: int) -> tuple[int, ...]:
    """Take findings and kernels away from all but the newest runs of each subject.

    Heads, history, reviews and probe runs stay, so that a finding that comes back is known as reopened.

    Args:
        database: the store.
        keep: runs of each subject that stay whole, at least 1.

    Returns:
        Numbers of the runs that were thinned.
    """
    with database.writing():
        old = tuple(row[0] for row in database.rows(_OLD, {"keep": keep}))
        for table in _BULK:
            database.run_many(f"DELETE FROM {table} WHERE run = :run", [{"run": run} for run in old])
        database.run_many("UPDATE run SET thinned = 1 WHERE number = :run", [{"run": run} for run in old])
    return old


def merge(into: Store, other: Store) -> tuple[int, int]:
    """Bring runs and reviews of another store in; a review that is newer wins.

    Returns:
        Runs that were new here, and runs that were left out: known already, or thinned there.
    """
    known = {run.key for run in into.runs()}
    runs = sorted(other.runs(), key=lambda run: run.number)
    added = [run for run in runs if run.key not in known and not run.thinned]
    for run in added:
        add_run(into.database, load_run(other, run))
    _merge_reviews(into.database, other.database)
    return len(added), len(runs) - len(added)


def load_run(store: Store, run: Run) -> NewRun:
    """A stored run as it was added."""
    asked = {"run": run.number}
    findings = store.database.rows("SELECT record FROM finding WHERE run = :run ORDER BY place", asked)
    probe = store.database.rows("SELECT record FROM probe WHERE run = :run", asked)
    return NewRun(
        kind=run.kind,
        subject=run.subject,
        findings=[json.loads(row[0]) for row in findings],
        artifacts=store.run(run.number).artifacts,
        kernels=_load_kernels(store.database, run.number),
        excerpts=store.excerpts(run.number),
        probe=json.loads(probe[0][0]) if probe else None,
        errors=run.errors,
        toolchain=run.toolchain,
        revision=run.revision,
        tool=run.tool,
        created=run.created,
        key=run.key,
    )


def export_lines(store: Store) -> Iterator[str]:
    """The whole store as JSON, a run or review a line, in the order of time; equal stores give equal text."""
    yield json.dumps({"version": EXPORT_VERSION, "format": "ptxguard store"}) + "\n"
    for run in sorted(store.runs(), key=lambda run: (run.created, run.key)):
        record = _export_run(store, run) if not run.thinned else {"key": run.key, "thinned": True}
        yield json.dumps({"run": record}, sort_keys=True) + "\n"
    for review in _reviews(store.database):
        yield json.dumps({"review": review}, sort_keys=True) + "\n"


def _export_run(store: Store, run: Run) -> dict[str, Any]:
    loaded = load_run(store, run)
    kernels = [asdict(kernel) for kernel in loaded.kernels]
    return {**asdict(replace(loaded, kernels=())), "kernels": kernels}


def _load_kernels(database: Database, run: int) -> Iterator[NewKernel]:
    rows = database.rows(
        "SELECT k.artifact, k.image, k.name, k.demangled, k.target, k.registers, k.stack_bytes,"
        " k.stack_unknown, k.cluster_dims, k.syscalls, k.externs, s.record FROM kernel AS k"
        " LEFT JOIN sass AS s ON s.run = k.run AND s.place = k.place WHERE k.run = :run ORDER BY k.place",
        {"run": run},
    )
    for *head, dims, syscalls, externs, sass in rows:
        cluster_dims = tuple(int(part) for part in dims.split(",")) if dims else None
        code = json.loads(sass) if sass else None
        values = (*head, cluster_dims, json.loads(syscalls), json.loads(externs), code)
        yield NewKernel(*values)


def _reviews(database: Database) -> list[dict[str, str]]:
    rows = database.rows(
        "SELECT subject, fingerprint, status, note, changed FROM review ORDER BY subject, fingerprint"
    )
    return [
        dict(zip(("subject", "fingerprint", "status", "note", "changed"), row, strict=True)) for row in rows
    ]


def _merge_reviews(into: Database, other: Database) -> None:
    with into.writing():
        own = {(row["subject"], row["fingerprint"]): row["changed"] for row in _reviews(into)}
        for row in _reviews(other):
            if row["changed"] > own.get((row["subject"], row["fingerprint"]), ""):
                into.run(
                    "DELETE FROM review WHERE subject = :subject AND fingerprint = :fingerprint",
                    {"subject": row["subject"], "fingerprint": row["fingerprint"]},
                )
                into.run(
                    "INSERT INTO review (subject, fingerprint, status, note, changed)"
                    " VALUES (:subject, :fingerprint, :status, :note, :changed)",
                    row,
                )

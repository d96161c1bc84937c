"""What lists and overviews show of findings, worked out once when a run is stored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ptxguard.store.database import Database

_LONG = ("kernels", "evidence")
_WITNESS = "binary"
_NEVER_RUNS = "never runs"


def brief_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record without kernels and evidence; `kernel_count` says how many there are."""
    brief = {name: value for name, value in record.items() if name not in _LONG}
    brief["cluster"] = {name: value for name, value in record["cluster"].items() if name != "evidence"}
    brief["kernel_count"] = record["performance"].get("kernels") or len(record["kernels"])
    return brief


def witness_of(record: Mapping[str, Any]) -> str:
    """What compiled code said about a finding of the source: confirmed, refuted, unseen, or empty."""
    return str((record["performance"].get(_WITNESS) or {}).get("verdict", ""))


def worst_prices(records: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Card -> record of the finding that costs most there.

    Left out: findings that compiled code refutes, and kernels that never do their work on the target.
    """
    worst: dict[str, tuple[float, Mapping[str, Any]]] = {}
    for record in records:
        if record["performance"].get(_NEVER_RUNS) or witness_of(record) == "refuted":
            continue
        for cost in record["cost"]:
            mib = -1.0 if cost["mib"] is None else float(cost["mib"])
            if mib > worst.get(cost["gpu"], (-2.0,))[0]:
                worst[cost["gpu"]] = (mib, record)
    return {gpu: record for gpu, (_, record) in worst.items()}


def price_rows(number: int, records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the table `run_price`."""
    return [
        {"run": number, "gpu": gpu, "record": json.dumps(brief_of(record))}
        for gpu, record in worst_prices(records).items()
    ]


def fill_in(database: Database) -> None:
    """Work out for the runs of an older store what newer ones store at once."""
    for (number,) in database.rows("SELECT number FROM run ORDER BY number"):
        records = list(_records(database, number))
        database.run_many(
            "UPDATE finding SET brief = :brief, witness = :witness WHERE run = :run AND place = :place",
            [
                {
                    "run": number,
                    "place": place,
                    "brief": json.dumps(brief_of(record)),
                    "witness": witness_of(record),
                }
                for place, record in records
            ],
        )
        database.run_many(
            "INSERT INTO run_price (run, gpu, record) VALUES (:run, :gpu, :record)",
            price_rows(number, [record for _, record in records]),
        )


def _records(database: Database, number: int) -> Iterator[tuple[int, dict[str, Any]]]:
    rows = database.rows("SELECT place, record FROM finding WHERE run = :run ORDER BY place", {"run": number})
    for place, record in rows:
        yield place, json.loads(record)

"""A whole run of the probe: its record, its file, and how two runs differ."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ptxguard import __version__
from ptxguard.errors import ConfigError
from ptxguard.probe.verdict import data_right, judge

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ptxguard.probe.api import Card

# What the driver answers where it cannot link a function that a kernel refers to.
NOT_OFFERED = "CUDA_ERROR_NOT_FOUND"
NO_ROOM = "CUDA_ERROR_OUT_OF_MEMORY"

# A first launch that takes this much more than before is a regression, not noise.
REGRESSION_MIB = 4.0


def build_result(
    card: Card, records: Sequence[dict[str, Any]], when: datetime | None = None
) -> dict[str, Any]:
    """The record that `probe.json` holds.

    Args:
        card: the card under test.
        records: what the children reported, in order.
        when: time of the run, now by default.
    """
    stamp = (when or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")
    judged = [{**record, "verdict": judge(record, card)} for record in records]
    return {
        "version": 1,
        "tool": {"name": "ptxguard", "version": __version__},
        "date": stamp,
        "card": card.record(),
        "variants": judged,
        "summary": summarise(judged),
    }


def summarise(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts and names that decide the exit status."""
    by_name = {record["name"]: record for record in records}
    pairs = [name for name in by_name if ".cluster." in name and not by_name[name].get("peer")]
    differ = [
        name for name in pairs if not _same_data(by_name[name], by_name.get(name.replace("cluster", "cta")))
    ]
    return {
        "variants": len(records),
        "agree": sum(record["verdict"]["agrees"] is True for record in records),
        "data_right": sum(data_right(record) is True for record in records),
        "disagree": [record["name"] for record in records if record["verdict"]["agrees"] is False],
        "data_wrong": [record["name"] for record in records if data_right(record) is False],
        "spellings_differ": differ,
        "not_assembled": [record["name"] for record in records if record["status"] == "not assembled"],
        "no_room": [record["name"] for record in records if record.get("code") == NO_ROOM],
        "not_offered": [record["name"] for record in records if record.get("code") == NOT_OFFERED],
        "failed": [
            record["name"]
            for record in records
            if record["status"] == "failed" and record["code"] not in (NOT_OFFERED, NO_ROOM)
        ],
        "not_finished": [record["name"] for record in records if record["status"] in ("killed", "unusable")],
        "given_back_by_lowering": _given_back(records),
    }


def _same_data(one: dict[str, Any], other: dict[str, Any] | None) -> bool:
    if other is None or "data" not in one or "data" not in other:
        return True
    return bool(one["data"]["sha256"] == other["data"]["sha256"])


def _given_back(records: Sequence[dict[str, Any]]) -> bool | None:
    """Whether lowering the limit gave back every first-launch reservation; None where there was none."""
    held = [
        record["verdict"]["held_after_lowering_mib"]
        for record in records
        if (record["verdict"].get("measured_mib") or 0) > 2 and record["kind"] in ("frame", "copy")
    ]
    return all(value is not None and value <= 2 for value in held) if held else None


def dump_result(result: dict[str, Any]) -> str:
    """The text of `probe.json`: a variant a line, so that two runs can be read side by side."""
    head = {key: value for key, value in result.items() if key != "variants"}
    lines = ",\n  ".join(json.dumps(item) for item in result["variants"])
    return json.dumps(head, indent=1)[:-2] + f',\n "variants": [\n  {lines}\n ]\n}}\n'


def read_result(path: Path) -> dict[str, Any]:
    """Read a `probe.json`.

    Raises:
        ConfigError: it cannot be read or is none.
    """
    try:
        record = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot be read as a probe result: {error}", path=str(path)) from None
    if not isinstance(record, dict) or record.get("version") != 1 or "variants" not in record:
        raise ConfigError("is no probe result of version 1", path=str(path))
    return record


def compare_results(old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Variants whose first launch takes another amount than before, largest growth first.

    Raises:
        ConfigError: the two runs are of different cards, which says nothing about a regression.
    """
    if old["card"]["name"] != new["card"]["name"]:
        raise ConfigError(
            f"the runs are of different cards, {old['card']['name']} and {new['card']['name']}: compare none"
        )
    before = {item["name"]: item["verdict"].get("measured_mib") for item in old["variants"]}
    changes = []
    for item in new["variants"]:
        was, now = before.get(item["name"]), item["verdict"].get("measured_mib")
        if was is not None and now is not None and abs(now - was) > REGRESSION_MIB:
            changes.append(
                {"name": item["name"], "old_mib": was, "new_mib": now, "growth_mib": round(now - was, 2)}
            )
    return sorted(changes, key=lambda change: -change["growth_mib"])

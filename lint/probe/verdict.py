"""What a record of a variant says: predicted against measured, native or syscall, the data right or wrong."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from ptxguard.memcost import MIB

if TYPE_CHECKING:
    from ptxguard.probe.api import Card

# The driver takes memory in pieces of 2 MiB; a measurement within one piece of the model agrees with it.
TOLERANCE_MIB = 2.0

_FIRST = ("after first launch", "after instantiate")


def stage(record: dict[str, Any], name: str) -> dict[str, Any] | None:
    """A stage of a record by name, or None where the child did not get that far."""
    return next((item for item in record["stages"] if item["stage"] == name), None)


def free_mib(item: dict[str, Any], card: Card) -> float:
    """Free memory of a stage in MiB: MemAvailable on integrated cards, the driver's figure elsewhere."""
    host = item.get("mem_available_bytes")
    return float(host if card.integrated and host is not None else item["free_bytes"]) / MIB


def taken_mib(record: dict[str, Any], before: str, after: str, card: Card) -> float | None:
    """MiB that went between two stages, the median over all runs; None where a stage is missing."""
    found = []
    for run in (record, *record.get("repeats", ())):
        first, last = stage(run, before), stage(run, after)
        if first is not None and last is not None:
            found.append(free_mib(first, card) - free_mib(last, card))
    return round(median(found), 2) if found else None


def spread_mib(record: dict[str, Any], card: Card) -> float | None:
    """Largest less smallest first-launch figure over all runs; None for a single run."""
    runs = [{**run, "repeats": []} for run in (record, *record.get("repeats", ()))]
    taken = [taken_mib(run, "after load", "after first launch", card) for run in runs]
    known = [value for value in taken if value is not None]
    return round(max(known) - min(known), 2) if len(known) > 1 else None


def _model_mib(card: Card, low_bytes: int, high_bytes: int) -> float:
    return round(max(high_bytes - low_bytes, 0) * card.sm_count * card.threads_per_sm / MIB, 2)


def judge(record: dict[str, Any], card: Card) -> dict[str, Any]:
    """The verdict of one record.

    Returns:
        `conclusion` (one sentence) and, where the child got that far: `limit_before`, `limit_after`,
        `predicted_mib` (by the limits), `measured_mib` (first launch), `load_mib`, `held_after_lowering_mib`,
        `agrees` (within 2 MiB; None where nothing can be said), `wait_ms`. None: it was not measured.
    """
    before, after = stage(record, "after load"), stage(record, "after first launch")
    verdict: dict[str, Any] = {"load_mib": taken_mib(record, "before load", "after load", card)}
    if before is None or after is None:
        if record["kind"] == "kernel" and record["status"] == "done" and before is not None:
            return verdict | _predict(record, before, card)
        return verdict | {"agrees": None, "conclusion": _unfinished(record, before)}
    limits = before["stack_limit_bytes"], after["stack_limit_bytes"]
    predicted = _model_mib(card, *limits)
    measured = taken_mib(record, "after load", "after first launch", card)
    verdict |= {
        "limit_before": limits[0],
        "limit_after": limits[1],
        "predicted_mib": predicted,
        "measured_mib": measured,
        "spread_mib": spread_mib(record, card),
        "held_after_lowering_mib": taken_mib(record, "after load", "after limit lowered", card),
        "agrees": _agrees(record, measured, predicted),
    }
    if record["kind"] == "wait":
        verdict["wait_ms"] = after["ms"]
        verdict["second_wait_ms"] = (stage(record, "after second launch") or {}).get("ms")
    return verdict | {"conclusion": _conclude(record, verdict)}


def _predict(record: dict[str, Any], loaded: dict[str, Any], card: Card) -> dict[str, Any]:
    """What the first launch of a kernel takes at least, by its own local memory; it was not launched."""
    local, limit = record["attributes"]["local_size_bytes"], loaded["stack_limit_bytes"]
    predicted = _model_mib(card, limit, local)
    text = f"not launched; its own {local} B of local memory predict {predicted:.1f} MiB at the first launch"
    return {"agrees": None, "predicted_mib": predicted, "conclusion": f"{text}, driver functions not counted"}


def _agrees(record: dict[str, Any], measured: float | None, predicted: float) -> bool | None:
    """Whether the stack model holds; None where the launch also takes what the model does not speak of.

    A kernel that refers to malloc takes some 10 MiB at its first launch for the heap (measured on an H200).
    """
    if measured is None or record.get("refers_to", "recursion") != "recursion":
        return None
    return abs(measured - predicted) <= TOLERANCE_MIB


def _unfinished(record: dict[str, Any], loaded: dict[str, Any] | None) -> str:
    if record["status"] == "not assembled":
        return f"this target cannot assemble it: {record['reason']}"
    if record.get("code") == "CUDA_ERROR_OUT_OF_MEMORY" and loaded is not None:
        free = loaded["free_bytes"] // MIB
        small = "; a small kernel still runs" if stage(record, "after small launch") else ""
        return (
            f"{record['call']} returned {record['code']}: the reservation does not fit into {free} MiB{small}"
        )
    if record.get("code") == "CUDA_ERROR_NOT_FOUND" and record.get("refers_to"):
        return "the driver offers no such function to this target"
    if record["status"] == "failed":
        return f"{record['call']} returned {record['code']}"
    return f"did not finish: {record['reason']}"


def _conclude(record: dict[str, Any], verdict: dict[str, Any]) -> str:
    measured, raised = verdict["measured_mib"], verdict["limit_after"] > verdict["limit_before"]
    if record["kind"] == "wait":
        return f"the first launch held the host for {verdict['wait_ms']:.0f} ms beside a running kernel"
    if record["kind"] == "copy":
        text = "calls the driver" if raised and not record.get("frame_bytes") else "native"
        if record.get("frame_bytes"):
            text = "with a frame of its own"
        text += f", {measured:.0f} MiB at the first launch"
        return f"{text}; {_data_text(record)}"
    grown = f"limit {verdict['limit_before']} -> {verdict['limit_after']} B, {measured:.0f} MiB"
    near = abs(measured - verdict["predicted_mib"]) <= TOLERANCE_MIB
    return grown if near else f"{grown}, of it {verdict['predicted_mib']:.1f} MiB by the limit"


def _data_text(record: dict[str, Any]) -> str:
    data = record.get("data")
    if data is None:
        return "no data"
    if record.get("peer"):
        return f"data in CTA {_ranks(data['arrived'])}, completion in CTA {_ranks(data['completed'])}"
    return "data as expected" if data_right(record) else "DATA WRONG"


def _ranks(flags: list[bool]) -> str:
    return ", ".join(str(rank) for rank, flag in enumerate(flags) if flag) or "none"


def data_right(record: dict[str, Any]) -> bool | None:
    """Whether every CTA got the expected data; None for peers and variants without data."""
    data = record.get("data")
    if data is None or record.get("peer"):
        return None
    return all(data["arrived"]) and all(data["completed"])

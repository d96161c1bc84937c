"""Measurements of a probe result as stack needs: valid for the card they were made on and for no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ptxguard.errors import ConfigError
from ptxguard.memcost import MEASURED, StackNeed, find_gpu
from ptxguard.probe.forms import find_form

if TYPE_CHECKING:
    from ptxguard.memcost import Gpu


def measured_syscall(result: dict[str, Any], gpu: Gpu, symbol: str) -> StackNeed | None:
    """What launches on this very card say about a driver function; None where they say nothing."""
    for record in result["variants"]:
        if record["kind"] != "copy" or record.get("graph") or record.get("peer") or record.get("frame_bytes"):
            continue
        name = find_form(record["form"]).syscall(multicast=record.get("multicast", False))
        if record["spelling"] == "cluster" and name == symbol:
            return _need(result, record, gpu)
    return None


def measured_frame(result: dict[str, Any], gpu: Gpu, frame_bytes: int) -> StackNeed | None:
    """What a control launch with that stack size on this very card took; None where there was none."""
    for record in result["variants"]:
        if record["kind"] == "frame" and record.get("frame_bytes", 0) == frame_bytes:
            return _need(result, record, gpu)
    return None


def _is_card(name: str, gpu: Gpu) -> bool:
    try:
        return find_gpu(name) == gpu
    except ConfigError:  # a card that gpus.toml does not have is none of its cards
        return False


def _need(result: dict[str, Any], record: dict[str, Any], gpu: Gpu) -> StackNeed | None:
    card, verdict = result["card"], record["verdict"]
    if verdict.get("measured_mib") is None or not _is_card(card["name"], gpu):
        return None
    limit = verdict["limit_after"]
    taken = f"{verdict['measured_mib']:.0f} MiB at the first launch"
    if (load := verdict["load_mib"]) and load > 2:
        taken += f", {load:.0f} MiB when the module was loaded"
    source = f"launch on {card['name']}, driver {card['driver']}, {result['date'][:10]}: {taken}"
    return StackNeed(limit, limit, limit, MEASURED, source)

"""Runs variants in child processes, one after the other, and gathers what they report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from ptxguard.errors import ToolError
from ptxguard.probe.api import Card
from ptxguard.probe.variants import Variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

REAL_DEVICE = "ptxguard.probe.cuda"
TIMEOUT_S = 60.0

# Integrated cards share the host's memory, whose MemAvailable moves by itself: five runs, median and spread.
INTEGRATED_RUNS = 5

# The smallest first launch worth measuring, and what a context itself may still need.
LEAST_FREE_MIB = 512


def run_child(
    variant: Variant, module: str = REAL_DEVICE, device: int = 0, timeout_s: float = TIMEOUT_S
) -> dict[str, Any]:
    """Run one variant in a fresh process and return its record; the process is gone when this returns.

    Args:
        variant: what to measure.
        module: the module whose `open_api(device)` gives the device.
        device: CUDA's number of the card.
        timeout_s: seconds after which the process is killed.
    """
    command = [
        sys.executable,
        "-m",
        "ptxguard.probe.child",
        json.dumps(variant.record()),
        module,
        str(device),
    ]
    start = time.monotonic()
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
        timed_out = False
        try:
            output, _ = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            _kill(child)
            output, _ = child.communicate()
        finally:
            _kill(child)
        errors.seek(0)
        said = errors.read().decode("utf-8", "replace").strip()
    record = _gather(variant, output.decode("utf-8", "replace").splitlines())
    record["seconds"] = round(time.monotonic() - start, 2)
    if "status" not in record:
        record |= _early_end(child.returncode, said, timeout_s if timed_out else None)
    return record


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End the child and all that it started."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _early_end(code: int, said: str, timeout_s: float | None) -> dict[str, Any]:
    """Why a child stopped without saying so itself."""
    if timeout_s is not None:
        return {"status": "killed", "reason": f"did not end within {timeout_s:g} s"}
    if code < 0:
        return {"status": "killed", "reason": f"was killed by {signal.Signals(-code).name}"}
    last = said.splitlines()[-1] if said else "said nothing"
    return {"status": "killed", "reason": f"ended with exit status {code}: {last}"}


def _gather(variant: Variant, lines: Iterable[str]) -> dict[str, Any]:
    record: dict[str, Any] = {**variant.record(), "stages": [], "calls": []}
    for event in _events(lines):
        kind = event.pop("event")
        if kind == "stage":
            record["stages"].append(event)
        elif kind == "call":
            record["calls"].append([event["name"], event["code"]])
        elif kind == "end":
            record |= event
        else:
            record[kind] = event
    return record


def _events(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The events of complete lines; a killed child may leave half a line."""
    for line in lines:
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue
        yield event


def find_card(module: str = REAL_DEVICE, device: int = 0) -> tuple[Card, int]:
    """The card under test and its free bytes, asked for in a child so that this process holds no context.

    Raises:
        ToolError: no GPU, no driver, a missing library, or too little free memory; one sentence.
    """
    record = run_child(Variant("card", "card"), module, device)
    if record["status"] == "unusable":
        raise ToolError(record["reason"])
    if record["status"] == "killed":
        raise ToolError(f"the child that looks at the GPU {record['reason']}")
    if record["status"] == "failed":
        raise ToolError(_explain(record["call"], record["code"]))
    card, free = Card(**record["card"]), int(record["stages"][0]["free_bytes"])
    if free < LEAST_FREE_MIB << 20:
        raise ToolError(
            f"only {free >> 20} MiB of the {card.name} are free, the probe needs {LEAST_FREE_MIB};"
            " end what uses it"
        )
    return card, free


def _explain(call: str, code: str) -> str:
    known = {
        "CUDA_ERROR_NO_DEVICE": "no NVIDIA GPU is visible here",
        "CUDA_ERROR_OUT_OF_MEMORY": "the GPU has no memory left for a context; end what uses it",
        "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "driver library and kernel module differ; reinstall it",
        "CUDA_ERROR_INSUFFICIENT_DRIVER": "the driver is older than the CUDA bindings; update it",
    }
    return f"{known.get(code, 'the GPU cannot be used')} ({call}: {code})"


def run_all(
    variants: Iterable[Variant],
    progress: Callable[[Variant, dict[str, Any]], None],
    module: str = REAL_DEVICE,
    device: int = 0,
    timeout_s: float = TIMEOUT_S,
    runs: int = 1,
) -> list[dict[str, Any]]:
    """Run variants one after the other; with `runs` > 1 the extra records of a variant go into `repeats`."""
    records = []
    for variant in variants:
        record = run_child(variant, module, device, timeout_s)
        for _ in range(runs - 1):
            record.setdefault("repeats", []).append(run_child(variant, module, device, timeout_s))
        progress(variant, record)
        records.append(record)
    return records

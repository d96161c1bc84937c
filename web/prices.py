"""What findings and runs cost on the chosen GPU: as their record prices it, else derived."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ptxguard.arch import Target
from ptxguard.compiled import NEVER_RUNS
from ptxguard.crosscheck import BINARY, REFUTED
from ptxguard.effects import runs_on
from ptxguard.finding import Cost
from ptxguard.memcost import DECLARED, MEASURED, UNKNOWN, Gpu, price_syscall

# How a figure came about; the words of the honesty rules, never mixed.
PREDICTED = "predicted"
_KIND = {MEASURED: "measured", DECLARED: "declared", UNKNOWN: "unknown"}


@dataclass(frozen=True)
class Price:
    """Device memory that one context loses on one card.

    Attributes:
        gpu: card.
        expected_mib: what a measurement shows; None: unknown.
        low_mib: with the smallest known stack need.
        high_mib: with the largest known one.
        share: of the card's memory, 0 to 1; None: unknown.
        bytes_per_thread: stack limit behind it.
        kind: measured, declared, predicted or unknown.
        basis: as the record names it.
        source: where the figure comes from.
    """

    gpu: str
    expected_mib: float | None
    low_mib: float | None
    high_mib: float | None
    share: float | None
    bytes_per_thread: int | None
    kind: str
    basis: str
    source: str


def price_on(record: Mapping[str, Any], gpu: Gpu) -> Price | None:
    """The price of a finding on a card; None where it costs nothing there.

    That holds too where compiled code refutes it, and for kernels that never do their work on the target.

    A card that the record does not price gets the public figure for the driver function, if the finding's
    targets run on it.
    """
    costs, performance = record["cost"], record["performance"]
    refuted = (performance.get(BINARY) or {}).get("verdict") == REFUTED
    if not costs or refuted or performance.get(NEVER_RUNS):
        return None
    for cost in costs:
        if cost["gpu"] == gpu.name:
            return _price(Cost(**cost), gpu)
    if not _reaches(record, gpu):
        return None
    derived = price_syscall(record["syscall"] or "", (gpu,))
    return _price(derived[0], gpu) if derived else None


def _reaches(record: Mapping[str, Any], gpu: Gpu) -> bool:
    """Whether code for a target that calls the driver runs on the card."""
    card = Target.parse(gpu.sm)
    return any(
        behaviour == "syscall"
        and record["targets"].get(name) != "excluded"
        and runs_on(Target.parse(name), card)
        for name, behaviour in record["on_target"].items()
    )


def _price(cost: Cost, gpu: Gpu) -> Price:
    mib = cost.expected_mib
    return Price(
        gpu=gpu.name,
        expected_mib=mib,
        low_mib=cost.low_mib,
        high_mib=cost.high_mib,
        share=None if mib is None else mib / (gpu.memory_gib * 1024),
        bytes_per_thread=cost.bytes_per_thread,
        kind=_KIND.get(cost.basis, PREDICTED),
        basis=cost.basis,
        source=cost.source,
    )


def worst(prices: Iterable[Price | None]) -> Price | None:
    """The price of a run: the maximum over its kernels, never a sum; unknown ones count only alone."""
    found = [price for price in prices if price is not None]
    return max(
        found, key=lambda price: -1.0 if price.expected_mib is None else price.expected_mib, default=None
    )

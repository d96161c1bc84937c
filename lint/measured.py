"""Puts measurements of this very kind of card in the place of predictions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ptxguard.memcost import find_gpu, price
from ptxguard.probe.evidence import measured_syscall

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ptxguard.finding import Cost, Finding


def raise_to_measured(findings: Iterable[Finding], results: Sequence[dict[str, Any]]) -> list[Finding]:
    """Findings with measured prices on the cards that a probe has measured; other cards stay predicted.

    Args:
        findings: of `check` or `scan`.
        results: of `probe`, those to be preferred first.
    """
    if not results:
        return list(findings)
    return [
        replace(finding, cost=tuple(_measured(finding.syscall, cost, results) for cost in finding.cost))
        if finding.syscall
        else finding
        for finding in findings
    ]


def _measured(symbol: str, cost: Cost, results: Sequence[dict[str, Any]]) -> Cost:
    gpu = find_gpu(cost.gpu)
    for result in results:
        need = measured_syscall(result, gpu, symbol)
        if need is not None:
            return price(gpu, need)
    return cost

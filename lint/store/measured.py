"""Raises prices of findings to measured ones where a stored probe run launched that form on that card."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from ptxguard.memcost import find_gpu, price
from ptxguard.probe.evidence import measured_syscall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ptxguard.finding import Cost, Finding
    from ptxguard.store.rows import ProbeRun


def raise_to_measured(findings: Iterable[Finding], probes: Sequence[ProbeRun]) -> list[Finding]:
    """Findings with the prices that were measured, in the same order.

    Args:
        findings: with prices by public measurements.
        probes: newest first; the first that says something about card and form counts.
    """
    measured = _lookup(probes)
    return [
        _raised(finding, finding.syscall, measured) if finding.syscall else finding for finding in findings
    ]


def _lookup(probes: Sequence[ProbeRun]) -> Callable[[str, str], Cost | None]:
    @cache
    def measured(name: str, symbol: str) -> Cost | None:
        gpu = find_gpu(name)
        needs = (measured_syscall(dict(probe.record), gpu, symbol) for probe in probes)
        need = next((need for need in needs if need is not None), None)
        return price(gpu, need) if need is not None else None

    return measured


def _raised(finding: Finding, symbol: str, measured: Callable[[str, str], Cost | None]) -> Finding:
    cost = tuple(measured(cost.gpu, symbol) or cost for cost in finding.cost)
    return finding if cost == finding.cost else replace(finding, cost=cost)

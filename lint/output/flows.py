"""The ways from a launch down to the instruction of a finding, one for each kernel that reaches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.finding import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.finding import Finding, KernelPlace

_DEFINITION = "__global__ "


@dataclass(frozen=True)
class Flow:
    """One way: launch, kernel, calls, asm; what is not in sight is missing.

    Attributes:
        kernel: where it begins.
        steps: links with a place in a file, from the host down.
    """

    kernel: KernelPlace
    steps: tuple[Evidence, ...]


def flows_of(finding: Finding) -> tuple[Flow, ...]:
    """Ways to a finding, those with a launch in sight first; none where no kernel is known to reach it."""
    asm = Evidence("asm", finding.path, finding.line, finding.opcode or finding.message)
    launches = _launches(finding)
    calls = _calls(finding)
    flows = []
    for kernel in finding.kernels:
        if kernel.path is None:
            continue
        own = launches.get((kernel.path, kernel.line), [])[:1]
        here = Evidence("kernel", kernel.path, kernel.line, _DEFINITION + kernel.name)
        path = _way(calls, short_name(kernel.name), short_name(finding.function or ""))
        flows.append(Flow(kernel, (*own, here, *path, asm)))
    return tuple(sorted(flows, key=lambda flow: flow.steps[0].kind != "launch"))


def short_name(name: str) -> str:
    """The last component of a qualified name, without template arguments."""
    return name.partition("<")[0].rsplit("::", 1)[-1].strip()


def _launches(finding: Finding) -> dict[tuple[str | None, int | None], list[Evidence]]:
    """Place of a kernel's definition -> its launches; the evidence names each kernel before its launches."""
    found: dict[tuple[str | None, int | None], list[Evidence]] = {}
    own: list[Evidence] = []
    for record in finding.cluster.get("evidence", ()):
        item = Evidence(**record)
        if item.kind == "kernel" and item.text.startswith(_DEFINITION):
            own = found.setdefault((item.path, item.line), [])
        elif item.kind == "launch" and item.path is not None:
            own.append(item)
    return found


def _calls(finding: Finding) -> dict[str, list[tuple[str, Evidence]]]:
    """Caller -> callees, from links `caller calls callee`."""
    found: dict[str, list[tuple[str, Evidence]]] = {}
    for item in finding.evidence:
        caller, verb, callee = item.text.partition(" calls ")
        if item.kind == "call" and verb and item.path is not None:
            found.setdefault(short_name(caller), []).append((short_name(callee), item))
    return found


def _way(calls: dict[str, list[tuple[str, Evidence]]], start: str, end: str) -> tuple[Evidence, ...]:
    """The shortest chain of calls between two functions; empty where the evidence holds none."""
    seen = {start}
    pending: list[tuple[str, tuple[Evidence, ...]]] = [(start, ())]
    for name, way in pending:  # grows while it is walked: breadth first
        if name == end:
            return way
        for callee, item in _unseen(calls.get(name, []), seen):
            pending.append((callee, (*way, item)))
    return ()


def _unseen(callees: list[tuple[str, Evidence]], seen: set[str]) -> Iterator[tuple[str, Evidence]]:
    for callee, item in callees:
        if callee not in seen:
            seen.add(callee)
            yield callee, item

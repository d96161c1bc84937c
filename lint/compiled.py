"""Turns an inventory of compiled code into findings with their price."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ptxguard.advisories import advisory_for
from ptxguard.arch import SYSCALL_ARCHES, Target
from ptxguard.binary.demangle import demangle, family
from ptxguard.binary.facts import COPY_SYSCALL_PREFIX
from ptxguard.binary.pick import loads_on, picked
from ptxguard.compiledptx import copies_in
from ptxguard.errors import ParseError
from ptxguard.finding import Confidence, Evidence, Finding, KernelPlace, Severity, with_fingerprints
from ptxguard.memcost import price_syscall
from ptxguard.occupancy import occupancy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ptxguard.binary.facts import Artifact, CubinKernel, Image
    from ptxguard.errors import PtxguardError
    from ptxguard.finding import Cost
    from ptxguard.memcost import Gpu

NEVER_RUNS = "never runs"


@dataclass(frozen=True)
class Reach:
    """Kernels of one artifact that reach one driver function.

    Attributes:
        artifact: the file or member.
        symbol: full name of the driver function.
        pairs: image and kernel, in file order; a kernel that is compiled twice counts twice.
    """

    artifact: Artifact
    symbol: str
    pairs: tuple[tuple[Image, CubinKernel], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Distinct mangled names, in file order."""
        return tuple(dict.fromkeys(kernel.name for _, kernel in self.pairs))

    @property
    def targets(self) -> tuple[str, ...]:
        """Targets of the images, sorted."""
        return tuple(sorted({image.target for image, _ in self.pairs}))

    @property
    def never_runs(self) -> str:
        """Why none of the kernels does its work on its target; empty where one may."""
        reasons = [kernel.never_runs for _, kernel in self.pairs]
        return reasons[0] if all(reasons) else ""


def reaches(artifact: Artifact) -> list[Reach]:
    """All driver functions named `__cuda_syscall_…` that kernels of an artifact reach, most used first."""
    pairs: dict[str, list[tuple[Image, CubinKernel]]] = {}
    for image in artifact.images:
        for kernel in image.kernels:
            for syscall in kernel.syscalls:
                pairs.setdefault(syscall.name, []).append((image, kernel))
    found = [Reach(artifact, symbol, tuple(group)) for symbol, group in pairs.items()]
    return sorted(found, key=lambda reach: (-len(reach.pairs), reach.symbol))


def find_all(
    artifacts: Iterable[Artifact], gpus: Sequence[Gpu], errors: list[PtxguardError]
) -> tuple[Finding, ...]:
    """Findings of all artifacts, in file order, the worst of each first.

    Args:
        artifacts: what was read.
        gpus: cards to price on.
        errors: takes what of the PTX could not be parsed.
    """
    found: list[Finding] = []
    for artifact in artifacts:
        own = [
            *(reach_finding(reach, gpus) for reach in reaches(artifact)),
            *_ptx_findings(artifact, gpus, errors),
        ]
        own = [_advised(finding) for finding in own]
        own += [*_unknown_stacks(artifact), *_unreadable(artifact)]
        found += sorted(own, key=lambda finding: -finding.severity)
    return tuple(with_fingerprints(found))


def worst_cost(findings: Iterable[Finding], gpu: str) -> Cost | None:
    """The price on one card: the maximum over its kernels, never a sum; None where nothing is priced.

    Kernels that never do their work on the target are left out.
    """
    costs = [
        cost
        for finding in findings
        if not finding.performance.get(NEVER_RUNS)
        for cost in finding.cost
        if cost.gpu == gpu and cost.mib is not None
    ]
    return max(costs, key=lambda cost: cost.mib or 0.0, default=None)


def reach_finding(reach: Reach, gpus: Sequence[Gpu]) -> Finding:
    """The finding about the kernels of an artifact that reach one driver function."""
    count, names = len(reach.pairs), reach.names
    kernels = f"{count:,} kernel{'s' if count > 1 else ''}"
    distinct = f" ({len(names):,} names)" if len(names) != count else ""
    verb = "reach" if count > 1 else "reaches"
    message = f"{kernels}{distinct} for {', '.join(reach.targets)} {verb} {reach.symbol}"
    never = reach.never_runs
    is_copy = reach.symbol.startswith(COPY_SYSCALL_PREFIX)
    if not is_copy:
        code, rule, severity = "TMA103", "device-runtime-syscall", Severity.NOTE
        message += ", a function of the device runtime and no bulk copy"
    else:
        code, rule = "TMA101", "compiled-copy-syscall"
        soft = never or reach.symbol.endswith("_multicast")
        severity = Severity.NOTE if soft else Severity.ERROR
        if never:
            message += f"; they are {never}"
        elif soft:
            message += ", which does multicast in software there"
    loaders = [
        gpu for gpu in gpus if any(loads_on(name, Target.parse(gpu.sm).number) for name in reach.targets)
    ]
    return _finding(
        reach.artifact,
        code,
        rule,
        severity,
        message,
        about=_about(reach),
        names=names,
        syscall=reach.symbol,
        targets=reach.targets,
        on_target="syscall",
        cost=price_syscall(reach.symbol, loaders),
        performance={
            "kernels": count,
            "distinct_kernels": len(names),
            NEVER_RUNS: never or None,
            **_speed(reach),
        },
        evidence=tuple(_reach_evidence(reach)),
    )


def is_of(finding: Finding, reach: Reach) -> bool:
    """Whether a finding is the one about these kernels."""
    return finding.path == reach.artifact.path and finding.subject == _subject(reach.artifact, _about(reach))


def _about(reach: Reach) -> str:
    return f"{reach.symbol} {' '.join(sorted(reach.targets))} {'never' if reach.never_runs else ''}"


def _subject(artifact: Artifact, about: str) -> str:
    return f"{artifact.member or ''} {about}"


def _speed(reach: Reach) -> dict[str, Any]:
    """What the kernels need beside memory: registers, room for warps, spills, setmaxnreg."""
    kernels = [kernel for _, kernel in reach.pairs]
    registers = [kernel.registers for kernel in kernels if kernel.registers is not None]
    room = [
        held
        for image, kernel in reach.pairs
        if kernel.registers is not None
        and (held := occupancy(image.target, kernel.registers, _block_of(kernel), kernel.shared_bytes))
    ]
    return {
        "registers_min": min(registers, default=None),
        "registers_max": max(registers, default=None),
        "warps_min": min((held.warps for held in room), default=None),
        "warps_max": max((held.warps for held in room), default=None),
        "warps_of": room[0].of if room else None,
        "kernels_with_local_reads": sum(bool(kernel.local_reads) for kernel in kernels),
        "kernels_with_setmaxnreg": sum(bool(kernel.setmaxnreg) for kernel in kernels),
    }


def _block_of(kernel: CubinKernel) -> int | None:
    """Threads of a block where the kernel demands a size; launch bounds are only the most."""
    return math.prod(kernel.block_dims) if kernel.block_dims is not None else None


def _advised(finding: Finding) -> Finding:
    """A finding with the advisory about its package, where it is more than a note."""
    advisory = advisory_for(finding.path) if finding.severity > Severity.NOTE else None
    if advisory is None:
        return finding
    return replace(finding, message=f"{finding.message}; {advisory.advice}")


def _reach_evidence(reach: Reach) -> Iterator[Evidence]:
    images = dict.fromkeys(image.index for image, _ in reach.pairs)
    yield Evidence(
        "binary",
        reach.artifact.label,
        None,
        f"call graph and relocations of {len(images)} images name {reach.symbol}",
    )
    for sm in sorted(SYSCALL_ARCHES):
        chosen = {image.index for image in picked(reach.artifact.images, sm)} & set(images)
        yield Evidence(
            "binary", reach.artifact.label, None, f"an sm_{sm} device can pick {len(chosen)} of these images"
        )
    for chain in _source_chains(reach):
        for link in chain:
            yield Evidence("asm" if link is chain[0] else "call", link.path, link.line, link.function or "")


def _source_chains(reach: Reach) -> list[tuple[Any, ...]]:
    """Distinct chains of source lines that lead to the call, innermost first."""
    return list(
        dict.fromkeys(
            site.source
            for _, kernel in reach.pairs
            for syscall in kernel.syscalls
            if syscall.name == reach.symbol
            for site in syscall.sites
            if site.source
        )
    )


def _ptx_findings(artifact: Artifact, gpus: Sequence[Gpu], errors: list[PtxguardError]) -> Iterator[Finding]:
    groups: dict[tuple[str, str, bool], dict[str, None]] = {}
    taken = {image.index for sm in SYSCALL_ARCHES for image in picked(artifact.images, sm)}
    for image in artifact.images:
        if image.ptx is None or not any(loads_on(image.target, sm) for sm in SYSCALL_ARCHES):
            continue
        try:
            for function, symbol, _ in copies_in(image.ptx):
                groups.setdefault((symbol, image.target, image.index in taken), {})[function] = None
        except ParseError as error:
            errors.append(
                ParseError(f"PTX image {image.index}: {error.message}", path=artifact.label, line=error.line)
            )
    for (symbol, target, is_taken), functions in groups.items():
        severity = Severity.NOTE if symbol.endswith("_multicast") or not is_taken else Severity.ERROR
        when = (
            "when an sm_12x device assembles it"
            if is_taken
            else "if it is ever assembled for sm_12x (a cubin is taken first)"
        )
        loaders = [gpu for gpu in gpus if loads_on(target, Target.parse(gpu.sm).number)]
        yield _finding(
            artifact,
            "TMA102",
            "ptx-copy-syscall",
            severity,
            f"PTX for {target} holds a bulk copy in {len(functions)} functions that becomes {symbol} {when}",
            about=f"{symbol} {target} {'taken' if is_taken else ''}",
            names=tuple(functions),
            syscall=symbol,
            targets=(target,),
            on_target="syscall",
            cost=price_syscall(symbol, loaders),
        )


def _unknown_stacks(artifact: Artifact) -> Iterator[Finding]:
    groups: dict[str, dict[str, list[str]]] = {}
    for image in artifact.images:
        for kernel in image.kernels:
            if kernel.flagged and kernel.stack_unknown:
                groups.setdefault(kernel.stack_unknown, {}).setdefault(image.target, []).append(kernel.name)
    for reason, by_target in groups.items():
        names = [name for group in by_target.values() for name in group]
        yield _finding(
            artifact,
            "TMA104",
            "unknown-stack",
            Severity.NOTE,
            f"{len(names):,} kernels for {', '.join(sorted(by_target))} have an unknown stack need: {reason}",
            about=reason,
            names=tuple(dict.fromkeys(names)),
            targets=tuple(sorted(by_target)),
        )


def _unreadable(artifact: Artifact) -> Iterator[Finding]:
    for kind in sorted({image.kind for image in artifact.images} - {"elf", "ptx"}):
        targets = tuple(sorted({image.target for image in artifact.images if image.kind == kind}))
        count = sum(image.kind == kind for image in artifact.images)
        name = "LTO-IR" if kind == "ltoir" else f"{kind}"
        yield _finding(
            artifact,
            "TMA105",
            "cannot-check",
            Severity.WARNING,
            f"{count} {name} images for {', '.join(targets)} cannot be checked before they are linked",
            about=kind,
            targets=targets,
        )


def _finding(
    artifact: Artifact,
    code: str,
    rule: str,
    severity: Severity,
    message: str,
    *,
    about: str,
    names: tuple[str, ...] = (),
    syscall: str | None = None,
    targets: tuple[str, ...] = (),
    on_target: str = "unknown",
    cost: tuple[Cost, ...] = (),
    performance: dict[str, Any] | None = None,
    evidence: tuple[Evidence, ...] = (),
) -> Finding:
    families = dict.fromkeys(family(name) for name in names)
    return Finding(
        code=code,
        rule=rule,
        severity=severity,
        confidence=Confidence.HIGH,
        path=artifact.path,
        line=1,
        column=1,
        end_line=1,
        end_column=1,
        message=message if artifact.member is None else f"{artifact.member}: {message}",
        function=next(iter(families)) if len(families) == 1 else None,
        kernels=tuple(KernelPlace(demangle(name), None, None) for name in names),
        targets=dict.fromkeys(targets, "compiled"),
        on_target=dict.fromkeys(targets, on_target),
        syscall=syscall,
        cost=cost,
        performance=performance or {},
        evidence=evidence,
        subject=_subject(artifact, about),
    )

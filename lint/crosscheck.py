"""Holds findings of the source against compiled code: confirmed, refuted, unseen, or not explained."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ptxguard.arch import SYSCALL_ARCHES, Target
from ptxguard.binary.demangle import demangle, family
from ptxguard.binary.facts import COPY_SYSCALL_PREFIX, Artifact, CubinKernel, Image
from ptxguard.binary.pick import loads_on
from ptxguard.compiled import reach_finding, reaches
from ptxguard.finding import Confidence, Evidence, Finding, Severity, with_fingerprints

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ptxguard.memcost import Gpu

CONFIRMED, REFUTED, UNSEEN = "confirmed", "refuted", "unseen"
BINARY = "binary"  # key of `Finding.performance` that holds the verdict

_TEMPLATE = re.compile(r"<[^<>]*>")
# What the type of a CUTLASS kernel is called -> what it does; the first that stands in the name counts.
_CUTLASS_KINDS = (
    ("GroupProblemShape", "grouped GEMM"),
    ("Fmha", "attention"),
    ("Conv", "convolution"),
    ("Gemm", "GEMM"),
)
_ANONYMOUS = frozenset({"(anonymous namespace)", "{anonymous}", ""})


@dataclass(frozen=True, eq=False)
class Compiled:
    """A kernel of an artifact, with what is compared.

    Attributes:
        artifact: where it is.
        image: likewise.
        kernel: its facts.
        parts: qualified name of the template it is made from, unnamed namespaces left out.
    """

    artifact: Artifact
    image: Image
    kernel: CubinKernel
    parts: tuple[str, ...]

    def calls(self, symbol: str) -> bool:
        """Whether it can reach a driver function."""
        return any(syscall.name == symbol for syscall in self.kernel.syscalls)

    def holds_line(self, finding: Finding) -> bool:
        """Whether a call in it comes from the lines of a finding, as -lineinfo has it."""
        return any(
            finding.line <= link.line <= finding.end_line and _same_file(link.path, finding.path)
            for syscall in self.kernel.syscalls
            if syscall.name == finding.syscall
            for site in syscall.sites
            for link in site.source
        )


@dataclass(eq=False)
class CrossCheck:
    """Findings beside the kernels that artifacts hold for some targets.

    Attributes:
        artifacts: what was read, with every kernel of the targets asked for.
        targets: targets of the run; of these those on which bulk copies call the driver count.
        gpus: cards for the price of what no line explains.
    """

    artifacts: Sequence[Artifact]
    targets: Sequence[Target]
    gpus: Sequence[Gpu]
    _by_name: dict[str, list[Compiled]] = field(default_factory=dict, repr=False)
    _explained: set[tuple[int, str, str]] = field(default_factory=set, repr=False)

    def __post_init__(self) -> None:
        for one in self._kernels():
            self._by_name.setdefault(one.parts[-1], []).append(one)

    def run(self, findings: Iterable[Finding]) -> list[Finding]:
        """The findings with their verdicts, and one for each driver function that no line explains."""
        held = list(findings)
        self._explained.clear()
        for finding in held:
            for one in self._calling(finding):
                self._explained.add((id(one.image), one.kernel.name, finding.syscall or ""))
        judged = [self._judged(finding) if finding.syscall else finding for finding in held]
        unexplained = [finding for artifact in self.artifacts for finding in self._unexplained(artifact)]
        return [*judged, *with_fingerprints(unexplained)]

    def _kernels(self) -> Iterator[Compiled]:
        for artifact in self.artifacts:
            for image in filter(self._counts, artifact.images):
                for kernel in image.kernels:
                    yield Compiled(artifact, image, kernel, _parts(family(kernel.name)))

    def _counts(self, image: Image) -> bool:
        """Whether a card that is asked for, and on which such copies call the driver, takes an image."""
        wanted = {target.number for target in self.targets} & set(SYSCALL_ARCHES)
        return image.kind == "elf" and any(loads_on(image.target, number) for number in wanted)

    def _calling(self, finding: Finding) -> list[Compiled]:
        """Kernels that make the call of a finding, by line where the image has lines, and by name."""
        symbol = finding.syscall or ""
        named = [one for place in finding.kernels for one in self._compiled(place.name) if one.calls(symbol)]
        lined = [one for group in self._by_name.values() for one in group if one.holds_line(finding)]
        return list({id(one): one for one in (*named, *lined)}.values())

    def _judged(self, finding: Finding) -> Finding:
        calling = self._calling(finding)
        if calling:
            return self._confirmed(finding, calling)
        by_kernel = {place.name: self._compiled(place.name) for place in finding.kernels}
        seen = [one for group in by_kernel.values() for one in group]
        missing = [name for name, group in by_kernel.items() if not group]
        if seen and not missing and not self._is_called_elsewhere(finding.syscall or ""):
            return _refuted(finding, seen)
        return _unseen(finding, missing, compiled=bool(seen))

    def _is_called_elsewhere(self, symbol: str) -> bool:
        """Whether a kernel that no finding explains makes a call: it may reach the line in a way not seen."""
        return any(
            one.calls(symbol) and (id(one.image), one.kernel.name, symbol) not in self._explained
            for group in self._by_name.values()
            for one in group
        )

    def _compiled(self, name: str) -> list[Compiled]:
        """Kernels with a name of the source; either side may leave out outer namespaces."""
        parts = _parts(name)
        return [one for one in self._by_name.get(parts[-1], ()) if _ends_alike(one.parts, parts)]

    def _confirmed(self, finding: Finding, calling: list[Compiled]) -> Finding:
        groups: dict[tuple[str, str], list[Compiled]] = {}
        for one in calling:
            groups.setdefault((one.artifact.label, family(one.kernel.name)), []).append(one)
        links = [_evidence(label, name, group, finding) for (label, name), group in sorted(groups.items())]
        count, names = len(calling), len({one.kernel.name for one in calling})
        verdict = {
            "verdict": CONFIRMED,
            "kernels": count,
            "distinct_kernels": names,
            "families": {name: len(group) for (_, name), group in sorted(groups.items())},
        }
        return replace(
            finding,
            confidence=Confidence.HIGH if finding.severity > Severity.NOTE else finding.confidence,
            performance={**finding.performance, BINARY: verdict},
            evidence=(*finding.evidence, *links),
        )

    def _unexplained(self, artifact: Artifact) -> Iterator[Finding]:
        images = []
        for image in filter(self._counts, artifact.images):
            kernels = tuple(
                kept for kernel in image.kernels if (kept := self._left(image, kernel)) is not None
            )
            if kernels:
                images.append(replace(image, kernels=kernels))
        for reach in reaches(replace(artifact, images=tuple(images))):
            finding = reach_finding(reach, self.gpus)
            made_of = ", ".join(dict.fromkeys(map(origin, reach.names)))
            message = (
                f"no line of the source explains this; it comes from a header outside this tree: {made_of}"
            )
            yield replace(finding, message=f"{finding.message}; {message}")

    def _left(self, image: Image, kernel: CubinKernel) -> CubinKernel | None:
        """A kernel with the copies that no finding explains; None where there are none."""
        left = tuple(
            syscall
            for syscall in kernel.syscalls
            if syscall.name.startswith(COPY_SYSCALL_PREFIX)
            and (id(image), kernel.name, syscall.name) not in self._explained
        )
        return replace(kernel, syscalls=left) if left else None


def origin(name: str) -> str:
    """Where a kernel comes from, by what its name says: library, architecture and kind, else its template."""
    readable = demangle(name)
    if "cutlass" not in readable:
        return family(name)
    arch = re.search(r"\bSm(\d+)", readable) or re.search(r"Sm(\d{2,3})", readable)
    kind = next((words for mark, words in _CUTLASS_KINDS if mark in readable), "kernel")
    return " ".join(part for part in ("CUTLASS", f"Sm{arch[1]}" if arch else "", kind) if part)


def _evidence(label: str, name: str, group: list[Compiled], finding: Finding) -> Evidence:
    targets = ", ".join(sorted({one.image.target for one in group}))
    distinct = len({one.kernel.name for one in group})
    named = "" if distinct == len(group) else f" ({distinct:,} names)"
    by_line = sum(one.holds_line(finding) for one in group)
    lines = f", {by_line:,} of them by line" if by_line else ""
    text = f"{len(group):,} kernels{named} of {name} for {targets} call {finding.syscall}{lines}"
    return Evidence("binary", label, None, text)


def _refuted(finding: Finding, seen: list[Compiled]) -> Finding:
    labels = ", ".join(sorted({one.artifact.label for one in seen}))
    targets = ", ".join(sorted({one.image.target for one in seen}))
    text = f"{len(seen):,} kernels with this line are compiled for {targets}; none calls {finding.syscall}"
    return replace(
        finding,
        severity=Severity.NOTE,
        message=f"refuted by {labels}: {text}; as the source reads: {finding.message}",
        performance={**finding.performance, BINARY: {"verdict": REFUTED, "kernels": len(seen)}},
        evidence=(*finding.evidence, Evidence("binary", labels, None, text)),
        fix=None,
    )


def _unseen(finding: Finding, missing: list[str], *, compiled: bool) -> Finding:
    if missing:
        text = f"not compiled in for these targets: {', '.join(missing)}"
    elif compiled:
        text = "its kernels are compiled and do not call; a kernel that no line explains makes the same call"
    else:
        text = "no kernel that reaches this line is known"
    return replace(
        finding,
        performance={**finding.performance, BINARY: {"verdict": UNSEEN}},
        evidence=(*finding.evidence, Evidence("binary", None, None, text)),
    )


def _parts(name: str) -> tuple[str, ...]:
    """Components of a qualified name without template arguments and unnamed namespaces."""
    plain = name
    while (shorter := _TEMPLATE.sub("", plain)) != plain:
        plain = shorter
    return tuple(part.strip() for part in plain.split("::") if part.strip() not in _ANONYMOUS) or (name,)


def _ends_alike(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    shared = min(len(left), len(right))
    return left[-shared:] == right[-shared:]


def _same_file(compiled: str, shown: str) -> bool:
    """Whether a path as nvcc got it can be a file as shown."""
    ours = [part for part in shown.split("/") if part not in ("", ".", "..")]
    theirs = compiled.replace("\\", "/").split("/")
    return theirs[-len(ours) :] == ours

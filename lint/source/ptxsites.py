"""The bulk copies of a `.ptx` file, each with its targets, its cluster and the owner of its destination."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ptxguard.arch import Target
from ptxguard.errors import ConfigError, ParseError
from ptxguard.finding import Evidence, KernelPlace
from ptxguard.forms import first_ptx_version, on_target, read_bulk_copy
from ptxguard.location import Span
from ptxguard.model import CopySite
from ptxguard.source.ptxcalls import CallGraph
from ptxguard.source.ptxflow import AddressFlow
from ptxguard.source.ptxmodule import read_module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxguard.location import SourceFile
    from ptxguard.model import BulkCopy
    from ptxguard.source.ptxmodule import PtxFunction, PtxModule

_COPY = "cp.async.bulk"
_CLUSTER_SPACE = "shared::cluster"
# PTX ISA, "cp.async.bulk": the version from which shared::cta may be a destination.
_CTA_FORM_VERSION = (8, 6)


def sites_of_ptx(file: SourceFile, targets: Sequence[Target], *, public: bool = False) -> list[CopySite]:
    """Every bulk copy of a PTX file, in file order.

    Args:
        file: the decoded file.
        targets: those that the answer speaks of.
        public: whether the file stands in a place declared public.

    Raises:
        ParseError: the file is no PTX module; with path, line and column.
    """
    try:
        return _sites(file, targets, public=public)
    except ParseError as error:
        line, column = error.line, error.column
        if line is None:
            line, column = file.position(error.offset or 0)
        raise ParseError(error.message, path=file.path, line=line, column=column) from None


def is_assembled(module_target: str, target: Target) -> bool:
    """Whether ptxas and the driver's JIT take PTX for `module_target` to a target.

    Plain PTX goes to every later target, `f` PTX within its family, `a` PTX to that target alone
    (PTX ISA, ".target"; each pair tried with ptxas 13.0.88).
    """
    try:
        written = Target.parse(module_target)
    except ConfigError:
        return False
    if written.suffix == "a":
        return written == target
    same_family = written.number // 10 == target.number // 10
    return target.number >= written.number and (written.suffix != "f" or same_family)


@dataclass(frozen=True)
class _Reader:
    """One module with what answers for it."""

    file: SourceFile
    targets: Sequence[Target]
    public: bool
    module: PtxModule
    graph: CallGraph
    flow: AddressFlow

    @cached_property
    def compiled(self) -> dict[str, str]:
        """The contract's `targets` record: the module's `.target` is its only guard."""
        written = self.module.target
        return {
            target.name: "compiled" if is_assembled(written, target) else "excluded"
            for target in self.targets
        }

    @cached_property
    def target_line(self) -> Evidence:
        """Where the module says what it is for."""
        line = self.module.line(self.module.text.find(".target"))
        return Evidence("build", self.file.path, line, f".target {self.module.target}")

    def outcome(self, copy: BulkCopy, target: Target) -> str:
        """`on_target`, where the module's `.version` has the form at all."""
        return on_target(copy, target) if self.module.version >= first_ptx_version(copy) else "rejected"

    def site(self, function: PtxFunction, copy: BulkCopy) -> CopySite:
        """One copy with everything known about it."""
        path, line = self.file.path, self.module.line
        span = Span(self.file, copy.instruction.start, copy.instruction.mnemonic_end)
        kernels = self.graph.kernels_of(function)
        address = self.flow.judge(function, copy, path)
        cluster = self.graph.judge_cluster(function, path)
        return CopySite(
            span=span,
            end_span=span,
            kind="ptx",
            copy=copy,
            function=function.name,
            targets=self.compiled,
            on_target={target.name: self.outcome(copy, target) for target in self.targets},
            cluster=cluster,
            address=address,
            kernels=tuple(KernelPlace(item.name, path, line(item.start)) for item in kernels),
            evidence=(self.target_line, *address.evidence, *cluster.evidence),
            space_spans=_space_spans(span, copy) if self.module.version >= _CTA_FORM_VERSION else (),
            public=self.public,
            uses_setmaxnreg=any(item.uses_setmaxnreg for item in (function, *kernels)),
        )


def _sites(file: SourceFile, targets: Sequence[Target], *, public: bool) -> list[CopySite]:
    module = read_module(file)
    holders = [function for function in module.functions if function.is_defined and function.mentions(_COPY)]
    if not holders:
        return []
    graph = CallGraph(module)
    reader = _Reader(file, targets, public, module, graph, AddressFlow(graph))
    return [
        reader.site(function, copy)
        for function in holders
        for instruction in function.body.instructions_with(_COPY)
        if (copy := read_bulk_copy(instruction)) is not None
    ]


def _space_spans(span: Span, copy: BulkCopy) -> tuple[Span, ...]:
    """The word `cluster` of the destination's space."""
    if not copy.is_cluster_load:
        return ()
    start = span.file.text.find(_CLUSTER_SPACE, span.start, span.end)
    begin = start + len("shared::")
    return (Span(span.file, begin, begin + len("cluster")),) if start >= 0 else ()

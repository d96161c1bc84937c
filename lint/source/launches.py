"""Launches of a kernel: `<<<>>>`, launch calls, pointers, dispatch helpers; each with where it happens.

A kernel's name is followed through variables, casts, helper parameters and template parameters to the
launch. A use that cannot be followed is an escape: then not every launch is in sight.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.source.cuda import Function
from ptxguard.source.exprs import Node, parse_expression, split_arguments
from ptxguard.source.launchtokens import (
    assigned_variable,
    enclosing_call,
    handle_before,
    is_noise,
    is_target,
    returned,
    scope_of,
)
from ptxguard.source.tokens import STRING, Tokens
from ptxguard.source.uses import Owner, Use, read_use
from ptxguard.source.variables import body_of

if TYPE_CHECKING:
    from ptxguard.source.callgraph import CallGraph
    from ptxguard.source.guards import CppFile

EX_LAUNCHES = frozenset(
    {"cudaLaunchKernelEx", "cudaLaunchKernelExC", "cuLaunchKernelEx", "cudaLaunchKernelExC_ptsz"}
)
PLAIN_LAUNCHES = frozenset(
    [
        "cudaLaunchKernel",
        "cudaLaunchCooperativeKernel",
        "cuLaunchKernel",
        "cuLaunchCooperativeKernel",
        "cudaLaunchKernel_ptsz",
        "cudaLaunchCooperativeKernelMultiDevice",
        "cudaLaunchDevice",
    ]
)
# Calls that take a kernel and do not launch it (CUDA runtime and driver API).
NEUTRAL_CALLS = frozenset(
    "cudaFuncSetAttribute cudaFuncGetAttributes cudaFuncSetCacheConfig cudaFuncSetSharedMemConfig "
    "cudaGetFuncBySymbol cudaOccupancyMaxActiveBlocksPerMultiprocessor "
    "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cudaOccupancyMaxPotentialBlockSize "
    "cudaOccupancyMaxPotentialBlockSizeVariableSMem cudaOccupancyMaxActiveClusters "
    "cudaOccupancyMaxPotentialClusterSize cudaOccupancyAvailableDynamicSMemPerBlock cuFuncSetAttribute "
    "sizeof decltype cuFuncGetAttribute cudaFuncGetName printf fprintf static_assert "
    "cuModuleGetFunction cuLibraryGetKernel cudaLibraryGetKernel".split()
)
_MAX_HOPS = 8


@dataclass(frozen=True, eq=False)
class Launch:
    """One launch of a kernel.

    Attributes:
        kernel: the kernel.
        unit: file of the launch.
        tokens: token stream it stands in.
        index: token of the launched name or of the launch call's name.
        owner: function or macro around it.
        kind: triple (`<<<>>>`), ex (attributes), plain (launch call without attributes), graph, string.
        config: configuration argument of an ex launch.
        template_arguments: of the kernel, as text.
        bindings: the owner's parameters for this launch, parameter -> (expression, owner around it).
        evidence_line: 1-based line.
    """

    kernel: Function
    unit: CppFile
    tokens: Tokens
    index: int
    owner: Owner | None
    kind: str
    config: Node | None = None
    template_arguments: tuple[str, ...] = ()
    bindings: dict[str, tuple[Node, Owner | None]] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Path as shown."""
        return self.unit.file.path

    @property
    def line(self) -> int:
        """1-based line of the launch."""
        return self.unit.file.position(self.tokens.starts[self.index])[0]


@dataclass(eq=False)
class Launches:
    """What is known of a kernel's launches.

    Attributes:
        found: launches in sight.
        escapes: (reason, path, line) of uses that may launch it elsewhere.
        required_cluster: uses of attributes that give plain launches a cluster.
    """

    found: list[Launch] = field(default_factory=list)
    escapes: list[tuple[str, str, int]] = field(default_factory=list)
    required_cluster: list[Use] = field(default_factory=list)


def find_launches(graph: CallGraph, kernel: Function) -> Launches:
    """Launches of a kernel over the whole tree."""
    search = _Search(graph, kernel)
    declared = list(graph.declarations_named(kernel.name))
    for use in graph.uses(kernel.name):
        if not _reachable(graph, use, kernel, declared):
            continue
        search.follow(use.unit, use.tokens, use.index, use.owner, use.template_arguments, {}, 0)
    search.by_string()
    return search.result


def _reachable(graph: CallGraph, use: Use, kernel: Function, declared: list[Function]) -> bool:
    if graph.project.connected(use.unit, kernel.unit):
        return True
    return any(graph.project.connected(use.unit, declaration.unit) for declaration in declared)


@dataclass(eq=False)
class _Search:
    graph: CallGraph
    kernel: Function
    result: Launches = field(default_factory=Launches)
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def follow(
        self,
        unit: CppFile,
        tokens: Tokens,
        index: int,
        owner: Owner | None,
        arguments: tuple[str, ...],
        bound: dict[str, tuple[Node, Owner | None]],
        hops: int,
    ) -> None:
        """Decide what one mention of the kernel (or of a variable that holds it) does."""
        if (id(tokens), index) in self._seen or hops > _MAX_HOPS:
            return
        self._seen.add((id(tokens), index))
        use = read_use(unit, tokens, index, owner)
        if use is None:
            return
        arguments = use.template_arguments or arguments
        if use.kind == "launch":
            self.result.found.append(
                Launch(self.kernel, unit, tokens, index, owner, "triple", None, arguments, bound)
            )
            return
        if owner is None:
            self._at_file_scope(use)
            return
        if use.kind == "name" and is_noise(tokens, use):
            return
        call = enclosing_call(tokens, use)
        if call is not None:
            self._in_call(use, call, arguments, bound, hops)
            return
        variable = assigned_variable(tokens, use)
        if variable is not None:
            self._through_variable(use, variable, arguments, bound, hops)
        elif returned(tokens, use):
            self._through_return(use, arguments, hops)
        elif use.kind == "name":
            self._escape("used in a way that is not followed", use)

    def _escape(self, reason: str, use: Use) -> None:
        self.result.escapes.append((reason, use.path, use.line))

    def _at_file_scope(self, use: Use) -> None:
        """Explicit instantiations and friends are harmless; tables of kernels are not."""
        start = use.index
        while start > 0 and use.tokens.texts[start - 1] not in (";", "}", "{"):
            start -= 1
        words = use.tokens.texts[start : use.index]
        if "=" in words or (start > 0 and use.tokens.texts[start - 1] == "{"):
            self._escape("kept in a variable at file scope", use)

    def _in_call(
        self,
        use: Use,
        call: tuple[str, int, int, int],
        arguments: tuple[str, ...],
        bound: dict[str, tuple[Node, Owner | None]],
        hops: int,
    ) -> None:
        name, name_index, opening, _ = call
        tokens = use.tokens
        if name in EX_LAUNCHES:
            parts = split_arguments(tokens, opening + 1, tokens.match.get(opening, opening))
            config = parse_expression(tokens, parts[0]) if parts else None
            self.result.found.append(
                Launch(self.kernel, use.unit, tokens, name_index, use.owner, "ex", config, arguments, bound)
            )
        elif name in PLAIN_LAUNCHES:
            self.result.found.append(
                Launch(self.kernel, use.unit, tokens, name_index, use.owner, "plain", None, arguments, bound)
            )
        elif name in NEUTRAL_CALLS:
            self._attribute(use, name_index, opening)
        else:
            self._through_helper(use, call, arguments, hops)

    def _attribute(self, use: Use, name_index: int, opening: int) -> None:
        tokens = use.tokens
        close = tokens.match.get(opening, opening)
        if any(
            "RequiredCluster" in text or "REQUIRED_CLUSTER" in text for text in tokens.texts[opening:close]
        ):
            found = read_use(use.unit, tokens, name_index, use.owner)
            if found is not None:
                self.result.required_cluster.append(found)

    def _through_helper(
        self, use: Use, call: tuple[str, int, int, int], arguments: tuple[str, ...], hops: int
    ) -> None:
        """The kernel goes to a function of the tree: find the parameter and what is done with it there."""
        name, name_index, _, position = call
        site = read_use(use.unit, use.tokens, name_index, use.owner)
        followed = False
        if site is not None and position >= 0:
            for helper in self.graph.functions_named(name):
                known = self.graph.project.connected(use.unit, helper.unit)
                if known and helper.accepts(len(site.arguments)) and position < len(helper.parameters):
                    followed = True
                    parameter = helper.parameters[position].name
                    self._parameter_uses(helper, parameter, site, arguments, hops)
            for definition in self.graph.project.definitions(name):
                if definition.parameters and position < len(definition.parameters):
                    followed = True
                    body = self.graph.macro(definition)
                    self._names_in(body, definition.parameters[position], arguments, _bind(body, site), hops)
        elif site is not None:
            followed = self._template_parameter(use, name, -1 - position, site, hops)
        if not followed:
            self._escape(f"given to {name}, whose body is not in sight", use)

    def _template_parameter(self, use: Use, name: str, position: int, site: Use, hops: int) -> bool:
        followed = False
        for helper in self.graph.functions_named(name):
            if position < len(helper.template_names) and self.graph.project.connected(use.unit, helper.unit):
                followed = True
                self._parameter_uses(
                    helper, helper.template_names[position], site, use.template_arguments, hops
                )
        return followed

    def _parameter_uses(
        self, helper: Function, name: str, site: Use, arguments: tuple[str, ...], hops: int
    ) -> None:
        if name:
            self._names_in(helper, name, arguments, _bind(helper, site), hops)

    def _names_in(
        self,
        owner: Owner,
        name: str,
        arguments: tuple[str, ...],
        bound: dict[str, tuple[Node, Owner | None]],
        hops: int,
        skip: int = -1,
    ) -> None:
        """Follow every mention of a name inside a function or macro body."""
        tokens, first, last = body_of(owner)
        if skip >= 0:
            first, last = scope_of(tokens, skip, first, last)
        for index in tokens.positions.get(name, ()):
            if first <= index < last and index != skip and not is_target(tokens, index):
                self._seen.discard((id(tokens), index))  # another kernel argument, another launch
                self.follow(owner.unit, tokens, index, owner, arguments, bound, hops + 1)

    def _through_variable(
        self,
        use: Use,
        variable: tuple[str, int],
        arguments: tuple[str, ...],
        bound: dict[str, tuple[Node, Owner | None]],
        hops: int,
    ) -> None:
        name, index = variable
        if use.tokens.texts[index - 1] in (".", "->"):
            if name == "func":  # cudaKernelNodeParams, CUDA_KERNEL_NODE_PARAMS
                launch = Launch(
                    self.kernel, use.unit, use.tokens, use.index, use.owner, "graph", None, arguments, bound
                )
                self.result.found.append(launch)
            else:
                self._escape(f"stored in member {name}", use)
            return
        if use.owner is not None:
            self._names_in(use.owner, name, arguments, bound, hops, skip=index)

    def _through_return(self, use: Use, arguments: tuple[str, ...], hops: int) -> None:
        owner = use.owner
        if not isinstance(owner, Function):
            return
        calls = self.graph.callers(owner).calls
        if not calls:
            self._escape(f"returned by {owner.name}, which nobody calls here", use)
        for site, _ in calls:
            variable = assigned_variable(site.tokens, site)
            if variable is not None and site.owner is not None:
                self._names_in(site.owner, variable[0], arguments, {}, hops, skip=variable[1])
            else:
                call = enclosing_call(site.tokens, site)
                if call is not None:
                    self._in_call(site, call, arguments, {}, hops)
                else:
                    self._escape(f"returned by {owner.name}", site)

    def by_string(self) -> None:
        """Kernels fetched by name (`cuModuleGetFunction(&f, m, "name")`) and launched through the handle."""
        needle = f'"{self.kernel.name}"'
        for unit in self.graph.project.with_word(self.kernel.name):
            if needle not in unit.file.text:
                continue
            for index, kind in enumerate(unit.tokens.kinds):
                if kind != STRING or unit.tokens.texts[index] != needle:
                    continue
                owner = self.graph.structure(unit).enclosing(index)
                handle = handle_before(unit.tokens, index)
                if owner is None or handle is None:
                    continue
                before = len(self.result.found)
                self._names_in(owner, handle, (), {}, 0)
                if len(self.result.found) == before:
                    line = unit.file.position(unit.tokens.starts[index])[0]
                    self.result.escapes.append(("fetched by name, launch not in sight", unit.file.path, line))


def _bind(owner: Owner, site: Use | None) -> dict[str, tuple[Node, Owner | None]]:
    """Arguments of a call by parameter name, template arguments included."""
    if site is None:
        return {}
    names = [p.name for p in owner.parameters] if isinstance(owner, Function) else list(owner.parameter_names)
    bound: dict[str, tuple[Node, Owner | None]] = {
        name: (value, site.owner) for name, value in zip(names, site.arguments, strict=False) if name
    }
    if isinstance(owner, Function):
        for name, text in zip(owner.template_names, site.template_arguments, strict=False):
            bound[name] = (Node("name", text), site.owner)
    return bound

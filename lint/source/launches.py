"""Launches of a kernel: `<<<>>>`, launch calls, pointers, dispatch helpers; each with where it happens.

A kernel's name is followed through variables, casts, helper parameters and template parameters to the
launch. A use that cannot be followed is an escape: then not every launch is in sight.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.source.callgraph import CallGraph, Owner, Use, read_use
from ptxguard.source.cuda import Function
from ptxguard.source.exprs import Node, parse_expression, split_arguments
from ptxguard.source.tokens import IDENT, STRING, Tokens
from ptxguard.source.variables import body_of

if TYPE_CHECKING:
    from ptxguard.source.guards import CppFile

EX_LAUNCHES = frozenset(
    {"cudaLaunchKernelEx", "cudaLaunchKernelExC", "cuLaunchKernelEx", "cudaLaunchKernelExC_ptsz"}
)
PLAIN_LAUNCHES = frozenset(
    "cudaLaunchKernel cudaLaunchCooperativeKernel cuLaunchKernel cuLaunchCooperativeKernel cudaLaunchKernel_ptsz "
    "cudaLaunchCooperativeKernelMultiDevice cudaLaunchDevice".split()
)
# Calls that take a kernel and do not launch it (CUDA runtime and driver API).
NEUTRAL_CALLS = frozenset(
    "cudaFuncSetAttribute cudaFuncGetAttributes cudaFuncSetCacheConfig cudaFuncSetSharedMemConfig cudaGetFuncBySymbol "
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags "
    "cudaOccupancyMaxPotentialBlockSize cudaOccupancyMaxPotentialBlockSizeVariableSMem cudaOccupancyMaxActiveClusters "
    "cudaOccupancyMaxPotentialClusterSize cudaOccupancyAvailableDynamicSMemPerBlock cuFuncSetAttribute sizeof decltype "
    "cuFuncGetAttribute cudaFuncGetName printf fprintf static_assert".split()
)
_WRAPPERS = frozenset("reinterpret_cast static_cast const_cast void* std::decay_t".split())
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
        bindings: values of the owner's parameters for this launch, parameter -> (expression, owner around it).
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
    declared = [d for d in graph.declarations.get(kernel.name, []) if d is not kernel]
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
        if use.kind == "call" and index != use.index:
            return
        call = _enclosing_call(tokens, use)
        if call is not None:
            self._in_call(use, call, arguments, bound, hops)
            return
        variable = _assigned_variable(tokens, use)
        if variable is not None:
            self._through_variable(use, variable, arguments, bound, hops)
        elif _returned(tokens, use):
            self._through_return(use, arguments, hops)
        elif use.kind == "name" and not _is_noise(tokens, use):
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
        name, name_index, opening, position = call
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
        name, name_index, opening, position = call
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
            first, last = _scope_of(tokens, skip, first, last)
        for index in tokens.positions.get(name, ()):
            if first <= index < last and index != skip and not _is_target(tokens, index):
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
            variable = _assigned_variable(site.tokens, site)
            if variable is not None and site.owner is not None:
                self._names_in(site.owner, variable[0], arguments, {}, hops, skip=variable[1])
            else:
                call = _enclosing_call(site.tokens, site)
                if call is not None:
                    self._in_call(site, call, arguments, {}, hops)
                else:
                    self._escape(f"returned by {owner.name}", site)

    def by_string(self) -> None:
        """Kernels fetched by name (`cuModuleGetFunction(&f, m, "name")`) and launched through the handle."""
        needle = f'"{self.kernel.name}"'
        for unit in self.graph.project.with_word(needle):
            for index, kind in enumerate(unit.tokens.kinds):
                if kind != STRING or unit.tokens.texts[index] != needle:
                    continue
                owner = self.graph.structure(unit).enclosing(index)
                handle = _handle_before(unit.tokens, index)
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


def _enclosing_call(tokens: Tokens, use: Use) -> tuple[str, int, int, int] | None:
    """(name, name index, index of `(`, argument position) of the innermost real call around a use.

    For a template argument (`launch<kernel>(…)`) the position is -1 - number.
    """
    place, position, depth = use.index - 1, 0, 0
    while place > 0 and use.index - place < 4000:
        text = tokens.texts[place]
        if text in (")", "]", "}"):
            place = tokens.match.get(place, place) - 1
            continue
        if text == ">" and depth >= 0:
            depth += 1
        elif text == "<" and depth > 0:
            depth -= 1
        elif text == "<" and tokens.kinds[place - 1] == IDENT and _closes_before_call(tokens, place):
            return tokens.texts[place - 1], place - 1, place, -1 - position
        elif text == "," and depth == 0:
            position += 1
        elif text in (";", "{"):
            if text == "{" and tokens.texts[place - 1] in ("(", ",", "="):
                place -= 1
                continue
            return None
        elif text == "=" and depth == 0:
            return None
        elif text == "(":
            name_index = _callee(tokens, place)
            if name_index is None or tokens.texts[name_index] in ("if", "while", "for", "switch", "return"):
                if name_index is not None:
                    return None
                position = 0  # a plain parenthesis or a cast: look further out
            elif tokens.texts[name_index] in _WRAPPERS:
                position = 0
                place = name_index
            else:
                return tokens.texts[name_index], name_index, place, position
        place -= 1
    return None


def _closes_before_call(tokens: Tokens, index: int) -> bool:
    depth = 0
    for place in range(index, min(index + 400, len(tokens))):
        text = tokens.texts[place]
        depth += (text == "<") - (text == ">")
        if text in (";", "{"):
            return False
        if depth == 0:
            return place + 1 < len(tokens) and tokens.texts[place + 1] == "("
    return False


def _callee(tokens: Tokens, opening: int) -> int | None:
    """Index of the name before a `(`, template arguments skipped; None for a plain parenthesis."""
    place = opening - 1
    if place > 0 and tokens.texts[place] == ">":
        depth = 0
        while place > 0:
            depth += (tokens.texts[place] == ">") - (tokens.texts[place] == "<")
            place -= 1
            if depth == 0:
                break
    return place if tokens.kinds[place] == IDENT else None


def _assigned_variable(tokens: Tokens, use: Use) -> tuple[str, int] | None:
    """(name, index) of the variable that a use initialises or is assigned to, also inside `?:` and braces."""
    place = use.index - 1
    while place > 0 and use.index - place < 600:
        text = tokens.texts[place]
        if text in (")", "]", "}"):
            place = tokens.match.get(place, place) - 1
            continue
        if text in (";", "<<<"):
            return None
        if text == "=":
            return _variable_before(tokens, place)
        if (
            text == "{"
            and tokens.texts[place - 1] not in ("=", "(", ",", "{")
            and tokens.kinds[place - 1] != IDENT
        ):
            return None
        place -= 1
    return None


def _variable_before(tokens: Tokens, equals: int) -> tuple[str, int] | None:
    place = equals - 1
    while place > 0 and tokens.texts[place] in ("]", ")"):
        opening = tokens.match.get(place, place)
        inside = [i for i in range(opening, place) if tokens.kinds[i] == IDENT]
        if tokens.texts[place] == ")" and inside and tokens.texts[inside[-1] - 1] in ("*", "&"):
            return tokens.texts[inside[-1]], inside[-1]  # `void (*kernel)(int) = …`
        place = opening - 1
    return (tokens.texts[place], place) if tokens.kinds[place] == IDENT else None


def _returned(tokens: Tokens, use: Use) -> bool:
    place = use.index - 1
    while place > 0 and use.index - place < 200:
        text = tokens.texts[place]
        if text == "return":
            return True
        if text in (";", "{", "}"):
            return False
        place -= 1
    return False


def _is_noise(tokens: Tokens, use: Use) -> bool:
    """Mentions that launch nothing: a statement of its own, a comparison, `#kernel` in a macro."""
    previous = tokens.texts[use.index - 1] if use.index else ""
    following = tokens.texts[use.after] if use.after < len(tokens) else ""
    return previous == "#" or following in ("==", "!=") or previous in ("==", "!=")


def _is_target(tokens: Tokens, index: int) -> bool:
    """Whether a name is only declared or assigned to here."""
    following = tokens.texts[index + 1] if index + 1 < len(tokens) else ""
    if following == "=":
        return True
    previous = tokens.texts[index - 1]
    return following == ";" and (tokens.kinds[index - 1] == IDENT or previous == "*") and previous != "return"


def _scope_of(tokens: Tokens, index: int, first: int, last: int) -> tuple[int, int]:
    """Tokens in which a variable declared at an index can be meant; the whole body for a mere assignment."""
    declared = tokens.kinds[index - 1] == IDENT or tokens.texts[index - 1] in ("*", "&")
    if not declared:
        return first, last
    place = index
    while place > first:
        place -= 1
        if tokens.texts[place] == "{" and tokens.match.get(place, place) > index:
            return index, min(tokens.match[place], last)
    return index, last


def _handle_before(tokens: Tokens, index: int) -> str | None:
    """Name of the handle in `cuModuleGetFunction(&handle, module, "name")`, or of `h = get("name")`."""
    place = index
    while place > 0 and tokens.texts[place] not in (";", "{", "}"):
        if tokens.texts[place] == "(" and tokens.kinds[place - 1] == IDENT:
            if tokens.texts[place + 1] == "&" and tokens.kinds[place + 2] == IDENT:
                return tokens.texts[place + 2]
        elif tokens.texts[place] == "=":
            found = _variable_before(tokens, place)
            return found[0] if found else None
        place -= 1
    return None

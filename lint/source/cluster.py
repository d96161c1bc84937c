"""Cluster size of a kernel: one, larger or undecided, from attributes and every launch in sight."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ptxguard.finding import Evidence
from ptxguard.model import ClusterVerdict
from ptxguard.source.cuda import Function
from ptxguard.source.exprs import parse_expression, split_arguments
from ptxguard.source.launchconfig import ConfigReader
from ptxguard.source.launches import Launch, Launches, find_launches
from ptxguard.source.sizes import Size, sized
from ptxguard.source.templates import is_opaque
from ptxguard.source.tree import PYTHON_ENDINGS
from ptxguard.source.variables import bindings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ptxguard.source.callgraph import CallGraph
    from ptxguard.source.constants import Constants
    from ptxguard.source.guards import CppFile, Definition
    from ptxguard.source.tokens import Tokens
    from ptxguard.source.uses import Owner

_CLUSTER_WORDS = (
    "cluster_ctarank", "cluster_nctarank", "mapa", "map_shared_rank", "this_cluster", "barrier.cluster",
    "cluster_sync", "multicast::cluster", "cluster_arrive", "block_rank_in_cluster",
)  # fmt: skip

_MAX_MACROS = 4  # macros that stand for macros; a cycle ends here
# Attribute -> the argument that holds the size, None for all of them. The third launch bound is
# `.maxclusterrank`: no launch may exceed it (CUDA C++ guide, "Launch Bounds"). `cluster_dims` stands
# in `__attribute__((…))`, what the first one is a macro for (host_defines.h).
_ATTRIBUTES = (
    ("__cluster_dims__", None),
    ("cluster_dims", None),
    ("__block_size__", 1),
    ("__launch_bounds__", 2),
)


@dataclass(frozen=True, eq=False)
class AttributeList:
    """Tokens in which the attributes of a kernel stand: its header, or the value of a macro there.

    Attributes:
        unit: file of the tokens.
        tokens: their stream.
        extent: first token and the one behind the last.
        known: values of template and macro parameters.
    """

    unit: CppFile
    tokens: Tokens
    extent: tuple[int, int]
    known: Mapping[str, int | None]


@dataclass(eq=False)
class ClusterSizes:
    """Cluster verdicts of the kernels of a tree.

    Attributes:
        graph: the call graph.
        constants: evaluates attribute values.
    """

    graph: CallGraph
    constants: Constants
    _kernels: dict[Function, ClusterVerdict] = field(default_factory=dict, repr=False)

    def of_kernel(self, kernel: Function) -> ClusterVerdict:
        """Cluster size of a kernel."""
        known = self._kernels.get(kernel)
        if known is None:
            known = self._kernels[kernel] = self._decide(kernel)
        return known

    def _decide(self, kernel: Function) -> ClusterVerdict:
        launches = find_launches(self.graph, kernel)
        here = Evidence("kernel", kernel.unit.file.path, kernel.line, f"__global__ {kernel.qualified}")
        sizes = [self._of_launch(launch, kernel, launches) for launch in launches.found]
        attribute = self._attribute(kernel, {})
        sizes.extend(self._from_python(kernel, attribute, launches))
        evidence = [here]
        for size in sizes:
            evidence.extend(item for item in size.evidence if item not in evidence)
        if not sizes:
            return self._without_launch(kernel, attribute, evidence, launches)
        in_sight = not launches.escapes
        for wanted in ("larger", "undecided"):
            for size in sizes:
                if size.verdict == wanted:
                    return ClusterVerdict(wanted, size.reason, tuple(evidence), in_sight)
        if launches.escapes:
            reason, path, line = launches.escapes[0]
            evidence.append(Evidence("launch", path, line, f"{kernel.name} {reason}"))
            return ClusterVerdict("undecided", f"{kernel.name} is {reason} ({path}:{line})", tuple(evidence))
        return ClusterVerdict("one", sizes[0].reason, tuple(evidence), launches_in_sight=True)

    def _without_launch(
        self, kernel: Function, attribute: Size | None, evidence: list[Evidence], launches: Launches
    ) -> ClusterVerdict:
        if attribute is not None and attribute.verdict != "undecided":
            evidence.extend(attribute.evidence)
            return ClusterVerdict(attribute.verdict, attribute.reason, tuple(evidence))
        evidence.extend(self._hints(kernel))
        if launches.escapes:
            reason, path, line = launches.escapes[0]
            evidence.append(Evidence("launch", path, line, f"{kernel.name} {reason}"))
            return ClusterVerdict("undecided", f"{kernel.name} is {reason} ({path}:{line})", tuple(evidence))
        reason = f"no launch of kernel {kernel.name} is in the tree"
        if is_opaque(kernel.name):
            where = f"{kernel.unit.file.path}:{kernel.line}"
            reason = f"a field names the kernel, so that its launches cannot be told ({where})"
        return ClusterVerdict("undecided", reason, tuple(evidence))

    def _hints(self, kernel: Function) -> list[Evidence]:
        """Uses of a cluster in the kernel: evidence that it is meant to run as one, no proof."""
        tokens = kernel.unit.tokens
        low, high = tokens.starts[kernel.body[0] - 1], tokens.starts[min(kernel.body[1], len(tokens) - 1)]
        text = kernel.unit.file.text
        found = []
        for word in _CLUSTER_WORDS:
            place = text.find(word, low, high)
            if place >= 0:
                line = kernel.unit.file.position(place)[0]
                found.append(Evidence("kernel", kernel.unit.file.path, line, f"kernel uses {word}"))
        return found

    # Attributes -----------------------------------------------------------------------------------

    def _attribute(self, kernel: Function, known: Mapping[str, int | None]) -> Size | None:
        """Cluster attributes on the definition or any declaration, also where a macro brings them."""
        for place in (kernel, *self._declarations(kernel)):
            header = AttributeList(place.unit, place.unit.tokens, place.header, known)
            for attributes in (header, *self._of_macros(header)):
                for word, argument in _ATTRIBUTES:
                    size = self._attribute_at(attributes, word, argument)
                    if size is not None:
                        return size
        return None

    def _of_macros(self, around: AttributeList, depth: int = 0) -> Iterator[AttributeList]:
        """Macros in a header whose value holds an attribute: `#define PAIR __cluster_dims__(2, 1, 1)`."""
        tokens, (first, last) = around.tokens, around.extent
        for definition in self._attribute_macros if depth < _MAX_MACROS else ():
            for index in tokens.positions.get(definition.name, ()):
                if first <= index < last and self.graph.project.connected(around.unit, definition.unit):
                    inner = self._expanded(definition, around, index)
                    yield inner
                    yield from self._of_macros(inner, depth + 1)

    def _expanded(self, definition: Definition, around: AttributeList, index: int) -> AttributeList:
        """The value of a macro at its use, with the values of its arguments there."""
        tokens, body = around.tokens, definition.tokens
        given: list[list[int]] = []
        if definition.parameters:
            given = split_arguments(tokens, index + 2, tokens.match.get(index + 1, index + 1))
        known = {
            name: self.constants.value(parse_expression(tokens, part), around.unit, around.known)
            for name, part in zip(definition.parameters or (), given, strict=False)
        }
        return AttributeList(definition.unit, body, (0, len(body)), {**around.known, **known})

    @cached_property
    def _attribute_macros(self) -> list[Definition]:
        """Macros that stand for an attribute, also by way of another macro."""
        project = self.graph.project
        found: dict[tuple[CppFile, int], Definition] = {}
        words = [word for word, _ in _ATTRIBUTES]
        for word in words:
            for unit in project.with_word(word):
                for definition in unit.definitions:
                    if word not in (definition.value or "") or word not in definition.tokens.positions:
                        continue
                    if self.graph.is_live(unit, definition.offset):
                        found[unit, definition.offset] = definition
                        if definition.name not in words:
                            words.append(definition.name)
        return list(found.values())

    def _declarations(self, kernel: Function) -> Iterator[Function]:
        for declaration in self.graph.declarations_named(kernel.name):
            if self.graph.project.connected(declaration.unit, kernel.unit):
                yield declaration

    def _attribute_at(self, attributes: AttributeList, word: str, argument: int | None) -> Size | None:
        tokens, unit, (first, last) = attributes.tokens, attributes.unit, attributes.extent
        for index in tokens.positions.get(word, ()):
            if not first <= index < last or not self.graph.is_live(unit, tokens.starts[index]):
                continue
            if tokens.texts[index + 1 : index + 2] != ["("]:
                continue
            parts = split_arguments(tokens, index + 2, tokens.match.get(index + 1, index + 1))
            if argument is not None:
                if len(parts) <= argument:
                    return None
                inner = parts[argument]
                if inner and tokens.texts[inner[0]] == "(":
                    inner = inner[1:-1]
                parts = split_arguments(tokens, inner[0], inner[-1] + 1) if inner else []
            line = unit.file.position(tokens.starts[index])[0]
            text = tokens.source(index, tokens.match.get(index + 1, index) + 1)
            evidence = (Evidence("attribute", unit.file.path, line, text),)
            if not parts:
                return Size("undecided", f"{word}() leaves the size to the launch", evidence)
            nodes = [parse_expression(tokens, part) for part in parts]
            values = [self.constants.value(node, unit, attributes.known) for node in nodes]
            if word == "__launch_bounds__" and values != [1]:
                return None  # a bound above one allows a cluster and asks for none
            return sized(values, text, f"{unit.file.path}:{line}", evidence)
        return None

    # Launches -------------------------------------------------------------------------------------

    def _of_launch(self, launch: Launch, kernel: Function, launches: Launches) -> Size:
        shown = launch.tokens.source(launch.index, min(_launch_end(launch), launch.index + 40))
        here = Evidence("launch", launch.path, launch.line, shown)
        attribute = self._attribute(kernel, {})
        if attribute is not None and attribute.verdict == "undecided":
            attribute = self._attribute(kernel, self._template_values(kernel, launch))
        if attribute is not None and attribute.verdict != "undecided":
            return Size(attribute.verdict, attribute.reason, (*attribute.evidence, here))
        if launch.kind == "ex":
            size = ConfigReader(self.graph, self.constants).of_launch(launch)
            if size.verdict == "one" and attribute is not None:
                return Size("undecided", attribute.reason, (here, *attribute.evidence))
            return Size(size.verdict, size.reason, (here, *size.evidence))
        if attribute is not None:
            return Size("undecided", attribute.reason, (here, *attribute.evidence))
        if launches.required_cluster:
            use = launches.required_cluster[0]
            size = self._required(use)
            return Size(size.verdict, size.reason, (here, *size.evidence))
        how = {"triple": "<<<>>> without a cluster attribute", "graph": "a graph kernel node"}
        what = how.get(launch.kind, "a launch call without attributes")
        return Size("one", f"launched by {what} ({launch.path}:{launch.line})", (here,))

    def _from_python(self, kernel: Function, attribute: Size | None, launches: Launches) -> list[Size]:
        """Launches by Python host code that fetches the kernel by its name."""
        project = self.graph.project
        if not project.tree.python_files:
            return []
        from ptxguard.source.pythonhost import HostLaunches  # a C++ tree never pays for the grammar

        in_python = project.owner(kernel.unit).ending in PYTHON_ENDINGS
        found = HostLaunches.find(project.python, kernel.name, in_python=in_python)
        launches.escapes.extend(found.escapes)
        if attribute is None and not launches.required_cluster:
            return found.sizes
        fixed = attribute or self._required(launches.required_cluster[0])
        return [Size(fixed.verdict, fixed.reason, (*one.evidence, *fixed.evidence)) for one in found.sizes]

    def _required(self, use) -> Size:  # type: ignore[no-untyped-def]
        text = use.tokens.source(use.index, use.tokens.match.get(use.after, use.index) + 1)
        evidence = (Evidence("attribute", use.path, use.line, text),)
        value = self.constants.value(use.arguments[-1], use.unit) if use.arguments else None
        return sized([value], text, f"{use.path}:{use.line}", evidence)

    def _template_values(self, kernel: Function, launch: Launch) -> dict[str, int | None]:
        """Values of the kernel's template parameters at a launch, as far as they are constants."""
        known: dict[str, int | None] = {}
        for name, text in zip(kernel.template_names, launch.template_arguments, strict=False):
            known[name] = self.constants.text_value(text, launch.unit, self._local(launch.owner))
        return known

    def _local(self, owner: Owner | None) -> dict[str, int | None]:
        """Constants declared inside the function of a launch."""
        if owner is None or not isinstance(owner, Function):
            return {}
        known: dict[str, int | None] = {}
        tokens = owner.unit.tokens
        for index in tokens.positions.get("constexpr", ()):
            if owner.body[0] <= index < owner.body[1]:
                stop = next(
                    (i for i in range(index, min(index + 12, owner.body[1])) if tokens.texts[i] == "="), None
                )
                if stop is not None:
                    name = tokens.texts[stop - 1]
                    nodes = [b.node for b in bindings(owner, name) if b.node is not None]
                    known[name] = self.constants.value(nodes[0], owner.unit) if len(nodes) == 1 else None
        return known


def _launch_end(launch: Launch) -> int:
    tokens, index = launch.tokens, launch.index
    while index < len(tokens) and tokens.texts[index] not in (";", "{", "}"):
        index += 1
    return index


def merge(verdicts: list[tuple[ClusterVerdict, bool]]) -> ClusterVerdict:
    """One verdict for all kernels that reach an instruction; a doubtful one cannot make it larger or one."""
    evidence: list[Evidence] = []
    for verdict, _ in verdicts:
        evidence.extend(item for item in verdict.evidence if item not in evidence)
    in_sight = all(verdict.launches_in_sight for verdict, _ in verdicts)
    sure = [verdict for verdict, certain in verdicts if certain]
    for verdict in sure:
        if verdict.verdict == "larger":
            return ClusterVerdict("larger", verdict.reason, tuple(evidence), in_sight)
    for verdict, certain in verdicts:
        if verdict.verdict != "one":
            reason = verdict.reason if certain else f"an overload cannot be told apart, and {verdict.reason}"
            return ClusterVerdict("undecided", reason, tuple(evidence), in_sight)
    count = len(verdicts)
    reason = (
        verdicts[0][0].reason if count == 1 else f"all {count} kernels that reach it: {verdicts[0][0].reason}"
    )
    return ClusterVerdict("one", reason, tuple(evidence), in_sight)

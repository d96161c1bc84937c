"""Cluster attributes of a launch configuration: followed to where it is built, values evaluated there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.finding import Evidence
from ptxguard.source.cuda import Function
from ptxguard.source.exprs import Node, parse_expression, split_arguments
from ptxguard.source.sizes import Size
from ptxguard.source.tokens import IDENT
from ptxguard.source.values import Bound, Values
from ptxguard.source.variables import Binding, bindings, body_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.source.callgraph import CallGraph
    from ptxguard.source.constants import Constants
    from ptxguard.source.launches import Launch
    from ptxguard.source.uses import Owner

CLUSTER_ATTRIBUTES = (
    "cudaLaunchAttributeClusterDimension",
    "cudaLaunchAttributePreferredClusterDimension",
    "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION",
    "CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION",
)
# Calls that read a configuration (CUDA runtime and driver API).
_READERS = frozenset(
    "cudaLaunchKernelEx cudaLaunchKernelExC cuLaunchKernelEx cudaOccupancyMaxActiveClusters memset "
    "sizeof cudaOccupancyMaxPotentialClusterSize cuOccupancyMaxActiveClusters "
    "cuOccupancyMaxPotentialClusterSize".split()
)
_TYPES = frozenset({"cudaLaunchAttribute", "cudaLaunchAttribute_st", "cudaLaunchAttributeValue"})
_HARMLESS_CALLS = frozenset({"dim3", "move", "size", "data", "min", "max", "size_t", "int", "unsigned"})
_MAX_HOPS = 6


@dataclass(frozen=True)
class _Setting:
    """A place that gives a launch a cluster attribute: dimensions, and the line."""

    values: tuple[Node, ...]
    owner: Owner
    bound: Bound
    path: str
    line: int
    text: str


@dataclass(eq=False)
class ConfigReader:
    """Reads launch configurations.

    Attributes:
        graph: the call graph.
        constants: evaluates constants.
    """

    graph: CallGraph
    constants: Constants

    def of_launch(self, launch: Launch) -> Size:
        """Cluster size that the configuration of an ex launch asks for."""
        place = f"{launch.path}:{launch.line}"
        if launch.config is None or launch.owner is None:
            return Size("undecided", f"the launch configuration at {place} cannot be read")
        settings, missing = self._settings(launch.config, launch.owner, launch.bindings, 0)
        if missing and not settings:
            return Size("undecided", missing)
        if not settings and self._is_unexplained(launch.owner):
            return Size("undecided", f"launch attributes at {place} are filled in a way that is not followed")
        if not settings:
            return Size("one", f"launched with a configuration without a cluster attribute ({place})")
        return self._sized(settings, missing)

    def _is_unexplained(self, owner: Owner) -> bool:
        """Whether a body hands attributes to a launch without naming any of their kinds."""
        tokens, first, last = body_of(owner)
        given = any(
            first <= i < last for word in ("attrs", "numAttrs") for i in tokens.positions.get(word, ())
        )
        named = ("cudaLaunchAttribute", "CU_LAUNCH_ATTRIBUTE_")
        kinds = (text for text in tokens.texts[first:last] if text.startswith(named) and text not in _TYPES)
        return given and not any(kinds)

    def _sized(self, settings: list[_Setting], missing: str) -> Size:
        values = Values(self.graph, self.constants)
        verdict, reason, evidence = "one", "", []
        for setting in settings:
            evidence.append(Evidence("attribute", setting.path, setting.line, setting.text))
            place = f"{setting.path}:{setting.line}"
            if not setting.values:
                verdict, reason = (
                    "undecided",
                    f"cluster dimensions are set at {place} in a way that is not followed",
                )
                continue
            for node in setting.values:
                possible = values.of(node, setting.owner, setting.bound)
                if any(value is not None and value > 1 for value in possible):
                    return Size("larger", f"{setting.text} ({place})", tuple(evidence))
                if None in possible or not possible:
                    verdict, reason = "undecided", f"the value of {setting.text} is not known ({place})"
        if verdict == "one" and missing:
            return Size("undecided", missing, tuple(evidence))
        return Size(
            verdict,
            reason or f"cluster attribute of one CTA ({settings[0].path}:{settings[0].line})",
            tuple(evidence),
        )

    def _settings(self, config: Node, owner: Owner, bound: Bound, hops: int) -> tuple[list[_Setting], str]:
        """Cluster settings of a configuration, and why the list may be incomplete ("" where it is whole)."""
        place = f"{owner.unit.file.path}:{owner.line}"
        name = _root_name(config)
        if not name or hops > _MAX_HOPS:
            return [], f"the launch configuration of {owner.qualified} ({place}) is not followed"
        local = bindings(owner, name)
        if not any(binding.kind in ("declare", "init") for binding in local):
            return self._from_parameter(name, owner, bound, hops)
        attributes = self._attribute_roots(name, local)
        found = list(self._in_body(owner, bound, attributes))
        missing = ""
        for binding in local:
            more, why = self._elsewhere(binding, owner, bound, hops)
            found.extend(more)
            missing = missing or why
        for root in attributes - {name}:
            more, why = self._attribute_source(root, owner, bound, hops)
            found.extend(more)
            missing = missing or why
        return found, missing

    def _from_parameter(self, name: str, owner: Owner, bound: Bound, hops: int) -> tuple[list[_Setting], str]:
        if name in bound:
            node, home = bound[name]
            if home is not None:
                return self._settings(node, home, {}, hops + 1)
        place = f"{owner.unit.file.path}:{owner.line}"
        names = (
            [p.name for p in owner.parameters] if isinstance(owner, Function) else list(owner.parameter_names)
        )
        if name in names:
            found: list[_Setting] = []
            missing = ""
            calls = self.graph.callers(owner).calls
            for use, _ in calls:
                if names.index(name) < len(use.arguments) and use.owner is not None:
                    more, why = self._settings(use.arguments[names.index(name)], use.owner, {}, hops + 1)
                    found.extend(more)
                    missing = missing or why
            if calls:
                return found, missing
        return [], f"the launch configuration {name} of {owner.qualified} is built out of sight ({place})"

    def _attribute_roots(self, name: str, local: list[Binding]) -> set[str]:
        """Variables that hold the attributes of a configuration; the configuration itself counts."""
        roots = {name}
        for binding in local:
            node = binding.node
            if node is None:
                continue
            if (binding.kind == "member" and binding.extra == "attrs") or binding.kind == "init":
                roots.update(part.text for part in node.walk() if part.kind == "name")
        return roots

    def _attribute_source(
        self, root: str, owner: Owner, bound: Bound, hops: int
    ) -> tuple[list[_Setting], str]:
        """Attributes that come in through a parameter, or are filled by a helper."""
        names = (
            [p.name for p in owner.parameters] if isinstance(owner, Function) else list(owner.parameter_names)
        )
        found: list[_Setting] = []
        missing = ""
        if root in names and root not in bound:
            type_text = (
                next((p.type_text for p in owner.parameters if p.name == root), "")
                if isinstance(owner, Function)
                else ""
            )
            if "Attribute" in type_text:
                return [], f"the launch attributes {root} of {owner.qualified} come from outside"
        for binding in bindings(owner, root):
            more, why = self._elsewhere(binding, owner, bound, hops)
            found.extend(more)
            missing = missing or why
        return found, missing

    def _elsewhere(
        self, binding: Binding, owner: Owner, bound: Bound, hops: int
    ) -> tuple[list[_Setting], str]:
        """Settings made by a helper that builds, fills or changes the variable."""
        calls: list[tuple[str, tuple[Node, ...]]] = []
        if binding.kind == "pass" and binding.extra not in _READERS:
            calls.append((binding.extra, self._arguments_at(binding, owner)))
        elif binding.kind in ("init", "assign", "element") and binding.node is not None:
            inside = [part for part in binding.node.walk() if part.kind == "call"]
            calls.extend((part.text.rsplit("::", 1)[-1], part.parts[1:]) for part in inside)
        found: list[_Setting] = []
        for name, arguments in calls:
            if name.isupper() or name in _HARMLESS_CALLS:
                continue  # an error-checking macro around a launch call
            bodies = [f for f in self.graph.functions_named(name) if f.accepts(len(arguments))]
            if not bodies:
                if binding.kind == "pass" and name.startswith("cuda"):
                    continue
                return [], f"{name}() builds the launch configuration out of sight"
            for body in bodies:
                inner: Bound = {
                    parameter.name: (value, owner)
                    for parameter, value in zip(body.parameters, arguments, strict=False)
                }
                found.extend(self._in_body(body, inner, None))
        return found, ""

    def _arguments_at(self, binding: Binding, owner: Owner) -> tuple[Node, ...]:
        tokens, first, _ = body_of(owner)
        place = binding.index
        while place > first and not (
            tokens.texts[place] == "(" and tokens.match.get(place, 0) > binding.index
        ):
            place -= 1
        parts = split_arguments(tokens, place + 1, tokens.match.get(place, place))
        return tuple(parse_expression(tokens, part) for part in parts)

    def _in_body(self, owner: Owner, bound: Bound, roots: set[str] | None) -> Iterator[_Setting]:
        """Cluster attributes set in a body, by statements, initialisers or macros."""
        tokens, first, last = body_of(owner)
        unit = owner.unit
        live = [
            index
            for word in CLUSTER_ATTRIBUTES
            for index in tokens.positions.get(word, ())
            if first <= index < last and self.graph.is_live(unit, tokens.starts[index])
        ]
        relevant = [
            index for index in live if self._statement_root(tokens.texts, index, first) in (roots or ())
        ]
        chosen = relevant if roots is not None and relevant else live
        dimensions = self._dimensions(
            owner, {self._statement_root(tokens.texts, index, first) for index in chosen}
        )
        for index in chosen:
            line = unit.file.position(tokens.starts[index])[0]
            values, text, at = dimensions or ((), tokens.texts[index], line)
            inline = self._inline_values(owner, index, last)
            if inline:
                values, text, at = inline, tokens.source(index, min(index + 14, last)), line
            yield _Setting(values, owner, bound, unit.file.path, at, text)
        yield from self._through_macros(owner, bound, first, last)

    def _statement_root(self, texts: list[str], index: int, first: int) -> str:
        """First name of the statement that a token stands in, behind type words of a declaration."""
        place = index
        while (
            place > first
            and texts[place - 1] not in (";", "}")
            and not (texts[place - 1] == "{" and (place < 2 or texts[place - 2] not in ("=", ",", "{", "]")))
        ):
            place -= 1
        words = texts[place:index]
        if "=" in words:
            words = words[: words.index("=")]
            names = [
                word for word in words if word.isidentifier() and word not in ("id", "val", "x", "y", "z")
            ]
            declared = any(word.endswith(("Attribute", "Attribute_st")) for word in words)
            return (names[-1] if declared else names[0]) if names else ""
        return words[0] if words else ""

    def _dimensions(self, owner: Owner, roots: set[str]) -> tuple[tuple[Node, ...], str, int] | None:
        """Values given to `clusterDim` and `preferredClusterDim` of the attribute variables in a body."""
        tokens, first, last = body_of(owner)
        values: list[Node] = []
        texts: list[str] = []
        line = 0
        positions = tokens.positions
        for index in sorted([*positions.get("clusterDim", ()), *positions.get("preferredClusterDim", ())]):
            if not first <= index < last or not self.graph.is_live(owner.unit, tokens.starts[index]):
                continue
            if roots and self._statement_root(tokens.texts, index, first) not in roots:
                continue
            equals = next((i for i in range(index, min(index + 5, last)) if tokens.texts[i] == "="), None)
            if equals is None:
                continue
            stop = equals + 1
            while stop < last and tokens.texts[stop] not in (";", ","):
                stop = tokens.match.get(stop, stop) + 1 if tokens.texts[stop] in ("(", "[", "{") else stop + 1
            node = parse_expression(tokens, range(equals + 1, stop))
            values.extend(node.parts if node.kind == "init" else [node])
            texts.append(tokens.source(index, stop))
            line = line or owner.unit.file.position(tokens.starts[index])[0]
        return (tuple(values), ", ".join(texts), line) if values else None

    def _inline_values(self, owner: Owner, index: int, last: int) -> tuple[Node, ...]:
        """Dimensions in an initialiser: `{…ClusterDimension, {.clusterDim = {2, 1, 1}}}`."""
        tokens, _, _ = body_of(owner)
        place = index + 1
        if place >= last or tokens.texts[place] != ",":
            return ()
        while place < min(index + 12, last) and tokens.texts[place] != ";":
            if (
                tokens.texts[place] == "{"
                and tokens.kinds[place + 1] != IDENT
                and tokens.texts[place + 1] not in (".", "{")
            ):
                close = tokens.match.get(place, place)
                return tuple(
                    parse_expression(tokens, part) for part in split_arguments(tokens, place + 1, close)
                )
            if tokens.texts[place] == "{" and tokens.kinds[place + 1] == IDENT:
                close = tokens.match.get(place, place)
                return tuple(
                    parse_expression(tokens, part) for part in split_arguments(tokens, place + 1, close)
                )
            place += 1
        return ()

    def _through_macros(self, owner: Owner, bound: Bound, first: int, last: int) -> Iterator[_Setting]:
        """Macros of the tree whose body sets a cluster attribute, used in this body."""
        tokens, _, _ = body_of(owner)
        for word in CLUSTER_ATTRIBUTES:
            for unit in self.graph.project.with_word(word):
                for definition in unit.definitions:
                    if not definition.value or word not in definition.value:
                        continue
                    for index in tokens.positions.get(definition.name, ()):
                        if first <= index < last:
                            body = self.graph.macro(definition)
                            inner = _macro_bound(definition.parameters, tokens, index, owner)
                            yield from self._in_body(body, inner, None)


def _macro_bound(parameters: tuple[str, ...] | None, tokens, index: int, owner: Owner) -> Bound:  # type: ignore[no-untyped-def]
    if not parameters or index + 1 >= len(tokens) or tokens.texts[index + 1] != "(":
        return {}
    parts = split_arguments(tokens, index + 2, tokens.match.get(index + 1, index + 1))
    return {
        name: (parse_expression(tokens, part), owner) for name, part in zip(parameters, parts, strict=False)
    }


def _root_name(node: Node) -> str:
    """The variable at the root of `&config`, `config`, `std::addressof(config)`."""
    while True:
        if node.kind in ("unary", "cast", "index"):
            node = node.parts[0]
        elif node.kind == "call" and len(node.parts) == 2:
            node = node.parts[1]
        elif node.kind == "call" and node.parts[0].kind == "member":
            node = node.parts[0].parts[0]
        else:
            return node.text if node.kind == "name" else ""

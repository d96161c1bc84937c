"""Finds uses of wrappers in a file: through namespace aliases, macros and using-directives."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ptxguard.source.cuda import Function
from ptxguard.source.uses import read_use
from ptxguard.source.wrappers import wrappers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.source.callgraph import CallGraph
    from ptxguard.source.guards import CppFile
    from ptxguard.source.uses import Use
    from ptxguard.source.wrappers import Wrapper

# Without `\b` in front, so that `re` can skip to the next "namespace".
_ALIAS = re.compile(r"namespace\s+(\w+)\s*=\s*([\w:\s]+?)\s*;")
_PATH = re.compile(r"(?:::)?\s*(\w+(?:\s*::\s*\w+)*)\Z")
# Templates that make a copy of the atom they are given; a mere comparison of types copies nothing.
_COPY_TEMPLATES = frozenset({"Copy_Atom", "Copy_Traits", "TiledCopy"})


@dataclass(eq=False)
class WrapperUses:
    """Uses of wrappers in the files of a tree.

    Attributes:
        graph: the call graph; it knows functions, live code and macros.
    """

    graph: CallGraph
    _aliases: dict[tuple[CppFile, str], tuple[str, ...]] = field(default_factory=dict, repr=False)
    _by_file: dict[CppFile, dict[str, tuple[str, ...]]] = field(default_factory=dict, repr=False)

    def find(self, unit: CppFile) -> Iterator[tuple[Wrapper, Use]]:
        """Every use of a wrapper in a file, in the order of the table."""
        text = unit.file.text
        for name, wrapper in wrappers().items():
            if name in text:
                for use in self.graph.uses_in(unit, name):
                    found = self._accept(wrapper, use)
                    if found is not None:
                        yield wrapper, found

    def _accept(self, wrapper: Wrapper, use: Use) -> Use | None:
        if wrapper.kind == "atom":
            return _atom(use) if self.path(use) in ((), wrapper.namespace) else None
        if not self._is_meant(wrapper, use):
            return None
        if wrapper.kind == "host":
            return use if use.kind == "call" or _text(use, use.after) == "::" else None
        return use if use.kind == "call" else None

    # Namespaces -----------------------------------------------------------------------------------

    def path(self, use: Use) -> tuple[str, ...]:
        """The namespaces before a name, aliases and macros replaced."""
        path = use.qualifiers
        seen: set[str] = set()
        while path and path[0] not in seen:
            seen.add(path[0])
            whole = self._alias(use.unit, path[0])
            path = (*whole, *path[1:]) if whole else path
        return path

    def _alias(self, unit: CppFile, name: str) -> tuple[str, ...]:
        """What `namespace name = …` or `#define name …` says, in this file or one connected with it."""
        key = (unit, name)
        if key not in self._aliases:
            self._aliases[key] = self._find_alias(unit, name)
        return self._aliases[key]

    def _find_alias(self, unit: CppFile, name: str) -> tuple[str, ...]:
        project = self.graph.project
        for home in [unit, *(other for other in project.with_word(name) if other is not unit)]:
            target = self._aliases_in(home).get(name)
            if target is not None and (home is unit or project.connected(unit, home)):
                return target
        for definition in project.definitions(name):
            connected = definition.unit is unit or project.connected(unit, definition.unit)
            if definition.parameters is None and definition.value and connected:
                return _split(definition.value)
        return ()

    def _aliases_in(self, unit: CppFile) -> dict[str, tuple[str, ...]]:
        """Every `namespace a = b::c;` of a file."""
        if unit not in self._by_file:
            found = _ALIAS.finditer(unit.file.text)
            self._by_file[unit] = {match[1]: _split(match[2]) for match in found}
        return self._by_file[unit]

    def _is_meant(self, wrapper: Wrapper, use: Use) -> bool:
        """Whether a name with its namespaces means the wrapper and not a function of the tree."""
        path, full = self.path(use), wrapper.namespace
        if path[-len(full) :] == full:
            return True
        if use.receiver is not None or (path and full[-len(path) :] != path):
            return False
        outer = full[: len(full) - len(path)]
        opened = self._opens(use, outer) or (not path and self._names(use, wrapper))
        return opened and not self._is_own(use, path)

    def _opens(self, use: Use, outer: tuple[str, ...]) -> bool:
        """Whether the rest of a namespace is open here: by a directive, or because the code stands in it."""
        if isinstance(use.owner, Function) and use.owner.scope[: len(outer)] == outer:
            return True
        for match in re.finditer(r"\busing\s+namespace\s+([\w:]+)\s*;", use.unit.file.text):
            named = _split(match[1])
            whole = (
                (*self._alias(use.unit, named[0]), *named[1:]) if self._alias(use.unit, named[0]) else named
            )
            if whole == outer:
                return True
        return False

    def _names(self, use: Use, wrapper: Wrapper) -> bool:
        """`using cuda::ptx::cp_async_bulk;`."""
        pattern = rf"\busing\s+(?:::)?{'::'.join(wrapper.namespace)}::{wrapper.name}\s*;"
        return re.search(pattern, use.unit.file.text) is not None

    def _is_own(self, use: Use, path: tuple[str, ...]) -> bool:
        """Whether the tree defines a function of that name in that namespace."""
        name = use.tokens.texts[use.index]
        return any(
            not path or function.scope[-len(path) :] == path for function in self.graph.functions_named(name)
        )


def _split(text: str) -> tuple[str, ...]:
    match = _PATH.match(text.strip())
    return tuple(part.strip() for part in match[1].split("::")) if match is not None else ()


def _text(use: Use, index: int) -> str:
    return use.tokens.texts[index] if 0 <= index < len(use.tokens) else ""


def _atom(use: Use) -> Use | None:
    """The use where an atom is made, named as the one to use, or called; None where it is only spoken of."""
    if use.kind == "call":
        return use
    if _text(use, use.index + 1) == "::" and _text(use, use.index + 2) == "copy":
        call = read_use(use.unit, use.tokens, use.index + 2, use.owner)
        return replace(call, index=use.index) if call is not None and call.kind == "call" else None
    if _text(use, use.after) == "::":  # another member, such as PREFETCH
        return None
    start = use.index
    while _text(use, start - 1) == "::" and start >= 2:
        start -= 2
    before = _text(use, start - 1)
    if before == "=" and "using" in (_text(use, start - 3), _text(use, start - 4)):
        return use
    if before == "<" and _text(use, start - 2) in _COPY_TEMPLATES:
        return use if _text(use, start - 3) not in ("struct", "class") else None
    return None

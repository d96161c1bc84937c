"""One tree under analysis: files by name they mention, include reach, macros, and code inside raw strings."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from ptxguard.errors import ParseError, PtxguardError
from ptxguard.location import SourceFile
from ptxguard.source import candidates
from ptxguard.source.guards import CppFile, World
from ptxguard.source.macros import MacroTable
from ptxguard.source.pieces import Resolver, call_arguments
from ptxguard.source.tokens import RAW
from ptxguard.source.tree import PYTHON_ENDINGS, shown_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ptxguard.arch import Target
    from ptxguard.builds import Builds
    from ptxguard.source.guards import Definition
    from ptxguard.source.pieces import Argument
    from ptxguard.source.pythonprogram import PythonProgram
    from ptxguard.source.tree import Tree, TreeFile


@dataclass(frozen=True)
class Asked:
    """What an analysis has asked of its tree so far.

    Attributes:
        used: files whose text was looked into.
        words: searched for in every C++ file.
        macros: whose definitions were searched for.
        constants: whose values were searched for.
        includes: whether includes were followed.
        python: whether names were followed through the Python files.
        build_words: searched for in every build file, in lower case.
        commits: (root, path, commit) of each submodule that was asked for.
    """

    used: frozenset[TreeFile]
    words: tuple[bytes, ...]
    macros: frozenset[bytes]
    constants: frozenset[bytes]
    includes: bool
    python: bool
    build_words: tuple[bytes, ...]
    commits: tuple[tuple[str, str, str], ...]


@dataclass(eq=False)
class Project:
    """A tree with everything that is computed once for it.

    Attributes:
        tree: its files.
        defines: `-D` of the user.
    """

    tree: Tree
    defines: Mapping[str, str | None]
    _cpp: dict[TreeFile, list[CppFile]] = field(default_factory=dict, repr=False)
    _definitions: dict[str, list[Definition]] = field(default_factory=dict, repr=False)
    _worlds: dict[object, World] = field(default_factory=dict, repr=False)
    _reach: dict[TreeFile, frozenset[TreeFile]] = field(default_factory=dict, repr=False)
    _owner: dict[CppFile, TreeFile] = field(default_factory=dict, repr=False)
    _words: dict[str, list[CppFile]] = field(default_factory=dict, repr=False)
    _constants: set[str] = field(default_factory=set, repr=False)
    _looked: set[TreeFile] = field(default_factory=set, repr=False)
    _unreadable: dict[TreeFile, PtxguardError] = field(default_factory=dict, repr=False)

    @cached_property
    def _cpp_files(self) -> list[tuple[TreeFile, bytes]]:
        """Every readable C++ file with its bytes; what cannot be read is remembered once."""
        loaded = []
        for file in self.tree.files:
            if file.ending == ".ptx":
                continue
            try:
                loaded.append((file, file.data()))
            except PtxguardError as error:
                self._unreadable[file] = error
        return loaded

    @cached_property
    def builds(self) -> Builds:
        """What the build files of the tree say."""
        from ptxguard.builds import BuildFile, Builds  # a tree without findings never reads them

        names = self.tree.build_files
        return Builds([BuildFile(name, shown_path(name)) for name in names])

    @cached_property
    def python(self) -> PythonProgram:
        """The Python files of the tree, parsed only where a search leads to them."""
        from ptxguard.source.pythonprogram import PythonProgram  # a C++ tree never pays for the grammar

        return PythonProgram.of(self.tree)

    @cached_property
    def _generators(self) -> list[tuple[TreeFile, bytes]]:
        """Python files that can hold C++ text, with their bytes, as far as they can be read."""
        found = []
        for file in self.tree.python_files:
            with contextlib.suppress(PtxguardError):
                if candidates.may_hold_cpp(file.data()):
                    found.append((file, file.data()))
        return found

    @cached_property
    def _sources(self) -> list[tuple[TreeFile, bytes]]:
        """Every file that can hold C++, with its bytes."""
        return [*self._cpp_files, *self._generators]

    def unreadable(self, file: TreeFile) -> PtxguardError | None:
        """Why a file could not be read, or None."""
        return self._unreadable.get(file)

    def with_word(self, word: str) -> list[CppFile]:
        """Files (and code inside their raw strings) that hold a name, found by a byte search."""
        known = self._words.get(word)
        if known is None:
            needle = word.encode("utf-8")
            holders = [file for file, data in self._sources if needle in data]
            known = self._words[word] = [
                u for file in holders for u in self.units(file) if word in u.file.text
            ]
        return known

    def units(self, file: TreeFile) -> list[CppFile]:
        """The file as C++, and each raw string in it that holds device code as a file of its own."""
        known = self._cpp.get(file)
        if known is not None:
            return known
        self._cpp[file] = []  # a Python text that leads back to its own file adds nothing
        try:
            source = file.source()
        except PtxguardError as error:
            self._unreadable[file] = error
            return []
        if file.ending in PYTHON_ENDINGS:
            units = self._cpp_in_python(file)
        else:
            unit = CppFile(source, file.is_unit)
            units = [unit, *_embedded(unit)]
        self._cpp[file] = units
        for one in units:
            self._owner[one] = file
        return units

    def _cpp_in_python(self, file: TreeFile) -> list[CppFile]:
        from ptxguard.source.pythoncpp import cpp_texts

        unit = self.python.tree.unit(file)
        return [CppFile(text) for text in cpp_texts(unit, self.python)] if unit is not None else []

    def owner(self, unit: CppFile) -> TreeFile:
        """The file of the tree that a unit comes from."""
        return self._owner[unit]

    def asked(self) -> Asked:
        """Everything that the answers given so far rest on."""
        builds = self.__dict__.get("builds")
        return Asked(
            used=frozenset(file for file in self.tree.every_file() if self._is_used(file)),
            words=tuple(sorted(word.encode() for word in self._words)),
            macros=frozenset(name.encode() for name in self._definitions),
            constants=frozenset(name.encode() for name in self._constants),
            includes="_include_graph" in self.__dict__,
            python="python" in self.__dict__,
            build_words=tuple(sorted(builds.searched)) if builds is not None else (),
            commits=tuple((*key, commit) for key, commit in builds.commits.items()) if builds else (),
        )

    def looked_into(self, file: TreeFile) -> None:
        """Note that the text of a file was read for an answer without being asked for its units."""
        self._looked.add(file)

    def _is_used(self, file: TreeFile) -> bool:
        followed = file.ending in PYTHON_ENDINGS and "python" in self.__dict__
        return followed or file in self._cpp or file in self._looked or file.ending == ".ptx"

    # Macros ---------------------------------------------------------------------------------------

    def definitions(self, name: str) -> list[Definition]:
        """Definitions of a macro in the whole tree."""
        known = self._definitions.get(name)
        if known is None:
            known = self._definitions[name] = [
                definition
                for file in self._defining_files.get(name, ())
                for unit in self.units(file)
                for definition in unit.definitions_by_name.get(name, ())
            ]
        return known

    @cached_property
    def _defining_files(self) -> dict[str, list[TreeFile]]:
        """Files that define or undefine each macro; most names that are asked for are no macros."""
        found: dict[str, list[TreeFile]] = {}
        for file, data in self._sources:
            for name in candidates.defined_macros(data):
                found.setdefault(name.decode("utf-8", "replace"), []).append(file)
        return found

    def with_constant(self, name: str) -> list[CppFile]:
        """Files that may declare a name const or as an enumerator, with a value."""
        self._constants.add(name)
        return [unit for file in self._constant_files.get(name, ()) for unit in self.units(file)]

    @cached_property
    def _constant_files(self) -> dict[str, list[TreeFile]]:
        found: dict[str, list[TreeFile]] = {}
        for file, data in self._sources:
            for name in candidates.valued_names(data):
                found.setdefault(name.decode("utf-8", "replace"), []).append(file)
        return found

    @cached_property
    def macros(self) -> MacroTable:
        """Macro definitions of the tree, weighed by their guards."""
        return MacroTable(self.definitions, self.connected)

    def world(
        self,
        target: Target | None,
        toolkit: tuple[int, int],
        more: Mapping[str, str | None] = MappingProxyType({}),
    ) -> World:
        """The world of a target and a toolkit, one object each so that what it computes is kept.

        Args:
            target: device target, or None for the host pass.
            toolkit: (major, minor).
            more: macros beside those of the user, who comes first.
        """
        key = (target, toolkit, tuple(sorted(more.items(), key=repr)))
        if key not in self._worlds:
            self._worlds[key] = World(target, toolkit, {**more, **self.defines}, self.macros)
        return self._worlds[key]

    @cached_property
    def asm_keywords(self) -> frozenset[str]:
        """`asm` in every spelling, with the macros of the tree that stand for it."""
        return candidates.asm_words(self.tree.files)

    @cached_property
    def resolver(self) -> Resolver:
        """Resolves string pieces with the macros of the tree."""
        qualifiers: set[str] = set()
        for _, data in self._cpp_files:
            qualifiers.update(name.decode() for name in candidates.volatile_macros(data))
        place = self.world(None, (12, 8)).macros_at
        return Resolver(self.macros.candidates, place, self.macro_uses, frozenset(qualifiers))

    def macro_uses(self, macro: Definition) -> list[list[Argument]]:
        """Argument lists of every use of a function-like macro in the tree."""
        uses = []
        for unit in self.with_word(macro.name):
            tokens = unit.tokens
            for index in tokens.positions.get(macro.name, ()):
                close = tokens.match.get(index + 1)
                if close is not None and tokens.texts[index + 1] == "(":
                    arguments, _ = call_arguments(tokens, range(index + 1, close + 1), 0, unit)
                    if arguments is not None:
                        uses.append(arguments)
        return uses

    # Includes -------------------------------------------------------------------------------------

    def connected(self, one: CppFile, other: CppFile) -> bool:
        """Whether one translation unit can hold both files: one includes the other, or a third includes both.

        A file whose includes cannot be followed at all (generated, or a fragment) is taken as connected.
        """
        left, right = self._owner[one], self._owner[other]
        if left.ending in PYTHON_ENDINGS or right.ending in PYTHON_ENDINGS:
            return True  # what Python joins and compiles together cannot be followed
        if left is right:
            return one is other or one.file.parent is None or other.file.parent is None
        if self._unit_bits.get(left, 0) & self._unit_bits.get(right, 0):
            return True
        return right in self._includes_of(left) or left in self._includes_of(right)

    @cached_property
    def _unit_bits(self) -> dict[TreeFile, int]:
        """For each file a bit set of the files nobody includes (translation units) that reach it."""
        included = {target for targets in self._include_graph.values() for target in targets}
        bits: dict[TreeFile, int] = {}
        roots = [file for file in self._include_graph if file not in included]
        for number, root in enumerate(roots):
            for file in self._includes_of(root):
                bits[file] = bits.get(file, 0) | (1 << number)
        return bits

    def _includes_of(self, file: TreeFile) -> frozenset[TreeFile]:
        known = self._reach.get(file)
        if known is None:
            seen = {file}
            queue = [file]
            while queue:
                for target in self._include_graph.get(queue.pop(), ()):
                    if target not in seen:
                        seen.add(target)
                        queue.append(target)
            known = self._reach[file] = frozenset(seen)
        return known

    @cached_property
    def _include_graph(self) -> dict[TreeFile, tuple[TreeFile, ...]]:
        """Files that each file includes directly, as far as they lie in the tree."""
        by_name: dict[str, list[TreeFile]] = {}
        for file, _ in self._cpp_files:
            by_name.setdefault(file.shown.rsplit("/", 1)[-1], []).append(file)
        graph = {}
        for file, data in self._cpp_files:
            targets = []
            for name in candidates.included_names(data):
                targets.extend(_resolve_include(name.decode("utf-8", "replace"), file, by_name))
            graph[file] = tuple(targets)
        return graph


def _resolve_include(name: str, includer: TreeFile, by_name: dict[str, list[TreeFile]]) -> list[TreeFile]:
    """Files of the tree that an include can mean: beside the includer, else every path that ends so."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in (".", "")]
    candidates = by_name.get(parts[-1], []) if parts else []
    if not candidates:
        return []
    folder = includer.shown.split("/")[:-1]
    beside = folder[:]
    for part in parts:
        if part == ".." and beside and beside[-1] != "..":
            beside.pop()
        else:
            beside.append(part)
    exact = [file for file in candidates if file.shown == "/".join(beside)]
    if exact:
        return exact
    tail = "/" + "/".join(part for part in parts if part != "..")
    return [file for file in candidates if ("/" + file.shown).endswith(tail)]


def _embedded(unit: CppFile) -> list[CppFile]:
    """Raw strings that hold device code: a generator's output is code of its own."""
    found = []
    text = unit.file.text
    if 'R"' not in text:
        return []
    for kind, start, end in unit.skeleton:
        if kind != RAW:
            continue
        opening = text.index("(", start) + 1
        closing = end - (opening - start - 1)
        inner = text[opening:closing]
        if (
            "__global__" in inner
            or "__device__" in inner
            or ("asm" in inner and ";" in inner and "(" in inner)
        ):
            file = SourceFile(unit.file.path, inner, unit.file.encoding, unit.file, opening)
            found.append(CppFile(file))
    return found


def check_text(unit: CppFile) -> list[PtxguardError]:
    """Conditionals, literals and comments that never end; literals under `#if 0` do not count."""
    problems: list[PtxguardError] = []
    last = unit.guard_at(len(unit.file.text))
    if last is not None:
        message = f"{last.text} has no #endif"
        problems.append(ParseError(message, path=unit.file.path, line=last.line, column=1))
    for offset, text in unit.unended():
        guard = unit.guard_at(offset)
        while guard is not None and guard.text[1:].split() != ["if", "0"]:
            guard = guard.parent
        if guard is not None:
            continue
        line, column = unit.file.position(offset)
        what = "comment" if text == "/*" else "raw string" if text.endswith('R"') else "string literal"
        problems.append(ParseError(f"{what} never ends", path=unit.file.path, line=line, column=column))
    return problems

"""The Python files of a tree: what an import or a (dotted) name stands for, classes with their bases."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ptxguard.errors import PtxguardError
from ptxguard.source.python import PythonFile
from ptxguard.source.pythonscope import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from ptxguard.source.pythonscope import Binding
    from ptxguard.source.tree import Tree, TreeFile

_MAX_DEPTH = 12
# A name in more files than this is common: `load`, `kernel`.
_COMMON = 40


@dataclass(frozen=True, eq=False)
class Module:
    """A module of the tree, or a package on the way to one.

    Attributes:
        dotted: its name as far as an importer wrote it.
        units: the files that it can be, the nearest one only unless several are equally near.
        importer: the file that imports it.
    """

    dotted: str
    units: tuple[PythonFile, ...]
    importer: PythonFile


@dataclass(frozen=True)
class External:
    """Something that is not of the tree: `cutlass.cute.arch`."""

    dotted: str


# What an expression stands for; None where that cannot be told.
Target = Scope | Module | External | None


@dataclass(eq=False)
class PythonTree:
    """The Python files of a tree, parsed one by one when a search leads to them.

    Attributes:
        tree: all files of the run.
        unreadable: files that could not be read, with the reason.
    """

    tree: Tree
    unreadable: dict[TreeFile, PtxguardError] = field(default_factory=dict)
    _units: dict[TreeFile, PythonFile | None] = field(default_factory=dict, repr=False)
    _mro: dict[Scope, tuple[Scope, ...]] = field(default_factory=dict, repr=False)
    _subclasses: dict[Scope, tuple[Scope, ...]] = field(default_factory=dict, repr=False)
    _words: dict[str, list[TreeFile]] = field(default_factory=dict, repr=False)

    @cached_property
    def files(self) -> list[tuple[TreeFile, bytes]]:
        """Every readable Python file with its bytes."""
        found = []
        for file in self.tree.python_files:
            try:
                found.append((file, file.data()))
            except PtxguardError as error:
                self.unreadable[file] = error
        return found

    def unit(self, file: TreeFile) -> PythonFile | None:
        """A file, parsed when it is looked into; None where it is no text."""
        if file not in self._units:
            try:
                unit = PythonFile(file.source())
                self._units[file] = unit
            except PtxguardError as error:
                self.unreadable[file] = error
                self._units[file] = None
        return self._units[file]

    def with_word(self, word: str) -> Iterator[PythonFile]:
        """Files that hold a name, found by a byte search."""
        for file in self._holding(word):
            unit = self.unit(file)
            if unit is not None:
                yield unit

    def _holding(self, word: str) -> list[TreeFile]:
        known = self._words.get(word)
        if known is None:
            needle = word.encode("utf-8", "surrogatepass")
            known = self._words[word] = [file for file, data in self.files if needle in data]
        return known

    def users(self, target: Scope) -> list[PythonFile]:
        """Files that can use a function or class: all that hold its name, by hints where the name is common.

        A hint is the name of its module or package, for a method that of a class of its family. What stands
        inside a function is used in its own file, and a private name only where its module is named.
        """
        if target.parent is not None and target.parent.kind in ("function", "lambda"):
            return [target.unit]
        word = re.compile((r"\." if target.owner is not None else r"\b") + re.escape(target.name) + r"\b")
        found = self._holding(target.name if target.owner is None else f".{target.name}")
        private = target.owner is None and target.name.startswith("_")
        if len(found) > _COMMON or private:
            hints = {file for hint in self._hints(target, private=private) for file in self._holding(hint)}
            found = [file for file in found if file in hints or file.shown == target.unit.file.path]
        units = [self.unit(file) for file in found]
        return [unit for unit in units if unit is not None and word.search(unit.file.text)]

    def _hints(self, target: Scope, *, private: bool) -> list[str]:
        if target.owner is not None:
            family = {*self.mro(target.owner), *self.subclasses(target.owner)}
            return sorted({one.name for one in family})
        return _module_parts(target.unit.file.path)[-1 if private else -2 :]

    # Modules --------------------------------------------------------------------------------------

    @cached_property
    def _by_path(self) -> dict[str, TreeFile]:
        return {file.shown: file for file, _ in self.files}

    @cached_property
    def _by_tail(self) -> dict[str, list[TreeFile]]:
        """Last module name -> files that carry it."""
        found: dict[str, list[TreeFile]] = {}
        for file, _ in self.files:
            parts = _module_parts(file.shown)
            if parts:
                found.setdefault(parts[-1], []).append(file)
        return found

    def module(self, dotted: str, level: int, importer: PythonFile) -> Target:
        """The module that an import names.

        A module of the tree is the file with the longest common path with the importer among those that
        end as the import says: one interpreter has one of them on its path.
        """
        parts = [part for part in dotted.split(".") if part]
        if level:
            folder = importer.file.path.split("/")[:-1]
            base = folder[: len(folder) - (level - 1)] + parts
            for name in ("/".join(base) + ".py", "/".join([*base, "__init__.py"])):
                if name in self._by_path:
                    return self._module(dotted, [self._by_path[name]], importer)
            return Module("/".join(base), (), importer) if self._is_folder(base) else External(dotted)
        if not parts:
            return None
        near = self._nearest(parts, importer)
        if near:
            return self._module(dotted, near, importer)
        return External(dotted)

    def _module(self, dotted: str, files: list[TreeFile], importer: PythonFile) -> Module:
        units = tuple(unit for file in files if (unit := self.unit(file)) is not None)
        return Module(dotted, units, importer)

    def _nearest(self, parts: list[str], importer: PythonFile) -> list[TreeFile]:
        best: list[TreeFile] = []
        longest = -1
        folders = importer.file.path.split("/")[:-1]
        for file in self._by_tail.get(parts[-1], ()):
            own = _module_parts(file.shown)
            if own[-len(parts) :] != parts:
                continue
            common = 0
            for left, right in zip(own[: -len(parts)], folders, strict=False):
                if left != right:
                    break
                common += 1
            if common > longest:
                best, longest = [], common
            if common == longest:
                best.append(file)
        return best

    def _is_folder(self, parts: list[str]) -> bool:
        prefix = "/".join(parts) + "/"
        return any(path.startswith(prefix) for path in self._by_path)

    # Names ----------------------------------------------------------------------------------------

    def imported(self, binding: Binding) -> list[tuple[PythonFile, list[Binding]]]:
        """Files of the tree that an imported name comes from, with what binds it there."""
        if binding.imported is None:
            return []
        dotted, level, original = binding.imported
        module = self.module(dotted, level, binding.scope.unit)
        found = [
            (unit, unit.module.bindings.get(original or "", [])) for unit in getattr(module, "units", ())
        ]
        return [(unit, bound) for unit, bound in found if bound]

    def bindings(self, name: str, scope: Scope) -> list[Binding]:
        """Ways in which a name gets its value, from the scope that binds it (never a class body)."""
        place: Scope | None = scope
        while place is not None:
            if name in place.bindings and (place is scope or place.kind != "class"):
                return place.bindings[name]
            place = place.parent
        return []

    def targets(self, node: Node | None, scope: Scope, depth: int = 0) -> list[Target]:
        """Functions, classes and modules that an expression can stand for."""
        if node is None or depth > _MAX_DEPTH:
            return [None]
        unit = scope.unit
        if node.type == "identifier":
            return self._name_targets(unit.text(node), scope, depth)
        if node.type == "attribute":
            attribute = node.child_by_field_name("attribute")
            bases = self.targets(node.child_by_field_name("object"), scope, depth + 1)
            name = unit.text(attribute) if attribute is not None else ""
            return [found for base in bases for found in self._member(base, name, depth)]
        if node.type == "conditional_expression":
            first, _, last = node.named_children
            return self.targets(first, scope, depth + 1) + self.targets(last, scope, depth + 1)
        if node.type == "parenthesized_expression" and node.named_children:
            return self.targets(node.named_children[0], scope, depth + 1)
        if node.type == "call" and unit.callee(node) == "partial":
            arguments = node.child_by_field_name("arguments")
            if arguments is not None and arguments.named_children:
                return self.targets(arguments.named_children[0], scope, depth + 1)
        return [None]

    def _name_targets(self, name: str, scope: Scope, depth: int) -> list[Target]:
        found: list[Target] = []
        bound = self.bindings(name, scope)
        if not bound:
            return self._starred(name, scope, depth)
        for binding in bound:
            if binding.kind == "scope":
                found.append(binding.target)
            elif binding.imported is not None:
                found.extend(self._imported(binding.imported, scope.unit, depth))
            elif binding.kind == "assign" and not binding.path:
                found.extend(self.targets(binding.value, binding.scope, depth + 1))
            else:
                found.append(None)
        return list(dict.fromkeys(found))

    def _starred(self, name: str, scope: Scope, depth: int) -> list[Target]:
        """A name that only `from m import *` can bind, else a builtin."""
        for binding in scope.unit.module.bindings.get("*", ()):
            if binding.imported is not None:
                module = self.module(binding.imported[0], binding.imported[1], scope.unit)
                if isinstance(module, Module) and any(name in unit.module.bindings for unit in module.units):
                    return self._member(module, name, depth)
        return [External(name)]

    def _imported(self, imported: tuple[str, int, str | None], unit: PythonFile, depth: int) -> list[Target]:
        dotted, level, name = imported
        module = self.module(dotted, level, unit)
        if name is None:
            return [module]
        if module is None:  # `from . import name`
            return [None]
        return self._member(module, name, depth)

    def _member(self, base: Target, name: str, depth: int) -> list[Target]:
        """`base.name`."""
        if depth > _MAX_DEPTH:
            return [None]
        if isinstance(base, External):
            return [External(f"{base.dotted}.{name}")]
        if isinstance(base, Module):
            for unit in base.units:
                if name in unit.module.bindings:
                    return self._name_targets(name, unit.module, depth + 1)
            inner = self._submodule(base, name)
            return [inner]
        if isinstance(base, Scope) and base.kind == "class":
            found = self.method(base, name)
            return [found]
        return [None]

    def _submodule(self, base: Module, name: str) -> Target:
        for unit in base.units:
            folder = unit.file.path.removesuffix("/__init__.py")
            for path in (f"{folder}/{name}.py", f"{folder}/{name}/__init__.py"):
                if path in self._by_path:
                    return self._module(f"{base.dotted}.{name}", [self._by_path[path]], base.importer)
        if base.units:
            return External(f"{base.dotted}.{name}")
        for path in (f"{base.dotted}/{name}.py", f"{base.dotted}/{name}/__init__.py"):
            if path in self._by_path:
                return self._module(name, [self._by_path[path]], base.importer)
        return External(f"{base.dotted}.{name}")

    # Classes --------------------------------------------------------------------------------------

    def mro(self, record: Scope) -> tuple[Scope, ...]:
        """A class and its bases in the order in which Python looks a method up, those of the tree."""
        known = self._mro.get(record)
        if known is None:
            self._mro[record] = (record,)  # a class among its own bases ends here
            order = [record]
            for base in self.bases(record):
                order.extend(self.mro(base))
            last = {scope: place for place, scope in enumerate(order)}
            known = tuple(scope for place, scope in enumerate(order) if last[scope] == place)
            self._mro[record] = known
        return known

    def bases(self, record: Scope) -> list[Scope]:
        """Direct bases of a class that are classes of the tree."""
        listed = record.node.child_by_field_name("superclasses")
        found = []
        for node in listed.named_children if listed is not None else ():
            if node.type in ("identifier", "attribute") and record.parent is not None:
                for target in self.targets(node, record.parent):
                    if isinstance(target, Scope) and target.kind == "class" and target is not record:
                        found.append(target)
        return found

    def subclasses(self, record: Scope) -> tuple[Scope, ...]:
        """Every class of the tree that derives from a class, itself first."""
        known = self._subclasses.get(record)
        if known is None:
            found = [record]
            for one in found:
                for unit in self.with_word(one.name):
                    for scope in unit.scopes:
                        if scope.kind == "class" and scope not in found and one in self.bases(scope):
                            found.append(scope)
            known = self._subclasses[record] = tuple(found)
        return known

    def method(self, record: Scope, name: str) -> Scope | None:
        """The method that a class has under a name."""
        for one in self.mro(record):
            for binding in reversed(one.bindings.get(name, ())):
                if binding.target is not None:
                    return binding.target
        return None

    def attribute(self, record: Scope, name: str) -> list[tuple[Binding, Scope]]:
        """Assignments to `self.name` in the methods of a class and its bases, each with its method."""
        found = []
        for one in self.mro(record):
            for binding in one.bindings.get(name, ()):
                if binding.kind == "assign":
                    found.append((binding, one))
            for scope in one.unit.scopes:
                if scope.owner is one and scope.parameters:
                    written = f"{scope.parameters[0].name}.{name}"
                    found.extend((binding, scope) for binding in scope.bindings.get(written, ()))
        return found


def _module_parts(path: str) -> list[str]:
    """`a/b/__init__.py` and `a/b.py` as `["a", "b"]`."""
    parts = path.removesuffix(".pyi").removesuffix(".py").split("/")
    return parts[:-1] if parts[-1] == "__init__" else parts

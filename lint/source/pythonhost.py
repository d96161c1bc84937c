"""Launches of C++ kernels by Python host code: CuPy and PyCUDA calls, cuda.core `launch`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.finding import Evidence
from ptxguard.source.pythonframe import Frame
from ptxguard.source.sizes import Size

if TYPE_CHECKING:
    from tree_sitter import Node

    from ptxguard.source.python import PythonFile
    from ptxguard.source.pythonprogram import PythonProgram
    from ptxguard.source.pythonscope import Scope

# Calls that name a kernel: cupy.RawKernel, RawModule.get_function (PyCUDA too), cuda.core get_kernel.
_GETTERS = frozenset({"RawKernel", "get_function", "get_kernel"})
# `name_expressions=[…]` tells NVRTC which templates to instantiate (CuPy, cuda.core).
_NEUTRAL_KEYWORDS = frozenset({"name_expressions"})
_MAX_HOPS = 4


@dataclass(eq=False)
class HostLaunches:
    """What Python host code does with a kernel that it fetches by name.

    Attributes:
        program: the Python files.
        sizes: cluster size of each launch in sight.
        escapes: (reason, path, line) of what cannot be followed.
    """

    program: PythonProgram
    sizes: list[Size] = field(default_factory=list)
    escapes: list[tuple[str, str, int]] = field(default_factory=list)

    @classmethod
    def find(cls, program: PythonProgram, name: str, *, in_python: bool) -> HostLaunches:
        """Launches of a kernel by its name.

        Args:
            program: the Python files.
            name: the kernel's unqualified name.
            in_python: whether the kernel's own text stands in a Python file: every mention of it counts then.
        """
        found = cls(program)
        quoted = re.compile(r"[rbuRBU]{0,2}(['\"])(?:\w+::)*" + re.escape(name) + r"(?:<[^'\"\n]*>)?\1")
        for unit in program.tree.with_word(name):
            mentioned = quoted.search(unit.file.text) is not None  # spares the parser most files
            for node in unit.captures.get("string", ()) if mentioned else ():
                if quoted.fullmatch(unit.text(node)):
                    found._mention(node, unit, in_python=in_python)
        return found

    def _mention(self, node: Node, unit: PythonFile, *, in_python: bool) -> None:
        around = node.parent
        keyword = _keyword(node, unit)
        while around is not None and around.type in ("keyword_argument", "list", "tuple", "argument_list"):
            keyword = keyword or _keyword(around, unit)
            around = around.parent
        if keyword in _NEUTRAL_KEYWORDS:
            return
        if around is not None and around.type == "call" and unit.callee(around) in _GETTERS:
            self._follow(around, unit.scope_at(around), 0)
        elif in_python:
            self._escape("named in Python in a way that is not followed", node, unit)

    def _escape(self, reason: str, node: Node, unit: PythonFile) -> None:
        self.escapes.append((reason, unit.file.path, unit.line(node)))

    def _follow(self, node: Node, scope: Scope, hops: int) -> None:
        """Decide what the expression that holds a kernel object is used for."""
        unit, around = scope.unit, node.parent
        if around is None or hops > _MAX_HOPS:
            self._escape("held by Python code that is not followed", node, unit)
        elif around.type == "call":
            self._called(around, unit)
        elif around.type == "argument_list" and around.parent is not None:
            self._passed(around.parent, node, scope)
        elif around.type == "assignment" and around.child_by_field_name("right") == node:
            self._through_name(around, scope, hops)
        elif around.type == "attribute":
            if around.parent is not None and around.parent.type == "call":
                self._escape("launched by a method that is not followed", node, unit)
        elif around.type != "expression_statement":
            self._escape("passed on in Python", node, unit)

    def _called(self, call: Node, unit: PythonFile) -> None:
        """`kernel(grid, block, …)`: CuPy and PyCUDA launch without attributes."""
        path, line = unit.file.path, unit.line(call)
        link = Evidence("launch", path, line, "called from Python without launch attributes")
        self.sizes.append(
            Size("one", f"called from Python without launch attributes ({path}:{line})", (link,))
        )

    def _passed(self, call: Node, node: Node, scope: Scope) -> None:
        """`launch(stream, config, kernel, …)` of cuda.core."""
        listed = call.child_by_field_name("arguments")
        given = [one for one in listed.named_children if one.type != "comment"] if listed is not None else []
        if scope.unit.callee(call) != "launch" or len(given) < 3 or given[2] != node:
            self._escape("passed on in Python", node, scope.unit)
            return
        self.sizes.append(self._configured(given[1], scope))

    def _configured(self, node: Node, scope: Scope) -> Size:
        """Cluster size of a cuda.core `LaunchConfig`, written out or in a variable."""
        unit = scope.unit
        place = f"{unit.file.path}:{unit.line(node)}"
        made: Node | None = node
        if node.type == "identifier":
            name = unit.text(node)
            bound = self.program.tree.bindings(name, scope)
            changed = self.program.tree.bindings(f"{name}.cluster", scope)
            made = bound[0].value if len(bound) == 1 and not changed else None
        listed = made.child_by_field_name("arguments") if made is not None and made.type == "call" else None
        if made is None or listed is None or unit.callee(made) != "LaunchConfig":
            return Size("undecided", f"the launch configuration is not in sight ({place})")
        plain = [one for one in listed.named_children if one.type not in ("keyword_argument", "comment")]
        if len(plain) > 1:
            return Size("undecided", f"the launch configuration is given by position ({place})")
        return self.program.launches.of_keywords(made, Frame(scope), ("cluster",))

    def _through_name(self, assignment: Node, scope: Scope, hops: int) -> None:
        """Uses of the variable or attribute that holds a kernel object."""
        unit, target = scope.unit, assignment.child_by_field_name("left")
        if target is None or target.type not in ("identifier", "attribute"):
            self._escape("kept in a container in Python", assignment, unit)
            return
        written = unit.text(target)
        before = len(self.sizes) + len(self.escapes)
        for last in unit.names(written.rpartition(".")[2]):
            use = last.parent if target.type == "attribute" else last
            if use is None or use == target or unit.text(use) != written:
                continue
            inner = unit.scope_at(use)
            same = target.type == "attribute" or any(
                binding.node == assignment for binding in self.program.tree.bindings(written, inner)
            )
            if same and not _is_target(use):
                self._follow(use, inner, hops + 1)
        if len(self.sizes) + len(self.escapes) == before:
            self._escape("fetched in Python, launch not in sight", assignment, unit)


def _keyword(node: Node, unit: PythonFile) -> str:
    name = node.child_by_field_name("name") if node.type == "keyword_argument" else None
    return unit.text(name) if name is not None else ""


def _is_target(node: Node) -> bool:
    around = node.parent
    return around is not None and around.type == "assignment" and around.child_by_field_name("left") == node

"""What is computed once for the Python files of a tree: callers, values, texts, launches, owners."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ptxguard.source.pythonaddress import PythonAddresses
from ptxguard.source.pythoncalls import PythonCalls
from ptxguard.source.pythonlaunch import PythonLaunches
from ptxguard.source.pythonoperands import AsmEffects
from ptxguard.source.pythontext import PythonTexts
from ptxguard.source.pythontree import PythonTree
from ptxguard.source.pythonvalues import PythonValues

if TYPE_CHECKING:
    from ptxguard.source.tree import Tree


@dataclass(eq=False)
class PythonProgram:
    """The Python files of a tree with what is known of them.

    Attributes:
        tree: the files.
    """

    tree: PythonTree

    @classmethod
    def of(cls, tree: Tree) -> PythonProgram:
        """The Python files of a run."""
        return cls(PythonTree(tree))

    @cached_property
    def calls(self) -> PythonCalls:
        """Callers over the tree."""
        return PythonCalls(self.tree)

    @cached_property
    def values(self) -> PythonValues:
        """Numbers and tuples."""
        return PythonValues(self.calls)

    @cached_property
    def texts(self) -> PythonTexts:
        """Texts."""
        return PythonTexts(self.calls, self.values)

    @cached_property
    def launches(self) -> PythonLaunches:
        """Cluster sizes."""
        return PythonLaunches(self.calls, self.values)

    @cached_property
    def addresses(self) -> PythonAddresses:
        """Owners of addresses."""
        return PythonAddresses(self.calls, self.values, AsmEffects(self.texts).of)

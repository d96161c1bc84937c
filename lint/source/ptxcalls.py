"""Who calls whom in a PTX module, which kernels reach a function, and how large their clusters are."""

from __future__ import annotations

import re
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from ptxguard.finding import Evidence
from ptxguard.model import ClusterVerdict
from ptxguard.source.ptxmodule import without_comments

if TYPE_CHECKING:
    from ptxguard.source.ptxbody import Call
    from ptxguard.source.ptxmodule import PtxFunction, PtxModule
    from ptxguard.source.ptxvariables import Variable

# What only makes sense with more than one CTA in a cluster: worth showing, no proof.
_CLUSTER_USES = (
    *("%cluster_ctarank", "%cluster_nctarank", "%cluster_ctaid", "%cluster_nctaid"),
    *("mapa.", "barrier.cluster.", ".multicast::cluster"),
)
# One larger kernel makes the answer, one undecided kernel spoils `one`.
_FIRST = ("larger", "undecided", "one")
_OUTSIDE = "launched from outside this file, and no directive of the kernel fixes its cluster size"


class CallGraph:
    """The calls between the functions of one module."""

    def __init__(self, module: PtxModule) -> None:
        self.module = module
        self._defined = {function.name: function for function in module.functions if function.is_defined}
        self._called_by_name: dict[str, bool] = {}
        self._verdicts: dict[str, ClusterVerdict] = {}

    @cached_property
    def shared_variables(self) -> dict[str, Variable]:
        """The module's own `.shared` variables by name."""
        return {item.name: item for item in self.module.variables if item.space == "shared"}

    @cached_property
    def _calls(self) -> dict[str, list[tuple[PtxFunction, Call]]]:
        """Called name -> (caller, call); a call through a register stands under the register's name."""
        calls: dict[str, list[tuple[PtxFunction, Call]]] = {}
        for function in self._defined.values():
            if function.mentions("call"):
                for call in function.body.calls:
                    calls.setdefault(call.name, []).append((function, call))
        return calls

    def calls_of(self, name: str) -> list[tuple[PtxFunction, Call]]:
        """(caller, call) of every direct call of a function."""
        return self._calls.get(name, [])

    def all_calls_known(self, function: PtxFunction) -> bool:
        """Whether every call of a function stands in this module, by name."""
        if function.linkage not in {"", "common"}:
            return False
        if function.name not in self._called_by_name:
            self._called_by_name[function.name] = not self._is_address_taken(function.name)
        return self._called_by_name[function.name]

    def _is_address_taken(self, name: str) -> bool:
        """Whether the name stands where nothing calls it: in code, or in the initial value of a variable."""
        word = re.compile(rf"(?<![\w$%]){re.escape(name)}(?![\w$%])")
        users = [function for function in self._defined.values() if function.mentions(name)]
        if sum(len(word.findall(user.body.text)) for user in users) != len(self.calls_of(name)):
            return True
        text = self.module.text
        for match in word.finditer(text):
            begin = max(text.rfind(mark, 0, match.start()) for mark in ";}") + 1
            inside = any(user.body_start <= match.start() < user.body_end for user in users)
            if not inside and "=" in without_comments(text[begin : match.start()]):
                return True
        return False

    def kernels_of(self, function: PtxFunction) -> tuple[PtxFunction, ...]:
        """The entries that reach a function by direct calls, in file order; an entry reaches itself."""
        if function.is_entry:
            return (function,)
        reached = {function.name}
        waiting = [function.name]
        while waiting:
            for caller, _ in self.calls_of(waiting.pop()):
                if caller.name not in reached:
                    reached.add(caller.name)
                    waiting.append(caller.name)
        return tuple(item for item in self._defined.values() if item.is_entry and item.name in reached)

    def judge_cluster(self, function: PtxFunction, path: str) -> ClusterVerdict:
        """How large the cluster is wherever the function runs, by the directives of its kernels.

        A directive binds every launch, so that `launches_in_sight` holds wherever one decides.
        """
        if function.name not in self._verdicts:
            self._verdicts[function.name] = self._cluster(function, path)
        return self._verdicts[function.name]

    def _cluster(self, function: PtxFunction, path: str) -> ClusterVerdict:
        kernels = self.kernels_of(function)
        evidence = self._evidence(kernels, path)
        if not function.is_entry and not self.all_calls_known(function):
            return ClusterVerdict(
                "undecided", f"`{function.name}` may be called from outside this file", evidence
            )
        if not kernels:
            return ClusterVerdict("undecided", f"no kernel of this file calls `{function.name}`")
        verdict, reason, kernel = min(
            ((*_directive_verdict(kernel), kernel) for kernel in kernels),
            key=lambda item: _FIRST.index(item[0]),
        )
        sentence = f"kernel `{kernel.name}`: {reason}"
        return ClusterVerdict(verdict, sentence, evidence, launches_in_sight=verdict != "undecided")

    def _evidence(self, kernels: tuple[PtxFunction, ...], path: str) -> tuple[Evidence, ...]:
        found = []
        for kernel in kernels:
            line = self.module.line(kernel.start)
            directives = [
                _spelled(name, numbers) for name, numbers in kernel.tuning.items() if "cluster" in name
            ]
            if directives:
                found.append(Evidence("attribute", path, line, f"{kernel.name}: {' '.join(directives)}"))
            text = kernel.body.text
            for offset, use in sorted((text.find(use), use) for use in _CLUSTER_USES if use in text):
                line = self.module.line(kernel.body_start + offset)
                found.append(Evidence("asm", path, line, f"{kernel.name} uses {use.strip('.')}"))
        return tuple(found)


def _directive_verdict(kernel: PtxFunction) -> tuple[str, str]:
    """What the kernel's directives say (PTX ISA, "Cluster Dimension Directives")."""
    dims = kernel.tuning.get("reqnctapercluster")
    if dims:
        size = prod(dims)
        return (
            "one" if size == 1 else "larger"
        ), f"{_spelled('reqnctapercluster', dims)} is a cluster of {size}"
    if kernel.tuning.get("maxclusterrank") == (1,):
        return "one", ".maxclusterrank 1 allows a cluster of 1 only"
    if "explicitcluster" in kernel.tuning:
        return "undecided", ".explicitcluster leaves the size to the launch, which stands outside this file"
    return "undecided", _OUTSIDE


def _spelled(name: str, numbers: tuple[int, ...]) -> str:
    return f".{name} {', '.join(map(str, numbers))}".rstrip()

"""Which kernels reach an asm statement: callers followed upwards, with the chain of calls as evidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.finding import Evidence
from ptxguard.source.cuda import Function
from ptxguard.source.functors import object_uses

if TYPE_CHECKING:
    from ptxguard.source.callgraph import CallGraph
    from ptxguard.source.uses import Owner, Use

# A helper with more callers than this in one tree is followed no further; the verdict says so.
MAX_OWNERS = 2000


@dataclass(frozen=True)
class Reached:
    """A kernel that reaches a statement.

    Attributes:
        kernel: the kernel.
        sure: False where an overload on the way cannot be told apart.
        chain: calls from the kernel down to the statement.
    """

    kernel: Function
    sure: bool
    chain: tuple[Evidence, ...]


@dataclass(eq=False)
class Reach:
    """Result of following callers.

    Attributes:
        kernels: kernels that reach the statement, in path order.
        loose: (reason, path, line) of ways that cannot be followed.
        ends: functions that nobody calls.
    """

    kernels: list[Reached] = field(default_factory=list)
    loose: list[tuple[str, str, int]] = field(default_factory=list)
    ends: list[Owner] = field(default_factory=list)


@dataclass(eq=False)
class Reaches:
    """Kernels reached from functions, computed once each.

    Attributes:
        graph: the call graph.
    """

    graph: CallGraph
    _known: dict[Owner, Reach] = field(default_factory=dict, repr=False)

    def of(self, owner: Owner) -> Reach:
        """Kernels that reach a function or macro."""
        known = self._known.get(owner)
        if known is None:
            known = self._known[owner] = self._search(owner)
        return known

    def _search(self, start: Owner) -> Reach:
        reach = Reach()
        seen: dict[Owner, bool] = {start: True}
        queue: list[tuple[Owner, bool, tuple[Evidence, ...]]] = [(start, True, ())]
        while queue:
            owner, sure, chain = queue.pop(0)
            if isinstance(owner, Function) and owner.is_kernel:
                reach.kernels.append(Reached(owner, sure, chain))
                continue
            if len(seen) > MAX_OWNERS:
                reach.loose.append((f"more than {MAX_OWNERS} callers", owner.unit.file.path, owner.line))
                break
            callers = self.graph.callers(owner)
            for use in callers.escapes:
                reach.loose.append((f"{owner.qualified} is passed on as a value", use.path, use.line))
            for use, certain in callers.calls:
                step = self._step(reach, owner, use)
                if step is None or use.owner is None:
                    continue
                both = sure and certain
                if use.owner in seen and (seen[use.owner] or not both):
                    continue
                seen[use.owner] = both
                queue.append((use.owner, both, (step, *chain)))
            if not callers.calls and not callers.escapes:
                self._end(reach, owner)
        reach.kernels.sort(key=lambda reached: (reached.kernel.unit.file.path, reached.kernel.line))
        return reach

    def _step(self, reach: Reach, owner: Owner, use: Use) -> Evidence | None:
        if use.owner is None:
            reach.loose.append((f"{owner.qualified} is used outside of every function", use.path, use.line))
            return None
        text = use.tokens.source(use.index, min(use.after + 1, len(use.tokens)))
        return Evidence("call", use.path, use.line, f"{use.owner.qualified} calls {text.rstrip('( ')}")

    def _end(self, reach: Reach, owner: Owner) -> None:
        """A function that nobody calls: its class may be passed on as a type."""
        if isinstance(owner, Function) and owner.in_record and owner.scope:
            record = owner.scope[-1]
            for use in self.graph.uses(record):
                inside = isinstance(use.owner, Function) and record in use.owner.scope
                if (
                    use.owner is not None
                    and not inside
                    and not _calls_another_member(use, owner)
                    and self.graph.project.connected(use.unit, owner.unit)
                ):
                    reach.loose.append(
                        (f"{record} is used as a type or template argument", use.path, use.line)
                    )
                    return
        reach.ends.append(owner)


def _calls_another_member(use: Use, owner: Function) -> bool:
    """Whether a class is named only to call another function of it: `Load::first(n)` or `Load l; l.first(n)`.

    Neither passes the type on; where the other function calls this one, this one has a caller of its own.
    """
    if _is_call_of_another(use, use.after, ("::",), owner):
        return True
    objects = object_uses(use)
    return bool(objects) and all(
        _is_call_of_another(one, one.after, (".", "->"), owner) for one in objects or ()
    )


def _is_call_of_another(use: Use, at: int, signs: tuple[str, ...], owner: Function) -> bool:
    texts = use.tokens.texts[at : at + 3]
    return len(texts) == 3 and texts[0] in signs and texts[1] != owner.name and texts[2] == "("

"""Which Python kernels reach an asm call: callers followed upwards, with the classes that `self` can be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.finding import Evidence

if TYPE_CHECKING:
    from ptxguard.source.pythoncalls import Call, Classes, PythonCalls
    from ptxguard.source.pythonscope import Scope

MAX_FUNCTIONS = 2000
# Last word of a decorator that makes a kernel: `@cute.kernel`, `@triton.jit` (also called as a function).
_KERNEL, _EITHER = "kernel", "jit"


@dataclass(frozen=True)
class ReachedKernel:
    """A kernel that reaches an asm call.

    Attributes:
        kernel: its function.
        classes: what `self` can be in it, None for a plain function.
        sure: False where a receiver on the way is not known.
        chain: calls from the kernel down to the asm.
    """

    kernel: Scope
    classes: Classes | None
    sure: bool
    chain: tuple[Evidence, ...]


@dataclass(eq=False)
class PythonReach:
    """Result of following callers.

    Attributes:
        kernels: kernels reached, in path order.
        loose: (reason, path, line) of ways that cannot be followed.
    """

    kernels: list[ReachedKernel] = field(default_factory=list)
    loose: list[tuple[str, str, int]] = field(default_factory=list)


def is_kernel(function: Scope) -> bool:
    """Whether a decorator says that a function is launched, never called."""
    return any(_last_word(one) == _KERNEL for one in function.decorators)


def may_be_kernel(function: Scope) -> bool:
    """Whether a function can also be launched (`kernel[grid](…)`)."""
    return any(_last_word(one) == _EITHER for one in function.decorators)


def _last_word(decorator: str) -> str:
    return decorator.partition("(")[0].rpartition(".")[2].strip()


def is_launch(call: Call) -> bool:
    """Whether a call has the shape `kernel[grid](…)`."""
    function = call.node.child_by_field_name("function")
    return function is not None and function.type == "subscript"


def find_kernels(calls: PythonCalls, start: Scope, first: tuple[Call, ...] = ()) -> PythonReach:
    """Kernels that reach a function; `first` are the calls by which alone it is entered."""
    reach = PythonReach()
    function = first[-1].scope if first else start
    classes = first[-1].classes if first else calls.classes(function)
    chain = tuple(_step(call, start) for call in reversed(first))
    seen: dict[tuple[Scope, Classes | None], bool] = {(function, classes): True}
    queue: list[tuple[Scope, Classes | None, bool, tuple[Evidence, ...]]] = [(function, classes, True, chain)]
    while queue:
        function, classes, sure, chain = queue.pop(0)
        if len(seen) > MAX_FUNCTIONS:
            path = function.unit.file.path
            reach.loose.append((f"more than {MAX_FUNCTIONS} functions reach it", path, function.line))
            break
        if function.kind in ("module", "class"):
            reason = "the asm call stands outside of every function"
            reach.loose.append((reason, function.unit.file.path, function.line))
            continue
        callers = calls.callers(function, classes)
        if is_kernel(function) or any(is_launch(call) for call in callers.calls):
            reach.kernels.append(ReachedKernel(function, classes, sure, chain))
        if is_kernel(function):
            continue
        for unit, node in callers.escapes:
            reason = f"{function.qualified} is passed on as a value"
            reach.loose.append((reason, unit.file.path, unit.line(node)))
        for call in callers.calls:
            if is_launch(call):
                continue
            both = sure and call.sure
            key = (call.scope, call.classes)
            if key in seen and (seen[key] or not both):
                continue
            seen[key] = both
            queue.append((call.scope, call.classes, both, (_step(call, function), *chain)))
    reach.kernels.sort(key=lambda one: (one.kernel.unit.file.path, one.kernel.line))
    return reach


def _step(call: Call, function: Scope) -> Evidence:
    caller = call.scope.qualified or "the module"
    return Evidence("call", call.unit.file.path, call.line, f"{caller} calls {function.name}")

"""What a driver call in place of a copy costs: memory on each card, registers, setmaxnreg, a late launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ptxguard.arch import Target
from ptxguard.forms import syscall_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxguard.finding import Cost
    from ptxguard.memcost import Gpu
    from ptxguard.model import CopySite

# ptxas 13.0.88 and 13.5.37: every kernel that refers to one of the bulk-copy syscalls gets at least this many
# registers, because the call follows the ABI.
SYSCALL_REGISTERS = 24

# Stands for the name where the form of a copy is not known, as that of an atom of an unknown CUTLASS.
UNKNOWN_FUNCTION = "a driver function of unknown name"


def syscall_of(site: CopySite) -> str:
    """Full symbol of the driver function; for a form that has none the sentence says so instead of a name."""
    return syscall_name(site.copy) or UNKNOWN_FUNCTION


def price_copy(site: CopySite, targets: Sequence[str], gpus: Sequence[Gpu]) -> tuple[Cost, ...]:
    """Predicted reservation on each card that runs code for one of the targets, net of the default limit."""
    from ptxguard.memcost import price_syscall  # a run without findings need not read the table of cards

    symbol = syscall_name(site.copy)
    reached = [
        gpu for gpu in gpus if any(runs_on(Target.parse(name), Target.parse(gpu.sm)) for name in targets)
    ]
    return price_syscall(symbol, reached) if symbol is not None else ()


def performance_of(site: CopySite) -> dict[str, Any]:
    """Side effects of the call beside memory, as the record's `performance` field holds them."""
    return {
        "registers_at_least": SYSCALL_REGISTERS,
        "abi_call_frame": True,
        "setmaxnreg_ignored": site.uses_setmaxnreg,
        "first_launch_waits": True,
    }


def price_words(cost: Sequence[Cost]) -> str:
    """The price on the first card in a few words: `predicted 3382 MiB on RTX 5090`, or "" without a price."""
    for item in cost:
        if item.expected_mib is not None:
            return f"predicted {item.expected_mib} MiB on {item.gpu}"
    return ""


def target_words(names: Sequence[str]) -> str:
    """Targets as the manual lists them: `sm_120, 120a and 121`."""
    short = [name if index == 0 else name.removeprefix("sm_") for index, name in enumerate(names)]
    return short[0] if len(short) == 1 else f"{', '.join(short[:-1])} and {short[-1]}"


def runs_on(target: Target, card: Target) -> bool:
    """Whether code for a target runs on a card (CUDA C++ Programming Guide, "Binary Compatibility").

    Code for an `a` target runs on that one compute capability; other code also on later minor ones.
    """
    if target.suffix == "a":
        return target.number == card.number
    return target.number // 10 == card.number // 10 and target.number <= card.number

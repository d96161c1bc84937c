"""What two spellings of one kernel have to have in common, and what the fix has to take away."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptxguard.arch import Target
    from ptxguard.verify.assemble import Assembled


@dataclass(frozen=True)
class Outcome:
    """The comparison for one target.

    Attributes:
        target: name of the target.
        wrong: why the fix does not verify there; empty where it does.
        text: what was found, for people.
        done: whether both spellings were assembled at all.
    """

    target: str
    wrong: str
    text: str
    done: bool = True


def compare(
    target: Target, before: Assembled | str, after: Assembled | str, *, whole: bool = True
) -> Outcome:
    """Compare the two spellings for a target.

    What the assembler refuses already before the fix says nothing about the fix. `whole` says that every
    copy is fixed, so that all copy instructions have to be the same.
    """
    if isinstance(before, str):
        return Outcome(target.name, "", f"not assembled before the fix: {_first_line(before)}", done=False)
    if isinstance(after, str):
        return Outcome(target.name, f"is refused after the fix: {_first_line(after)}", "")
    if target.calls_driver:
        return _without_call(target.name, before, after, whole=whole)
    if before.code != after.code:
        return Outcome(target.name, "the code before and after the fix differs", "")
    size = sum(map(len, after.code.values()))
    return Outcome(target.name, "", f"code identical ({size:,} bytes)")


def _without_call(target: str, before: Assembled, after: Assembled, *, whole: bool) -> Outcome:
    text = (
        f"driver calls {len(before.calls)} -> {len(after.calls)}, "
        f"registers {_registers(before)} -> {_registers(after)}"
    )
    gone = Counter(before.calls) - Counter(after.calls)
    if not gone or Counter(after.calls) - Counter(before.calls):
        return Outcome(target, f"the driver call is not gone ({text})", text)
    if whole and before.copies != after.copies:
        return Outcome(target, f"the copy instruction is another one ({text})", text)
    return Outcome(target, "", text)


def _registers(assembled: Assembled) -> str:
    counts = [count for count in assembled.registers.values() if count is not None]
    if not counts:
        return "unknown"
    return str(counts[0]) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


def _first_line(text: str) -> str:
    return text.splitlines()[0]

"""What an instruction does with its operands: which it writes, and which window its addresses belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.model import Instruction, Operand

# Instructions whose first operand is a register that they write (PTX ISA, "Instructions": d in each syntax).
# Others are left out on purpose: an instruction that is not here makes no finding.
_WRITES_FIRST = frozenset(
    "abs activemask add addc and atom bfe bfi bfind bmsk brev clz cnot copysign cos createpolicy cvt cvta "
    "div dp2a dp4a elect ex2 fma fns getctarank isspacep istypep ld ldmatrix ldu lg2 lop3 mad mad24 madc "
    "mapa match max min mma mov movmatrix mul mul24 neg not or popc prmt rcp redux rem rsqrt sad selp set "
    "setp shf shfl shl shr sin slct sqrt sub subc suld suq szext tanh testp tex tld4 txq vote xor".split()
)
# Of these only the named second word writes its first operand.
_WRITES_WITH = {
    "mbarrier": frozenset({"test_wait", "try_wait", "pending_count"}),
    "wmma": frozenset({"load", "mma"}),
    "multimem": frozenset({"ld_reduce"}),
    "tcgen05": frozenset({"ld"}),
}
# mbarrier.arrive returns a state only where its first operand is no address.
_MAY_WRITE = frozenset({"arrive", "arrive_drop"})

_SPACES = frozenset(
    "global local const param shared shared::cta shared::cluster param::entry param::func".split()
)
# They take a generic address where they name no space (PTX ISA, "Generic Addressing").
_ADDRESSED = frozenset({"ld", "ldu", "st", "atom", "red", "ldmatrix", "stmatrix", "mbarrier"})


def written_operands(instruction: Instruction) -> Iterator[Operand]:
    """Registers and placeholders that an instruction surely writes."""
    if not instruction.operands or not _writes_first(instruction):
        return
    first = instruction.operands[0]
    yield from first.children if first.kind == "vector" else (first,)


def may_write(base: str, modifiers: str) -> bool:
    """Whether an instruction, known by its first word and the rest of its opcode, may write a register."""
    known = _WRITES_WITH.get(base)
    if known is None:
        return base in _WRITES_FIRST
    word = modifiers.lstrip(".").split(".")[0]
    return word in known or (base == "mbarrier" and word in _MAY_WRITE)


def _writes_first(instruction: Instruction) -> bool:
    base, *rest = instruction.parts
    if base in _WRITES_WITH:
        word = rest[0] if rest else ""
        may = base == "mbarrier" and word in _MAY_WRITE and len(instruction.operands) > 1
        return word in _WRITES_WITH[base] or (may and instruction.operands[0].kind != "address")
    return base in _WRITES_FIRST


def address_space(instruction: Instruction) -> str | None:
    """The space that its first address belongs to: `shared…`, `global`, …, or "" for a generic address.

    None for an instruction of which this is not known.
    """
    base = instruction.parts[0]
    named = [part for part in instruction.parts if part in _SPACES]
    if base in _ADDRESSED:
        return named[0] if named else ""
    if instruction.parts[:2] == ("cp", "async") and "bulk" not in instruction.parts:
        return named[0] if named else None
    return None


def first_address(instruction: Instruction) -> Operand | None:
    """What stands in the first brackets of an instruction, or None."""
    for operand in instruction.operands:
        if operand.kind == "address" and operand.children:
            return operand.children[0]
    return None


def placeholders(instruction: Instruction) -> Iterator[Operand]:
    """Every `%0` and `%[name]` among the operands of an instruction."""
    pending = list(instruction.operands)
    while pending:
        operand = pending.pop(0)
        if operand.kind == "placeholder":
            yield operand
        pending.extend(operand.children)

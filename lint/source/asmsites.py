"""Operands of a bulk copy in inline asm tied to C++ expressions, and the owner of their memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.finding import Evidence
from ptxguard.model import AddressVerdict
from ptxguard.source.asmflow import operand_node
from ptxguard.source.flowbase import Frame
from ptxguard.source.flowfacts import Flow, union

if TYPE_CHECKING:
    from ptxguard.model import BulkCopy, Instruction, Operand
    from ptxguard.source.address import AddressFlow
    from ptxguard.source.lexer import AsmOperand, AsmStatement
    from ptxguard.source.uses import Owner

_KEEPS = ("mov", "cvta", "cvt", "add", "sub")
_MAX_DEPTH = 8


@dataclass(frozen=True, eq=False)
class StatementFlow:
    """Follows operands of one statement.

    Attributes:
        statement: the statement.
        instructions: its instructions.
        owner: the function or macro it stands in.
        flow: follows C++ expressions.
        frame: the call by which the owner is entered; None for every call.
    """

    statement: AsmStatement
    instructions: tuple[Instruction, ...]
    owner: Owner
    flow: AddressFlow
    frame: Frame | None = None

    def address(self, copy: BulkCopy) -> AddressVerdict:
        """Owners of destination and mbarrier of a copy."""
        destination = self.operand(copy.destination)
        mbarrier = self.operand(copy.mbarrier)
        return AddressVerdict(destination.owner, mbarrier.owner, destination.reason, destination.evidence)

    def operand(self, operand: Operand | None) -> Flow:
        """Owner of the memory that a PTX operand names; never `none`."""
        found = self._operand(operand, ())
        if found.owner == "none":
            return Flow("unknown", f"the address is a plain number ({self._place()})")
        return found

    def _operand(self, operand: Operand | None, registers: tuple[str, ...]) -> Flow:
        """`registers` are those being followed: one that is defined by itself adds nothing."""
        if operand is None or len(registers) > _MAX_DEPTH:
            return Flow("unknown", f"the operand cannot be told apart ({self._place()})")
        if operand.kind in ("address", "vector") and operand.children:
            return self._operand(operand.children[0], registers)
        if operand.kind == "placeholder":
            bound = self._bound(operand.text)
            if bound is None:
                return Flow("unknown", f"operand {operand.text} is not in the list ({self._place()})")
            return self.flow.operand(operand_node(bound, self.owner), self.frame or Frame(self.owner))
        if operand.kind in ("register", "symbol"):
            if operand.text in registers:
                return Flow("none", "")
            return self._register(operand, (*registers, operand.text))
        return Flow("none", "")

    def _bound(self, text: str) -> AsmOperand | None:
        operands = self.statement.operands
        name = text[1:].strip("[]")
        if name.isdigit():
            return operands[int(name)] if int(name) < len(operands) else None
        return next((operand for operand in operands if operand.name == name), None)

    def _register(self, operand: Operand, registers: tuple[str, ...]) -> Flow:
        """A register of the asm text itself: united over the instructions that write it."""
        flows = []
        for instruction in self.instructions:
            if not instruction.operands or instruction.operands[0].text != operand.text:
                continue
            base = instruction.parts[0]
            sources = instruction.operands[1:]
            if base == "mapa":
                line = self.statement.line
                text = "mapa maps the address to another CTA of the cluster"
                path = self.statement.unit.file.path
                flows.append(
                    Flow("peer", f"{text} ({path}:{line})", (Evidence("address", path, line, text),))
                )
            elif base in _KEEPS:
                inner = [self._operand(source, registers) for source in sources]
                real = [flow for flow in inner if flow.owner != "none"]
                flows.append(_dominant(real) if real else Flow("none", ""))
            elif base not in ("st", "cp", "mbarrier", "bra", "setp"):
                flows.append(
                    Flow("unknown", f"register {operand.text} is written by {base} ({self._place()})")
                )
        real = [flow for flow in flows if flow.owner != "none"]
        return (
            union(real)
            if real
            else Flow("unknown", f"register {operand.text} is not followed ({self._place()})")
        )

    def _place(self) -> str:
        return f"{self.statement.unit.file.path}:{self.statement.line}"


def _dominant(flows: list[Flow]) -> Flow:
    """An address plus an offset: a peer decides, else the side that is an address in sight."""
    for owner in ("peer", "local", "unknown"):
        for flow in flows:
            if flow.owner == owner:
                return flow
    return flows[0]

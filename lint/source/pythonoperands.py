"""Operands of an asm text tied to Python expressions, and the owner of the memory that they name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.finding import Evidence
from ptxguard.source.asmflow import opcodes
from ptxguard.source.flowfacts import Flow, union
from ptxguard.source.pythonasm import operand_place, output_count, read_asm_call
from ptxguard.source.pythonconditions import path_conditions
from ptxguard.source.pythonframe import Frame
from ptxguard.source.pythonliterals import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from ptxguard.model import Instruction, Operand
    from ptxguard.source.pythonaddress import PythonAddresses
    from ptxguard.source.pythonasm import AsmCall
    from ptxguard.source.pythonconditions import Condition
    from ptxguard.source.pythonscope import Binding, Scope
    from ptxguard.source.pythontext import PythonTexts

_KEEPS = ("mov", "cvta", "cvt", "add", "sub")
_HARMLESS = frozenset({"mov", "cvta", "cvt", "add", "sub", "selp"})
_MAX_DEPTH = 8


@dataclass(frozen=True, eq=False)
class OperandReader:
    """Follows the operands of one asm text.

    Attributes:
        call: the asm call.
        instructions: its instructions.
        frame: the frame of the call.
        branches: assignments that gave the text: operands assigned in the same block belong to it.
        texts: reads constraints.
        addresses: follows expressions.
    """

    call: AsmCall
    instructions: tuple[Instruction, ...]
    frame: Frame
    branches: tuple[Node, ...]
    texts: PythonTexts
    addresses: PythonAddresses

    def owner(self, operand: Operand | None, depth: int = 0) -> Flow:
        """Owner of the memory that a PTX operand names; never `none`."""
        found = self._operand(operand, depth)
        if found.owner == "none":
            return Flow("unknown", f"the address is a plain number ({self._place()})")
        return found

    def _operand(self, operand: Operand | None, depth: int) -> Flow:
        if operand is None or depth > _MAX_DEPTH:
            return Flow("unknown", f"the operand cannot be told apart ({self._place()})")
        if operand.kind in ("address", "vector") and operand.children:
            return self._operand(operand.children[0], depth)
        if operand.kind == "placeholder":
            node, frame = self._bound(operand.text)
            if node is None:
                return Flow("unknown", f"operand {operand.text} is not in a list in sight ({self._place()})")
            return self.addresses.of(node, frame, self._conditions())
        if operand.kind in ("register", "symbol"):
            return self._register(operand, depth)
        return Flow("none", "")

    def _conditions(self) -> tuple[Condition, ...]:
        """Tests that hold where the text was chosen and where the asm call stands."""
        found = list(path_conditions(self.call.node, self.call.scope))
        for branch in self.branches:
            if self.call.scope.unit.scope_at(branch) is self.call.scope:
                found.extend(path_conditions(branch, self.call.scope))
        return tuple(found)

    def _register(self, operand: Operand, depth: int) -> Flow:
        """A register of the text itself: united over the instructions that write it."""
        flows = []
        for instruction in self.instructions:
            if not instruction.operands or instruction.operands[0].text != operand.text:
                continue
            base = instruction.parts[0]
            if base == "mapa":
                path, line = self.call.scope.unit.file.path, self.call.line
                text = "mapa maps the address to another CTA of the cluster"
                link = Evidence("address", path, line, text)
                flows.append(Flow("peer", f"{text} ({path}:{line})", (link,)))
            elif base in _KEEPS:
                inner = [self._operand(source, depth + 1) for source in instruction.operands[1:]]
                flows.extend(flow for flow in inner if flow.owner != "none")
            elif base not in ("st", "cp", "mbarrier", "bra", "setp"):
                flows.append(Flow("unknown", f"{operand.text} is written by {base} ({self._place()})"))
        return union(flows) if flows else Flow("unknown", f"{operand.text} is not followed ({self._place()})")

    def _place(self) -> str:
        return f"{self.call.scope.unit.file.path}:{self.call.line}"

    # Operand lists --------------------------------------------------------------------------------

    def _bound(self, text: str) -> tuple[Node | None, Frame]:
        """The Python expression of a placeholder."""
        place = operand_place(text)
        if place is None:
            return None, self.frame
        role, number = place
        if not role:
            outputs = self._outputs()
            if outputs is None:
                return None, self.frame
            number -= outputs
        listed = self.call.operands.get(role)
        elements, frame = self._elements(listed, self.frame, 0)
        if elements is None or not 0 <= number < len(elements):
            return None, self.frame
        return elements[number], frame

    def _outputs(self) -> int | None:
        """Outputs of the constraint string; None where it is not in sight."""
        if self.call.constraints is None:
            return 0
        texts = self.texts.of(self.call.constraints, self.frame)
        counts = {output_count(text_of(text.pieces)) for text in texts or ()}
        return counts.pop() if len(counts) == 1 else None

    def _elements(self, node: Node | None, frame: Frame, depth: int) -> tuple[list[Node] | None, Frame]:
        if node is None or depth > _MAX_DEPTH:
            return None, frame
        if node.type in ("list", "tuple"):
            children = [child for child in node.named_children if child.type != "comment"]
            plain = all(child.type != "list_splat" for child in children)
            return (children if plain else None), frame
        if node.type == "parenthesized_expression":
            return self._elements(node.named_children[0], frame, depth + 1)
        if node.type != "identifier":
            return None, frame
        name = frame.scope.unit.text(node)
        if name in frame.arguments:
            given, outer = frame.arguments[name]
            return self._elements(given, outer, depth + 1)
        chosen = self._beside(self.texts.calls.tree.bindings(name, frame.scope))
        if chosen is None or chosen.value is None or chosen.path:
            return None, frame
        return self._elements(chosen.value, frame, depth + 1)

    def _beside(self, bound: list[Binding]) -> Binding | None:
        """The assignment in the block in which the text was assigned, else the only one."""
        plain = [binding for binding in bound if binding.kind == "assign"]
        if len(plain) == 1 and len(bound) == 1:
            return plain[0]
        blocks = {_block(branch) for branch in self.branches}
        beside = [binding for binding in plain if _block(binding.node) in blocks]
        return beside[0] if len(beside) == 1 and len(plain) == len(bound) else None


def _block(node: Node) -> int:
    """Identity of the block in which a statement stands."""
    around = node.parent
    while around is not None and around.type not in ("block", "module"):
        around = around.parent
    return around.id if around is not None else 0


@dataclass(eq=False)
class AsmEffects:
    """What asm calls in an address's way do to it.

    Attributes:
        texts: reads their text.
    """

    texts: PythonTexts
    _known: dict[int, tuple[str, list[Node]] | None] = field(default_factory=dict, repr=False)

    def of(self, node: Node, scope: Scope) -> tuple[str, list[Node]] | None:
        """`map`, `keep` with the operands, or `opaque` for an asm call; None for another call."""
        if node.id not in self._known:
            self._known[node.id] = self._read(node, scope)
        return self._known[node.id]

    def _read(self, node: Node, scope: Scope) -> tuple[str, list[Node]] | None:
        call = read_asm_call(node, scope, scope.unit.callee(node))
        if call is None:
            return None
        texts = self.texts.of(call.text, Frame(scope))
        bases = {name.split(".")[0] for text in texts or () for name in opcodes(text_of(text.pieces))}
        if "mapa" in bases:
            return "map", []
        operands = [child for listed in call.operands.values() for child in listed.named_children]
        return ("keep", operands) if bases and bases <= _HARMLESS else ("opaque", [])

"""Addresses through parameters: of functions over every caller, of lambdas, of macros, and `this`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.finding import Evidence
from ptxguard.source import variables
from ptxguard.source.cuda import Function
from ptxguard.source.exprs import Node
from ptxguard.source.flowbase import NEUTRAL, FlowBase, Frame
from ptxguard.source.flowfacts import Flow, union

if TYPE_CHECKING:
    from ptxguard.source.uses import Owner, Use


class ParameterFlow(FlowBase):
    """Follows parameters to the arguments of the calls in sight."""

    def _parameter(self, node: Node, frame: Frame, *, by_address: bool) -> Flow | None:
        """Owner of a parameter (of the function, a lambda or a macro) over the calls that enter it."""
        name, owner = node.text, frame.owner
        if name in frame.arguments:
            given, home = frame.arguments[name]
            return self._argument(given, home, by_address=by_address)
        names = (
            [p.name for p in owner.parameters] if isinstance(owner, Function) else list(owner.parameter_names)
        )
        if name not in names:
            return None
        if isinstance(owner, Function) and owner.is_kernel:
            return self.unknown(f"{name} is a parameter of kernel {owner.name}", node, frame)
        return self._over_callers(owner, names.index(name), name, by_address=by_address)

    def _is_reference(self, owner: Owner, name: str) -> bool:
        if not isinstance(owner, Function):
            return False
        return any(p.name == name and p.type_text.split()[-1:] in (["&"], ["&&"]) for p in owner.parameters)

    def _argument(self, node: Node, frame: Frame, *, by_address: bool) -> Flow:
        """An argument's own memory, or the memory that its value names."""
        return self.address(node, frame) if by_address else self.value(node, frame)

    def _over_callers(self, owner: Owner, position: int, name: str, *, by_address: bool) -> Flow:
        key = (owner, name, f"callers {by_address}")
        return self.once(key, lambda: self._all_callers(owner, position, name, by_address=by_address))

    def _all_callers(self, owner: Owner, position: int, name: str, *, by_address: bool) -> Flow:
        callers = self.graph.callers(owner)
        flows: list[Flow] = []
        for use, sure in callers.calls:
            flow = self._at_call(use, owner, position, by_address=by_address)
            if flow is None:
                continue
            if not sure and flow.owner == "peer":
                flow = Flow(
                    "unknown", f"an overload cannot be told apart at {use.path}:{use.line}", flow.evidence
                )
            if flow.owner != "none":
                step = Evidence("call", use.path, use.line, f"{owner.name} called with {name}")
                flow = Flow(flow.owner, flow.reason, (*flow.evidence, step))
            flows.append(flow)
        for use in callers.escapes:
            flows.append(
                Flow("unknown", f"{owner.qualified} is passed on as a value at {use.path}:{use.line}")
            )
        if not flows:
            place = f"{owner.unit.file.path}:{owner.line}"
            flows.append(Flow("unknown", f"no caller of {owner.qualified} ({place}) is in the tree"))
        real = [flow for flow in flows if flow.owner != "none"]
        return union(real) if real else NEUTRAL

    def _at_call(self, use: Use, owner: Owner, position: int, *, by_address: bool) -> Flow | None:
        """Owner of one argument at one call; None where that code runs in no kernel at all."""
        if use.owner is None:
            return Flow("unknown", f"called outside of a function at {use.path}:{use.line}")
        if position >= len(use.arguments):
            default = isinstance(owner, Function) and owner.parameters[position].has_default
            return NEUTRAL if default else Flow("unknown", f"argument not readable at {use.path}:{use.line}")
        return self._argument(use.arguments[position], Frame(use.owner), by_address=by_address)

    def lambda_of(self, node: Node, frame: Frame) -> variables.Lambda | None:
        """The lambda whose parameter a name is: it hides every variable of the function around."""
        known = self._lambdas.get(frame.owner)
        if known is None:
            known = self._lambdas[frame.owner] = variables.lambdas(frame.owner)
        for inner in reversed(known):
            names = [parameter.name for parameter in inner.parameters]
            if node.text in names and inner.body[0] <= node.index < inner.body[1]:
                return inner
        return None

    def lambda_parameter(self, name: str, inner: variables.Lambda, frame: Frame, *, by_address: bool) -> Flow:
        """Owner of a lambda's parameter over its calls in the same function."""
        position = [parameter.name for parameter in inner.parameters].index(name)
        flows = []
        for use in self.graph.uses(inner.name) if inner.name else ():
            if use.owner is frame.owner and use.kind == "call" and position < len(use.arguments):
                flows.append(self._argument(use.arguments[position], frame, by_address=by_address))
        if not flows:
            return Flow("unknown", f"no call of the lambda {inner.name} is in sight")
        return union(flows)

    def _own_member_shape(self, name: str, frame: Frame) -> str:
        """Shape of a member of the class whose method is followed, "" outside of one."""
        owner = frame.owner
        if not isinstance(owner, Function) or not owner.in_record:
            return ""
        return self.graph.member_shape(name, owner.unit, owner.scope[-1] if owner.scope else "")

    def _this(self, frame: Frame) -> Flow:
        """Objects on which a member function is called."""
        owner = frame.owner
        if not isinstance(owner, Function):
            return self.unknown("an object that is not followed", Node("name", "this"), frame)
        return self.once((owner, "this", "object"), lambda: self._all_objects(owner))

    def _all_objects(self, owner: Function) -> Flow:
        flows = []
        for use, _ in self.graph.callers(owner).calls:
            if use.receiver is not None and use.owner is not None:
                arrow = use.tokens.texts[use.index - 1] == "->"
                follow = self.value if arrow else self.address
                flows.append(follow(use.receiver, Frame(use.owner)))
            elif use.owner is not None and use.owner is not owner and isinstance(use.owner, Function):
                flows.append(self._this(Frame(use.owner)))
        real = [flow for flow in flows if flow.owner != "none"]
        return union(real) if real else Flow("unknown", f"no object of {owner.qualified} is in sight")

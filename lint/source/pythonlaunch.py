"""Cluster size of a Python kernel from its launches (CuTe DSL `.launch`, Triton `kernel[grid]`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from ptxguard.finding import Evidence
from ptxguard.model import ClusterVerdict
from ptxguard.source.pythonframe import Frame, Unknown, caller_frame
from ptxguard.source.pythonreach import is_kernel, is_launch
from ptxguard.source.sizes import Size, sized

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tree_sitter import Node

    from ptxguard.source.pythoncalls import Call, Classes, PythonCalls
    from ptxguard.source.pythonreach import PythonReach, ReachedKernel
    from ptxguard.source.pythonscope import Scope
    from ptxguard.source.pythonvalues import PythonValues

# Keywords of a launch that make its cluster larger than one CTA.
_CLUSTER_KEYWORDS = ("cluster", "fallback_cluster")
_TRITON_KEYWORDS = ("num_ctas", "cluster_dims")
_TRITON_CONFIG = re.compile(r"\b(?:num_ctas|cluster_dims)\s*=\s*([^,)]+)")


@dataclass(frozen=True)
class LaunchSize(Size):
    """Cluster size of one launch.

    Attributes:
        assumed: the default of a command-line option that it rests on, "" where it rests on none.
    """

    assumed: str = ""


@dataclass(eq=False)
class PythonLaunches:
    """Cluster verdicts of Python kernels.

    Attributes:
        calls: callers of the tree.
        values: evaluates cluster shapes.
    """

    calls: PythonCalls
    values: PythonValues
    _known: dict[tuple[Scope, Classes | None], ClusterVerdict] = field(default_factory=dict, repr=False)

    def of_reach(self, reach: PythonReach, function: Scope) -> ClusterVerdict:
        """One verdict for every kernel that reaches an asm call in a function."""
        place = f"{function.unit.file.path}:{function.line}"
        if reach.loose:
            reason, path, line = reach.loose[0]
            link = Evidence("call", path, line, reason)
            larger = self._larger(reach)
            if larger is not None:
                return larger
            return ClusterVerdict("undecided", f"{reason} ({path}:{line})", (link,))
        if not reach.kernels:
            name = function.qualified or "the module"
            return ClusterVerdict("undecided", f"no kernel that calls {name} ({place}) is in the tree")
        return self._merged(reach.kernels)

    def _larger(self, reach: PythonReach) -> ClusterVerdict | None:
        for one in reach.kernels:
            verdict = self.of_kernel(one.kernel, one.classes)
            if one.sure and verdict.verdict == "larger":
                return verdict
        return None

    def _merged(self, kernels: list[ReachedKernel]) -> ClusterVerdict:
        """A kernel that nobody launches makes no cluster, but leaves launches out of sight."""
        verdicts = [(self.of_kernel(one.kernel, one.classes), one) for one in kernels]
        evidence: list[Evidence] = []
        for verdict, _ in verdicts:
            evidence.extend(item for item in verdict.evidence if item not in evidence)
        launched = [(verdict, one) for verdict, one in verdicts if verdict.verdict != "unlaunched"]
        for verdict, one in launched:
            if verdict.verdict == "larger" and one.sure:
                return ClusterVerdict("larger", verdict.reason, tuple(evidence), launches_in_sight=True)
        for verdict, one in launched:
            if verdict.verdict != "one":
                doubt = "" if one.sure else "a receiver on the way is not known, and "
                return ClusterVerdict("undecided", doubt + verdict.reason, tuple(evidence))
        idle = [verdict.reason for verdict, _ in verdicts if verdict.verdict == "unlaunched"]
        if not launched:
            return ClusterVerdict("undecided", idle[0], tuple(evidence))
        count = len(launched)
        first = next((verdict for verdict, _ in launched if not verdict.launches_in_sight), launched[0][0])
        reason = first.reason if count == 1 else f"all {count} kernels that reach it: {first.reason}"
        if idle:
            reason += f"; {idle[0]}"
        in_sight = not idle and all(verdict.launches_in_sight for verdict, _ in launched)
        return ClusterVerdict("one", reason, tuple(evidence), launches_in_sight=in_sight)

    def of_kernel(self, kernel: Scope, classes: Classes | None) -> ClusterVerdict:
        """Verdict of one kernel; "unlaunched" where no launch of it is in the tree."""
        key = (kernel, classes)
        if key not in self._known:
            self._known[key] = self._decide(kernel, classes)
        return self._known[key]

    def _decide(self, kernel: Scope, classes: Classes | None) -> ClusterVerdict:
        path, line = kernel.unit.file.path, kernel.line
        here = Evidence("kernel", path, line, f"kernel {kernel.qualified}")
        callers = self.calls.callers(kernel, classes)
        sizes = [
            self._of_call(call, kernel) for call in callers.calls if is_kernel(kernel) or is_launch(call)
        ]
        evidence = [here]
        for size in sizes:
            evidence.extend(item for item in size.evidence if item not in evidence)
        for wanted in ("larger", "undecided"):
            for size in sizes:
                if size.verdict == wanted:
                    return ClusterVerdict(wanted, size.reason, tuple(evidence))
        if callers.escapes:
            unit, node = callers.escapes[0]
            reason = f"kernel {kernel.qualified} is passed on as a value ({unit.file.path}:{unit.line(node)})"
            return ClusterVerdict("undecided", reason, tuple(evidence))
        if not sizes:
            reason = f"no launch of kernel {kernel.qualified} ({path}:{line}) is in the tree"
            return ClusterVerdict("unlaunched", reason, tuple(evidence))
        reason = next((size.reason for size in sizes if size.assumed), sizes[0].reason)
        in_sight = not any(size.assumed for size in sizes)
        return ClusterVerdict("one", reason, tuple(evidence), launches_in_sight=in_sight)

    # One launch -----------------------------------------------------------------------------------

    def _of_call(self, call: Call, kernel: Scope) -> LaunchSize:
        if is_launch(call):
            return self._of_triton(call, kernel)
        launch = self._launch_of(call)
        place = f"{call.unit.file.path}:{call.line}"
        if launch is None:
            link = Evidence(
                "launch", call.unit.file.path, call.line, f"{kernel.name}(…) without a launch beside"
            )
            return LaunchSize(
                "undecided", f"how the kernel object is launched is not in sight ({place})", (link,)
            )
        return self.of_keywords(launch, caller_frame(call), _CLUSTER_KEYWORDS)

    def _launch_of(self, call: Call) -> Node | None:
        """The `.launch(…)` of a kernel object, at once or through a local name."""
        attribute = call.node.parent
        if attribute is not None and attribute.type == "attribute" and attribute.parent is not None:
            return attribute.parent if call.unit.callee(attribute.parent) == "launch" else None
        if attribute is None or attribute.type != "assignment":
            return None
        target = attribute.child_by_field_name("left")
        if target is None:
            return None
        for node in call.unit.calls.get("launch", ()):
            function = node.child_by_field_name("function")
            holder = function.child_by_field_name("object") if function is not None else None
            same = holder is not None and call.unit.text(holder) == call.unit.text(target)
            if same and call.unit.scope_at(node) is call.scope:
                return node
        return None

    def of_keywords(self, launch: Node, frame: Frame, keywords: tuple[str, ...]) -> LaunchSize:
        """Size that a launch's keywords give; without one of them the cluster is one CTA."""
        unit = frame.scope.unit
        line = launch.end_point.row + 1
        listed = launch.child_by_field_name("arguments")
        given = listed.named_children if listed is not None else []
        if listed is not None:
            line = unit.line(listed)
        path = unit.file.path
        named = [(_name(one, frame), one.child_by_field_name("value")) for one in given]
        chosen = [(name, value) for name, value in named if name in keywords and value is not None]
        if not chosen:
            if any(one.type in ("dictionary_splat", "list_splat") for one in given):
                link = Evidence("launch", path, line, "launched with arguments that are not written out")
                return LaunchSize("undecided", f"the launch at {path}:{line} unpacks its arguments", (link,))
            link = Evidence("launch", path, line, f"launched without {keywords[0]}=")
            return LaunchSize("one", f"launched without {keywords[0]}= ({path}:{line})", (link,))
        sizes = [self._shape(name, value, frame) for name, value in chosen]
        return _worst(sizes) or sizes[0]

    def _shape(self, name: str, value: Node, frame: Frame) -> LaunchSize:
        unit = frame.scope.unit
        line = unit.line(value)
        written = f"{name}={' '.join(unit.text(value).split())}"
        place = f"{unit.file.path}:{line}"
        link = Evidence("launch", unit.file.path, line, written)
        values = self.values.of(value, frame)
        size = _worst([_sized(one, written, place, (link,)) for one in values])
        if size is None:
            return LaunchSize("undecided", f"{written} has no value in sight ({place})", (link,))
        assumed = self.values.assumed[0] if self.values.assumed and size.verdict == "one" else ""
        reason = f"{size.reason}, with {assumed}" if assumed else size.reason
        return LaunchSize(size.verdict, reason, size.evidence, assumed)

    def _of_triton(self, call: Call, kernel: Scope) -> LaunchSize:
        size = self.of_keywords(call.node, caller_frame(call), _TRITON_KEYWORDS)
        for decorator in kernel.decorators:
            for found in _TRITON_CONFIG.findall(decorator):
                if found.strip() != "1":
                    link = Evidence("attribute", kernel.unit.file.path, kernel.line, f"num_ctas={found}")
                    verdict = "larger" if found.strip().isdigit() else "undecided"
                    where = f"{kernel.unit.file.path}:{kernel.line}"
                    return LaunchSize(verdict, f"a configuration has num_ctas={found} ({where})", (link,))
        return size


_AnySize = TypeVar("_AnySize", bound=Size)


def _worst(sizes: Sequence[_AnySize]) -> _AnySize | None:
    """The size that decides: a larger one, then one that is not known."""
    for wanted in ("larger", "undecided", "one"):
        for size in sizes:
            if size.verdict == wanted:
                return size
    return None


def _name(node: Node, frame: Frame) -> str:
    name = node.child_by_field_name("name") if node.type == "keyword_argument" else None
    return frame.scope.unit.text(name) if name is not None else ""


def _sized(value: Any, text: str, place: str, evidence: tuple[Evidence, ...]) -> Size:
    """Verdict for one value of a cluster shape: None, a number, or up to three dimensions."""
    if value is None or value == ():
        return Size("one", f"{text} ({place})", evidence)
    if isinstance(value, Unknown):
        return Size("undecided", f"{text}: {value.reason}", evidence)
    dimensions = value if isinstance(value, tuple) else (value,)
    missing = next((one for one in dimensions if isinstance(one, Unknown)), None)
    numbers = [one if isinstance(one, int) else None for one in dimensions]
    size = sized(numbers, text, place, evidence)
    if size.verdict == "undecided" and missing is not None:
        return Size("undecided", f"{text}: {missing.reason}", evidence)
    return size

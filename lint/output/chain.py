"""The evidence chain of a finding: kernels that reach the copy, and launch -> kernel -> call -> asm."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ptxguard.output.style import LABEL, WIDTH, columns, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.finding import Evidence, Finding, KernelPlace
    from ptxguard.output.style import Style

_SCOPES = re.compile(r"\b(?:\w+::)+")
KERNELS_SHOWN = 4
LINKS_SHOWN = 4
# From the host down to the instruction, then what the verdicts rest on.
ORDER = ("build", "launch", "attribute", "kernel", "call", "macro", "guard", "asm", "address", "binary")


def render_kernels(finding: Finding, style: Style) -> Iterator[str]:
    """Count and first names of the kernels that reach the copy; JSON lists them all."""
    kernels = finding.kernels
    if not finding.cluster:  # no copy: nothing asked for kernels
        return
    if not kernels:
        yield from style.field("kernels", "none in sight")
        return
    names = [
        f"{_short(kernel.name)}{f' ({kernel.path}:{kernel.line})' if kernel.path else ''}"
        for kernel in kernels[:KERNELS_SHOWN]
    ]
    yield from style.field("kernels", f"{len(kernels)}: {', '.join(names)}{_more(len(kernels) - len(names))}")


def render_chain(finding: Finding, style: Style) -> Iterator[str]:
    """Numbered links `path:line kind text` of one kernel, from its launch to the instruction."""
    links = _one_chain(finding)
    if not links:
        return
    for index, item in enumerate(links, start=1):
        label = style.faint(("evidence" if index == 1 else "").ljust(LABEL - 2))
        text = printable(" ".join(item.text.split()))
        if item.kind in ("kernel", "call"):
            text = _SCOPES.sub("", text)
        head = f"{index}. {item.kind} {_place(item)}"
        if LABEL + columns(head) + columns(text) + 2 <= WIDTH:
            yield f"  {label}{head}  {text}\n"
        else:
            yield f"  {label}{head}\n{' ' * (LABEL + 3)}{_shorten(text, WIDTH - LABEL - 3)}\n"
    left_out = len(finding.evidence) - len(links)
    if left_out:
        yield f"{' ' * LABEL}{_more(left_out).strip()}\n"


def _one_chain(finding: Finding) -> list[Evidence]:
    """The links of one kernel in the order of `ORDER`: launch, kernel, calls down to the copy, root."""
    kernel = _launched_kernel(finding)
    name = _short(kernel.name) if kernel is not None else ""
    path = kernel.path if kernel is not None else None
    links: list[Evidence] = []
    for kind in ORDER:
        of_kind = [item for item in finding.evidence if item.kind == kind]
        if kind in ("launch", "kernel"):
            chosen = [item for item in of_kind if name in item.text][:1]
        elif kind == "call":
            chosen = _calls_from(name, of_kind)
        elif kind == "address":
            chosen = ([item for item in of_kind if item.path == path] or of_kind)[:1]
        else:
            chosen = []
        links += (chosen or of_kind)[:LINKS_SHOWN]
    return links


def _calls_from(kernel: str, calls: list[Evidence]) -> list[Evidence]:
    """The calls `caller calls callee` that lead from a kernel downwards, first found first."""
    chain: list[Evidence] = []
    name = kernel
    while name:
        step = next((item for item in calls if item not in chain and _caller(item) == name), None)
        if step is None:
            break
        chain.append(step)
        name = _short(step.text.partition(" calls ")[2].partition("<")[0])
    return chain


def _caller(item: Evidence) -> str:
    return _short(item.text.partition(" calls ")[0])


def _launched_kernel(finding: Finding) -> KernelPlace | None:
    """The first kernel whose launch is in sight; else the first one."""
    launches = [item.text for item in finding.evidence if item.kind == "launch"]
    for kernel in finding.kernels:
        if any(_short(kernel.name) in text for text in launches):
            return kernel
    return finding.kernels[0] if finding.kernels else None


def _place(item: Evidence) -> str:
    if item.path is None:
        return "-"
    return printable(f"{item.path}:{item.line}" if item.line is not None else item.path)


def _short(name: str) -> str:
    """The last component of a qualified name; the place beside it tells equal ones apart."""
    return name.rsplit("::", 1)[-1]


def _shorten(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


def _more(count: int) -> str:
    return f" and {count} more (--output-format json lists them)" if count > 0 else ""

"""The evidence chain of a finding: kernels that reach the copy, and launch -> kernel -> call -> asm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.output.style import LABEL, WIDTH, columns, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.finding import Evidence, Finding
    from ptxguard.output.style import Style

KERNELS_SHOWN = 4
LINKS_SHOWN = 4
# From the host down to the instruction, then what the verdicts rest on.
ORDER = ("build", "launch", "attribute", "kernel", "call", "macro", "guard", "asm", "address", "binary")


def render_kernels(finding: Finding, style: Style) -> Iterator[str]:
    """Count and first names of the kernels that reach the copy; JSON lists them all."""
    kernels = finding.kernels
    if not kernels:
        yield from style.field("kernels", "none in sight")
        return
    names = [
        f"{kernel.name}{f' ({kernel.path}:{kernel.line})' if kernel.path else ''}"
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
        head = f"{index}. {item.kind} {_place(item)}"
        if LABEL + columns(head) + columns(text) + 2 <= WIDTH:
            yield f"  {label}{head}  {text}\n"
        else:
            yield f"  {label}{head}\n{' ' * (LABEL + 3)}{_shorten(text, WIDTH - LABEL - 3)}\n"
    left_out = len(finding.evidence) - len(links)
    if left_out:
        yield f"{' ' * LABEL}{_more(left_out).strip()}\n"


def _one_chain(finding: Finding) -> list[Evidence]:
    """Links of each kind in the order of `ORDER`; launch and kernel are those of one kernel."""
    name = _launched_kernel(finding)
    links: list[Evidence] = []
    for kind in ORDER:
        of_kind = [item for item in finding.evidence if item.kind == kind]
        if kind in ("launch", "kernel") and name is not None:
            of_kind = [item for item in of_kind if name in item.text][:1] or of_kind[:1]
        links += of_kind[:LINKS_SHOWN]
    return links


def _launched_kernel(finding: Finding) -> str | None:
    launches = [item.text for item in finding.evidence if item.kind == "launch"]
    names = [kernel.name.rsplit("::", 1)[-1] for kernel in finding.kernels]
    return next((name for name in names if any(name in text for text in launches)), None)


def _place(item: Evidence) -> str:
    if item.path is None:
        return "-"
    return printable(f"{item.path}:{item.line}" if item.line is not None else item.path)


def _shorten(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


def _more(count: int) -> str:
    return f" and {count} more (--output-format json lists them)" if count > 0 else ""

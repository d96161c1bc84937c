"""The evidence chain of a finding: from the launch down to the bytes, as steps and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ptxguard.finding import Confidence, Evidence, Finding, KernelPlace, Severity
from ptxguard.output.flows import flows_of
from ptxguard.web.charts import CHAIN_STEP
from ptxguard.web.prices import Price
from ptxguard.web.words import count_of, mib_words, range_words

# What each kind of link is, in the words of the picture.
TITLES = {
    "build": "build file",
    "launch": "launch",
    "attribute": "cluster attribute",
    "kernel": "kernel",
    "call": "call",
    "macro": "macro",
    "guard": "guard",
    "asm": "inline PTX",
    "address": "destination",
    "binary": "compiled code",
    "syscall": "driver function",
    "price": "bytes on the card",
}
_MOST_WAYS = 12


@dataclass(frozen=True)
class Link:
    """One piece of evidence; `place` is `path:line`, or empty."""

    kind: str
    place: str
    text: str


@dataclass(frozen=True)
class Step:
    """A box of the picture.

    Attributes:
        kind: of the evidence, or syscall or price.
        title: what it is.
        place: `path:line`, or empty.
        text: what stands there.
        anchor: part of the page that says more.
        y: top of the box.
    """

    kind: str
    title: str
    place: str
    text: str
    anchor: str
    y: int


@dataclass(frozen=True)
class Chain:
    """The picture: boxes from the top, joined by arrows.

    Attributes:
        steps: boxes.
        height: of the picture.
        missing: why the chain does not begin at a launch, or empty.
    """

    steps: tuple[Step, ...]
    height: int
    missing: str


def links_of(record: Mapping[str, Any]) -> tuple[Link, ...]:
    """All evidence of a record, in its order."""
    return tuple(_link(item) for item in record["evidence"])


def chain_of(record: Mapping[str, Any], price: Price | None) -> Chain:
    """The first way from a launch to the instruction, what the verdicts rest on, and what it costs."""
    steps: list[tuple[str, str, str, str]] = []
    flows = flows_of(finding_of(record))
    found = flows[0].steps if flows else ()
    steps += [_step(item) for item in found if item.kind != "asm"]
    evidence = [Evidence(**item) for item in record["evidence"]]
    steps += [_step(item) for item in evidence if item.kind == "guard"][:1]
    if record["opcode"]:
        place = f"{record['path']}:{record['line']}"
        steps.append(("asm", place, record["opcode"], "source"))
    steps += [_step(item) for item in evidence if item.kind == "address"][:1]
    steps += [_step(item) for item in evidence if item.kind == "binary"][:2]
    if record["syscall"]:
        steps.append(("syscall", "", record["syscall"], "targets"))
    if price is not None:
        known = range_words(price.low_mib, price.high_mib)
        text = f"{mib_words(price.expected_mib)} on {price.gpu}" + (f" ({known})" if known else "")
        steps.append(("price", "", f"{text}, {price.kind}", "price"))
    boxes = tuple(
        Step(kind, TITLES.get(kind, kind), place, text, anchor, index * CHAIN_STEP + 4)
        for index, (kind, place, text, anchor) in enumerate(steps)
    )
    return Chain(boxes, len(boxes) * CHAIN_STEP, _missing(record, [item.kind for item in found]))


def _missing(record: Mapping[str, Any], kinds: list[str]) -> str:
    if "launch" in kinds or not record["cluster"]:
        return ""
    count = len(record["kernels"])
    if not count:
        return "No kernel that reaches this line is in sight, so the chain begins at the instruction."
    return f"No launch of the {count_of(count, 'kernel')} that reach this line is in sight."


def _step(item: Evidence) -> tuple[str, str, str, str]:
    link = _link(item.record())
    return link.kind, link.place, link.text, "evidence"


def _link(item: Mapping[str, Any]) -> Link:
    place = "" if item["path"] is None else item["path"]
    if place and item["line"] is not None:
        place += f":{item['line']}"
    return Link(item["kind"], place, " ".join(str(item["text"]).split()))


def ways_of(record: Mapping[str, Any]) -> tuple[tuple[tuple[Link, ...], ...], int]:
    """Ways from kernels to the instruction, the first ones, and how many there are."""
    flows = flows_of(finding_of(record))
    shown = tuple(tuple(_link(step.record()) for step in flow.steps) for flow in flows[:_MOST_WAYS])
    return shown, len(flows)


def finding_of(record: Mapping[str, Any]) -> Finding:
    """The finding of a record, as far as its evidence goes."""
    return Finding(
        code=record["code"],
        rule=record["rule"],
        severity=Severity[record["severity"].upper()],
        confidence=Confidence[record["confidence"].upper()],
        path=record["path"],
        line=record["line"],
        column=record["column"],
        end_line=record["end_line"],
        end_column=record["end_column"],
        message=record["message"],
        opcode=record["opcode"],
        function=record["function"],
        kernels=tuple(_kernels(record)),
        cluster=dict(record["cluster"]),
        evidence=tuple(Evidence(**item) for item in record["evidence"]),
    )


def _kernels(record: Mapping[str, Any]) -> Iterator[KernelPlace]:
    for kernel in record["kernels"]:
        yield KernelPlace(kernel["name"], kernel["path"], kernel["line"])

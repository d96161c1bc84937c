"""One site for finds of one copy in several preprocessor variants, or by statements of one macro."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ptxguard.model import AsmText
from ptxguard.source.asmcode import plain_argument
from ptxguard.source.spaces import place_of

if TYPE_CHECKING:
    from ptxguard.model import CopySite
    from ptxguard.source.lexer import AsmStatement

_RANK = {"compiled": 2, "unknown": 1, "excluded": 0}


def _weight(site: CopySite) -> int:
    return sum(_RANK[verdict] for verdict in site.targets.values())


def may_call_driver(site: CopySite) -> bool:
    """Whether a copy becomes a driver call on a target that may compile it."""
    return not site.copy.multicast and any(
        site.on_target[name] == "syscall" and guard != "excluded" for name, guard in site.targets.items()
    )


def asm_text(statement: AsmStatement) -> AsmText:
    """What a site keeps of its statement."""
    arguments = tuple(map(plain_argument, statement.operands))
    return AsmText(statement.template.text, arguments, (place_of(statement),))


def site_key(site: CopySite) -> tuple[object, ...]:
    """What makes two finds one site: the place, the instruction, and the verdicts about it."""
    verdicts = (site.address.destination, site.address.mbarrier, site.cluster.verdict)
    place = (site.span.path, site.span.line, site.span.column)
    return (*place, site.copy.opcode, *verdicts, site.cluster.launches_in_sight)


def joined(known: CopySite, other: CopySite) -> CopySite:
    """One site for two finds of the same instruction (`site_key`): the more compiled one counts."""
    targets = {
        name: max(value, other.targets.get(name, value), key=_RANK.__getitem__)
        for name, value in known.targets.items()
    }
    site = replace(max(known, other, key=_weight), targets=targets)
    if known.asm is None or other.asm is None or site.asm is None:
        return site
    places = tuple(dict.fromkeys((*known.asm.places, *other.asm.places)))
    same = [span.begin_position for span in known.space_spans] == [
        span.begin_position for span in other.space_spans
    ]
    return replace(
        site,
        asm=replace(site.asm, places=places),
        space_spans=site.space_spans if same else (),  # two macro values: a fix of one alone is none
        space_users=tuple(dict.fromkeys((*known.space_users, *other.space_users))),
    )

"""Library calls that hide a bulk copy as copy sites, judged by the machinery that judges asm."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ptxguard import forms
from ptxguard.finding import Evidence
from ptxguard.location import Span
from ptxguard.model import AddressVerdict, ClusterVerdict, CopySite, Hidden, Instruction
from ptxguard.source.flowbase import Frame
from ptxguard.source.flowfacts import Flow
from ptxguard.source.libraries import LibraryVersions
from ptxguard.source.wrapperrewrite import rewrite_of
from ptxguard.source.wrappertags import arguments_of, completion, is_aligned, rank_of, window
from ptxguard.source.wrapperuses import WrapperUses

if TYPE_CHECKING:
    from ptxguard.model import BulkCopy
    from ptxguard.source.exprs import Node
    from ptxguard.source.guards import CppFile
    from ptxguard.source.lexer import Condition
    from ptxguard.source.sites import SiteFinder
    from ptxguard.source.uses import Owner, Use
    from ptxguard.source.wrappers import Wrapper
    from ptxguard.source.wrappertags import Argument

_NO_ADDRESS = "an atom names no memory; what it is used on is not followed"
_NO_KERNEL = "an atom is a type; the kernels that copy with it are not followed"
_IN_LIBRARY = "the copy is made by a kernel inside the library"


@dataclass(frozen=True)
class _Form:
    """The form that a use hides.

    Attributes:
        copy: taken apart, without operands.
        stand_in: the same with a rank, for what ptxas does with it.
        certain: whether it is known to be this form.
        reason: what makes it uncertain, or why it is this one.
    """

    copy: BulkCopy
    stand_in: BulkCopy
    certain: bool
    reason: str


@dataclass(eq=False)
class WrapperSites:
    """Finds wrapper sites for a finder.

    Attributes:
        finder: judges guards, kernels, clusters and addresses.
    """

    finder: SiteFinder
    _versions: LibraryVersions = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._versions = LibraryVersions(self.finder.project)

    @cached_property
    def _uses(self) -> WrapperUses:
        return WrapperUses(self.finder.graph)

    def of_unit(self, unit: CppFile) -> list[CopySite]:
        """Wrapper sites of a file."""
        found = []
        for wrapper, use in self._uses.find(unit):
            if unit.file.path.startswith(self._versions.of(wrapper.library).own_folders):
                continue
            form = self._form(wrapper, use)
            if form is not None:
                found.append(self._site(wrapper, use, form))
        return found

    # Form -----------------------------------------------------------------------------------------

    def _form(self, wrapper: Wrapper, use: Use) -> _Form | None:
        """What a use hides; None where it hides no copy into shared memory."""
        arguments = arguments_of(use)
        if wrapper.tagged:
            return self._tagged(wrapper, use, arguments)
        space, certain, reason = self._by_version(wrapper)
        if wrapper.name == "memcpy_async":
            # libcu++, "memcpy_async": a bulk copy only for a barrier and 16-byte aligned memory.
            completed, aligned = completion(arguments[-1], use) if arguments else "", is_aligned(arguments)
            if not arguments or completed == "pipeline" or aligned is False:
                return None
            if certain and not (completed and aligned):
                certain = False
                reason = "only a barrier and 16-byte aligned elements make it a bulk copy, which types decide"
        opcode = wrapper.opcode.format(space=space, rank="{rank}")
        return _made(opcode, 0, certain=certain, reason=reason)

    def _by_version(self, wrapper: Wrapper) -> tuple[str, bool, str]:
        """The window spelled in the versions in the tree, whether that is certain, and why."""
        name, found = wrapper.library.name, self._versions.of(wrapper.library)
        spaces = wrapper.spaces_in(found.versions)
        space = "cluster" if "cluster" in spaces else "cta"
        if len(spaces) > 1:
            seen = f"the tree holds {name} {found.text}" if found.versions else f"no {name} is in the tree"
            return space, False, f"the form depends on the version of {name}, and {seen}"
        holder = f"{name} {found.text}" if found.versions else f"every known version of {name}"
        return space, True, f"{holder} spells it so"

    def _tagged(self, wrapper: Wrapper, use: Use, arguments: list[Argument]) -> _Form | None:
        """`cuda::ptx`: the first two arguments name the windows."""
        if len(arguments) < wrapper.arguments["plain"]:
            return None
        guards = self.finder.guards
        worlds = [world for target in self.finder.targets for world in guards.worlds(target)]
        if window(arguments[1], use, worlds) != {"global"}:
            return None
        spaces = window(arguments[0], use, worlds)
        space = "cta" if spaces == {"cta"} else "cluster"
        reason = f"the tag {arguments[0].text} says so"
        if not spaces:
            reason = f"the window that {arguments[0].text} names cannot be told"
        opcode = wrapper.opcode.format(space=space, rank="{rank}")
        extra = arguments[wrapper.arguments["plain"] :]
        if "cta_group" in arguments[2].text:
            opcode += f".cta_group::{'2' if '2' in arguments[2].text else '1'}"
            extra = extra[1:]
        if extra:
            opcode += ".multicast::cluster"
        rank = 0
        if "coordinates" in wrapper.arguments:
            rank = rank_of(arguments[wrapper.arguments["coordinates"] + ("cta_group" in opcode)], use)
        return _made(opcode, rank, certain=bool(spaces), reason=reason)

    # Site -----------------------------------------------------------------------------------------

    def _site(self, wrapper: Wrapper, use: Use, form: _Form) -> CopySite:
        finder, unit = self.finder, use.unit
        span = Span(unit.file, use.offset, use.tokens.end(use.index))
        conditions: list[Condition] = [(unit.guard_at(use.offset), True)]
        here = Evidence("call", span.path, span.line, f"{wrapper.qualified} hides {form.copy.opcode}")
        version = self._versions.of(wrapper.library)
        rewrite = rewrite_of(wrapper, use, version.versions) if form.certain else ()
        hidden = Hidden(wrapper.qualified, form.certain, form.reason, wrapper.instead, wrapper.kind, rewrite)
        site = CopySite(
            span=span,
            end_span=span,
            kind="wrapper",
            copy=form.copy,
            function=use.owner.qualified if use.owner is not None else None,
            targets=finder.guards.targets_of(conditions),
            on_target={t.name: forms.on_target(form.stand_in, t) for t in finder.targets},
            cluster=ClusterVerdict("undecided", _IN_LIBRARY if wrapper.kind == "host" else _NO_KERNEL),
            address=AddressVerdict("unknown", "unknown", _NO_ADDRESS),
            evidence=(here, *finder.guards.evidence_of(conditions), *version.evidence),
            public=finder.is_public(span.path),
            hidden=hidden,
        )
        called = use.kind == "call" and "destination" in wrapper.arguments and len(use.arguments) > 2
        if use.owner is not None and called:
            site = finder.judge(site, use.owner, self._address(wrapper, use, use.owner, form))
        return finder.with_build(site, conditions)

    def _address(self, wrapper: Wrapper, use: Use, owner: Owner, form: _Form) -> AddressVerdict:
        shift = 1 if wrapper.tagged and form.copy.cta_group else 0
        destination = self._flow(_argument(wrapper, "destination", shift, use), owner)
        mbarrier = self._flow(
            _argument(wrapper, "mbarrier", shift, use), owner, refers=wrapper.barrier_object
        )
        return AddressVerdict(destination.owner, mbarrier.owner, destination.reason, destination.evidence)

    def _flow(self, node: Node | None, owner: Owner, *, refers: bool = False) -> Flow:
        """Owner of the memory that an argument points to, or that it is where it is passed by reference."""
        if node is None:
            return Flow("unknown", "the call does not give it")
        flow = self.finder.flow
        found = flow.address(node, Frame(owner)) if refers else flow.operand(node, Frame(owner))
        return found if found.owner != "none" else Flow("unknown", f"{node.text} is a plain number")


def _argument(wrapper: Wrapper, name: str, shift: int, use: Use) -> Node | None:
    """An argument by its position in the table, from the end where that is negative."""
    position = wrapper.arguments.get(name)
    if position is None:
        return None
    position += shift if position >= 0 else len(use.arguments)
    return use.arguments[position] if 0 <= position < len(use.arguments) else None


def _made(opcode: str, rank: int, *, certain: bool, reason: str) -> _Form:
    copy = _copy(opcode.replace("{rank}d", f"{rank}d" if rank else "").replace("..", "."))
    # ptxas treats all ranks alike, and 3 is one that every mode takes; the opcode shown claims none.
    lacks_rank = "tensor" in copy.instruction.parts and not copy.dims
    stand_in = _copy(copy.opcode.replace("tensor.", "tensor.3d.", 1)) if lacks_rank else copy
    return _Form(copy, stand_in, certain, reason)


def _copy(opcode: str) -> BulkCopy:
    copy = forms.read_bulk_copy(Instruction(opcode, None, (), 0, len(opcode), len(opcode)))
    if copy is None:
        raise AssertionError(f"the table of wrappers holds {opcode}, which is no bulk copy")
    return copy

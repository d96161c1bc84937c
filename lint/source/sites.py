"""Bulk copies of one file as copy sites: guards, kernels, cluster size, owner of the memory, evidence."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ptxguard import forms
from ptxguard.errors import ParseError, PtxguardError
from ptxguard.finding import Evidence, KernelPlace
from ptxguard.model import AddressVerdict, ClusterVerdict, CopySite
from ptxguard.source.address import AddressFlow
from ptxguard.source.asmcode import AsmCodes
from ptxguard.source.asmsites import StatementFlow
from ptxguard.source.behind import MAPPING, RESIZING, RESIZING_LIBRARY, Behind
from ptxguard.source.callgraph import CallGraph
from ptxguard.source.cluster import ClusterSizes, merge
from ptxguard.source.constants import Constants
from ptxguard.source.cuda import Function
from ptxguard.source.guardverdict import GuardVerdicts
from ptxguard.source.joined import asm_text, joined, may_call_driver, site_key
from ptxguard.source.lexer import AsmStatement, Malformed, find_statements
from ptxguard.source.ptx import parse_asm
from ptxguard.source.reach import Reach, Reaches
from ptxguard.source.spaces import Spaces

if TYPE_CHECKING:
    from ptxguard.arch import Target
    from ptxguard.location import JoinedText
    from ptxguard.model import AsmCode, BulkCopy, Instruction
    from ptxguard.source.guards import CppFile
    from ptxguard.source.lexer import Condition
    from ptxguard.source.project import Project
    from ptxguard.source.pythonsites import PythonSites
    from ptxguard.source.tree import TreeFile
    from ptxguard.source.twins import Helpers
    from ptxguard.source.uses import Owner
    from ptxguard.source.wrappersites import WrapperSites

_COPY_WORD = "cp.async.bulk"
# The largest file seen holds 35; a generator that writes more gets an error entry instead of an endless run.
MAX_COPIES = 1000
# Mnemonics of AMD GCN and CDNA: device code too, but not ours.
_OTHER_MACHINE = re.compile(r"\s*(?:s_|v_|ds_|buffer_|flat_|global_load|global_store|image_|scratch_)\w+")
_DEVICE_WORDS = ("__device__", "__global__", "DEVICE", "KERNEL")


@dataclass(eq=False)
class SiteFinder:
    """Finds and judges bulk copies.

    Attributes:
        project: the tree.
        targets: targets asked for.
        cuda_min: oldest toolkit, or None.
        public: globs of public headers.
        errors: asm text that is no PTX, statements that cannot be taken apart.
        codes: statements whose operands deserve a closer look.
    """

    project: Project
    targets: tuple[Target, ...]
    cuda_min: tuple[int, int] | None
    public: tuple[str, ...]
    errors: list[PtxguardError] = field(default_factory=list)
    codes: list[AsmCode] = field(default_factory=list)
    _statements: dict[CppFile, list[AsmStatement]] = field(default_factory=dict, repr=False)

    @cached_property
    def guards(self) -> GuardVerdicts:
        """What guards say per target."""
        return GuardVerdicts(self.project, self.targets, self.cuda_min)

    @cached_property
    def graph(self) -> CallGraph:
        """Call graph of the tree."""
        return CallGraph(self.project, self.guards.is_live)

    @cached_property
    def _constants(self) -> Constants:
        return Constants(self.graph)

    @cached_property
    def _resizing(self) -> Behind:
        return Behind(self.graph, RESIZING, RESIZING_LIBRARY)

    @cached_property
    def _mapping(self) -> Behind:
        return Behind(self.graph, MAPPING, ranks=True)

    @cached_property
    def _reaches(self) -> Reaches:
        return Reaches(self.graph)

    @cached_property
    def _sizes(self) -> ClusterSizes:
        return ClusterSizes(self.graph, self._constants)

    @cached_property
    def flow(self) -> AddressFlow:
        """Follows addresses."""
        return AddressFlow(self.graph, self._constants, self.live_statements, self.guards.doubt)

    # PTX files ------------------------------------------------------------------------------------

    def is_ptx_text(self, text: str) -> bool:
        """Whether a text of another ending is a PTX module."""
        head = text[:4096]
        return ".version" in head and ".target" in head and ".address_size" in head

    def of_ptx(self, file: TreeFile) -> list[CopySite]:
        """Bulk copies of a `.ptx` module."""
        from ptxguard.source.ptxsites import sites_of_ptx  # a CUDA tree without PTX files never pays for it

        return sites_of_ptx(file.source(), self.targets)

    def of_python(self, file: TreeFile) -> list[CopySite]:
        """Bulk copies in the strings of a Python file."""
        found = self._python.of_file(file)
        inside = [site for unit in self.project.units(file) for site in self.of_unit(unit)]
        return found + self._python.of_cpp(inside)

    @cached_property
    def _python(self) -> PythonSites:
        from ptxguard.source.pythonsites import PythonSites  # a C++ tree never pays for the grammar

        return PythonSites(self.project.python, self.targets, self.public, self.errors)

    # C++ ------------------------------------------------------------------------------------------

    @cached_property
    def _spaces(self) -> Spaces:
        return Spaces(self.project, self.statements, self.is_public)

    @cached_property
    def _helpers(self) -> Helpers:
        from ptxguard.source.twins import Helpers  # few trees hold copies that call the driver

        return Helpers(self)

    @cached_property
    def _codes(self) -> AsmCodes:
        return AsmCodes(self)

    @cached_property
    def _wrappers(self) -> WrapperSites:
        from ptxguard.source.wrappersites import WrapperSites  # few trees hold wrappers

        return WrapperSites(self)

    def of_wrappers(self, unit: CppFile) -> list[CopySite]:
        """Library calls of a C++ file that hide a bulk copy."""
        return self._wrappers.of_unit(unit)

    def is_public(self, path: str) -> bool:
        """Whether a file is declared to have callers outside of the tree."""
        return any(fnmatch.fnmatch(path, glob) for glob in self.public)

    def statements(self, unit: CppFile) -> list[AsmStatement]:
        """Asm statements of a file in all their variants; malformed ones become errors."""
        known = self._statements.get(unit)
        if known is None:
            known = self._statements[unit] = []
            for found in find_statements(unit, self.project.resolver, self.project.asm_keywords):
                if isinstance(found, Malformed):
                    line, column = unit.file.position(found.offset)
                    self.errors.append(
                        ParseError(found.reason, path=unit.file.path, line=line, column=column)
                    )
                else:
                    known.append(found)
        return known

    def live_statements(self, unit: CppFile) -> list[AsmStatement]:
        """Statements that some target or the host can compile."""
        return [s for s in self.statements(unit) if self.guards.is_live(unit, s.offset, s.conditions)]

    def of_unit(self, unit: CppFile) -> list[CopySite]:
        """Bulk copies of a C++ file."""
        found: dict[tuple[object, ...], CopySite] = {}
        for statement in self.statements(unit):
            if len(found) > MAX_COPIES:
                message = f"more than {MAX_COPIES} bulk copies in one file; those from here on are not judged"
                self.errors.append(ParseError(message, path=unit.file.path, line=statement.line))
                break
            instructions = self._instructions(statement)
            code = self._codes.of(statement)
            if code is not None:
                self.codes.append(code)
            for instruction in instructions:
                copy = forms.read_bulk_copy(instruction)
                if copy is None:
                    continue
                site = self._site(statement, instructions, copy)
                key = site_key(site)
                known = found.get(key)
                found[key] = site if known is None else joined(known, site)
        return list(found.values())

    def _instructions(self, statement: AsmStatement) -> tuple[Instruction, ...]:
        """Instructions of a statement that can hold a copy; text that is no PTX becomes an error."""
        text = statement.template.text
        is_copy = _COPY_WORD in text
        if statement.unresolved:
            if is_copy or "cp.async" in text:
                self._unresolved(statement)
            return ()
        if not is_copy and not self._is_device(statement):
            return ()
        try:
            return parse_asm(text) if is_copy or _is_suspect(text) else ()
        except ParseError as error:
            live = self.guards.is_live(statement.unit, statement.offset, statement.conditions)
            if live and not _OTHER_MACHINE.match(text):
                self.errors.append(_located(error, statement.template, statement))
            return ()

    def _unresolved(self, statement: AsmStatement) -> None:
        names = ", ".join(sorted(set(statement.unresolved)))
        message = f"asm text depends on {names}, which has no value in this tree; add its header or use -D"
        path, line = statement.unit.file.path, statement.line
        if self.guards.is_live(statement.unit, statement.offset, statement.conditions):
            self.errors.append(ParseError(message, path=path, line=line))

    def _is_device(self, statement: AsmStatement) -> bool:
        owner = self.owner(statement)
        if not isinstance(owner, Function):
            return False
        tokens = owner.unit.tokens
        return any(word in text for text in tokens.texts[slice(*owner.header)] for word in _DEVICE_WORDS)

    def owner(self, statement: AsmStatement) -> Owner | None:
        """The function or macro that holds a statement."""
        if statement.owner is not None:
            return self.graph.macro(statement.owner)
        return self.graph.owner_at(statement.unit, statement.offset)

    def _site(
        self, statement: AsmStatement, instructions: tuple[Instruction, ...], copy: BulkCopy
    ) -> CopySite:
        instruction = copy.instruction
        pieces = statement.template.spans(instruction.start, instruction.mnemonic_end)
        owner = self.owner(statement)
        here = Evidence("asm", pieces[0].path, pieces[0].line, copy.opcode)
        spelling = self._spaces.of(statement, copy)
        site = CopySite(
            span=pieces[0],
            end_span=pieces[-1],
            kind="cpp_inline_asm",
            copy=copy,
            function=owner.qualified if owner is not None else None,
            targets=self.guards.of_statement(statement),
            on_target={target.name: forms.on_target(copy, target) for target in self.targets},
            cluster=ClusterVerdict("undecided", "the asm statement stands outside of every function"),
            address=AddressVerdict(
                "unknown", "unknown", "the asm statement stands outside of every function"
            ),
            evidence=(here, *self.guards.evidence(statement)),
            space_spans=spelling.spans,
            space_users=spelling.users,
            asm=asm_text(statement),
            public=self.is_public(pieces[0].path),
            cta_form_missing_below=self.guards.cta_form_missing_below(statement, copy),
        )
        if owner is not None:
            address = StatementFlow(statement, instructions, owner, self.flow).address(copy)
            site = self.judge(site, owner, address)
            if isinstance(owner, Function) and spelling.spans and may_call_driver(site):
                calls = self._helpers.calls(statement, instructions, copy, owner)
                site = replace(site, calls=calls, twin=self._helpers.twin(statement, copy, owner))
        return self.with_build(site, self.guards.conditions_of(statement))

    def with_build(self, site: CopySite, conditions: list[Condition]) -> CopySite:
        """A site that may become a syscall, with what the project's build files say of its targets."""
        reached = [
            target
            for target in self.targets
            if site.on_target[target.name] == "syscall" and site.targets[target.name] != "excluded"
        ]
        from ptxguard.builds import judge, ships_ptx  # a tree without such a site never reads build files

        paths = [place.path for place in site.kernels if place.path is not None] or [site.span.path]
        if not reached:
            called = [target for target in self.targets if site.on_target[target.name] == "syscall"]
            survives = called and site.copy.is_cluster_load and not site.copy.multicast
            jit = self.guards.in_older_ptx(conditions) if survives else {}
            build = ships_ptx(self.project.builds, paths, jit, called) if jit else None
            return replace(site, jit=jit, build=build)
        build = judge(self.project.builds, paths, reached)
        shipped = tuple(target for target in build.ptx_targets if self.guards.compiles(target, conditions))
        return replace(site, build=replace(build, ptx_targets=shipped))

    def judge(self, site: CopySite, owner: Owner, address: AddressVerdict) -> CopySite:
        """A site of a function or macro with its kernels, cluster size and addresses."""
        reach = self._reaches.of(owner)
        cluster = self._cluster(owner, reach)
        kernels = [reached.kernel for reached in reach.kernels]
        if address.destination == "unknown" and cluster.launches_in_sight:
            cluster = self._doubted(cluster, owner, kernels)
        chain: list[Evidence] = []
        for reached in reach.kernels:
            chain.extend(step for step in reached.chain if step not in chain)
        evidence = [*site.evidence, *chain]
        evidence.extend(item for item in (*cluster.evidence, *address.evidence) if item not in evidence)
        return replace(
            site,
            cluster=cluster,
            address=address,
            kernels=tuple(KernelPlace(k.qualified, k.unit.file.path, k.line) for k in kernels),
            evidence=tuple(evidence),
            uses_setmaxnreg=any(map(self._resizing.leads, kernels)),
        )

    def _cluster(self, owner: Owner, reach: Reach) -> ClusterVerdict:
        verdicts = [(self._sizes.of_kernel(reached.kernel), reached.sure) for reached in reach.kernels]
        if not verdicts:
            if reach.loose:
                reason, path, line = reach.loose[0]
                return ClusterVerdict(
                    "undecided", f"{reason} ({path}:{line})", (Evidence("call", path, line, reason),)
                )
            place = f"{owner.unit.file.path}:{owner.line}"
            return ClusterVerdict(
                "undecided", f"no kernel that calls {owner.qualified} ({place}) is in the tree"
            )
        verdict = merge(verdicts)
        if verdict.verdict == "one" and reach.loose:
            reason, path, line = reach.loose[0]
            evidence = (*verdict.evidence, Evidence("call", path, line, reason))
            return ClusterVerdict("undecided", f"{reason} ({path}:{line})", evidence)
        return verdict

    def _doubted(self, cluster: ClusterVerdict, owner: Owner, kernels: list[Function]) -> ClusterVerdict:
        """Launches prove nothing about an unknown address in code that maps addresses to other CTAs."""
        for unit in {one.unit for one in (owner, *kernels)}:
            used = self._mapping.written(unit.file.text)
            if used:
                doubt = f"{unit.file.path} uses {used}, and the address is not followed"
                return replace(cluster, reason=f"{cluster.reason}; but {doubt}", launches_in_sight=False)
        called = (owner, *kernels) if isinstance(owner, Function) else kernels
        for function in called:
            used_there = self._mapping.leads(function)
            if used_there:
                doubt = (
                    f"{function.qualified} uses {used_there}, which can map addresses to other CTAs, and the "
                    "address is not followed"
                )
                return replace(cluster, reason=f"{cluster.reason}; but {doubt}", launches_in_sight=False)
        return cluster


def _is_suspect(text: str) -> bool:
    """Whether a device statement without a copy deserves a full parse: text that has no PTX shape at all."""
    bare = text.strip()
    return bool(bare) and ("." not in bare or not bare.rstrip().endswith((";", "}")))


def _located(error: ParseError, template: JoinedText, statement: AsmStatement) -> ParseError:
    """A parse error of an asm text at its place in the file."""
    if not template.runs:
        return ParseError(error.message, path=statement.unit.file.path, line=statement.line)
    file, offset = template.locate(min(error.offset or 0, max(len(template.text) - 1, 0)))
    line, column = file.position(offset)
    return ParseError(f"asm text is no PTX: {error.message}", path=file.path, line=line, column=column)

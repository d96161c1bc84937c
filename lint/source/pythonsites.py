"""Bulk copies in the asm texts of Python files as copy sites."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ptxguard import forms
from ptxguard.errors import ParseError, PtxguardError
from ptxguard.finding import Evidence, KernelPlace
from ptxguard.model import AddressVerdict, CopySite
from ptxguard.source.ptx import parse_asm
from ptxguard.source.ptxsites import sites_of_ptx
from ptxguard.source.pythonasm import asm_calls, is_wrapper, joined
from ptxguard.source.pythonconditions import excluded_targets, path_conditions
from ptxguard.source.pythoncpp import ptx_texts
from ptxguard.source.pythonframe import Frame, caller_frame
from ptxguard.source.pythonliterals import text_of
from ptxguard.source.pythonoperands import OperandReader
from ptxguard.source.pythonreach import find_kernels
from ptxguard.source.templates import FIELD

if TYPE_CHECKING:
    from ptxguard.arch import Target
    from ptxguard.location import JoinedText, Span
    from ptxguard.model import BulkCopy, Instruction
    from ptxguard.source.python import PythonFile
    from ptxguard.source.pythonasm import AsmCall
    from ptxguard.source.pythonliterals import Hole
    from ptxguard.source.pythonparts import Text
    from ptxguard.source.pythonprogram import PythonProgram
    from ptxguard.source.pythonscope import Scope
    from ptxguard.source.tree import TreeFile

COPY_WORD = "cp.async.bulk"
KIND = "python_string"
_COPY_START = "cp.async"


@dataclass(frozen=True)
class _Asm:
    """One text of one asm call, parsed.

    Attributes:
        call: the call.
        text: the text with how it came about.
        template: the text as PTX.
        instructions: its instructions.
        owner: the function whose asm it is: that of the call, or the outermost one that passed the text in.
        frame: the frame in which the call's operands are to be read.
    """

    call: AsmCall
    text: Text
    template: JoinedText
    instructions: tuple[Instruction, ...]
    owner: Scope
    frame: Frame


@dataclass(eq=False)
class PythonSites:
    """Finds and judges the bulk copies of Python files.

    Attributes:
        program: the Python files.
        targets: targets asked for.
        public: globs of public files.
        errors: texts that cannot be read.
    """

    program: PythonProgram
    targets: tuple[Target, ...]
    public: tuple[str, ...]
    errors: list[PtxguardError] = field(default_factory=list)

    def of_file(self, file: TreeFile) -> list[CopySite]:
        """Bulk copies in the strings of a file.

        Raises:
            ParseError: the file is no text.
        """
        unit = self.program.tree.unit(file)
        if unit is None:
            raise self.program.tree.unreadable[file]
        found = self.of_unit(unit)
        for text in ptx_texts(unit, self.program):
            if COPY_WORD in text.text:
                found.extend(replace(site, kind=KIND) for site in sites_of_ptx(text, self.targets))
        return found

    def of_cpp(self, sites: list[CopySite]) -> list[CopySite]:
        """Copies of C++ inside Python strings; one whose opcode holds a field becomes an error."""
        found: dict[tuple[int, int, str], CopySite] = {}
        for site in sites:
            if FIELD in site.copy.opcode:
                written = site.copy.opcode.replace(FIELD, "{…}")
                message = (
                    f"cannot be read: a field decides which instruction {written} is; "
                    "write the opcode out or choose it from constants"
                )
                line, column = site.span.line, site.span.column
                self.errors.append(ParseError(message, path=site.span.path, line=line, column=column))
            else:
                key = (site.span.line, site.span.column, site.copy.opcode)
                found.setdefault(key, replace(site, kind=KIND))
        return list(found.values())

    def of_unit(self, unit: PythonFile) -> list[CopySite]:
        """Bulk copies of the asm calls of a file; copies whose text stands in another file come with it."""
        found: dict[tuple[str, int, int, str], CopySite] = {}
        for call in asm_calls(unit):
            for asm in self._texts_of(call):
                for instruction in asm.instructions:
                    copy = forms.read_bulk_copy(instruction)
                    if copy is not None:
                        site = self._site(asm, copy)
                        key = (site.span.path, site.span.line, site.span.column, copy.opcode)
                        found.setdefault(key, site)
        return list(found.values())

    def _texts_of(self, call: AsmCall) -> list[_Asm]:
        """Every text of a call that can hold a copy, parsed; what cannot be read becomes an error."""
        if is_wrapper(call.scope):
            return []
        frame = Frame(
            call.scope, self.program.calls.classes(call.scope) if call.scope.owner is not None else None
        )
        texts = self.program.texts.of(call.text, frame)
        if texts is None:
            if COPY_WORD.encode() in call.scope.unit.data:
                self._error("the asm text has too many values to enumerate", call)
            return []
        found = []
        seen: set[tuple[str, int]] = set()
        for text in texts:
            written = text_of(text.pieces)
            if _COPY_START not in written:
                continue
            template, holes = joined(text.pieces, call.family)
            first = template.locate(max(template.text.find(_COPY_START), 0))
            if (template.text, first[1]) in seen and not text.via:
                continue
            seen.add((template.text, first[1]))
            asm = self._parsed(call, text, template, holes, frame)
            if asm is not None:
                found.append(asm)
        return found

    def _parsed(
        self, call: AsmCall, text: Text, template: JoinedText, holes: list[tuple[int, Hole]], frame: Frame
    ) -> _Asm | None:
        cut_opcode = _opcode_hole(template.text, holes)
        if cut_opcode is not None:
            self._cannot_read(cut_opcode)
            return None
        if COPY_WORD not in template.text:
            return None
        try:
            instructions = parse_asm(template.text)
        except ParseError as error:
            file, offset = template.locate(min(error.offset or 0, max(len(template.text) - 1, 0)))
            line, column = file.position(offset)
            message = f"asm text is no PTX: {error.message}"
            self.errors.append(ParseError(message, path=file.path, line=line, column=column))
            return None
        owner = text.via[-1].scope if text.via else call.scope
        return _Asm(call, text, template, instructions, owner, self._entered(call, text, frame))

    def _entered(self, call: AsmCall, text: Text, frame: Frame) -> Frame:
        """The frame of the asm call, entered by the calls through which its text came."""
        if not text.via:
            return frame
        outer = caller_frame(text.via[0])
        arguments = self.program.values.bound(call.scope, text.via[0].node, outer, skip=text.via[0].skip)
        return Frame(call.scope, frame.classes, arguments)

    def _cannot_read(self, hole: Hole) -> None:
        line, column = hole.file.position(hole.offset)
        message = (
            f"cannot be read: a field decides which instruction this is, and {hole.reason}; "
            "write the opcode out or choose it from constants"
        )
        self.errors.append(ParseError(message, path=hole.file.path, line=line, column=column))

    def _error(self, message: str, call: AsmCall) -> None:
        path = call.scope.unit.file.path
        self.errors.append(ParseError(f"cannot be read: {message}", path=path, line=call.line))

    # One site -------------------------------------------------------------------------------------

    def _site(self, asm: _Asm, copy: BulkCopy) -> CopySite:
        pieces = asm.template.spans(copy.instruction.start, copy.instruction.mnemonic_end)
        owner = asm.owner
        reach = find_kernels(self.program.calls, asm.call.scope, asm.text.via)
        cluster = self.program.launches.of_reach(reach, owner)
        address = self._address(asm, copy)
        evidence = [Evidence("asm", pieces[0].path, pieces[0].line, copy.opcode)]
        for reached in reach.kernels:
            evidence.extend(step for step in reached.chain if step not in evidence)
        evidence.extend(item for item in (*cluster.evidence, *address.evidence) if item not in evidence)
        kernels = dict.fromkeys(
            KernelPlace(one.kernel.qualified, one.kernel.unit.file.path, one.kernel.line)
            for one in reach.kernels
        )
        return CopySite(
            span=pieces[0],
            end_span=pieces[-1],
            kind=KIND,
            copy=copy,
            function=owner.qualified or None,
            targets=self._compiled(asm),
            on_target={target.name: forms.on_target(copy, target) for target in self.targets},
            cluster=cluster,
            address=address,
            kernels=tuple(kernels),
            evidence=tuple(evidence),
            space_spans=_space_spans(asm.template, copy),
            public=any(fnmatch.fnmatch(pieces[0].path, glob) for glob in self.public),
            uses_setmaxnreg=any(_uses_setmaxnreg(one.kernel) for one in reach.kernels),
        )

    def _address(self, asm: _Asm, copy: BulkCopy) -> AddressVerdict:
        if copy.destination_space == "global":
            return AddressVerdict("unknown", "unknown", "the destination is global memory")
        reader = OperandReader(
            asm.call,
            asm.instructions,
            asm.frame,
            asm.text.branches,
            self.program.texts,
            self.program.addresses,
        )
        destination, mbarrier = reader.owner(copy.destination), reader.owner(copy.mbarrier)
        return AddressVerdict(destination.owner, mbarrier.owner, destination.reason, destination.evidence)

    def _compiled(self, asm: _Asm) -> dict[str, str]:
        """Python has no preprocessor: a copy is for all targets but those that a test excludes."""
        conditions = list(path_conditions(asm.call.node, asm.call.scope))
        for branch in asm.text.branches:
            conditions.extend(path_conditions(branch, asm.call.scope.unit.scope_at(branch)))
        for call in asm.text.via:
            conditions.extend(path_conditions(call.node, call.scope))
        excluded = excluded_targets(tuple(conditions), self.targets, asm.call.scope)
        return {one.name: "excluded" if one.name in excluded else "compiled" for one in self.targets}


def _opcode_hole(text: str, holes: list[tuple[int, Hole]]) -> Hole | None:
    """A field that stands inside the opcode of what can be a bulk copy."""
    for place, one in holes:
        start = max(text.rfind(mark, 0, place) for mark in (";", "{", "}", "\n", " ", "\t")) + 1
        word = text[start:place]
        if word and (COPY_WORD.startswith(word) or word.startswith(COPY_WORD)) and "." in word:
            return one
    return None


def _space_spans(template: JoinedText, copy: BulkCopy) -> tuple[Span, ...]:
    """Where `cluster` of the destination's state space is written."""
    written = copy.opcode.find("shared::cluster")
    if not copy.is_cluster_load or written < 0:
        return ()
    start = copy.instruction.start + written + len("shared::")
    spans = template.spans(start, start + len("cluster"))
    return tuple(spans) if "".join(span.text for span in spans) == "cluster" else ()


def _uses_setmaxnreg(kernel: Scope) -> bool:
    """Whether the kernel changes its register count (ptxas info C7506)."""
    body = kernel.unit.data[kernel.node.start_byte : kernel.node.end_byte]
    return any(word in body for word in (b"setmaxnreg", b"setmaxregister", b"warpgroup_reg_"))

"""Facts that pass between the layers, all frozen: PTX instructions, bulk copies, verdicts, sites."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptxguard.arch import Target
    from ptxguard.asmnames import DeclaredName
    from ptxguard.directive import Directive
    from ptxguard.errors import PtxguardError
    from ptxguard.finding import Evidence, KernelPlace
    from ptxguard.helper import HelperCall, Twin
    from ptxguard.location import JoinedText, SourceFile, Span


@dataclass(frozen=True)
class Operand:
    """One operand of a PTX instruction; offsets are into the parsed text.

    Attributes:
        kind: register (`%r1`, `p`), placeholder (`%0`, `%[dst]`, `$0`), immediate, address (`[r+16]`, also
            with a tensor map and coordinates inside), vector (`{a, b}`), symbol, sink (`_`), negated (`!p`),
            other.
        text: as written.
        start: offset of its first character.
        end: offset behind its last character.
        children: parts of an address (base, offset, coordinates as a vector) or of a vector, in order.
    """

    kind: str
    text: str
    start: int
    end: int
    children: tuple[Operand, ...] = ()


@dataclass(frozen=True)
class Instruction:
    """One PTX instruction.

    Attributes:
        opcode: the whole dotted text with all modifiers in source order, no spaces.
        predicate: `@p` or `@!%0` as written, or None.
        operands: in order.
        start: offset of the first character of the mnemonic (behind the guard).
        mnemonic_end: offset behind the dotted opcode.
        end: offset behind the `;` (or behind the last operand where it is missing).
    """

    opcode: str
    predicate: str | None
    operands: tuple[Operand, ...]
    start: int
    mnemonic_end: int
    end: int

    @property
    def parts(self) -> tuple[str, ...]:
        """The dotted pieces: `("cp", "async", "bulk", "tensor", "2d", "shared::cluster", …)`."""
        return tuple(self.opcode.split("."))


@dataclass(frozen=True)
class BulkCopy:
    """A bulk copy (`cp.async.bulk`, `cp.async.bulk.tensor`) taken apart.

    Attributes:
        instruction: the instruction itself.
        dims: tensor rank 1 to 5, 0 for a plain bulk copy.
        mode: tile, im2col, im2col::w, im2col::w::128, tile::gather4, tile::scatter4, im2col_no_offs; "" for
            plain.
        destination_space: `shared::cluster`, `shared::cta`, `global`.
        source_space: likewise.
        multicast: whether `.multicast::cluster` is there.
        cta_group: whether `.cta_group::1` or `::2` is there.
        destination: the address operand written, or None where the operands could not be told apart.
        mbarrier: the mbarrier operand, or None (stores have none).
        unknown_modifiers: dotted pieces that the PTX ISA (9.x) does not list for this instruction.
    """

    instruction: Instruction
    dims: int
    mode: str
    destination_space: str
    source_space: str
    multicast: bool
    cta_group: bool
    destination: Operand | None
    mbarrier: Operand | None
    unknown_modifiers: tuple[str, ...] = ()

    @property
    def opcode(self) -> str:
        """The whole dotted opcode."""
        return self.instruction.opcode

    @property
    def is_cluster_load(self) -> bool:
        """Global to `shared::cluster`: the form that becomes a syscall on sm_12x."""
        return self.destination_space == "shared::cluster" and self.source_space == "global"


@dataclass(frozen=True)
class ClusterVerdict:
    """How large the cluster is in which an instruction runs.

    Attributes:
        verdict: one, larger or undecided.
        reason: one sentence; for undecided it says what is missing.
        evidence: file and line of every fact used, in both directions.
        launches_in_sight: whether every kernel reached is launched somewhere in the tree.
    """

    verdict: str
    reason: str
    evidence: tuple[Evidence, ...] = ()
    launches_in_sight: bool = False

    def record(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "evidence": [item.record() for item in self.evidence],
        }


@dataclass(frozen=True)
class AddressVerdict:
    """Whose shared memory the destination and the mbarrier name.

    Attributes:
        destination: local, peer or unknown.
        mbarrier: likewise.
        reason: one sentence about the destination.
        evidence: roots and mappings with file and line.
    """

    destination: str
    mbarrier: str
    reason: str
    evidence: tuple[Evidence, ...] = ()

    @property
    def verdict(self) -> str:
        """The destination's verdict: it decides (`CONTRACT.md`, "Two proofs")."""
        return self.destination

    def record(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "destination": self.destination,
            "mbarrier": self.mbarrier,
            "verdict": self.destination,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class BuildVerdict:
    """Whether the project's own build files compile a file for the targets asked for.

    Attributes:
        verdict: named (for one of them), others (for none), ptx (for none, but PTX is shipped that the driver
            compiles for them), or unknown (nothing names targets, or they are computed).
        reason: one sentence.
        evidence: the build lines.
        ptx_targets: for ptx, what that PTX is written for.
    """

    verdict: str
    reason: str
    evidence: tuple[Evidence, ...] = ()
    ptx_targets: tuple[Target, ...] = ()


@dataclass(frozen=True)
class Hidden:
    """What hides a copy: a call or type of a library.

    Attributes:
        name: qualified name of the call or type.
        certain: whether it hides the form of the site for sure.
        reason: one sentence that says why, or what is missing.
        instead: what to write instead.
        kind: call, atom (a type that copies where it is used) or host (a host function with such a kernel).
        rewrite: characters of the use and what stands in their place for the own CTA's window, in file order;
            empty where the library in the tree cannot be asked for it.
    """

    name: str
    certain: bool
    reason: str
    instead: str
    kind: str
    rewrite: tuple[tuple[Span, str], ...] = ()


@dataclass(frozen=True)
class AsmArgument:
    """One operand of an asm statement in C++.

    Attributes:
        name: of `[name]`, or None.
        constraint: `=r`, `l`, `n`; "" where a macro hides it.
        output: whether it stands in the list of outputs.
        text: the C++ expression.
        window: what an address in it is: shared (an offset in the shared window), generic (a pointer), or ""
            where nothing tells.
        evidence: where that is decided.
    """

    name: str | None
    constraint: str
    output: bool
    text: str
    window: str = ""
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True)
class AsmText:
    """The asm statement around a copy, as far as a compiler needs it again.

    Attributes:
        text: its template, joined.
        arguments: outputs then inputs, as `%0`, `%1`, … count.
        places: (path, line, column) of the keyword; several where one macro makes the same copy in each.
    """

    text: str
    arguments: tuple[AsmArgument, ...]
    places: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class CopySite:
    """One bulk copy at one place of the source, with everything known about it.

    Attributes:
        span: the mnemonic's characters (first piece where it is cut).
        end_span: the last piece of the mnemonic; equal to `span` where it is not cut.
        kind: cpp_inline_asm, python_string, ptx or wrapper.
        copy: the instruction taken apart.
        function: qualified name of the enclosing function or macro, or None.
        targets: target name -> compiled, excluded or unknown (what the guards say).
        on_target: target name -> syscall, native or rejected (what ptxas does with the form).
        cluster: cluster size with reason.
        address: owner of destination and mbarrier with reason.
        kernels: kernels that reach it.
        evidence: the chain: asm, macros, guards, calls, kernels, launches, address roots.
        space_spans: the source characters of `cluster` in the destination's `shared::cluster`, for a fix;
            empty where a rewrite there would change more than copies.
        space_users: (path, line, column) of the other asm statements whose copies use these characters.
        public: whether it stands in a header declared public.
        uses_setmaxnreg: whether a kernel that reaches it uses `setmaxnreg`.
        cta_form_missing_below: toolkit version for which the guards let the cta form through though the
            toolkit lacks it, or None.
        hidden: what hides the copy, for the kind wrapper; else None.
        build: what the project's build files say; None where nothing asked them.
        asm: the statement around it, for C++; else None.
        calls: calls of the helper around it, for a copy that may become a syscall.
        twin: what those calls could call instead, or None.
        jit: virtual arch -> compiled or unknown, for a copy that no target compiles directly but that
            survives in PTX for older targets, which the driver compiles for them.
    """

    span: Span
    end_span: Span
    kind: str
    copy: BulkCopy
    function: str | None
    targets: dict[str, str]
    on_target: dict[str, str]
    cluster: ClusterVerdict
    address: AddressVerdict
    kernels: tuple[KernelPlace, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    space_spans: tuple[Span, ...] = ()
    public: bool = False
    uses_setmaxnreg: bool = False
    cta_form_missing_below: tuple[int, int] | None = None
    hidden: Hidden | None = None
    build: BuildVerdict | None = None
    space_users: tuple[tuple[str, int, int], ...] = ()
    asm: AsmText | None = None
    calls: tuple[HelperCall, ...] = ()
    twin: Twin | None = None
    jit: dict[str, str] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """The JSON form of `ptxguard sites`; `jit` stands there only where it says something."""
        survives = {"jit": self.jit} if self.jit else {}
        return {
            "path": self.span.path,
            "line": self.span.line,
            "column": self.span.column,
            "kind": self.kind,
            "opcode": self.copy.opcode,
            "destination_space": self.copy.destination_space,
            "source_space": self.copy.source_space,
            "multicast": self.copy.multicast,
            "function": self.function,
            "targets": self.targets,
            "on_target": self.on_target,
            **survives,
            "cluster": self.cluster.record(),
            "address": self.address.record(),
        }


@dataclass(frozen=True, eq=False)
class AsmCode:
    """An asm statement whose operands deserve a closer look.

    Attributes:
        template: its text, each character with its place.
        instructions: its text parsed.
        arguments: outputs then inputs, as `%0`, `%1`, … count.
        complete: whether every operand could be read.
        function: qualified name of the enclosing function or macro, or None.
        targets: target name -> compiled, excluded or unknown (what the guards say).
        evidence: guards and macros.
        names: labels, registers and variables that it declares outside of braces.
        in_kernel: whether the enclosing function is `__global__`.
    """

    template: JoinedText
    instructions: tuple[Instruction, ...]
    arguments: tuple[AsmArgument, ...]
    complete: bool
    function: str | None
    targets: dict[str, str]
    evidence: tuple[Evidence, ...] = ()
    names: tuple[DeclaredName, ...] = ()
    in_kernel: bool = False

    def bound(self, placeholder: str) -> AsmArgument | None:
        """The operand that `%0` or `%[name]` means; None where there is none."""
        name = placeholder[1:].strip("[]")
        if name.isdigit():
            return self.arguments[int(name)] if int(name) < len(self.arguments) else None
        return next((argument for argument in self.arguments if argument.name == name), None)


@dataclass(frozen=True)
class ArchList:
    """A preprocessor condition that compares `__CUDA_ARCH__` with a list of values by `==`.

    Attributes:
        span: the directive.
        listed: values of the list.
        covered: targets asked for for which it holds.
        missed: targets asked for between the architectures of the list for which it does not hold.
        built_covered: the same for the targets that the project's build files name.
        built_missed: likewise.
        build: the build lines of `built_missed`.
    """

    span: Span
    listed: tuple[int, ...]
    covered: tuple[str, ...]
    missed: tuple[str, ...]
    built_covered: tuple[str, ...] = ()
    built_missed: tuple[str, ...] = ()
    build: tuple[Evidence, ...] = ()


@dataclass(frozen=True)
class Analysis:
    """Everything that an analysis of source found.

    Attributes:
        sites: bulk copies, sorted by path, line, column.
        errors: what could not be read or parsed; any of them means that the job was not done.
        codes: asm statements that deserve a closer look at their operands.
        arch_lists: conditions that list architectures by `==`.
        reported: paths of the files that were asked for, as shown; the others are evidence.
        directives: comments that speak to ptxguard, in the files that were asked for.
    """

    sites: tuple[CopySite, ...]
    errors: tuple[PtxguardError, ...] = ()
    codes: tuple[AsmCode, ...] = ()
    arch_lists: tuple[ArchList, ...] = ()
    reported: frozenset[str] = frozenset()
    directives: tuple[Directive, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing that a rule could judge."""
        return not (self.sites or self.codes or self.arch_lists)

    def other_files(self) -> tuple[SourceFile, ...]:
        """Files of the facts that are no copies, each once."""
        files = [run.file for code in self.codes for run in code.template.runs]
        files += [found.span.file for found in self.arch_lists]
        return tuple(dict.fromkeys(files))

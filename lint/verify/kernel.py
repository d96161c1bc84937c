"""A PTX kernel around one asm statement or one copy, made so that ptxas can throw nothing of it away."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.errors import ParseError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.model import AsmArgument, AsmText, BulkCopy, Operand

NAME = "k"
# Constraint letters of nvcc (Inline PTX Assembly, "Constraints") and the registers they stand for.
_REGISTERS = {"h": "b16", "r": "b32", "l": "b64", "f": "f32", "d": "f64"}
_PLACEHOLDER = re.compile(r"%(?:%|=|(\d+)|\[(\w+)\])")
# An immediate whose value the source does not show: a multiple of 16, as sizes of bulk copies have to be.
_IMMEDIATE = "16"
_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)\Z")


@dataclass(frozen=True)
class _Register:
    """One operand in the kernel: read from a parameter, written to memory."""

    name: str
    kind: str
    read: bool
    written: bool


def kernel_of_statement(asm: AsmText) -> str:
    """The body of a module (without its head) that holds an asm statement.

    Raises:
        ParseError: an operand's constraint is no register class, or a placeholder has no operand.
    """
    names: list[str] = []
    registers: list[_Register] = []
    for number, argument in enumerate(asm.arguments):
        register = _register(number, argument)
        names.append(register if isinstance(register, str) else register.name)
        if isinstance(register, _Register):
            registers.append(register)
    by_name = {a.name: name for a, name in zip(asm.arguments, names, strict=True) if a.name is not None}

    def value(found: re.Match[str]) -> str:
        if found[0] in ("%%", "%="):
            return "%" if found[0] == "%%" else "0"
        known = names[int(found[1])] if found[1] and int(found[1]) < len(names) else by_name.get(found[2])
        if known is None:
            raise ParseError(f"{found[0]} stands for no operand of the statement")
        return known

    return _module(registers, _PLACEHOLDER.sub(value, asm.text))


def _register(number: int, argument: AsmArgument) -> _Register | str:
    """The register of an operand; the text of an immediate."""
    letter = argument.constraint.lstrip("=+&")
    if letter in ("n", "i"):
        text = argument.text.strip()
        return text if _NUMBER.match(text) else _IMMEDIATE
    if letter not in _REGISTERS:
        raise ParseError(
            f"the constraint {argument.constraint!r} stands for no register that PTX can be given"
        )
    read = not argument.constraint.startswith("=")
    return _Register(f"%arg{number}", _REGISTERS[letter], read, argument.output)


def kernel_of_copy(copy: BulkCopy) -> str:
    """The body of a module that holds one copy, its registers named anew.

    Raises:
        ParseError: its operands could not be told apart.
    """
    operands = copy.instruction.operands
    if copy.destination is None or len(operands) < 2:
        raise ParseError("the operands of the copy could not be told apart")
    registers: dict[str, _Register] = {}
    words = [
        _renamed(operand, _class_of(copy, index, len(operands)), registers)
        for index, operand in enumerate(operands)
    ]
    return _module(list(registers.values()), f"{copy.opcode} {', '.join(words)};")


def kernel_of_form(copy: BulkCopy) -> str:
    """The body of a module that holds the form of a copy whose operands a library call hides.

    Raises:
        ParseError: the rank of the tensor is not known.
    """
    parts = copy.instruction.parts
    if "tensor" in parts and not copy.dims:
        raise ParseError("the call does not say the rank of the tensor")
    if copy.dims:
        coordinates = ", ".join(["%2"] * copy.dims)
        return _of_form(f"{copy.opcode} [%0], [%1, {{{coordinates}}}], [%3];")
    return _of_form(f"{copy.opcode} [%0], [%1], %2, [%3];")


def _of_form(text: str) -> str:
    kinds = ("b32", "b64", "b32", "b32")
    registers = [_Register(f"%arg{i}", kind, read=True, written=False) for i, kind in enumerate(kinds)]
    return _module(registers, _PLACEHOLDER.sub(lambda found: f"%arg{found[1]}", text))


def _class_of(copy: BulkCopy, index: int, count: int) -> str:
    """Register class of an operand by its place (PTX ISA, syntax of both instructions)."""
    if copy.opcode.endswith("L2::cache_hint") and index == count - 1:
        return "b64"
    if index == 1:
        return "b64"
    return "b16" if copy.dims and index > 2 else "b32"


def _renamed(operand: Operand, kind: str, registers: dict[str, _Register]) -> str:
    """An operand with registers of the kernel; numbers stay."""
    if operand.kind == "address":
        first, *rest = operand.children or (operand,)
        inside = [_renamed(first, kind, registers)] if operand.children else [operand.text.strip("[]")]
        inside += [_renamed(part, "b32", registers) for part in rest if part.kind == "vector"]
        return f"[{', '.join(inside)}]"
    if operand.kind == "vector":
        return "{" + ", ".join(_renamed(part, kind, registers) for part in operand.children) + "}"
    if operand.kind == "immediate":
        return operand.text
    # One register may stand in two places of different width, which ptxas would refuse under one name.
    name = f"%arg{len(registers)}"
    registers[name] = _Register(name, kind, read=True, written=False)
    return name


def _module(registers: Sequence[_Register], text: str) -> str:
    """Kernel with a parameter for each register that is read, and a store of each that is written."""
    return "\n".join(
        [
            f".visible .entry {NAME}({', '.join(_parameters(registers))})",
            "{",
            "    .reg .b64 %out;",
            *(f"    .reg .{register.kind} {register.name};" for register in registers),
            "    ld.param.b64 %out, [out];",
            *(f"    ld.param.{r.kind} {r.name}, [{_parameter(r)}];" for r in registers if r.read),
            "    {",
            text.rstrip() if text.rstrip().endswith((";", "}")) else f"{text.rstrip()};",
            "    }",
            *(
                f"    st.global.{r.kind} [%out+{16 * index}], {r.name};"
                for index, r in enumerate(registers)
                if r.written
            ),
            "    ret;",
            "}",
            "",
        ]
    )


def _parameters(registers: Sequence[_Register]) -> Iterator[str]:
    yield ".param .b64 out"
    yield from (f".param .{r.kind} {_parameter(r)}" for r in registers if r.read)


def _parameter(register: _Register) -> str:
    return register.name.removeprefix("%")

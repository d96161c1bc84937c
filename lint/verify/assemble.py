"""One kernel through ptxas for one target: driver calls, registers, copy instructions, bytes of code."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ptxguard.binary.cubin import Cubin
from ptxguard.binary.kernels import read_kernels
from ptxguard.errors import PtxguardError
from ptxguard.source.macros import ptx_isa

if TYPE_CHECKING:
    from ptxguard.arch import Target
    from ptxguard.verify.tools import Tool

# Opcodes of UTMALDG and UBLKCP (nvdisasm 13.0 of sm_90a to sm_121a).
_COPIES = {0x5B4: "UTMALDG", 0x3BA: "UBLKCP"}
_OPCODE = 0xFFF
# Bits 72 to 103: modifiers. Registers lie below, scheduling above.
_MODIFIERS = 0xFFFFFFFF


@dataclass(frozen=True)
class Assembled:
    """What became of the kernels of a file.

    Attributes:
        calls: (kernel, driver function) of each call.
        registers: kernel -> registers.
        copies: how often each copy instruction stands in the code, with its modifiers.
        code: kernel -> bytes of its code.
    """

    calls: tuple[tuple[str, str], ...]
    registers: dict[str, int | None]
    copies: Counter[tuple[str, int]]
    code: dict[str, bytes]


def assemble(body: str, target: Target, ptxas: Tool, folder: Path) -> Assembled | str:
    """Assemble a kernel; what ptxas says where it refuses it.

    Args:
        body: functions of a module, without its head.
        target: for which ptxas compiles.
        ptxas: the assembler.
        folder: for temporary files.
    """
    version = ptx_isa(ptxas.toolkit)
    head = f".version {version // 100}.{version // 10 % 10}\n.target {target.name}\n.address_size 64\n"
    Path(folder, "k.ptx").write_text(head + body, "utf-8")
    said = ptxas.run(["-arch", target.name, "-o", "k.cubin", "k.ptx"], folder)
    return said or read_assembled(Path(folder, "k.cubin").read_bytes())


def read_assembled(data: bytes) -> Assembled | str:
    """Read a cubin; what is wrong with it where it cannot be read."""
    try:
        cubin = Cubin(memoryview(data))
        kernels = read_kernels(cubin, every=True)
        code = {
            cubin.symbols.name(symbol): bytes(cubin.sections.content(cubin.symbols.section(symbol)))
            for symbol in cubin.kernels
        }
    except PtxguardError as error:
        return str(error)
    calls = tuple((k.name, call.name) for k in kernels for call in k.syscalls for _ in call.sites or (None,))
    copies = Counter(found for text in code.values() for found in _copies(text))
    return Assembled(calls, {kernel.name: kernel.registers for kernel in kernels}, copies, code)


def _copies(code: bytes) -> list[tuple[str, int]]:
    words = memoryview(code[: len(code) & ~15]).cast("Q").tolist()
    return [
        (_COPIES[low & _OPCODE], high >> 8 & _MODIFIERS)
        for low, high in zip(words[0::2], words[1::2], strict=True)
        if low & _OPCODE in _COPIES
    ]

"""SASS around calls of driver functions, for showing, as `nvdisasm -json` prints it."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxguard.binary.facts import COPY_SYSCALL_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ptxguard.binary.cubin import Cubin
    from ptxguard.binary.facts import CubinKernel

BEFORE, AFTER = 12, 6
_INSTRUCTION_BYTES = 16
_MAX_WINDOWS = 4
_MAX_TEXT = 400
_TIMEOUT_S = 60
_FUNCTION = 2  # STT_FUNC


@dataclass(frozen=True, slots=True)
class SassWish:
    """What is disassembled.

    Attributes:
        tool: nvdisasm.
        version: of it, as it is shown.
        kernels: of each image at most for each driver function for copies, in symbol order.
    """

    tool: str
    version: str
    kernels: int


@dataclass(frozen=True, slots=True)
class SassLine:
    """One instruction: byte offset in its function, text, whether it is the call of the window."""

    offset: int
    text: str
    is_call: bool


@dataclass(frozen=True, slots=True)
class SassWindow:
    """Instructions around one call.

    Attributes:
        function: mangled name of the function that holds them.
        syscall: driver function that is called.
        lines: in the order of the code.
    """

    function: str
    syscall: str
    lines: tuple[SassLine, ...]


@dataclass(frozen=True, slots=True)
class Sass:
    """SASS of one kernel.

    Attributes:
        tool: `nvdisasm 13.5.37`.
        windows: around the first calls.
        calls: how many calls there are.
        missing: why there is none, or empty.
    """

    tool: str
    windows: tuple[SassWindow, ...]
    calls: int
    missing: str = ""

    def record(self) -> dict[str, Any]:
        """The JSON form."""
        windows = [
            {
                "function": window.function,
                "syscall": window.syscall,
                "lines": [
                    {"offset": line.offset, "text": line.text, "is_call": line.is_call}
                    for line in window.lines
                ],
            }
            for window in self.windows
        ]
        return {"tool": self.tool, "windows": windows, "calls": self.calls, "missing": self.missing}


def with_sass(kernels: tuple[CubinKernel, ...], cubin: Cubin, wish: SassWish) -> tuple[CubinKernel, ...]:
    """The kernels of an image, the first of those that call with the SASS around their calls."""
    chosen = _chosen(kernels, wish.kernels)
    if not chosen:
        return kernels
    wanted = {call.function for kernel in chosen for syscall in kernel.syscalls for call in syscall.calls}
    code, missing = _disassemble(cubin, wanted, wish.tool)
    named = {kernel.name: _sass_of(kernel, code, wish, missing) for kernel in chosen}
    return tuple(replace(kernel, sass=named.get(kernel.name)) for kernel in kernels)


def _chosen(kernels: Iterable[CubinKernel], most: int) -> list[CubinKernel]:
    """The first kernels that reach each driver function for copies."""
    taken: Counter[str] = Counter()
    chosen = []
    for kernel in kernels:
        names = [call.name for call in kernel.syscalls if call.name.startswith(COPY_SYSCALL_PREFIX)]
        if any(taken[name] < most for name in names):
            chosen.append(kernel)
            taken.update(names)
    return chosen


def _disassemble(cubin: Cubin, functions: set[str], tool: str) -> tuple[dict[str, list[str]], str]:
    """Function -> text of its instructions; and why there is none, or empty."""
    places = ((index, cubin.symbols.name(index)) for index in _defined_functions(cubin))
    indices = {name: index for index, name in places if name in functions}
    if not indices:
        return {}, "the symbol table does not name the functions that call"
    listed = ",".join(map(str, sorted(indices.values())))
    with tempfile.TemporaryDirectory(prefix="ptxguard-") as folder:
        path = Path(folder) / "image.cubin"
        path.write_bytes(cubin.image)
        try:
            done = subprocess.run(
                [tool, "-json", "-fun", listed, str(path)],
                capture_output=True,
                check=False,
                timeout=_TIMEOUT_S,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return {}, f"nvdisasm did not end well: {type(error).__name__}"
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return {}, f"nvdisasm: {said[-1] if said else f'exit status {done.returncode}'}"
    try:
        return dict(_functions(json.loads(done.stdout))), ""
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return {}, f"the output of nvdisasm is not understood: {type(error).__name__}"


def _defined_functions(cubin: Cubin) -> Iterable[int]:
    """Indices of the functions that have code in the image."""
    return (
        index
        for index in range(len(cubin.symbols))
        if cubin.symbols.word[index] & 0xF == _FUNCTION and cubin.symbols.section(index)
    )


def _functions(document: Any) -> Iterable[tuple[str, list[str]]]:
    """Name and instructions of each function; the document (schema 13) is a head, then lists of functions."""
    for part in document[1:]:
        for function in part:
            yield str(function["function-name"]), list(map(_text, function["sass-instructions"]))


def _text(instruction: Mapping[str, Any]) -> str:
    predicate = instruction.get("predicate")
    words = (f"@{predicate}" if predicate else "", instruction["opcode"], instruction.get("operands", ""))
    return " ".join(filter(None, map(str, words)))[:_MAX_TEXT]


def _sass_of(kernel: CubinKernel, code: Mapping[str, list[str]], wish: SassWish, missing: str) -> Sass:
    sites = [
        (call.function, offset, syscall.name)
        for syscall in kernel.syscalls
        if syscall.name.startswith(COPY_SYSCALL_PREFIX)
        for call in syscall.calls
        for offset in call.offsets
    ]
    windows = [
        window
        for function, offset, name in sites[:_MAX_WINDOWS]
        if (window := _window(function, code.get(function, []), offset, name)) is not None
    ]
    if not windows and not missing:
        missing = "no call stands at the offsets that the image names" if sites else "no call is known"
    return Sass(f"nvdisasm {wish.version}", tuple(windows), len(sites), missing)


def _window(function: str, code: list[str], offset: int, syscall: str) -> SassWindow | None:
    """Instructions around a call; None where no call stands at the offset."""
    at = offset // _INSTRUCTION_BYTES
    if not 0 <= at < len(code) or "CALL" not in code[at]:
        return None
    first = max(0, at - BEFORE)
    lines = tuple(
        SassLine(index * _INSTRUCTION_BYTES, code[index], index == at)
        for index in range(first, min(len(code), at + AFTER + 1))
    )
    return SassWindow(function, syscall, lines)

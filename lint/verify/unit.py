"""Translation units through nvcc as the project itself compiles them, by its compile_commands.json."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxguard.errors import ToolError
from ptxguard.verify.assemble import Assembled, read_assembled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.arch import Target
    from ptxguard.finding import Finding
    from ptxguard.verify.tools import Tool

_DATABASES = ("compile_commands.json", "build/compile_commands.json")
# What says where output goes, what is made, and for which targets; all of it is said anew.
_WITH_VALUE = frozenset({
    "-o", "--output-file", "-MF", "-MT", "-MQ", "-gencode", "--generate-code", "-arch", "--gpu-architecture",
    "-code", "--gpu-code", "-t", "--threads", "--keep-dir",
})  # fmt: skip
_ALONE = frozenset({"-c", "--compile", "-dc", "-dw", "-MD", "-MMD", "-ptx", "-cubin", "-fatbin", "--keep"})
_JOINED = tuple(f"{name}=" for name in sorted(_WITH_VALUE) if name.startswith("-"))


@dataclass(frozen=True)
class Unit:
    """One entry of a compile_commands.json.

    Attributes:
        source: real path of the file.
        folder: where its command runs.
        options: of nvcc, less those for output and targets.
        separate: whether it is compiled with -dc (relocatable device code).
    """

    source: str
    folder: str
    options: tuple[str, ...]
    separate: bool

    @property
    def shown(self) -> str:
        """Path as shown to the user."""
        return os.path.relpath(self.source)

    def compile(self, target: Target, nvcc: Tool) -> Assembled | str:
        """Compile it for a target; what nvcc says where it fails."""
        with tempfile.TemporaryDirectory(prefix="ptxguard-") as folder:
            output = Path(folder, "unit.cubin")
            separate = ["-rdc=true"] if self.separate else []
            made = ["-cubin", f"-arch={target.name}", "-o", str(output), self.source]
            try:
                said = nvcc.run([*self.options, *separate, *made], Path(self.folder))
            except ToolError as error:
                return str(error)
            return said or read_assembled(output.read_bytes())


def find_units(start: str = ".") -> tuple[Unit, ...]:
    """Units that nvcc compiles, of the nearest compile_commands.json upward from a folder."""
    folder = Path(start).resolve()
    for place in (folder, *folder.parents):
        for name in _DATABASES:
            if (place / name).is_file():
                return tuple(_read_units(place / name))
        if (place / ".git").exists():
            break
    return ()


def _read_units(path: Path) -> Iterator[Unit]:
    try:
        entries = json.loads(path.read_text("utf-8"))
        for entry in entries:
            unit = _read_unit(entry)
            if unit is not None:
                yield unit
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ToolError(f"is no compilation database: {error}", path=str(path)) from None


def _read_unit(entry: dict[str, Any]) -> Unit | None:
    """An entry of nvcc; None for one of another compiler."""
    command: list[str] = entry.get("arguments") or shlex.split(entry["command"])
    if not command or not Path(command[0]).name.startswith("nvcc"):
        return None
    folder = entry["directory"]
    source = str(Path(folder, entry["file"]).resolve())
    options, rest = [], iter(command[1:])
    for word in rest:
        if word in _WITH_VALUE:
            next(rest, None)
        elif word in _ALONE or word.startswith(_JOINED):
            continue
        elif str(Path(folder, word).resolve()) != source:
            options.append(word)
    return Unit(source, folder, tuple(options), "-dc" in command)


def units_of(finding: Finding, units: Sequence[Unit]) -> Unit | None:
    """A unit that compiles the copy of a finding: its own file, or that of a kernel that reaches it."""
    paths = [finding.path, *(kernel.path for kernel in finding.kernels if kernel.path is not None)]
    by_source = {unit.source: unit for unit in units}
    found = (by_source.get(os.path.realpath(path)) for path in paths)
    return next((unit for unit in found if unit is not None), None)

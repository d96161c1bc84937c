"""A whole `.ptx` module through ptxas, for the targets that its own `.target` line lets it through to."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ptxguard.errors import ToolError
from ptxguard.location import SourceFile
from ptxguard.source.ptxmodule import read_module
from ptxguard.source.ptxsites import is_assembled
from ptxguard.source.tree import decode
from ptxguard.verify.assemble import Assembled, read_assembled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxguard.arch import Target
    from ptxguard.verify.tools import Tool


@dataclass(frozen=True)
class Module:
    """A PTX file as a unit.

    Attributes:
        source: its real path.
    """

    source: str

    @property
    def shown(self) -> str:
        """Path as shown to the user."""
        return os.path.relpath(self.source)

    def targets(self, asked: Sequence[Target]) -> tuple[Target, ...]:
        """Those asked for that ptxas takes the module to."""
        text, encoding = decode(Path(self.source).read_bytes(), self.shown)
        written = read_module(SourceFile(self.shown, text, encoding)).target
        return tuple(target for target in asked if is_assembled(written, target))

    def compile(self, target: Target, ptxas: Tool) -> Assembled | str:
        """Assemble it for a target; what ptxas says where it fails."""
        with tempfile.TemporaryDirectory(prefix="ptxguard-") as folder:
            output = Path(folder, "module.cubin")
            try:
                said = ptxas.run(["-arch", target.name, "-o", str(output), self.source], Path(folder))
            except ToolError as error:
                return str(error)
            return said or read_assembled(output.read_bytes())

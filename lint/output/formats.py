"""The output formats by name: which module renders each, imported when the format is asked for."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxguard.output.report import deliver
from ptxguard.output.style import Style, wants_color

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ptxguard.output.report import Report

# format -> module of ptxguard.output with `render(report)`; those of STYLED take a style beside it.
FORMATS = {
    "text": "text",
    "grouped": "grouped",
    "json": "json",
    "json-v1": "json",
    "sarif": "sarif",
    "github": "github",
    "github-summary": "github_summary",
    "gitlab": "gitlab",
    "rdjsonl": "rdjsonl",
    "junit": "junit",
}
STYLED = frozenset({"text", "grouped"})


@dataclass(frozen=True)
class Output:
    """One format and where it goes.

    Attributes:
        format: a name of `FORMATS`.
        file: path, or None for standard output.
    """

    format: str
    file: str | None = None

    def style(self, color: str) -> Style:
        """How text looks there, by `--color` (auto, always, never)."""
        return Style(wants_color(color, sys.stdout, to_file=self.file is not None))


def render(report: Report, output: Output, color: str) -> Iterator[str]:
    """The report in one format."""
    module = importlib.import_module(f"ptxguard.output.{FORMATS[output.format]}")
    chunks: Iterator[str] = (
        module.render(report, output.style(color)) if output.format in STYLED else module.render(report)
    )
    return chunks


def write_report(report: Report, outputs: Iterable[Output], color: str) -> None:
    """Write the report in every format that is asked for.

    Raises:
        ToolError: a file cannot be written.
    """
    for output in outputs:
        deliver(render(report, output, color), output.file)


def may_fail(outputs: Iterable[Output]) -> bool:
    """Whether findings make the command exit 1: not where SARIF alone is asked for, which an upload reads."""
    return any(output.format != "sarif" for output in outputs)

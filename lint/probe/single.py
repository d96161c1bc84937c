"""The probe as one file: a zip archive that Python runs as it is, with cuda-bindings and NVRTC alone."""

from __future__ import annotations

import argparse
import os
import sys
import zipfile
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxguard.errors import ConfigError, ToolError
from ptxguard.probe.parent import INTEGRATED_RUNS, REAL_DEVICE, find_card, run_all
from ptxguard.probe.report import render_line, render_result
from ptxguard.probe.result import build_result, dump_result
from ptxguard.probe.variants import catalogue
from ptxguard.probe.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxguard.probe.variants import Variant

# All that the probe imports; the commands, and with them click, stay behind.
_MODULES = ("__init__", "errors", "arch", "finding", "memcost")

_MAIN = "from ptxguard.probe.single import main\n\nmain()\n"


def write_single_file(path: Path) -> None:
    """Write the archive; `python PATH` runs the whole catalogue and writes probe.json beside it.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        with path.open("wb") as file:
            file.write(b"#!/usr/bin/env python3\n")
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("__main__.py", _MAIN)
                for name, text in _members():
                    archive.writestr(name, text)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", path=str(path)) from None


def _members() -> Iterator[tuple[str, str]]:
    package = resources.files("ptxguard")
    for name in (*(f"{module}.py" for module in _MODULES), "gpus.toml"):
        yield f"ptxguard/{name}", package.joinpath(name).read_text("utf-8")
    for item in sorted(package.joinpath("probe").iterdir(), key=lambda item: item.name):
        if item.name.endswith((".py", ".cu")):
            yield f"ptxguard/probe/{item.name}", item.read_text("utf-8")


def main() -> None:
    """Run the catalogue from the archive; exit status as `ptxguard probe`."""
    parser = argparse.ArgumentParser(
        description="Measures what bulk copies and stack frames cost on this card."
    )
    parser.add_argument("--output-file", type=Path, default=Path("probe.json"))
    parser.add_argument("--device", type=int, default=0, help="CUDA's number of the card")
    parser.add_argument("--only", action="append", default=[], help="only variants of that name: 'frame.*'")
    parser.add_argument("--device-module", default=REAL_DEVICE, help=argparse.SUPPRESS)
    options = parser.parse_args()
    # The children import from the archive too.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [sys.path[0], os.environ.get("PYTHONPATH", "")]))
    try:
        result = _measure(options.only, options.device_module, options.device)
        options.output_file.write_text(dump_result(result), "utf-8")
    except (ToolError, OSError) as error:
        sys.exit(_fail(f"{error}"))
    print(render_result(result))
    print(f"\nWritten to {options.output_file}: please send it back.")
    if result["summary"]["not_finished"]:
        sys.exit(_fail(f"did not finish: {', '.join(result['summary']['not_finished'])}"))


def _fail(text: str) -> int:
    print(f"probe: {text}", file=sys.stderr)
    return 2


def _measure(only: list[str], module: str, device: int) -> dict[str, Any]:
    card, _ = find_card(module, device)
    chosen = [v for v in catalogue() if not only or any(fnmatchcase(v.name, pattern) for pattern in only)]

    def progress(_: Variant, record: dict[str, Any]) -> None:
        print(render_line({**record, "verdict": judge(record, card)}), file=sys.stderr)

    runs = INTEGRATED_RUNS if card.integrated else 1
    return build_result(card, run_all(chosen, progress, module, device, runs=runs))

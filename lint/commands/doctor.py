"""`ptxguard doctor`: what is configured here, which optional tools there are, and what each enables."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxguard import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

_GIVES_UP_S = 20


@dataclass(frozen=True)
class Tool:
    """Something optional.

    Attributes:
        name: as people call it.
        place: where it is, or "" where it is not.
        version: of it, or "".
        enables: what works with it.
        get: how to get it.
    """

    name: str
    place: str
    version: str
    enables: str
    get: str


@click.command()
@click.option("--config", "config_file", metavar="FILE", help="Read this instead of the nearest one.")
def command(config_file: str | None) -> None:
    """Print what is configured and which optional tools are there.

    Exit status: 0, or 2 where the configuration is wrong.
    """
    from ptxguard.cache import default_folder
    from ptxguard.config import find_config

    config = find_config(config_file)
    click.echo(f"ptxguard {__version__}, Python {platform.python_version()}, {platform.platform(terse=True)}")
    click.echo(f"configuration: {config.path or 'none from here up'}")
    for key, value in config.values.items():
        click.echo(f"  {key} = {value}")
    click.echo(f"cache: {default_folder()}")
    for tool in _tools():
        if tool.place:
            version = f" {tool.version}" if tool.version else ""
            click.echo(f"found    {tool.name}{version} ({tool.place}): {tool.enables}")
        else:
            click.echo(f"missing  {tool.name}: no {tool.enables}; {tool.get}")


def _tools() -> Iterator[Tool]:
    yield _program("git", "tracked files as the tree, --new-from-rev", "install git")
    cuda = "install the extra [cuda] or a CUDA toolkit"
    yield _program("ptxas", "--verify of fixes", cuda)
    yield _program("nvcc", "--verify of whole units, probe --source", "install a CUDA toolkit")
    yield _program("nvdisasm", "SASS around driver calls in a stored scan", cuda)
    yield _program("cuobjdump", "comparison of our reading with NVIDIA's, in tests", cuda)
    probe = "install the extra [probe]"
    yield _package("cuda-bindings", "cuda.bindings", "probe", probe)
    yield _package("nvidia-cuda-nvrtc", "nvidia.cu13", "probe without a toolkit", probe)
    yield _package("nvidia-ml-py", "pynvml", "memory of the process in probe", probe)
    yield _package("pygls", "pygls", "lsp", "install the extra [lsp]")
    site = "install the extra [web]"
    yield _package("Flask", "flask", "serve and export", site)
    yield _package("waitress", "waitress", "serve", site)
    yield _package("psycopg", "psycopg", "--store postgresql://…", "install the extra [postgres]")
    yield _driver()


def _program(name: str, enables: str, get: str) -> Tool:
    place = shutil.which(name) or _in_wheel(name)
    return Tool(name, place, _version_of(place) if place else "", enables, get)


def _in_wheel(name: str) -> str:
    """A program of NVIDIA's wheels, which bring no entry on PATH."""
    found = importlib.util.find_spec("nvidia")
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        for place in sorted(Path(folder).glob(f"*/bin/{name}")):
            return str(place)
    return ""


def _version_of(program: str) -> str:
    """The last word of `--version` that looks like a version."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=_GIVES_UP_S)
    except (OSError, subprocess.SubprocessError):
        return ""
    words = [word.strip(",V") for word in done.stdout.replace("\n", " ").split()]
    return next((word for word in reversed(words) if word[:1].isdigit() and "." in word), "")


def _package(name: str, module: str, enables: str, get: str) -> Tool:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Tool(name, "", "", enables, get)
    return Tool(name, module, version, enables, get)


def _driver() -> Tool:
    """The CUDA driver, by the file that it brings; it is not loaded."""
    from ptxguard.binary.driver import find_libcuda
    from ptxguard.errors import PtxguardError

    enables, get = "stack needs as this driver declares them, and probe", "install NVIDIA's driver"
    try:
        place = find_libcuda()
    except PtxguardError:
        return Tool("libcuda", "", "", enables, get)
    return Tool("libcuda", str(place), "", enables, get)

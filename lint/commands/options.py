"""Options that `check` and `sites` share, read into typed values."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from ptxguard.arch import DEFAULT_TARGETS, Target
from ptxguard.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ptxguard.model import Analysis
    from ptxguard.source.analyse import Options

_VERSION = re.compile(r"(\d{1,2})\.(\d{1,2})(?:\.\d+)?\Z")
_MACRO = re.compile(r"([A-Za-z_]\w*)(?:=(.*))?\Z", re.DOTALL)

_SHARED = (
    click.argument("paths", nargs=-1, required=True, metavar="PATH..."),
    click.option(
        "--target", "targets", multiple=True, metavar="SM", help="Target such as sm_120a; repeatable."
    ),
    click.option("--cuda-min", metavar="X.Y", help="Lowest CUDA toolkit that the project supports."),
    click.option("-D", "defines", multiple=True, metavar="NAME[=VALUE]", help="Define a macro; repeatable."),
    click.option("--public", multiple=True, metavar="GLOB", help="Headers that others include; repeatable."),
    click.option("--no-cache", is_flag=True, help="Neither read nor write the cache of analyses."),
    click.option("--cache-dir", metavar="FOLDER", help="Folder of the cache; default: the user's own."),
)


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the arguments and options of every command that reads source."""
    for option in reversed(_SHARED):
        command = option(command)
    return command


def read_options(
    targets: Iterable[str], cuda_min: str | None, defines: Iterable[str], public: Iterable[str]
) -> Options:
    """The analysis options as the user named them; the contract's default targets where none is named.

    Raises:
        ConfigError: a value cannot be read.
    """
    from ptxguard.source.analyse import Options  # the parsers are imported by commands that parse

    return Options(
        targets=tuple(dict.fromkeys(Target.parse(name) for name in targets))
        or tuple(Target.parse(name) for name in DEFAULT_TARGETS),
        cuda_min=_read_version(cuda_min) if cuda_min is not None else None,
        defines=dict(_read_macro(text) for text in defines),
        public=tuple(public),
    )


def analyse_source(
    given: Mapping[str, Any],
    options: Options,
    progress: Callable[[int, int, str], None] | None,
    overlay: Mapping[str, bytes] = MappingProxyType({}),
) -> Analysis:
    """The analysis of the paths that a command was given, from the cache unless that is switched off.

    `overlay` gives bytes by real path that stand for those on disk; such a tree is never kept.
    """
    from pathlib import Path

    from ptxguard.cache import Cache, default_folder

    if given["no_cache"] or overlay:
        from ptxguard.source.analyse import analyse

        return analyse(given["paths"], options, progress, overlay)
    folder = Path(given["cache_dir"]) if given["cache_dir"] else default_folder()
    return Cache(folder).analyse(given["paths"], options, progress)


def _read_version(text: str) -> tuple[int, int]:
    match = _VERSION.match(text.strip())
    if match is None:
        raise ConfigError(f"--cuda-min {text!r} is no toolkit version; write it like 12.4")
    return int(match[1]), int(match[2])


def _read_macro(text: str) -> tuple[str, str | None]:
    match = _MACRO.match(text)
    if match is None:
        raise ConfigError(f"-D {text!r} defines no macro; write -D NAME or -D NAME=VALUE")
    return match[1], match[2]

"""The options that say in which formats a command writes, and to which files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ptxguard.errors import ConfigError
from ptxguard.output.formats import FORMATS, Output

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Command = Callable[..., Any]


def output_options(formats: Sequence[str] = tuple(FORMATS)) -> Callable[[Command], Command]:
    """Decorator: `--output-format` and `--output-file`, each repeatable, `--site-url` and `--color`."""
    options = (
        click.option(
            "--output-format",
            "output_formats",
            type=click.Choice(list(formats)),
            multiple=True,
            help="Default: text. Repeatable, each with its --output-file.",
        ),
        click.option(
            "--output-file",
            "output_files",
            metavar="FILE",
            multiple=True,
            help="Write there, in one piece; - is standard output.",
        ),
        click.option(
            "--site-url",
            default="",
            metavar="URL",
            help="Findings site that SARIF, GitHub annotations and rdjsonl link to.",
        ),
        click.option(
            "--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True
        ),
    )

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def read_site(given: Mapping[str, Any]) -> str:
    """Address of the findings site, without its final slash; empty where none is named.

    Raises:
        ConfigError: it is none of http.
    """
    value: str = given["site_url"]
    if value and not value.startswith(("https://", "http://")):
        raise ConfigError(f"site-url: {value!r} is no http address")
    return value.rstrip("/")


def read_outputs(given: Mapping[str, Any]) -> tuple[Output, ...]:
    """Formats and files in pairs, in the order of the command line.

    Raises:
        ConfigError: there are not as many files as formats, or two outputs would share a place.
    """
    formats: tuple[str, ...] = given["output_formats"] or ("text",)
    files: tuple[str, ...] = given["output_files"] or (("-",) if len(formats) == 1 else ())
    if len(files) != len(formats):
        raise ConfigError(
            f"{len(formats)} --output-format and {len(files)} --output-file; name one file for each format, "
            "in the same order, - for standard output"
        )
    for file in files:
        if files.count(file) > 1:
            place = "standard output" if file == "-" else file
            raise ConfigError(
                f"two formats would be written to {place}; name a file for each --output-format"
            )
    return tuple(
        Output(name, None if file == "-" else file) for name, file in zip(formats, files, strict=True)
    )

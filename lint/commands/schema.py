"""`ptxguard schema`: prints the JSON schema of the records that `check --output-format json` writes."""

from __future__ import annotations

from importlib.resources import files

import click

from ptxguard.output.report import deliver

SCHEMA = "json_v1.schema.json"


@click.command()
@click.option("--output-file", metavar="FILE", help="Write there, in one piece, instead of standard output.")
def command(output_file: str | None) -> None:
    """Print the JSON schema (2020-12) of `check --output-format json-v1`."""
    text = files("ptxguard.output").joinpath(SCHEMA).read_text("utf-8")
    deliver([text], output_file)

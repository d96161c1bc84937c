"""`ptxguard sites`: the inventory of every bulk copy, worth a finding or not."""

from __future__ import annotations

import sys
from typing import Any

import click

from ptxguard.commands.options import analyse_source, read_options, source_options
from ptxguard.output.progress import progress_bar
from ptxguard.output.report import Report, deliver
from ptxguard.output.sites import render_json, render_text
from ptxguard.output.style import Style, wants_color


@click.command()
@source_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """List every bulk copy of the source, worth a finding or not.

    Exit status: 0, or 2 where the job could not be done.
    """
    options = read_options(given["targets"], given["cuda_min"], given["defines"], given["public"])
    with progress_bar() as progress:
        analysis = analyse_source(given, options, progress)
    report = Report(sites=analysis.sites, errors=analysis.errors)
    if given["output_format"] == "json":
        chunks = render_json(report)
    else:
        to_file = given["output_file"] is not None
        chunks = render_text(report, Style(wants_color(given["color"], sys.stdout, to_file=to_file)))
    deliver(chunks, given["output_file"])
    for error in report.errors:
        click.echo(f"ptxguard: {error}", err=True)
    ctx.exit(2 if report.errors else 0)

"""`ptxguard sites`: the inventory of every bulk copy, worth a finding or not."""

from __future__ import annotations

from typing import Any

import click

from ptxguard.commands.options import analyse_source, read_options, source_options
from ptxguard.commands.outputoptions import output_options, read_outputs
from ptxguard.output.progress import progress_bar
from ptxguard.output.report import Report, deliver
from ptxguard.output.sites import render_json, render_text


@click.command()
@source_options
@output_options(("text", "json"))
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """List every bulk copy of the source, worth a finding or not.

    Exit status: 0, or 2 where the job could not be done.
    """
    outputs = read_outputs(given)
    options = read_options(given["targets"], given["cuda_min"], given["defines"], given["public"])
    with progress_bar() as progress:
        analysis = analyse_source(given, options, progress)
    report = Report(sites=analysis.sites, errors=analysis.errors)
    for output in outputs:
        if output.format == "json":
            deliver(render_json(report), output.file)
        else:
            deliver(render_text(report, output.style(given["color"])), output.file)
    for error in report.errors:
        click.echo(f"ptxguard: {error}", err=True)
    ctx.exit(2 if report.errors else 0)

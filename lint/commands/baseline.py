"""`ptxguard baseline`: writes down the findings that a project already knows."""

from __future__ import annotations

from typing import Any

import click

from ptxguard.commands.livingoptions import Living, config_options, configured
from ptxguard.commands.options import analyse_source, read_options, source_options
from ptxguard.output.progress import progress_bar
from ptxguard.output.report import deliver


@click.command()
@source_options
@click.option("--select", multiple=True, metavar="CODE", help="Only rules whose code begins so; repeatable.")
@click.option("--ignore", multiple=True, metavar="CODE", help="Not these rules; repeatable.")
@click.option("--output-file", metavar="FILE", help="Write there, in one piece, instead of standard output.")
@config_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Write the findings of the paths as a baseline for `check --baseline`.

    Exit status: 0, or 2 where the job could not be done; then nothing is written.
    """
    from ptxguard.baseline import render_baseline
    from ptxguard.engine import run_rules, select_rules
    from ptxguard.rule import CheckOptions

    config = configured(ctx, given)
    if not given["paths"]:
        raise click.UsageError("name a file or a folder")
    rules = select_rules(given["select"], given["ignore"])
    options = read_options(given)
    asked = CheckOptions(options.targets, bool(given["targets"]), options.cuda_min)
    living = Living.read(
        {
            "per_file_ignores": (),
            "min_confidence": "low",
            "baseline": None,
            "new_from_rev": None,
        },
        config,
    )
    with progress_bar() as progress:
        analysis = analyse_source(given, options, progress)
    for error in analysis.errors:
        click.echo(f"ptxguard: {error}", err=True)
    if analysis.errors:
        ctx.exit(2)
    found = living.keep(run_rules(analysis, rules, asked), analysis, rules)
    deliver(render_baseline(found, given["output_file"]), given["output_file"])

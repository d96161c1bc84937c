"""`ptxguard lsp`: the language server on standard input and output."""

from __future__ import annotations

from typing import Any

import click

from ptxguard.commands.livingoptions import config_options, configured
from ptxguard.commands.options import judging_options, read_gpus, read_options
from ptxguard.errors import ToolError


@click.command()
@judging_options
@config_options
@click.option("--gpu", "gpus", multiple=True, metavar="NAME", help="Price on this card; repeatable.")
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Serve an editor over standard input and output (needs the extra `[lsp]`)."""
    try:
        from ptxguard.lsp.server import make_server
    except ModuleNotFoundError as error:
        raise ToolError(f"{error.name} is not installed; pip install 'ptxguard[lsp]'") from None
    from ptxguard.lsp.session import Settings
    from ptxguard.rule import CheckOptions

    configured(ctx, given)
    options = read_options(given)
    gpus = read_gpus(given["gpus"])
    asked = CheckOptions(options.targets, bool(given["targets"]), options.cuda_min, gpus)
    make_server(Settings(options, asked)).start_io()

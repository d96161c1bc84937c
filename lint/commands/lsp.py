"""`ptxguard lsp`: the language server on standard input and output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ptxguard.commands.livingoptions import Living, config_options, configured
from ptxguard.commands.options import judging_options, read_gpus, read_options
from ptxguard.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxguard.finding import Finding
    from ptxguard.model import Analysis

# What `check` knows beside the configuration, and an editor is not asked for.
_UNASKED = {"per_file_ignores": (), "min_confidence": "low", "baseline": None, "new_from_rev": None}


@click.command()
@judging_options
@config_options
@click.option("--select", multiple=True, metavar="CODE", help="Only rules whose code begins so; repeatable.")
@click.option("--ignore", multiple=True, metavar="CODE", help="Not these rules; repeatable.")
@click.option("--gpu", "gpus", multiple=True, metavar="NAME", help="Price on this card; repeatable.")
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Serve an editor over standard input and output (needs the extra `[lsp]`)."""
    try:
        from ptxguard.lsp.server import make_server
    except ModuleNotFoundError as error:
        raise ToolError(f"{error.name} is not installed; pip install 'ptxguard[lsp]'") from None
    from ptxguard.engine import select_rules
    from ptxguard.lsp.session import Settings
    from ptxguard.rule import CheckOptions

    config = configured(ctx, given)
    options = read_options(given)
    rules = select_rules(given["select"], given["ignore"])
    gpus = read_gpus(given["gpus"])
    asked = CheckOptions(options.targets, bool(given["targets"]), options.cuda_min, gpus)
    living = Living.read({**given, **_UNASKED}, config)

    def keep(findings: Sequence[Finding], analysis: Analysis) -> list[Finding]:
        return living.keep(findings, analysis, rules)

    make_server(Settings(options, asked, rules, keep)).start_io()

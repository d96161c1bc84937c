"""`ptxguard diff`: compares two builds or two versions of a wheel, kernel by kernel."""

from __future__ import annotations

import sys
from typing import Any

import click

from ptxguard.commands.options import read_gpus
from ptxguard.errors import ConfigError
from ptxguard.output.progress import progress_bar
from ptxguard.output.report import deliver
from ptxguard.output.style import Style, wants_color


@click.command()
@click.argument("old")
@click.argument("new")
@click.option("--target", "targets", multiple=True, metavar="SM", help="Read only cubins of it; repeatable.")
@click.option("--gpu", "gpus", multiple=True, metavar="NAME", help="Price on this card; repeatable.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--output-file", metavar="FILE", help="Write there, in one piece, instead of standard output.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True)
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Compare the kernels of two builds: driver calls, registers, stack, price.

    OLD and NEW are libraries, wheels, cubins or directories.

    Exit status: 0 not worse, 1 a kernel gained a copy that calls the driver or a price rose, 2 not readable.
    """
    from ptxguard.arch import Target
    from ptxguard.binary.image import Wish
    from ptxguard.binary.inventory import inventory
    from ptxguard.compare import compare
    from ptxguard.output.diff import render_json, render_text

    names = frozenset(Target.parse(name).name for name in given["targets"])
    wish = Wish(every_kernel=True, targets=names or None)
    with progress_bar() as draw:
        tell = None if draw is None else lambda done, what: draw(done, done + 1, what)
        builds = [inventory(given[side], wish, tell) for side in ("old", "new")]
    for side, build in zip(("old", "new"), builds, strict=True):
        if not build.artifacts and not build.errors:
            raise ConfigError(f"{given[side]} holds no device code")
    errors = [error for build in builds for error in build.errors]
    found = compare(builds[0].artifacts, builds[1].artifacts, read_gpus(given["gpus"]), errors)
    style = Style(wants_color(given["color"], sys.stdout, to_file=given["output_file"] is not None))
    chunks = render_json(found, errors) if given["output_format"] == "json" else render_text(found, style)
    deliver(chunks, given["output_file"])
    for error in errors:
        click.echo(f"ptxguard: {error}", err=True)
    ctx.exit(2 if errors else int(found.is_worse))

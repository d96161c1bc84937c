"""`ptxguard scan`: finds driver calls in compiled code, kernel by kernel, and prices them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from ptxguard.commands.options import read_gpus
from ptxguard.commands.outputoptions import output_options, read_outputs, read_site
from ptxguard.commands.storeoptions import Keeping, store_options
from ptxguard.finding import Severity
from ptxguard.output.formats import may_fail, render
from ptxguard.output.progress import progress_bar
from ptxguard.output.report import Report, deliver
from ptxguard.threshold import fails, read_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxguard.binary.disassembly import SassWish
    from ptxguard.binary.inventory import Inventory
    from ptxguard.finding import Finding
    from ptxguard.memcost import Gpu
    from ptxguard.output.formats import Output

_JSON = frozenset({"json", "json-v1"})
_LEVELS = click.Choice([level.word for level in reversed(Severity)])


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option("--env", "environment", is_flag=True, help="What is installed here, and kernel caches of JITs.")
@click.option("--kernels", type=click.Choice(["flagged", "all"]), default="flagged", show_default=True)
@click.option("--target", "targets", multiple=True, metavar="SM", help="Read only cubins of it; repeatable.")
@click.option(
    "--gpu", "gpus", multiple=True, metavar="NAME", help='Price on this card, "RTX 5090"; repeatable.'
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="Processes that read images; default: one for each processor.",
)
@click.option(
    "--fail-above", metavar="SIZE", help='Fail on price instead: above "256 MiB" on a card asked for.'
)
@click.option(
    "--fail-on", type=_LEVELS, default="error", show_default=True, help="Exit 1 from this severity on."
)
@click.option(
    "--sass",
    type=click.IntRange(min=0),
    default=4,
    show_default=True,
    metavar="N",
    help="With --store: keep SASS around the calls of N kernels of each image (nvdisasm); 0: none.",
)
@output_options()
@store_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Scan compiled code, wheels and environments for driver calls.

    PATH is a library, object, archive, wheel, cubin, fatbin, PTX file, a directory, or - for standard input.

    Exit status: 0 nothing at or above --fail-on, 1 something, 2 something could not be read.
    """
    from ptxguard.compiled import find_all

    paths = list(given["paths"])
    if given["environment"]:
        from ptxguard.binary.envs import environment_paths

        paths += environment_paths()
    if not paths:
        raise click.UsageError("name a file, a directory or --env")
    outputs = read_outputs(given)
    given["site_url"] = read_site(given)
    bound = read_size(given["fail_above"])
    gpus = read_gpus(given["gpus"])
    keeping = Keeping.read(given)
    found = _take_stock(paths, given, {output.format for output in outputs})
    errors = list(found.errors)
    findings = keeping.measured(find_all(found.artifacts, gpus, errors))
    for output in outputs:
        deliver(_rendered(found, findings, errors, gpus, output, given), output.file)
    keeping.keep_binary(found.artifacts, findings, errors)
    for error in errors:
        click.echo(f"ptxguard: {error}", err=True)
    failed = any(_fails(finding, Severity[given["fail_on"].upper()], bound) for finding in findings)
    ctx.exit(2 if errors else int(failed and may_fail(outputs)))


def _take_stock(paths: Sequence[str], given: dict[str, Any], formats: set[str]) -> Inventory:
    from ptxguard.arch import Target
    from ptxguard.binary.image import Wish
    from ptxguard.binary.inventory import inventory
    from ptxguard.output.scan_json import kernels_json

    every, kept = given["kernels"] == "all", given["store"] is not None
    wish = Wish(
        every_kernel=every,
        targets=frozenset(Target.parse(name).name for name in given["targets"]) or None,
        digest=kept or not formats.isdisjoint(_JSON),
        encode=kernels_json if every and formats <= _JSON and not kept else None,
        sass=_sass_wish(given["sass"]) if kept else None,
    )
    with progress_bar() as draw:
        tell = None if draw is None else lambda done, what: draw(done, done + 1, what)
        return inventory(paths, wish, tell, given["jobs"] or os.cpu_count() or 1)


def _sass_wish(kernels: int) -> SassWish | None:
    """What is disassembled for the store; nothing where there is no nvdisasm, which is told."""
    if not kernels:
        return None
    from ptxguard.binary.disassembly import SassWish
    from ptxguard.verify.tools import find_tool

    tool = find_tool("nvdisasm")
    if tool is None:
        click.echo("ptxguard: no nvdisasm on PATH or from the extra [cuda]: the store gets no SASS", err=True)
        return None
    return SassWish(tool.path, tool.version, kernels)


def _fails(finding: Finding, level: Severity, bound_mib: float | None) -> bool:
    """Whether a finding makes the command exit 1; with a bound, kernels that never run do not."""
    from ptxguard.compiled import NEVER_RUNS

    never = bound_mib is not None and finding.performance.get(NEVER_RUNS)
    return not never and fails(finding, level, bound_mib)


def _rendered(
    found: Inventory,
    findings: Sequence[Finding],
    errors: Sequence[Any],
    gpus: Sequence[Gpu],
    output: Output,
    given: dict[str, Any],
) -> Iterator[str]:
    if output.format == "text":
        from ptxguard.output import scan_text

        return scan_text.render(found, findings, [gpu.name for gpu in gpus], output.style(given["color"]))
    if output.format in _JSON:
        from ptxguard.output import scan_json

        return scan_json.render(found.artifacts, findings, errors)
    report = Report(tuple(findings), errors=tuple(errors), command="scan", site=given["site_url"])
    return render(report, output, given["color"])

"""`ptxguard scan`: finds driver calls in compiled code, kernel by kernel, and prices them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from ptxguard.commands.outputoptions import output_options, read_outputs
from ptxguard.commands.storeoptions import Keeping, store_options
from ptxguard.errors import ConfigError
from ptxguard.finding import Severity
from ptxguard.output.formats import may_fail, render
from ptxguard.output.progress import progress_bar
from ptxguard.output.report import Report, deliver

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ptxguard.binary.inventory import Inventory
    from ptxguard.finding import Finding
    from ptxguard.memcost import Gpu
    from ptxguard.output.formats import Output

_LEVELS = click.Choice([level.word for level in reversed(Severity)])
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(MiB|GiB|KiB)?\Z", re.IGNORECASE)
_UNIT_MIB = {"kib": 1 / 1024, "mib": 1.0, "gib": 1024.0}


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option("--env", "environment", is_flag=True, help="What is installed here, and kernel caches of JITs.")
@click.option("--kernels", type=click.Choice(["flagged", "all"]), default="flagged", show_default=True)
@click.option("--target", "targets", multiple=True, metavar="SM", help="Read only cubins of it; repeatable.")
@click.option(
    "--gpu", "gpus", multiple=True, metavar="NAME", help='Price on this card, "RTX 5090"; repeatable.'
)
@click.option(
    "--fail-above", metavar="SIZE", help='Fail on price instead: above "256 MiB" on a card asked for.'
)
@click.option(
    "--fail-on", type=_LEVELS, default="error", show_default=True, help="Exit 1 from this severity on."
)
@output_options()
@store_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Scan compiled code, wheels and environments for driver calls.

    PATH is a library, object, archive, wheel, cubin, fatbin, PTX file, a directory, or - for standard input.

    Exit status: 0 nothing at or above --fail-on, 1 something, 2 something could not be read.
    """
    from ptxguard.output.scan_findings import find_all

    paths = list(given["paths"])
    if given["environment"]:
        from ptxguard.binary.envs import environment_paths

        paths += environment_paths()
    if not paths:
        raise click.UsageError("name a file, a directory or --env")
    outputs = read_outputs(given)
    bound = _read_size(given["fail_above"])
    gpus = _read_gpus(given["gpus"])
    keeping = Keeping.read(given)
    found = _take_stock(paths, given["targets"], every=given["kernels"] == "all")
    errors = list(found.errors)
    findings = keeping.measured(find_all(found.artifacts, gpus, errors))
    for output in outputs:
        deliver(_rendered(found, findings, errors, gpus, output, given["color"]), output.file)
    keeping.keep_binary(found.artifacts, findings, errors)
    for error in errors:
        click.echo(f"ptxguard: {error}", err=True)
    failed = any(_fails(finding, Severity[given["fail_on"].upper()], bound) for finding in findings)
    ctx.exit(2 if errors else int(failed and may_fail(outputs)))


def _take_stock(paths: Sequence[str], targets: Iterable[str], *, every: bool) -> Inventory:
    from ptxguard.arch import Target
    from ptxguard.binary.image import Wish
    from ptxguard.binary.inventory import inventory

    names = frozenset(Target.parse(name).name for name in targets)
    with progress_bar() as draw:
        tell = None if draw is None else lambda done, what: draw(done, done + 1, what)
        return inventory(paths, Wish(every_kernel=every, targets=names or None), tell)


def _fails(finding: Finding, level: Severity, bound_mib: float | None) -> bool:
    """Whether a finding makes the command exit 1; a price that is not known counts by severity."""
    prices = [cost.expected_mib for cost in finding.cost if cost.expected_mib is not None]
    if bound_mib is None or not prices:
        return finding.severity >= level
    from ptxguard.output.scan_findings import NEVER_RUNS

    return max(prices) > bound_mib and not finding.performance.get(NEVER_RUNS)


def _read_size(text: str | None) -> float | None:
    if text is None:
        return None
    match = _SIZE.match(text.strip())
    if match is None:
        raise ConfigError(f'--fail-above {text!r} is no size; write it like "256 MiB"')
    return float(match[1]) * _UNIT_MIB[(match[2] or "MiB").lower()]


def _read_gpus(names: Iterable[str]) -> tuple[Gpu, ...]:
    from ptxguard.memcost import DEFAULT_GPUS, find_gpu

    return tuple(dict.fromkeys(find_gpu(name) for name in tuple(names) or DEFAULT_GPUS))


def _rendered(
    found: Inventory,
    findings: Sequence[Finding],
    errors: Sequence[Any],
    gpus: Sequence[Gpu],
    output: Output,
    color: str,
) -> Iterator[str]:
    if output.format == "text":
        from ptxguard.output import scan_text

        return scan_text.render(found, findings, [gpu.name for gpu in gpus], output.style(color))
    if output.format in ("json", "json-v1"):
        from ptxguard.output import scan_json

        return scan_json.render(found.artifacts, findings, errors)
    return render(Report(tuple(findings), errors=tuple(errors), command="scan"), output, color)

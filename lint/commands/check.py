"""`ptxguard check`: reports copies that call the driver, with evidence, price and fix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ptxguard.commands.fixoptions import FixOptions, fix_options
from ptxguard.commands.options import analyse_source, read_options, source_options
from ptxguard.commands.outputoptions import output_options, read_outputs
from ptxguard.finding import Severity
from ptxguard.output.formats import may_fail, write_report
from ptxguard.output.progress import progress_bar
from ptxguard.output.report import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ptxguard.finding import Finding
    from ptxguard.memcost import Gpu
    from ptxguard.model import Analysis

_LEVELS = click.Choice([level.word for level in reversed(Severity)])


@click.command()
@source_options
@output_options()
@click.option("--select", multiple=True, metavar="CODE", help="Only rules whose code begins so; repeatable.")
@click.option("--ignore", multiple=True, metavar="CODE", help="Not these rules; repeatable.")
@click.option(
    "--gpu", "gpus", multiple=True, metavar="NAME", help='Price on this card, "RTX 5090"; repeatable.'
)
@click.option(
    "--fail-on", type=_LEVELS, default="error", show_default=True, help="Exit 1 from this severity on."
)
@click.option("--min-severity", type=_LEVELS, default="note", show_default=True, help="Hide what lies below.")
@click.option("--exit-zero", is_flag=True, help="Exit 0 also with findings.")
@fix_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Check CUDA, C++ and PTX source for copies that call the driver.

    Exit status: 0 nothing at or above --fail-on, 1 something, 2 the job could not be done.
    """
    from ptxguard.engine import run_rules, select_rules
    from ptxguard.rule import CheckOptions

    fixing = FixOptions.read(given)
    outputs = read_outputs(given)
    rules = select_rules(given["select"], given["ignore"])
    options = read_options(given["targets"], given["cuda_min"], given["defines"], given["public"])
    asked = CheckOptions(
        targets=options.targets,
        targets_named=bool(given["targets"]),
        cuda_min=options.cuda_min,
        gpus=_read_gpus(given["gpus"]),
    )

    def judge(
        overlay: Mapping[str, bytes], progress: Callable[[int, int, str], None] | None = None
    ) -> tuple[Analysis, list[Finding]]:
        analysis = analyse_source(given, options, progress, overlay)
        return analysis, fixing.offers(analysis, run_rules(analysis, rules, asked), options.cuda_min)

    with progress_bar() as progress:
        analysis, found = judge({}, progress)
    fixed = fixing.run(judge, analysis, found, given["paths"], options) if fixing.wanted else None
    if fixed is not None:
        if fixing.instead_of_report:
            fixed.finish(ctx, outputs[0].file, diff=fixing.diff)
        analysis, found = fixed.analysis, fixed.findings
    lowest = Severity[given["min_severity"].upper()]
    shown = tuple(finding for finding in found if finding.severity >= lowest)
    report = Report(
        findings=shown,
        sites=analysis.sites,
        errors=analysis.errors if fixed is None else (*analysis.errors, *fixed.errors),
        hidden=len(found) - len(shown),
        targets=tuple(target.name for target in options.targets),
        files=analysis.other_files(),
        fixed=fixed.count if fixed is not None else 0,
        targets_named=asked.targets_named,
    )
    write_report(report, outputs, given["color"])
    for error in report.errors:
        click.echo(f"ptxguard: {error}", err=True)
    worst = Severity[given["fail_on"].upper()]
    failed = any(finding.severity >= worst for finding in found)
    failed = failed and not given["exit_zero"] and may_fail(outputs)
    ctx.exit(2 if report.errors else int(failed))


def _read_gpus(names: Iterable[str]) -> tuple[Gpu, ...]:
    from ptxguard.memcost import DEFAULT_GPUS, find_gpu

    return tuple(dict.fromkeys(find_gpu(name) for name in tuple(names) or DEFAULT_GPUS))

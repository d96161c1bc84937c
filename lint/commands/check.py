"""`ptxguard check`: reports copies that call the driver, with evidence, price and fix."""

from __future__ import annotations

import os
import sys
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from ptxguard.arch import SYSCALL_ARCHES
from ptxguard.commands.fixoptions import FixOptions, fix_options
from ptxguard.commands.livingoptions import Living, config_options, configured, living_options
from ptxguard.commands.options import analyse_source, read_gpus, read_options, source_options
from ptxguard.commands.outputoptions import output_options, read_outputs, read_site
from ptxguard.commands.storeoptions import Keeping, store_options
from ptxguard.errors import ConfigError
from ptxguard.finding import Severity
from ptxguard.output.formats import may_fail, write_report
from ptxguard.output.progress import progress_bar
from ptxguard.output.report import Report
from ptxguard.threshold import fails, read_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ptxguard.crosscheck import CrossCheck
    from ptxguard.finding import Finding
    from ptxguard.model import Analysis
    from ptxguard.rule import CheckOptions, Rule

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
@config_options
@living_options
@click.option("--binary", "binaries", multiple=True, metavar="LIB", help="Cross-check with it; repeatable.")
@store_options
@click.option("--stdin-filename", metavar="PATH", help="Check standard input as the text of this file.")
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Check CUDA, C++ and PTX source for copies that call the driver.

    Exit status: 0 nothing at or above --fail-on, 1 something, 2 the job could not be done.
    """
    config = configured(ctx, given)
    overlay = _read_stdin(given)
    fixing = FixOptions.read(given)
    outputs, site = read_outputs(given), read_site(given)
    options = read_options(given)

    @cache
    def judges() -> tuple[tuple[Rule, ...], CheckOptions]:
        """Rules and cards; most files that a hook is given need neither, and both take time to load."""
        from ptxguard.engine import select_rules
        from ptxguard.rule import CheckOptions

        asked = CheckOptions(
            targets=options.targets,
            targets_named=bool(given["targets"]),
            cuda_min=options.cuda_min,
            gpus=read_gpus(given["gpus"]),
        )
        return select_rules(given["select"], given["ignore"]), asked

    if given["select"] or given["ignore"] or given["gpus"]:
        judges()  # a name that is none is an error whatever the files hold
    living = Living.read(given, config)
    compiled = _read_binaries(given["binaries"], judges()[1]) if given["binaries"] else None
    bound = read_size(given["fail_above"])
    keeping = Keeping.read(given)

    def judge(
        overlay: Mapping[str, bytes], progress: Callable[[int, int, str], None] | None = None
    ) -> tuple[Analysis, list[Finding]]:
        analysis = analyse_source(given, options, progress, overlay)
        beside = analysis.directives or compiled is not None or living.baseline is not None
        if analysis.is_empty and not beside:
            return analysis, living.keep([], analysis, ())
        from ptxguard.engine import run_rules

        rules, asked = judges()
        found = fixing.offers(analysis, run_rules(analysis, rules, asked), options.cuda_min)
        found = keeping.measured(found)
        return analysis, living.keep(compiled.run(found) if compiled else found, analysis, rules)

    with progress_bar() as progress:
        analysis, found = judge(overlay, progress)
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
        targets_named=bool(given["targets"]),
        site=site,
    )
    write_report(report, outputs, given["color"])
    keeping.keep_source(given["paths"], living.whole, report.errors, report.source_line)
    for error in report.errors:
        click.echo(f"ptxguard: {error}", err=True)
    for remark in (*living.remarks(), *(statistics(found) if given["statistics"] else ())):
        click.echo(f"ptxguard: {remark}", err=True)
    worst = Severity[given["fail_on"].upper()]
    failed = any(fails(finding, worst, bound) for finding in found)
    failed = failed and not given["exit_zero"] and may_fail(outputs)
    ctx.exit(2 if report.errors else int(failed))


def _read_binaries(paths: Sequence[str], asked: CheckOptions) -> CrossCheck:
    """The compiled code that findings are held against.

    Raises:
        BinaryError: some of it cannot be read.
    """
    from ptxguard.binary.image import Wish
    from ptxguard.binary.inventory import inventory
    from ptxguard.crosscheck import CrossCheck

    names = frozenset(f"sm_{number}{suffix}" for number in SYSCALL_ARCHES for suffix in ("", "a", "f"))
    found = inventory(paths, Wish(every_kernel=True, targets=names))
    if found.errors:
        raise found.errors[0]
    if not found.artifacts:
        raise ConfigError(f"--binary {paths[0]} holds no device code")
    return CrossCheck(found.artifacts, asked.targets, asked.gpus)


def _read_stdin(given: dict[str, Any]) -> dict[str, bytes]:
    """Standard input as the text of a file that is there, which is then the path that is checked.

    Raises:
        ConfigError: paths are named too, or fixes are asked for.
    """
    name = given["stdin_filename"]
    if name is None:
        if not given["paths"]:
            raise click.UsageError("name a file or a folder, or --stdin-filename")
        return {}
    if given["paths"] or given["fix"] or given["fix_only"]:
        raise ConfigError("--stdin-filename goes with neither paths nor --fix")
    given["paths"] = (name,)
    return {os.path.realpath(name): sys.stdin.buffer.read()}


def statistics(findings: Iterable[Finding]) -> list[str]:
    """How many findings each rule has, most first."""
    counts = Counter((finding.code, finding.rule) for finding in findings)
    return [f"{count:5}  {code}  {rule}" for (code, rule), count in counts.most_common()]

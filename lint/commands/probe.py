"""`ptxguard probe`: launches on this machine's card that measure what forms and frames cost."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ptxguard.errors import ConfigError, ToolError
from ptxguard.probe.parent import INTEGRATED_RUNS, REAL_DEVICE, TIMEOUT_S, find_card, run_all
from ptxguard.probe.programs import Run, render_runs, run_commands, run_source
from ptxguard.probe.programs import compare_runs as compare_programs
from ptxguard.probe.report import render_line, render_result
from ptxguard.probe.result import build_result, compare_results, dump_result, read_result
from ptxguard.probe.selection import variants_of_findings
from ptxguard.probe.single import write_single_file
from ptxguard.probe.variants import CONTROL_FRAMES, Variant, catalogue
from ptxguard.probe.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command()
@click.option(
    "--output-file", type=click.Path(path_type=Path), help="Write the result as JSON, for `cost --probe`."
)
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--device", default=0, show_default=True, help="CUDA's number of the card.")
@click.option(
    "--only", multiple=True, metavar="GLOB", help="Only variants of that name (repeatable): 'frame.*'."
)
@click.option(
    "--frame-bytes", multiple=True, type=click.IntRange(min=1), help="Frame of a control (repeatable)."
)
@click.option(
    "--kernel", metavar="CUBIN:NAME", help="Load a kernel of a cubin and predict; it is not launched."
)
@click.option("--source", type=click.Path(path_type=Path), help="Build and run this .cu file instead (nvcc).")
@click.option(
    "-D", "macros", multiple=True, help="With --source: one more build with this macro (repeatable)."
)
@click.option("--compare-runs", nargs=2, metavar="CMD_A CMD_B", help="Run two commands instead and compare.")
@click.option(
    "--from", "findings", type=click.Path(path_type=Path), help="Only what these findings call (JSON)."
)
@click.option("--write-file", type=click.Path(path_type=Path), help="Write the probe as one file and end.")
@click.option("--short-memory", is_flag=True, help="Also fill the card and launch what no longer fits.")
@click.option(
    "--runs", type=click.IntRange(min=1), help="Runs of each variant; default 1, on integrated cards 5."
)
@click.option(
    "--timeout", default=TIMEOUT_S, show_default=True, help="Seconds after which one child is ended."
)
@click.option("--compare", type=click.Path(path_type=Path), help="An older result; growth is exit status 1.")
@click.option("--store", metavar="FILE|URL", help="Keep the run there: a file, or postgresql://….")
@click.option("--list", "list_only", is_flag=True, help="Name the variants and end.")
@click.option("--device-module", default=REAL_DEVICE, hidden=True)
def command(
    output_file: Path | None,
    output_format: str,
    device: int,
    only: tuple[str, ...],
    frame_bytes: tuple[int, ...],
    kernel: str | None,
    findings: Path | None,
    write_file: Path | None,
    source: Path | None,
    macros: tuple[str, ...],
    compare_runs: tuple[str, str] | None,
    short_memory: bool,  # noqa: FBT001 - click passes every option by keyword
    runs: int | None,
    timeout: float,
    compare: Path | None,
    store: str | None,
    list_only: bool,  # noqa: FBT001 - click passes every option by keyword
    device_module: str,
) -> int:
    """Measure on this machine's card what each form of a bulk copy, and each frame, costs.

    Every variant runs in a process of its own. Exit status 1: the model or the data did not hold, or a price
    grew.
    """
    variants = _chosen(catalogue(frame_bytes or CONTROL_FRAMES, short_memory=short_memory), only)
    if write_file is not None:
        write_single_file(write_file)
        click.echo(f"{write_file}: run it with: python {write_file}")
        return 0
    if findings is not None:
        variants = variants_of_findings(findings)
    if kernel is not None:
        variants = (_kernel_variant(kernel),)
    if list_only:
        click.echo("\n".join(variant.name for variant in variants))
        return 0
    if macros and source is None:
        raise ConfigError("-D belongs to --source")
    older = read_result(compare) if compare else None
    card, free = find_card(device_module, device)
    click.echo(f"{card.name}, {card.sm}, driver {card.driver}: {free >> 20} MiB free", err=True)
    if source is not None:
        return _show_runs(run_source(source, macros, card, timeout), output_format)
    if compare_runs is not None:
        return _show_runs(run_commands(compare_runs, card, timeout), output_format)
    times = runs or (INTEGRATED_RUNS if card.integrated else 1)

    def progress(_: Variant, record: dict[str, Any]) -> None:
        click.echo(render_line({**record, "verdict": judge(record, card)}), err=True)

    records = run_all(variants, progress, device_module, device, timeout, times)
    result = build_result(card, records)
    text = dump_result(result)
    if output_file is not None:
        _write(output_file, text)
    click.echo(text.rstrip() if output_format == "json" else render_result(result))
    if store is not None:
        _keep(store, result)
    return _conclude(result, older)


def _keep(place: str, result: dict[str, Any]) -> None:
    from ptxguard.commands.storeoptions import keep_run
    from ptxguard.store.collect import probe_run

    keep_run(place, probe_run(result))


def _show_runs(runs: Sequence[Run], output_format: str) -> int:
    """Exit status 1 where the runs end differently; differing output alone is for the reader to judge."""
    compared = compare_programs(runs)
    if output_format == "json":
        record = {"version": 1, "runs": [run.record() for run in runs], "comparison": compared}
        click.echo(json.dumps(record, indent=1))
    else:
        click.echo(render_runs(runs))
    return 0 if compared["same_exit_status"] and runs[0].exit_status == 0 else 1


def _chosen(variants: Sequence[Variant], only: Sequence[str]) -> tuple[Variant, ...]:
    for pattern in only:
        if not any(fnmatchcase(variant.name, pattern) for variant in variants):
            raise ConfigError(f"no variant is called {pattern!r}; `ptxguard probe --list` names them all")
    return tuple(v for v in variants if not only or any(fnmatchcase(v.name, pattern) for pattern in only))


def _kernel_variant(text: str) -> Variant:
    path, colon, entry = text.rpartition(":")
    if not colon or not Path(path).is_file():
        raise ConfigError(f"{text!r} names no cubin and kernel; write it like build/k.cubin:_Z6kernelPf")
    return Variant(f"kernel.{entry}", "kernel", cubin=path, entry=entry)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", path=str(path)) from None


def _conclude(result: dict[str, Any], older: dict[str, Any] | None) -> int:
    """The exit status; what did not finish is an error of its own, after the result was written."""
    summary = result["summary"]
    changes = compare_results(older, result) if older else []
    for change in changes:
        click.echo(f"{change['name']}: {change['old_mib']} -> {change['new_mib']} MiB at the first launch")
    if summary["not_finished"]:
        first = next(r for r in result["variants"] if r["name"] == summary["not_finished"][0])
        count = len(summary["not_finished"])
        what = f"{first['name']} {first['reason']}"
        raise ToolError(f"{count} of {summary['variants']} variants did not finish: {what}")
    grown = any(change["growth_mib"] > 0 for change in changes)
    return 1 if grown or summary["disagree"] or summary["data_wrong"] or summary["spellings_differ"] else 0

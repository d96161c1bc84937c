"""`ptxguard store`: thins out, merges and writes out stores of runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxguard.errors import ConfigError

if TYPE_CHECKING:
    from ptxguard.store.store import Store


@click.group()
def command() -> None:
    """Look after a store of runs: STORE is its file, or postgresql://…."""


@command.command()
@click.argument("place", metavar="STORE")
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Runs of each subject kept whole.",
)
def gc(place: str, keep: int) -> None:
    """Take findings and kernels away from old runs; their history and all reviews stay."""
    from ptxguard.store.transfer import thin_out

    with _existing(place) as store:
        thinned = thin_out(store.database, keep)
        if not place.startswith("postgresql"):
            store.database.run("VACUUM")
    click.echo(f"{len(thinned)} runs thinned")


@command.command()
@click.argument("place", metavar="STORE")
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PROBE.JSON...")
def add(place: str, results: tuple[Path, ...]) -> None:
    """Keep results that `ptxguard probe` wrote on other machines."""
    from ptxguard.commands.storeoptions import keep_run
    from ptxguard.probe.result import read_result
    from ptxguard.store.collect import probe_run

    for path in results:
        keep_run(place, probe_run(read_result(path)))


@command.command()
@click.argument("place", metavar="STORE")
@click.argument("others", nargs=-1, required=True, metavar="OTHER...")
def merge(place: str, others: tuple[str, ...]) -> None:
    """Bring the runs and reviews of OTHER stores into STORE; runs that it has already are left out."""
    from ptxguard.store.store import open_store
    from ptxguard.store.transfer import merge as merge_stores

    with open_store(place) as store:
        for name in others:
            with _existing(name) as other:
                added, left = merge_stores(store, other)
            click.echo(f"{name}: {added} runs added, {left} left out")


@command.command()
@click.argument("place", metavar="STORE")
@click.option("--output-file", metavar="FILE", help="Write there, in one piece, instead of standard output.")
def export(place: str, output_file: str | None) -> None:
    """Write a store as lines of JSON, a run or review a line; equal stores give equal text."""
    from ptxguard.output.report import deliver
    from ptxguard.store.transfer import export_lines

    with _existing(place) as store:
        deliver(export_lines(store), output_file)


def _existing(place: str) -> Store:
    """A store that has to be there: a misspelt name makes no empty one."""
    from ptxguard.store.store import open_store

    if "://" not in place and not Path(place).is_file():
        raise ConfigError("there is no such store; `check --store FILE` makes one", path=place)
    return open_store(place)

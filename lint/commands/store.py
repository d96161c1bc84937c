"""`ptxguard store`: what is kept of earlier runs, and what people have said about findings."""

from __future__ import annotations

import json

import click

from ptxguard.store.facts import STATUSES

_STORE = click.option("--store", "place", metavar="FILE", required=True, help="The store, a SQLite file.")


@click.group()
def command() -> None:
    """Look into a store of runs, tidy it, merge stores, review findings."""


@command.command()
@_STORE
def runs(place: str) -> None:
    """List the runs, newest first, each with what is new and what is resolved."""
    from ptxguard.store.sqlite import open_store

    with open_store(place) as store:
        for run in store.runs():
            history = store.history(run.id)
            told = f"{run.findings} findings, {len(history.new)} new, {len(history.resolved)} resolved"
            told += f", {len(history.reopened)} reopened" if history.reopened else ""
            revision = f" at {run.revision[:12]}" if run.revision else ""
            click.echo(f"{run.id:>5}  {run.started[:19]}  {run.kind:<7}{run.subject}{revision}: {told}")


@command.command()
@_STORE
@click.argument("number", type=int)
def export(place: str, number: int) -> None:
    """Print a run as JSON: its findings with their reviews, and its history."""
    from ptxguard.store.sqlite import open_store

    with open_store(place) as store:
        run, history, reviews = store.run(number), store.history(number), store.reviews()
        findings = [
            {
                **record,
                "review": reviews[record["fingerprint"]].__dict__
                if record["fingerprint"] in reviews
                else None,
            }
            for record in store.findings(number)
        ]
        record = {"version": 1, "run": run.__dict__, "history": history.__dict__, "findings": findings}
        click.echo(json.dumps(record, indent=2))


@command.command()
@_STORE
@click.argument("fingerprint")
@click.argument("status", type=click.Choice(STATUSES))
@click.option("--note", default="", help="Why.")
def review(place: str, fingerprint: str, status: str, note: str) -> None:
    """Say what a finding is; that survives later runs."""
    from ptxguard.store.sqlite import open_store

    with open_store(place) as store:
        store.review(fingerprint, status, note)


@command.command()
@_STORE
@click.option("--keep", type=click.IntRange(min=1), default=20, show_default=True)
def gc(place: str, keep: int) -> None:
    """Remove all but the newest runs of each subject; reviews and probe results stay."""
    from ptxguard.store.sqlite import open_store

    with open_store(place) as store:
        click.echo(f"{store.drop_old(keep)} runs removed")


@command.command()
@_STORE
@click.argument("other", type=click.Path(exists=True, dir_okay=False))
def merge(place: str, other: str) -> None:
    """Take over the runs and reviews of another store."""
    from ptxguard.store.sqlite import open_store

    with open_store(place) as store, open_store(other) as source:
        click.echo(f"{store.merge(source)} runs taken over")

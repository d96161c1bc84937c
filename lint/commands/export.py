"""`ptxguard export`: writes the findings site into a folder that opens from disk and from any static host."""

from __future__ import annotations

import time
from pathlib import Path

import click

from ptxguard.commands.siteoptions import existing_store, load_site
from ptxguard.output.progress import progress_bar


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--store", required=True, metavar="FILE|URL", help="The runs: a file, or postgresql://….")
@click.option("--gpu", metavar="NAME", help='Card on which prices are shown; default: "RTX 5090".')
@click.option("--title", default="ptxguard", show_default=True, help="Title of the site.")
@click.option("--base-url", default="", metavar="URL", help="Where it will stand: writes an Atom feed too.")
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Processes that render; default: one for each processor."
)
def command(folder: Path, store: str, gpu: str | None, title: str, base_url: str, jobs: int | None) -> None:
    """Write all pages of a store into DIR, which has to be new, empty, or written by an export."""
    load_site()
    from ptxguard.web.export import export_site, processors
    from ptxguard.web.settings import DEFAULT_GPU, Settings

    settings = Settings(
        existing_store(store), gpu=gpu or DEFAULT_GPU, title=title, base_url=base_url.rstrip("/")
    )
    began = time.monotonic()
    with progress_bar() as draw:
        tell = None if draw is None else lambda done, known: draw(done, known, "pages")
        done = export_site(settings, folder, jobs or processors(), tell)
    mib = done.bytes / (1 << 20)
    click.echo(
        f"{done.pages:,} pages, {done.files:,} files, {mib:,.1f} MiB in {time.monotonic() - began:.1f} s: "
        f"open {folder / 'index.html'}"
    )

"""`ptxguard repro`: a standalone reproducer and an issue text for one finding."""

from __future__ import annotations

from pathlib import Path

import click

from ptxguard.errors import ConfigError
from ptxguard.probe.repro import find_finding, form_of, issue_text, repro_source


@click.command()
@click.argument("finding")
@click.option(
    "--from", "findings", required=True, type=click.Path(path_type=Path), help="JSON of `check` or `scan`."
)
@click.option("--output-dir", default=Path(), type=click.Path(path_type=Path), help="Where the two files go.")
def command(finding: str, findings: Path, output_dir: Path) -> None:
    """Write a .cu that shows FINDING (a fingerprint or path:line) in both spellings, and an issue text."""
    record = find_finding(findings, finding)
    form, multicast = form_of(record)
    name = f"repro_{form.name}{'_multicast' if multicast else ''}"
    files = {
        output_dir / f"{name}.cu": repro_source(form, multicast=multicast),
        output_dir / f"{name}.md": issue_text(record, form, f"{name}.cu", multicast=multicast),
    }
    for path, text in files.items():
        try:
            path.write_text(text, "utf-8")
        except OSError as error:
            raise ConfigError(f"cannot be written: {error.strerror}", path=str(path)) from None
        click.echo(str(path))

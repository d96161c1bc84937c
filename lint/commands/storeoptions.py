"""The option that keeps a run in a store, for every command that makes one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ptxguard.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ptxguard.binary.facts import Artifact
    from ptxguard.errors import PtxguardError
    from ptxguard.finding import Finding
    from ptxguard.store.rows import ProbeRun
    from ptxguard.store.write import NewRun

_STORE = click.option("--store", metavar="FILE|URL", help="Keep the run there: a file, or postgresql://….")
_SUBJECT = click.option(
    "--subject", metavar="NAME", help="With it: runs of one name are compared; default: repository or file."
)


def store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: `--store` and `--subject`."""
    return _STORE(_SUBJECT(command))


@dataclass(frozen=True)
class Keeping:
    """Where a run is kept, and what the store knows before.

    Attributes:
        place: path or URL; None: nowhere.
        subject: as named by the user, or None.
        probes: stored probe runs.
    """

    place: str | None = None
    subject: str | None = None
    probes: tuple[ProbeRun, ...] = ()

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Keeping:
        """As the options say; a store that cannot be used is told before the work begins.

        Raises:
            ConfigError: --subject without --store, or the place is no store.
            ToolError: the database cannot be reached.
        """
        if given["store"] is None:
            if given["subject"] is not None:
                raise ConfigError("--subject belongs to --store")
            return cls()
        from ptxguard.store.store import open_store  # a hook that keeps nothing does not pay for it

        with open_store(given["store"]) as store:
            return cls(given["store"], given["subject"], store.probes())

    def measured(self, findings: Iterable[Finding]) -> list[Finding]:
        """Findings, with the prices that stored probe runs have measured."""
        if not self.probes:
            return list(findings)
        from ptxguard.store.measured import raise_to_measured

        return raise_to_measured(findings, self.probes)

    def keep_source(
        self,
        paths: Sequence[str],
        findings: Sequence[Finding],
        errors: Sequence[PtxguardError],
        line_text: Callable[[str, int], str | None],
    ) -> None:
        """Store a run of `check`; for `line_text` see `source_run`."""
        if self.place is not None:
            from ptxguard.store.collect import source_run

            self._keep(source_run(paths, findings, errors, self.subject, line_text))

    def keep_binary(
        self, artifacts: Sequence[Artifact], findings: Iterable[Finding], errors: Sequence[PtxguardError]
    ) -> None:
        """Store a run of `scan`."""
        if self.place is not None:
            from ptxguard.store.collect import binary_run

            self._keep(binary_run(artifacts, findings, errors, self.subject))

    def _keep(self, run: NewRun) -> None:
        keep_run(self.place or "", run)


def keep_run(place: str, run: NewRun) -> None:
    """Store a run and say its number on standard error."""
    from ptxguard.store.store import open_store

    with open_store(place) as store:
        number = store.add(run)
        states = store.states(number)
        label = store.database.label
    told = "".join(f", {count} {state}" for state, count in states.items())
    click.echo(f"ptxguard: run {number} of {run.subject} kept in {label}{told}", err=True)

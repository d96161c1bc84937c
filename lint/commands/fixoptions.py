"""Options of `check` that change files or show how they would be changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ptxguard.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ptxguard.arch import Target
    from ptxguard.errors import PtxguardError
    from ptxguard.finding import Finding
    from ptxguard.fix.repair import Repair
    from ptxguard.model import Analysis
    from ptxguard.source.analyse import Options
    from ptxguard.verify.run import Verifier

    Judge = Callable[[Mapping[str, bytes]], tuple[Analysis, list[Finding]]]

_OPTIONS = (
    click.option("--fix", is_flag=True, help="Repair what is proved to be safe; report what is left."),
    click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: unsafe fixes, too."),
    click.option("--diff", is_flag=True, help="Show what --fix would change, and change nothing."),
    click.option("--fix-only", is_flag=True, help="Repair, and say nothing of what is left."),
    click.option(
        "--verify", is_flag=True, help="With --fix or --diff: take back what ptxas does not bear out."
    ),
    click.option(
        "--switch-callers",
        is_flag=True,
        help="Where a helper has a twin for shared::cta, let its callers call that instead.",
    ),
    click.option(
        "--assume-local",
        multiple=True,
        metavar="GLOB",
        help="You vouch that callers of these functions (or in these files) pass their own CTA's memory: "
        "offers an unsafe fix; repeatable.",
    ),
)


def fix_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the options of this module."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True)
class FixOptions:
    """What the user asks to be changed.

    Attributes:
        write: whether files are replaced.
        diff: whether a diff stands in the place of the report.
        only: whether what is left is not reported.
        unsafe: whether unsafe fixes are made, too.
        verify: whether ptxas is asked.
        switch: whether callers are switched to the twin of a helper.
        assume_local: globs of functions and paths that the user vouches for.
    """

    write: bool
    diff: bool
    only: bool
    unsafe: bool
    verify: bool
    switch: bool
    assume_local: tuple[str, ...]

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> FixOptions:
        """The options of a command line.

        Raises:
            ConfigError: some of them mean nothing together.
        """
        write, diff = given["fix"] or given["fix_only"], given["diff"]
        if write and diff:
            raise ConfigError("--diff changes nothing and --fix does; give one of them")
        for name in ("unsafe_fixes", "verify"):
            if given[name] and not (write or diff):
                raise ConfigError(f"--{name.replace('_', '-')} needs --fix, --fix-only or --diff")
        return cls(
            write,
            diff,
            given["fix_only"],
            given["unsafe_fixes"],
            given["verify"],
            given["switch_callers"],
            given["assume_local"],
        )

    @property
    def wanted(self) -> bool:
        """Whether there is anything to do."""
        return self.write or self.diff

    @property
    def instead_of_report(self) -> bool:
        """Whether the command ends with the fixes."""
        return self.diff or self.only

    def offers(
        self, analysis: Analysis, findings: list[Finding], cuda_min: tuple[int, int] | None
    ) -> list[Finding]:
        """Findings with the fixes that these options add."""
        if self.assume_local:
            from ptxguard.fix.vouch import vouch

            findings = vouch(findings, analysis.sites, self.assume_local, cuda_min)
        if self.switch:
            from ptxguard.fix.switch import switched

            findings = switched(findings, analysis.sites)
        return findings

    def run(
        self,
        judge: Judge,
        analysis: Analysis,
        findings: Sequence[Finding],
        paths: Sequence[str],
        asked: Options,
    ) -> Fixed:
        """Make the fixes, or find out which would be made.

        Raises:
            ToolError: `--verify` without ptxas.
        """
        from ptxguard.fix.recheck import Judged
        from ptxguard.fix.repair import repair, write

        def judged(overlay: Mapping[str, bytes]) -> Judged:
            return Judged(*judge(overlay))

        verifier = self._verifier(asked.targets)
        safeties = {"safe", "unsafe"} if self.unsafe else {"safe"}
        done = repair(Judged(analysis, findings), findings, safeties, judged, verifier)
        units = None
        errors: list[PtxguardError] = list(done.errors())
        if self.write:
            units = verifier.units(done.plan.findings) if verifier is not None else None
            done, unwritten = write(done, units)
            errors += unwritten
            if unwritten:
                done = replace(done, after=judged({}))
        _tell([*done.summary(written=self.write), *(verifier.report(units) if verifier is not None else ())])
        if done.plan.files and asked.cuda_min is None:
            _tell(_toolkit_advice(paths))
        return Fixed(done, tuple(errors))

    def _verifier(self, targets: Sequence[Target]) -> Verifier | None:
        if not self.verify:
            return None
        from ptxguard.verify.run import Verifier

        return Verifier.on_this_machine(targets)


def _toolkit_advice(paths: Sequence[str]) -> list[str]:
    """What the build files say against a fix without a guard."""
    from ptxguard.fix.toolkit import advice, read_minimum
    from ptxguard.source.tree import read_tree

    said = advice(read_minimum(read_tree(paths).build_files))
    return [said] if said else []


def _tell(lines: Iterable[str]) -> None:
    """Say on stderr what was done; standard output is for the report or the diff."""
    for line in lines:
        click.echo(line if line.startswith(" ") else f"ptxguard: {line}", err=True)


@dataclass(frozen=True)
class Fixed:
    """The tree after the fixes.

    Attributes:
        repair: what was planned and done.
        errors: fixes that were taken back, files that could not be written.
    """

    repair: Repair
    errors: tuple[PtxguardError, ...]

    @property
    def analysis(self) -> Analysis:
        """Facts of what is left."""
        return self.repair.after.analysis

    @property
    def findings(self) -> list[Finding]:
        """What is left."""
        return list(self.repair.after.findings)

    @property
    def count(self) -> int:
        """Findings that are repaired."""
        return len(self.repair.plan.findings)

    def finish(self, ctx: click.Context, output_file: str | None, *, diff: bool) -> NoReturn:
        """End the command with the diff, or with nothing but the exit status."""
        from ptxguard.output.report import deliver

        if diff:
            from ptxguard.fix.diff import render_diff

            deliver(render_diff(self.repair.plan.files), output_file)
        errors = (*self.analysis.errors, *self.errors)
        for error in errors:
            click.echo(f"ptxguard: {error}", err=True)
        ctx.exit(2 if errors else int(diff and bool(self.repair.plan.files)))

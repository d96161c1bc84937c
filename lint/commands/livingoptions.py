"""The options for living with findings: configuration, excludes, suppression, baseline, changed lines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ptxguard.config import Config, find_config
from ptxguard.errors import ConfigError
from ptxguard.finding import Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ptxguard.baseline import Baseline
    from ptxguard.changes import Changes
    from ptxguard.model import Analysis
    from ptxguard.rule import Rule

_CONFIG = (
    click.option("--config", "config_file", metavar="FILE", help="Read this instead of the nearest one."),
    click.option("--isolated", is_flag=True, help="Read no configuration file."),
    click.option("--exclude", multiple=True, metavar="GLOB", help="Not these files; repeatable."),
    click.option("--force-exclude", is_flag=True, help="Also where such a file is named."),
)
_LEVELS = [level.word for level in reversed(Confidence)]
_LIVING = (
    click.option(
        "--per-file-ignores", multiple=True, metavar="GLOB:CODE", help="Not these rules there; repeatable."
    ),
    click.option("--baseline", metavar="FILE", help="Leave out what `ptxguard baseline` has written there."),
    click.option("--new-from-rev", metavar="REV", help="Only findings that lines changed since REV touch."),
    click.option("--diff-filter", metavar="KINDS", help="With it: kinds of changed files, as git's option."),
    click.option("--fail-above", metavar="SIZE", help='Fail on price instead: above "256 MiB" on a card.'),
    click.option("--min-confidence", type=click.Choice(_LEVELS), default="low", show_default=True),
    click.option("--statistics", is_flag=True, help="Add how many findings each rule has."),
)
# Key of the configuration -> option of a command.
_OPTION = {
    "targets": "targets",
    "cuda-min": "cuda_min",
    "defines": "defines",
    "select": "select",
    "ignore": "ignore",
    "gpu": "gpus",
    "fail-on": "fail_on",
    "fail-above": "fail_above",
    "min-severity": "min_severity",
    "min-confidence": "min_confidence",
    "force-exclude": "force_exclude",
    "site-url": "site_url",
}
_PLACES = {"public": "public", "exclude": "exclude"}  # lists of globs
_FILES = {"baseline": "baseline", "cache-dir": "cache_dir"}
_TUPLES = frozenset({"targets", "defines", "select", "ignore", "gpu"})


def config_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: configuration and excludes, for every command that reads source."""
    for option in reversed(_CONFIG):
        command = option(command)
    return command


def living_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: what `check` and `baseline` know beside that."""
    for option in reversed(_LIVING):
        command = option(command)
    return command


def configured(ctx: click.Context, given: dict[str, Any]) -> Config:
    """Fill in what the configuration says where the command line says nothing.

    Raises:
        ConfigError: the file is wrong, or a value is not one that the option takes.
    """
    config = Config() if given["isolated"] else find_config(given["config_file"])
    for key, value in config.values.items():
        name = _OPTION.get(key) or _PLACES.get(key) or _FILES.get(key)
        if name is None or name not in given or ctx.get_parameter_source(name) != ParameterSource.DEFAULT:
            continue
        if key in _PLACES:
            value = config.paths(key)
        elif key in _FILES:
            value = config.file(value)
        given[name] = _converted(ctx, name, tuple(value) if key in _TUPLES else value, config)
    return config


def _converted(ctx: click.Context, name: str, value: Any, config: Config) -> Any:
    parameter = next(option for option in ctx.command.params if option.name == name)
    try:
        return parameter.type_cast_value(ctx, value)
    except click.BadParameter as error:
        raise ConfigError(f"{name.replace('_', '-')}: {error.message}", path=config.path) from None


@dataclass(eq=False)
class Living:
    """Decides which findings are shown, by everything but the rules themselves.

    Attributes:
        per_file: glob -> codes that are not reported there.
        severities: code -> level, or None for a rule that is off.
        confidence: findings below it are left out.
        baseline: known findings, or None.
        paths: files and folders as the user named them.
        changes: changed lines, or None where all count.
        suppressed: number of findings that comments suppress, after `keep`.
        known: number of those that the baseline holds.
        gone: lines of the baseline that nothing matches, with counts.
        whole: findings before baseline and changed lines take some away, after `keep`.
    """

    per_file: tuple[tuple[str, tuple[str, ...]], ...] = ()
    severities: Mapping[str, Severity | None] = field(default_factory=dict)
    confidence: Confidence = Confidence.LOW
    baseline: Baseline | None = None
    paths: tuple[str, ...] = ()
    changes: Changes | None = None
    suppressed: int = 0
    known: int = 0
    gone: tuple[tuple[str, int], ...] = ()
    whole: tuple[Finding, ...] = ()

    @classmethod
    def read(cls, given: Mapping[str, Any], config: Config) -> Living:
        """As the options and the configuration say.

        Raises:
            ConfigError: a value is wrong, a file or a revision is not there.
        """
        living = cls(
            per_file=(*map(_per_file, given["per_file_ignores"]), *_per_file_of(config)),
            severities={code.upper(): _level(code, word, config) for code, word in _severities(config)},
            confidence=Confidence[given["min_confidence"].upper()],
        )
        if given["baseline"] is not None:
            from ptxguard.baseline import read_baseline

            living.paths = tuple(given["paths"])
            living.baseline = read_baseline(given["baseline"])
        if given["new_from_rev"] is not None:
            from ptxguard.changes import read_changes

            living.changes = read_changes(given["new_from_rev"], given["diff_filter"], given["paths"])
        return living

    def keep(self, findings: Sequence[Finding], analysis: Analysis, rules: Iterable[Rule]) -> list[Finding]:
        """The findings that are left, in file order."""
        weighed = [(finding, self._weighed(finding)) for finding in findings]
        left = [changed for _, changed in weighed if changed is not None]
        codes = [rule.meta.code for rule in rules]
        if analysis.directives:
            from ptxguard.suppress import suppress

            kept = suppress(left, analysis.directives, codes, known_codes())
            left, self.suppressed = kept.findings, kept.suppressed
        self.whole = tuple(left)
        if self.baseline is not None:
            from ptxguard.baseline import Scope
            from ptxguard.suppress import UNUSED, WITHOUT_CODE

            unseen = [finding for finding, changed in weighed if changed is None]
            scope = Scope(self.paths, analysis.reported, frozenset((*codes, UNUSED[0], WITHOUT_CODE[0])))
            compared = self.baseline.compare(left, scope, unseen)
            left, self.known, self.gone = compared.new, compared.known, compared.gone
        if self.changes is not None:
            left = list(self.changes.touched(left))
        return left

    def remarks(self) -> list[str]:
        """What was left out and what is gone, one sentence each, for people."""
        said = []
        if self.suppressed:
            said.append(f"{self.suppressed} suppressed by comments")
        if self.known:
            said.append(f"{self.known} known to the baseline")
        said.extend(f"gone from the code; remove {line} ({count})" for line, count in self.gone)
        return said

    def _weighed(self, finding: Finding) -> Finding | None:
        """A finding with its configured severity; None where it is not reported."""
        from ptxguard.globs import matches

        if finding.confidence < self.confidence:
            return None
        for glob, codes in self.per_file:
            if finding.code.startswith(codes) and matches(finding.path, [glob]):
                return None
        if finding.code in self.severities:
            level = self.severities[finding.code]
            return replace(finding, severity=level) if level is not None else None
        return finding


def known_codes() -> tuple[str, ...]:
    """Every code that ptxguard reports: of rules, of `scan` and of comments."""
    from ptxguard.engine import all_rules
    from ptxguard.otherrules import other_rules

    return (*(rule.meta.code for rule in all_rules()), *(other.code for other in other_rules()))


def _per_file(text: str) -> tuple[str, tuple[str, ...]]:
    glob, _, codes = text.rpartition(":")
    names = tuple(code.strip().upper() for code in codes.split(",") if code.strip())
    if not glob or not names:
        raise ConfigError(f"--per-file-ignores {text!r}: write GLOB:CODE, 'tests/**:TMA001'")
    return glob, _codes(names, None)


def _per_file_of(config: Config) -> list[tuple[str, tuple[str, ...]]]:
    table: Mapping[str, list[str]] = config.values.get("per-file-ignores", {})
    return [(config.placed(glob), _codes(codes, config.path)) for glob, codes in table.items()]


def _codes(given: Iterable[str], path: str | None) -> tuple[str, ...]:
    """Codes or beginnings of codes, each of which means some rule."""
    codes, known = tuple(code.upper() for code in given), known_codes()
    strange = next(
        (code for code in codes if not code or not any(name.startswith(code) for name in known)), None
    )
    if strange is not None:
        raise ConfigError(
            f"per-file-ignores: no rule matches {strange!r}; `ptxguard explain` lists them", path=path
        )
    return codes


def _severities(config: Config) -> list[tuple[str, str]]:
    table: Mapping[str, str] = config.values.get("severity", {})
    return list(table.items())


def _level(code: str, word: str, config: Config) -> Severity | None:
    from ptxguard.engine import find_rule

    try:
        find_rule(code)
    except ConfigError as error:
        raise ConfigError(f"severity: {error.message}", path=config.path) from None
    if word == "off":
        return None
    try:
        return Severity[word.upper()]
    except KeyError:
        raise ConfigError(
            f'severity of {code}: {word!r} is none of "error", "warning", "note" and "off"',
            path=config.path,
        ) from None

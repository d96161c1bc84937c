"""What the server knows: texts that are not saved yet, and the judgement of files with them in the tree."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ptxguard.engine import run_rules
from ptxguard.location import SourceFile
from ptxguard.output.report import Report
from ptxguard.source.analyse import analyse
from ptxguard.source.tree import shown_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ptxguard.finding import Finding
    from ptxguard.model import Analysis
    from ptxguard.rule import CheckOptions, Rule
    from ptxguard.source.analyse import Options


@dataclass(frozen=True)
class Settings:
    """What is asked of every judgement.

    Attributes:
        options: of the analysis.
        asked: of the rules.
        rules: those that are run.
        keep: takes away what comments suppress and the configuration does not want.
    """

    options: Options
    asked: CheckOptions
    rules: tuple[Rule, ...]
    keep: Callable[[Sequence[Finding], Analysis], list[Finding]]


class Session:
    """Judges files as `check` does, with the editor's texts in the place of those on disk.

    `judge` and `judge_tree` may run in another thread than the rest: they take the texts as given.

    Attributes:
        settings: what is asked.
        root: folder that is judged where a jump needs the whole tree.
        texts: real path -> text of an open document.
    """

    def __init__(self, settings: Settings, root: str) -> None:
        self.settings = settings
        self.root = root
        self.texts: dict[str, str] = {}
        self._tree: tuple[dict[str, str], Report] | None = None

    def set_text(self, path: str, text: str) -> None:
        """Take the text of an open document."""
        self.texts[os.path.realpath(path)] = text

    def drop_text(self, path: str) -> None:
        """Let the text on disk count again."""
        self.texts.pop(os.path.realpath(path), None)

    def judge(self, path: str, texts: Mapping[str, str]) -> Report:
        """The report about one file, with the whole tree as evidence; empty for one that is not on disk."""
        return self._report(path, texts) if Path(path).is_file() else Report()

    def judge_tree(self, texts: Mapping[str, str]) -> Report:
        """The report about the root; kept until a text changes."""
        held = dict(texts)
        if self._tree is None or self._tree[0] != held:
            self._tree = (held, self._report(self.root, texts))
        return self._tree[1]

    def forget_tree(self) -> None:
        """A file on disk has changed."""
        self._tree = None

    def _report(self, path: str, texts: Mapping[str, str]) -> Report:
        overlay = {real: text.encode("utf-8", "surrogatepass") for real, text in texts.items()}
        analysis = analyse([path], self.settings.options, overlay=overlay)
        found = run_rules(analysis, self.settings.rules, self.settings.asked)
        unsaved = tuple(SourceFile(shown_path(real), text) for real, text in texts.items())
        return Report(
            findings=tuple(self.settings.keep(found, analysis)),
            sites=analysis.sites,
            errors=analysis.errors,
            targets=tuple(target.name for target in self.settings.options.targets),
            files=(*analysis.other_files(), *unsaved),
        )

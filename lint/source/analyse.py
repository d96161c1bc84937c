"""Source analysis from paths to copy sites: the one entry that commands and library calls use."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from ptxguard.arch import DEFAULT_TARGETS, Target
from ptxguard.errors import PtxguardError
from ptxguard.globs import matches
from ptxguard.model import Analysis
from ptxguard.source.candidates import asm_words, wants_parsing
from ptxguard.source.tree import read_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ptxguard.source.project import Project
    from ptxguard.source.tree import Tree, TreeFile


@dataclass(frozen=True)
class Options:
    """What the user asks for.

    Attributes:
        targets: device targets to judge for.
        cuda_min: oldest toolkit that the project supports; None means the first that knows each target.
        defines: `-D NAME[=VALUE]`.
        public: globs of headers that have callers outside of the tree.
        exclude: globs of files that are evidence only, unless they are named.
        force_exclude: whether they are that although they are named.
    """

    targets: tuple[Target, ...] = tuple(Target.parse(name) for name in DEFAULT_TARGETS)
    cuda_min: tuple[int, int] | None = None
    defines: Mapping[str, str | None] = field(default_factory=dict)
    public: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    force_exclude: bool = False

    def leaves_out(self, file: TreeFile) -> bool:
        """Whether a file is excluded."""
        if not self.exclude or (file.named and not self.force_exclude):
            return False
        return matches(file.shown, self.exclude)


def analyse(
    paths: Sequence[str],
    options: Options,
    progress: Callable[[int, int, str], None] | None = None,
    overlay: Mapping[str, bytes] = MappingProxyType({}),
) -> Analysis:
    """Find every bulk copy under the paths and judge it with the whole tree around them as evidence.

    `overlay` gives bytes by real path that stand for those on disk.
    """
    return analyse_tree(read_tree(paths, overlay), options, progress)[0]


def analyse_tree(
    tree: Tree, options: Options, progress: Callable[[int, int, str], None] | None = None
) -> tuple[Analysis, Project | None]:
    """As `analyse`, with the project that the answer rests on; None where no file had to be parsed."""
    errors = list(tree.errors)
    files = list(_candidates(tree, options, errors))
    found, project = Analysis(()), None
    if files:
        from ptxguard.source.project import Project  # most files that a hook is given need no parser
        from ptxguard.source.survey import survey

        project = Project(tree, options.defines)
        found = survey(project, files, options, progress)
    told = sorted({*errors, *found.errors}, key=lambda e: (e.path or "", e.line or 0, e.column or 0))
    reported = frozenset(file.shown for file in tree.reported() if not options.leaves_out(file))
    return replace(found, errors=tuple(told), reported=reported), project


def _candidates(tree: Tree, options: Options, errors: list[PtxguardError]) -> Iterator[TreeFile]:
    """Files asked about that have to be parsed; those that cannot be read become errors."""
    keywords = [word.encode() for word in asm_words(tree.files)]
    for file in tree.reported():
        if options.leaves_out(file):
            continue
        try:
            if wants_parsing(file, file.data(), keywords):
                yield file
        except PtxguardError as error:
            errors.append(error)

"""Source analysis from paths to copy sites: the one entry that commands and library calls use."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from ptxguard.arch import DEFAULT_TARGETS, Target
from ptxguard.errors import ParseError, PtxguardError
from ptxguard.model import Analysis
from ptxguard.source import archlists
from ptxguard.source.project import Project, check_text
from ptxguard.source.sites import SiteFinder
from ptxguard.source.tree import read_tree
from ptxguard.source.wrappers import may_use

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ptxguard.model import ArchList, CopySite
    from ptxguard.source.tree import TreeFile

# Hand-written kernels are far smaller; this keeps the worst file within seconds.
MAX_ASM_BYTES = 8 << 20


@dataclass(frozen=True)
class Options:
    """What the user asks for.

    Attributes:
        targets: device targets to judge for.
        cuda_min: oldest toolkit that the project supports; None means the first that knows each target.
        defines: `-D NAME[=VALUE]`.
        public: globs of headers that have callers outside of the tree.
    """

    targets: tuple[Target, ...] = tuple(Target.parse(name) for name in DEFAULT_TARGETS)
    cuda_min: tuple[int, int] | None = None
    defines: Mapping[str, str | None] = field(default_factory=dict)
    public: tuple[str, ...] = ()


def analyse(
    paths: Sequence[str],
    options: Options,
    progress: Callable[[int, int, str], None] | None = None,
    overlay: Mapping[str, bytes] = MappingProxyType({}),
) -> Analysis:
    """Find every bulk copy under the paths and judge it with the whole tree around them as evidence.

    `overlay` gives bytes by real path that stand for those on disk.
    """
    tree = read_tree(paths, overlay)
    errors = list(tree.errors)
    project = Project(tree, options.defines)
    finder = SiteFinder(project, options.targets, options.cuda_min, options.public)
    files = list(tree.reported())
    sites: list[CopySite] = []
    lists: list[ArchList] = []
    for number, file in enumerate(files):
        if progress is not None:
            progress(number, len(files), file.shown)
        try:
            sites.extend(_sites_of(file, project, finder, errors))
            lists.extend(_arch_lists_of(file, project, finder))
        except PtxguardError as error:
            errors.append(error)
        except RecursionError:
            errors.append(
                ParseError(
                    "nested too deeply to be followed; simplify or exclude it", path=file.shown, line=1
                )
            )
    if progress is not None:
        progress(len(files), len(files), "")
    errors.extend(finder.errors)
    sites.sort(key=lambda site: (site.span.path, site.span.line, site.span.column, site.copy.opcode))
    ordered = sorted(set(errors), key=lambda e: (e.path or "", e.line or 0, e.column or 0))
    reported = frozenset(file.shown for file in files)
    return Analysis(tuple(sites), tuple(ordered), tuple(finder.codes), tuple(lists), reported)


def _sites_of(
    file: TreeFile, project: Project, finder: SiteFinder, errors: list[PtxguardError]
) -> list[CopySite]:
    data = file.data()
    if file.ending == ".ptx":
        return finder.of_ptx(file)
    keyword = any(word.encode() in data for word in project.asm_keywords)
    wrapped = may_use(data)
    if not keyword and not wrapped and not _needs_a_look(file, data):
        return []
    if keyword and len(data) > MAX_ASM_BYTES:
        size, limit = len(data) >> 20, MAX_ASM_BYTES >> 20
        message = f"{size} MiB of source with inline asm is over the limit of {limit} MiB; exclude the file"
        raise ParseError(message, path=file.shown, line=1)
    found: list[CopySite] = []
    units = project.units(file)
    if not units:
        reason = project.unreadable(file)
        if reason is not None:
            errors.append(reason)
        return []
    if b"\0" not in data[:4096] and finder.is_ptx_text(units[0].file.text):
        return finder.of_ptx(file)
    for unit in units:
        if unit.file.parent is None:
            errors.extend(check_text(unit))
        if keyword:
            found.extend(finder.of_unit(unit))
        if wrapped:
            found.extend(finder.of_wrappers(unit))
    return found


def _arch_lists_of(file: TreeFile, project: Project, finder: SiteFinder) -> list[ArchList]:
    if not archlists.MARK.search(file.data()):
        return []
    return [found for unit in project.units(file) for found in archlists.arch_lists(unit, finder.guards)]


def _needs_a_look(file: TreeFile, data: bytes) -> bool:
    """Whether a file without asm may still be unreadable: no text, or a comment that never ends."""
    if b"\0" in data or data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return True
    if file.named or file.ending in (".cu", ".cuh"):
        return (
            not data.isascii()
            or data.count(b"/*") > data.count(b"*/")
            or (file.named and len(data) < (1 << 20))
        )
    return False

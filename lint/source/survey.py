"""Judges the files that can hold something to report, with the whole tree around them as evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.errors import ParseError, PtxguardError
from ptxguard.model import Analysis
from ptxguard.source import archlists, candidates
from ptxguard.source.directives import directives_of
from ptxguard.source.project import Project, check_text
from ptxguard.source.sites import SiteFinder
from ptxguard.source.tree import PYTHON_ENDINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ptxguard.directive import Directive
    from ptxguard.model import ArchList, CopySite
    from ptxguard.source.analyse import Options
    from ptxguard.source.tree import TreeFile

# Hand-written kernels are far smaller; this keeps the worst file within seconds.
MAX_ASM_BYTES = 8 << 20


def survey(
    project: Project,
    files: Sequence[TreeFile],
    options: Options,
    progress: Callable[[int, int, str], None] | None = None,
) -> Analysis:
    """Everything that the files hold, in the order of their paths.

    Args:
        project: the tree.
        files: those of it that `candidates.wants_parsing` let through.
        options: what the user asks for.
        progress: told the number of files done, that of all, and the next one.
    """
    errors: list[PtxguardError] = []
    finder = SiteFinder(project, options.targets, options.cuda_min, options.public)
    sites: list[CopySite] = []
    lists: list[ArchList] = []
    directives: list[Directive] = []
    for number, file in enumerate(files):
        if progress is not None:
            progress(number, len(files), file.shown)
        try:
            sites.extend(_sites_of(file, project, finder, errors))
            lists.extend(_arch_lists_of(file, project, finder))
            if candidates.may_hold_directives(file.data()):
                directives.extend(directives_of(file, project))
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
    return Analysis(
        tuple(sites), tuple(errors), tuple(finder.codes), tuple(lists), directives=tuple(directives)
    )


def _sites_of(
    file: TreeFile, project: Project, finder: SiteFinder, errors: list[PtxguardError]
) -> list[CopySite]:
    data = file.data()
    if file.ending == ".ptx":
        return finder.of_ptx(file)
    if file.ending in PYTHON_ENDINGS:
        return finder.of_python(file) if candidates.COPY_WORD in data else []
    keyword = any(word.encode() in data for word in project.asm_keywords)
    wrapped = candidates.uses_wrappers(data)
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
    if file.ending in PYTHON_ENDINGS or not candidates.ARCH_LIST.search(file.data()):
        return []
    return [found for unit in project.units(file) for found in archlists.arch_lists(unit, finder.guards)]

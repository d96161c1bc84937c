"""The oldest toolkit that a project's own build files accept, so that its fixes can be guarded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ptxguard.fix.choice import CTA_FORM_TOOLKIT
from ptxguard.source.tree import shown_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MIB = 1 << 20
_VERSION = r'"?(\d{1,2})\.(\d{1,2})'
# FindCUDAToolkit's version argument, and a version below which the build stops.
_MINIMUM = (
    re.compile(rf"find_package\s*\(\s*CUDA(?:Toolkit)?\s+{_VERSION}"),
    re.compile(
        r"if\s*\(\s*(?:CUDAToolkit_VERSION|CUDA_VERSION|CMAKE_CUDA_COMPILER_VERSION)\s+VERSION_LESS\s+"
        rf"{_VERSION}[^)\n]*\)\s*message\s*\(\s*FATAL_ERROR"
    ),
)


@dataclass(frozen=True)
class Minimum:
    """A toolkit that a build file names as the oldest one.

    Attributes:
        toolkit: (major, minor).
        path: of the file, as shown to the user.
        line: 1-based.
    """

    toolkit: tuple[int, int]
    path: str
    line: int


def read_minimum(build_files: Iterable[str]) -> Minimum | None:
    """The newest of the minima that CMake files name: the project as a whole needs that one."""
    return max(
        (found for path in build_files for found in _minima(path)), key=lambda m: m.toolkit, default=None
    )


def _minima(path: str) -> Iterator[Minimum]:
    file = Path(path)
    if file.name != "CMakeLists.txt" and file.suffix != ".cmake":
        return
    try:
        text = file.read_bytes()[:_MIB].decode("utf-8", "replace")
    except OSError:
        return
    for pattern in _MINIMUM:
        for found in pattern.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield Minimum((int(found[1]), int(found[2])), shown_path(path), line)


def advice(minimum: Minimum | None) -> str:
    """What to say to someone who has not named a minimum; "" where all is well."""
    if minimum is None or minimum.toolkit >= CTA_FORM_TOOLKIT:
        return ""
    version = f"{minimum.toolkit[0]}.{minimum.toolkit[1]}"
    return (
        f"{minimum.path}:{minimum.line} accepts CUDA {version}, which lacks shared::cta: confirm it with "
        f"--cuda-min {version} and the fix is written under a guard; --cuda-min 12.8 says that it need not be"
    )

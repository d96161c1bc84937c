"""ptxas and nvcc of this machine: on PATH, or from the wheels of the extra `[cuda]`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from ptxguard.errors import ToolError

_RELEASE = re.compile(r"release (\d+)\.(\d+), V([\d.]+)")
# Where the wheels put their programs: nvidia/cu13/bin since CUDA 13, nvidia/cuda_nvcc/bin before.
_IN_WHEELS = ("nvidia/cu*/bin", "nvidia/cuda_nvcc/bin")
_TIMEOUT_S = 600


@dataclass(frozen=True)
class Tool:
    """One program of a CUDA toolkit.

    Attributes:
        path: its file.
        toolkit: (major, minor).
        version: `13.0.88`.
    """

    path: str
    toolkit: tuple[int, int]
    version: str

    @property
    def name(self) -> str:
        """`ptxas 13.0.88`."""
        return f"{Path(self.path).name} {self.version}"

    def run(self, arguments: list[str], folder: Path) -> str:
        """Run it in a folder; what it says where it fails, else nothing.

        Raises:
            ToolError: it cannot be started, or does not end.
        """
        try:
            done = subprocess.run(
                [self.path, *arguments],
                cwd=folder,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=_TIMEOUT_S,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise ToolError(f"{self.path} cannot be run: {error}") from None
        said = (done.stdout + done.stderr).strip()
        return said or f"exit status {done.returncode}" if done.returncode else ""


def find_tool(name: str) -> Tool | None:
    """A program on PATH or in an installed wheel; None where there is none that says its version."""
    folders = [folder for place in _IN_WHEELS for folder in Path(sysconfig.get_path("purelib")).glob(place)]
    for path in (shutil.which(name), *(shutil.which(name, path=str(folder)) for folder in folders)):
        tool = _asked(path) if path is not None else None
        if tool is not None:
            return tool
    return None


def _asked(path: str) -> Tool | None:
    """A program with the version that it names itself."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    found = _RELEASE.search(done.stdout)
    return Tool(path, (int(found[1]), int(found[2])), found[3]) if found else None

"""Where compiled device code of this Python environment lies: installed packages and the caches of JITs."""

from __future__ import annotations

import getpass
import os
import site
import sysconfig
import tempfile
from pathlib import Path

# Environment variable that moves a cache -> folder below it, and the default place below the home folder.
_CACHES = (
    ("TRITON_CACHE_DIR", "", ".triton/cache"),
    ("FLASHINFER_WORKSPACE_BASE", ".cache/flashinfer", ".cache/flashinfer"),
    ("TILELANG_CACHE_DIR", "", ".tilelang/cache"),
    ("CUDA_CACHE_PATH", "", ".nv/ComputeCache"),
)


def environment_paths() -> list[str]:
    """Folders that exist: site-packages, then the kernel caches; no folder twice or inside another one."""
    return _outermost([path for path in (*_packages(), *_caches()) if path.is_dir()])


def _packages() -> list[Path]:
    paths = sysconfig.get_paths()
    return [
        Path(path)
        for path in (paths["purelib"], paths["platlib"], *site.getsitepackages(), site.getusersitepackages())
    ]


def _caches() -> list[Path]:
    home, user = Path.home(), _user()
    found = [
        Path(os.environ[variable]) / below if os.environ.get(variable) else home / default
        for variable, below, default in _CACHES
    ]
    inductor = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    temporary = Path(tempfile.gettempdir())
    found.append(Path(inductor) if inductor else temporary / f"torchinductor_{user}")
    dsl = os.environ.get("CUTE_DSL_CACHE_DIR")
    found.append(Path(dsl) if dsl else temporary / user / "cutlass_python_cache")
    return found


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid()) if hasattr(os, "getuid") else "user"


def _outermost(paths: list[Path]) -> list[str]:
    kept: list[Path] = []
    for path in dict.fromkeys(path.resolve() for path in paths):
        if not any(path.is_relative_to(other) for other in kept):
            kept = [other for other in kept if not other.is_relative_to(path)] + [path]
    return [str(path) for path in kept]

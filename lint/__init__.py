"""Finds, prices and proves the device memory that hand-written PTX costs, before it ships.

`check_ptx`, `check_paths` and `scan_bytes` (see `ptxguard.api`) are the library; they are imported when they
are first named, so that `import ptxguard` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptxguard.api import check_paths, check_ptx, scan_bytes

__version__ = "0.1.0"
__all__ = ["__version__", "check_paths", "check_ptx", "scan_bytes"]

_HOMES = dict.fromkeys(("check_paths", "check_ptx", "scan_bytes"), "ptxguard.api")


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

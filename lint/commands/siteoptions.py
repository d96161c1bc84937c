"""What `serve` and `export` share: the extra that they need, and a store that has to be there."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from ptxguard.errors import ConfigError

_NEEDED = ("flask", "limits", "msgspec", "pygments", "waitress")


def load_site() -> None:
    """Make sure that the libraries of the site are installed.

    Raises:
        ConfigError: some are not.
    """
    if any(importlib.util.find_spec(name) is None for name in _NEEDED):
        raise ConfigError("the site needs the extra: pip install 'ptxguard[web]'")


def existing_store(place: str) -> str:
    """The place of a store that has to be there: a misspelt name makes no empty one.

    Raises:
        ConfigError: there is no such file.
    """
    if "://" not in place and not Path(place).is_file():
        raise ConfigError("there is no such store; `check --store FILE` makes one", path=place)
    return place

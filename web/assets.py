"""The files that pages refer to: style sheet and icon."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources

ASSET_TYPES = {"css": "text/css", "svg": "image/svg+xml"}


def read_assets() -> Iterator[tuple[str, bytes]]:
    """Name and content of each, by name."""
    folder = resources.files("ptxguard.web").joinpath("static")
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.name.rpartition(".")[2] in ASSET_TYPES:
            yield item.name, item.read_bytes()

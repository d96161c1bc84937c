"""How a site is set up."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_GPU = "RTX 5090"
MIB = 1 << 20


@dataclass(frozen=True)
class Settings:
    """What `serve` and `export` are told.

    Attributes:
        store: path or URL.
        token: of those who may upload and review; None: nobody may, and no such page exists.
        base_url: how the site is reached from outside, without final slash; empty: as the request names it.
        gpu: card on which prices are shown where the URL names none.
        title: of the site.
        max_upload_bytes: of one upload, after decompression.
        uploads_per_minute: of one address.
        hosts: names under which the site answers besides those of this machine; None: any.
    """

    store: str
    token: str | None = None
    base_url: str = ""
    gpu: str = DEFAULT_GPU
    title: str = "ptxguard"
    max_upload_bytes: int = 64 * MIB
    uploads_per_minute: int = 60
    hosts: tuple[str, ...] | None = ()

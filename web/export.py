"""Writes the site into a folder: every page that can be reached, from the templates of the server."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from ptxguard.errors import ConfigError
from ptxguard.memcost import find_gpu
from ptxguard.store.store import Store, open_store
from ptxguard.web.assets import read_assets
from ptxguard.web.feed import render_badge, render_feed
from ptxguard.web.page import View
from ptxguard.web.render import Renderer, environment
from ptxguard.web.settings import Settings
from ptxguard.web.sitemap import NAVIGATION, PAGES
from ptxguard.web.staticlinks import Address, Inventory, Seen, StaticLinks, file_of, take_inventory

# Says that a folder was written by an export and may be replaced by the next one.
MARKER = ".ptxguard-export"
_CHUNK = 64


@dataclass(frozen=True)
class Exported:
    """What an export wrote: pages (each in three forms), files and bytes."""

    pages: int
    files: int
    bytes: int


def export_site(
    settings: Settings, folder: Path, jobs: int = 1, tell: Callable[[int, int], None] | None = None
) -> Exported:
    """Write all pages; the folder is replaced as a whole, once everything is there.

    Args:
        settings: of the site; with `base_url` the Atom feed is written too.
        folder: new, empty, or written by an earlier export.
        jobs: processes that render.
        tell: called with pages written and pages known.

    Raises:
        ConfigError: the folder holds something else, or the store is none.
        ToolError: the store cannot be read.
    """
    _demand_ours(folder)
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.absolute().parent))
    try:
        exported = _write(settings, work, jobs, tell)
        work.chmod(0o755)
        _replace(folder, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return exported


def _demand_ours(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ConfigError("is no folder", path=str(folder))
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).is_file():
        raise ConfigError("holds files that no export has written; name another folder", path=str(folder))


def _replace(folder: Path, work: Path) -> None:
    """Put the new folder in place of the old one; at no time is there half of one."""
    if not folder.exists():
        work.rename(folder)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.absolute().parent))
    folder.rename(old / "old")
    work.rename(folder)
    shutil.rmtree(old)


def _write(settings: Settings, work: Path, jobs: int, tell: Callable[[int, int], None] | None) -> Exported:
    (work / MARKER).write_text("written by `ptxguard export`; the next export replaces this folder\n")
    files, size = 0, 0
    with open_store(settings.store) as store:
        assets = ((f"static/{name}", data) for name, data in read_assets())
        for name, data in (*assets, *_documents(settings, store)):
            size += _put(work / name, data)
            files += 1
        inventory = take_inventory(store)
        seen = Seen()
        pending = seen.add({(name, ()): None for name in NAVIGATION})
        with _workers(settings, inventory, work, jobs) as render:
            while pending:
                found: dict[Address, None] = {}
                for wanted, written in render(pending):
                    found.update(wanted)
                    size += written
                    if tell is not None:
                        tell(len(seen.order) - len(pending), len(seen.order))
                pending = seen.add(found)
    pages = len(seen.order)
    return Exported(pages, files + 3 * pages, size)


class _workers:  # noqa: N801 - used as a function
    """Renders lists of addresses, in this process or in several; results come in the order of the list."""

    def __init__(self, settings: Settings, inventory: Inventory, work: Path, jobs: int) -> None:
        self._setup = (settings, inventory, work)
        self._pool: ProcessPoolExecutor | None = None
        if jobs > 1:
            self._pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))

    def __enter__(self) -> Callable[[Sequence[Address]], Iterator[tuple[dict[Address, None], int]]]:
        return self._render

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        _opened.cache_clear()

    def _render(self, addresses: Sequence[Address]) -> Iterator[tuple[dict[Address, None], int]]:
        chunks = [addresses[at : at + _CHUNK] for at in range(0, len(addresses), _CHUNK)]
        if self._pool is None or len(chunks) < 2:
            for chunk in chunks:
                yield _render_chunk(self._setup, chunk)
        else:
            yield from self._pool.map(_render_chunk, [self._setup] * len(chunks), chunks)


@cache
def _opened(place: str) -> tuple[Store, Renderer]:
    """Store and templates of this process."""
    return open_store(place), Renderer(environment())


def _render_chunk(
    setup: tuple[Settings, Inventory, Path], addresses: Sequence[Address]
) -> tuple[dict[Address, None], int]:
    """Write some pages; the addresses that they link to, and the bytes written."""
    settings, inventory, work = setup
    store, renderer = _opened(settings.store)
    gpu = find_gpu(settings.gpu)
    wanted: dict[Address, None] = {}
    size = 0
    for address in addresses:
        page = PAGES[address[0]]
        values: dict[str, Any] = {param.name: param.default for param in page.params}
        view = View(store, settings, gpu, {**values, **dict(address[1])}, static=True)
        links = StaticLinks(PAGES, inventory, address)
        file = work / file_of(PAGES, address)
        for form, data in renderer.forms(page, view, links):
            size += _put(file.with_suffix(f".{form}"), data)
        wanted.update(links.wanted)
    return wanted, size


def _documents(settings: Settings, store: Store) -> Iterator[tuple[str, bytes]]:
    """The badge; the feed only where its links can be absolute."""
    yield "badge.svg", render_badge(store, find_gpu(settings.gpu), None).encode()
    if settings.base_url:
        yield "feed.atom", render_feed(store, settings.base_url, None).encode()


def _put(path: Path, data: bytes) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return len(data)


def processors() -> int:
    """Processors of this machine that may be used."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

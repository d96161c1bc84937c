"""Links of the static export: relative paths between files, and the pages that exist without a server."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ptxguard.store.store import Store
from ptxguard.web.page import GPU, PageSpec

_UNSAFE = re.compile(r"[^a-z0-9._-]+")
# Names that Windows keeps for devices, with or without an ending.
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|\Z)")
_ROOM = 60
# Fingerprints and codes of rules stand in file names as they are.
_PERMALINK = re.compile(r"(?:[0-9a-f]{16}:\d+|[A-Z]{2,8}\d{3})\Z")

Address = tuple[str, tuple[tuple[str, Any], ...]]


@dataclass(frozen=True)
class Inventory:
    """What of a store has a page in an export.

    Attributes:
        fingerprints: findings that are stored.
        shared: those that several subjects have.
        kernels: (run, position from 1) of kernels that reach a driver function.
        pairs: (run before, run) of one subject, neither thinned out.
        binary_runs: runs with kernels.
    """

    fingerprints: frozenset[str]
    shared: frozenset[str]
    kernels: frozenset[tuple[int, int]]
    pairs: frozenset[tuple[int, int]]
    binary_runs: frozenset[int]


def take_inventory(store: Store) -> Inventory:
    """The inventory of a store."""
    subjects: dict[str, set[str]] = {}
    for subject, fingerprint in store.fingerprints():
        subjects.setdefault(fingerprint, set()).add(subject)
    pairs: set[tuple[int, int]] = set()
    last: dict[str, Any] = {}
    runs = store.runs()
    for run in reversed(runs):  # oldest first
        if run.kind == "probe":
            continue
        before = last.get(run.subject)
        if before is not None and not before.thinned and not run.thinned:
            pairs.add((before.number, run.number))
        last[run.subject] = run
    return Inventory(
        frozenset(subjects),
        frozenset(name for name, of in subjects.items() if len(of) > 1),
        frozenset((run, place + 1) for run, place in store.flagged_kernels()),
        frozenset(pairs),
        frozenset(run.number for run in runs if run.kernel_count and not run.thinned),
    )


class StaticLinks:
    """Links from one file of an export; remembers which addresses it was asked for."""

    static = True

    def __init__(self, pages: Mapping[str, PageSpec], inventory: Inventory, here: Address) -> None:
        self._pages, self._inventory = pages, inventory
        self._file = file_of(pages, here)
        self.wanted: dict[Address, None] = {}

    def to(self, name: str, /, **values: Any) -> str | None:
        """Relative path of a page; None where an export does not hold it."""
        address = address_of(self._pages[name], values, self._inventory)
        if address is None:
            return None
        self.wanted[address] = None
        return self._relative(file_of(self._pages, address))

    def twin(self, form: str) -> str:
        """The file beside this one."""
        return f"index.{form}"

    def asset(self, name: str) -> str:
        """Relative path of a file of `static`."""
        return self._relative(f"static/{name}")

    def _relative(self, file: str) -> str:
        return posixpath.relpath(file, posixpath.dirname(self._file) or ".")


def address_of(page: PageSpec, values: Mapping[str, Any], inventory: Inventory) -> Address | None:
    """The address of a page as an export holds it; None where it holds none."""
    own = {name: value for name, value in page.values_of(values).items() if name != GPU}
    check = _RULES.get(page.name)
    if check is not None and not check(own, inventory):
        return None
    return page.name, tuple(sorted(own.items()))


def _single(own: dict[str, Any], allowed: tuple[str, ...]) -> bool:
    """Whether there is at most one filter, and one of these."""
    filters = [name for name in own if name != "page"]
    return len(filters) <= 1 and all(name in allowed for name in filters)


def _findings(own: dict[str, Any], inventory: Inventory) -> bool:
    return len([name for name in own if name != "page"]) <= 1


def _finding(own: dict[str, Any], inventory: Inventory) -> bool:
    """Drops the run, and the subject where the fingerprint is that of one subject only."""
    own.pop("run", None)
    if own["fingerprint"] not in inventory.shared:
        own.pop("subject", None)
    return own["fingerprint"] in inventory.fingerprints


def _kernels(own: dict[str, Any], inventory: Inventory) -> bool:
    """By target, or only those with a driver call; the unfiltered list has its first page only."""
    if own.get("syscall") == "no" or own.keys() == {"page"}:
        return False
    if own.get("run") in inventory.binary_runs and len(inventory.binary_runs) == 1:
        own.pop("run")
    return _single(own, ("target", "syscall"))


def _kernel(own: dict[str, Any], inventory: Inventory) -> bool:
    return (own["run"], own["place"]) in inventory.kernels


def _compare(own: dict[str, Any], inventory: Inventory) -> bool:
    return (own["old"], own["new"]) in inventory.pairs


def _runs(own: dict[str, Any], inventory: Inventory) -> bool:
    return _single(own, ("kind", "subject"))


def _never(own: dict[str, Any], inventory: Inventory) -> bool:
    return False


_RULES = {
    "findings": _findings,
    "finding": _finding,
    "kernels": _kernels,
    "kernel": _kernel,
    "compare": _compare,
    "runs": _runs,
    "search": _never,
}


def file_of(pages: Mapping[str, PageSpec], address: Address) -> str:
    """The file of an address: `findings/severity/error/page-2/index.html`."""
    page, values = pages[address[0]], dict(address[1])
    path = page.path.strip("/")
    for name in page.part_names:
        path = path.replace("{" + name + "}", _segment(values.pop(name)))
    number = values.pop("page", None)
    parts = [path] if path else []
    for name in sorted(values):
        parts += [name, _segment(values[name])]
    if number is not None:
        parts.append(f"page-{number}")
    return "/".join([*parts, "index.html"])


def _segment(value: Any) -> str:
    """A name that every file system takes, different for different values."""
    if isinstance(value, int):
        return str(value)
    if _PERMALINK.match(str(value)):  # the address that SARIF and annotations link to
        return str(value).replace(":", "-")
    text = f"{value:g}" if isinstance(value, float) else str(value)
    plain = _UNSAFE.sub("-", text.lower()).strip("-.")
    if plain == text and 0 < len(plain) <= _ROOM and not _DEVICES.match(plain):
        return plain
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{plain[-_ROOM:].strip('-.')}-{digest}".lstrip("-")


@dataclass
class Seen:
    """Addresses that were queued, each once, in order."""

    order: list[Address] = field(default_factory=list)
    known: set[Address] = field(default_factory=set)

    def add(self, addresses: Mapping[Address, None]) -> list[Address]:
        """Those that are new."""
        new = [address for address in addresses if address not in self.known]
        self.known.update(new)
        self.order += new
        return new

"""What a page is: its address, its parameters, how its context is built, its template and its table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ptxguard.errors import PtxguardError
from ptxguard.memcost import Gpu
from ptxguard.store.store import Store
from ptxguard.web.params import Param
from ptxguard.web.settings import Settings
from ptxguard.web.table import Table

_PART = re.compile(r"\{(\w+)\}")
# Every page takes it; links carry it on.
GPU = "gpu"


class NotThereError(PtxguardError):
    """What the address names is not in the store (or no longer)."""


@dataclass(frozen=True)
class View:
    """What a page may ask while its context is built.

    Attributes:
        store: open store.
        settings: of the site.
        gpu: card on which prices are shown.
        values: parts of the path and parameters, parsed.
        static: whether the page goes into a folder instead of to a browser.
    """

    store: Store
    settings: Settings
    gpu: Gpu
    values: Mapping[str, Any]
    static: bool = False


@dataclass(frozen=True)
class PageSpec:
    """One page.

    Attributes:
        name: as links call it.
        path: `/findings/{fingerprint}`.
        title: for the navigation and the API description.
        summary: one sentence for the API description.
        build: the context, a frozen dataclass, out of a view; raises NotThereError.
        context: type of the context; its JSON twin follows from it.
        table: the CSV twin out of the context.
        template: file in `templates`.
        parts: variable parts of the path, in order.
        params: what may stand behind the `?`, besides `gpu`.
    """

    name: str
    path: str
    title: str
    summary: str
    build: Callable[[View], Any]
    context: type
    table: Callable[[Any], Table]
    template: str
    parts: tuple[Param, ...] = ()
    params: tuple[Param, ...] = ()
    part_names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "part_names", tuple(_PART.findall(self.path)))
        if self.part_names != tuple(part.name for part in self.parts):
            raise ValueError(f"the parts of {self.path} are not declared as they stand there")

    def values_of(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values that make up an address: parts, and parameters that are not left at their default."""
        left = {param.name: param.default for param in self.params}
        return {
            name: value
            for name, value in given.items()
            if name in self.part_names or (name in left and value != left[name] and value is not None)
        }

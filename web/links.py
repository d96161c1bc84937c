"""Links between pages: URLs of a server; the static export has its own kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from ptxguard.web.page import GPU, PageSpec

TWINS = ("json", "csv")


class Links(Protocol):
    """How a page that is being rendered names other pages."""

    @property
    def static(self) -> bool:
        """Whether there is no server behind the page."""

    def to(self, name: str, /, **values: Any) -> str | None:
        """Address of a page with its parts and parameters; None where it does not exist."""

    def twin(self, form: str) -> str:
        """Address of this page as `json` or `csv`."""

    def asset(self, name: str) -> str:
        """Address of a file of `static`."""


class ServerLinks:
    """Absolute paths with queries; the chosen card is carried on."""

    static = False

    def __init__(
        self,
        pages: Mapping[str, PageSpec],
        here: tuple[PageSpec, Mapping[str, Any]],
        gpu: str | None,
        root: str = "",
    ) -> None:
        """Links from one page.

        Args:
            pages: all pages by name.
            here: the page with the values of its address.
            gpu: chosen card; None: the default, which links leave out.
            root: where the site is mounted, without a final slash.
        """
        self._pages, self._here, self._gpu, self._root = pages, here, gpu, root

    def to(self, name: str, /, **values: Any) -> str | None:
        """Address of a page."""
        return self._address(self._pages[name], values, "")

    def twin(self, form: str) -> str:
        """Address of this page as `json` or `csv`."""
        return self._address(*self._here, f".{form}")

    def asset(self, name: str) -> str:
        """Address of a file of `static`."""
        return f"{self._root}/static/{name}"

    def _address(self, page: PageSpec, values: Mapping[str, Any], ending: str) -> str:
        asked = page.values_of(values)
        gpu = values.get(GPU, self._gpu)
        if gpu is not None:
            asked[GPU] = gpu
        return self._root + server_path(page, asked, ending)


def server_path(page: PageSpec, values: Mapping[str, Any], ending: str = "") -> str:
    """Path and query of a page; `ending` is that of a twin."""
    path = page.path
    for name in page.part_names:
        path = path.replace("{" + name + "}", quote(str(values[name]), safe=""))
    if ending and path == "/":
        path = "/index"
    order = [param.name for param in page.params] + [GPU]
    query = urlencode([(name, values[name]) for name in order if values.get(name) is not None])
    return f"{path}{ending}?{query}" if query else path + ending

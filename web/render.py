"""Renders a page as HTML, JSON or CSV; server and export share it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import jinja2
import msgspec

from ptxguard import __version__
from ptxguard.web import words
from ptxguard.web.links import TWINS, Links
from ptxguard.web.page import PageSpec, View
from ptxguard.web.pages.gpus import priced_cards, slug
from ptxguard.web.prose import breakable, inline, paragraphs
from ptxguard.web.sitemap import NAVIGATION, PAGES
from ptxguard.web.source import highlight
from ptxguard.web.table import render_csv

VERSION = 1
MIME = {"html": "text/html; charset=utf-8", "json": "application/json", "csv": "text/csv; charset=utf-8"}


@dataclass(frozen=True)
class Viewer:
    """Who looks: whether reviews are possible here, whether this browser may, and the token of its forms."""

    may_sign_in: bool = False
    signed_in: bool = False
    csrf: str = ""


def environment() -> jinja2.Environment:
    """Templates with our filters; everything that is not marked as HTML is escaped."""
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(resources.files("ptxguard.web").joinpath("templates"))),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        auto_reload=False,
    )
    env.filters.update(
        visible=words.visible,
        short=words.short,
        tail=words.tail,
        clip=words.clip,
        wbr=breakable,
        root=_without_query,
        path=_without_query,
        mib=words.mib_words,
        gib=words.gib_words,
        when=words.when,
        highlight=highlight,
        paragraphs=paragraphs,
        inline=inline,
        slug=slug,
    )
    env.globals.update(
        count_of=words.count_of,
        range_words=words.range_words,
        version=__version__,
        cards=priced_cards(),
        navigation=tuple(PAGES[name] for name in NAVIGATION),
        twins=TWINS,
    )
    return env


def _without_query(href: str) -> str:
    return href.partition("?")[0]


@dataclass(frozen=True)
class Renderer:
    """Renders pages with one set of templates."""

    templates: jinja2.Environment

    def page(
        self, page: PageSpec, view: View, form: str, links: Links, viewer: Viewer | None = None
    ) -> bytes:
        """A page in one form: html, json or csv.

        Raises:
            NotThereError: the store does not have what the address names.
            ConfigError: a parameter cannot be used.
        """
        return self._form(page, view, form, links, viewer, page.build(view))

    def forms(self, page: PageSpec, view: View, links: Links) -> Iterator[tuple[str, bytes]]:
        """A page in all forms, its context built once."""
        context = page.build(view)
        for form in ("html", *TWINS):
            yield form, self._form(page, view, form, links, None, context)

    def _form(
        self, page: PageSpec, view: View, form: str, links: Links, viewer: Viewer | None, context: Any
    ) -> bytes:
        if form == "json":
            return json_twin(page, view, context)
        if form == "csv":
            return render_csv(page.table(context)).encode("utf-8", "backslashreplace")
        return self.template(
            page.template, view, links, viewer, here=page, page=context, values=page.values_of(view.values)
        )

    def template(
        self, name: str, view: View | None, links: Links, viewer: Viewer | None, **more: Any
    ) -> bytes:
        """A template with what all of them need."""
        text = self.templates.get_template(name).render(
            link=links.to,
            asset=links.asset,
            twin=links.twin,
            static=links.static,
            gpu=view.gpu if view is not None else None,
            title=view.settings.title if view is not None else "ptxguard",
            viewer=viewer or Viewer(),
            **more,
        )
        return text.encode("utf-8", "backslashreplace")


def json_twin(page: PageSpec, view: View, context: Any) -> bytes:
    """The JSON twin: `{"version": 1, "page": …, "gpu": …, "data": …}`."""
    record: Mapping[str, Any] = {
        "version": VERSION,
        "page": page.name,
        "gpu": view.gpu.name,
        "data": context,
    }
    return msgspec.json.encode(record) + b"\n"

"""The application that `serve` runs: routes of pages and twins, uploads, reviews, feed and badge."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, Request, Response, redirect, request, session
from werkzeug.exceptions import HTTPException

from ptxguard.errors import ConfigError, PtxguardError, ToolError
from ptxguard.memcost import find_gpu
from ptxguard.web import answers, api, feed, openapi
from ptxguard.web.access import (
    LOGINS_PER_MINUTE,
    Limiter,
    is_own_form,
    is_token,
    session_key,
    sign_in,
    viewer_of,
)
from ptxguard.web.assets import ASSET_TYPES, read_assets
from ptxguard.web.links import TWINS, ServerLinks
from ptxguard.web.page import GPU, NotThereError, PageSpec, View
from ptxguard.web.pages.gpus import priced_cards
from ptxguard.web.params import Param, parse_query
from ptxguard.web.render import MIME, Renderer, environment
from ptxguard.web.settings import Settings
from ptxguard.web.sitemap import PAGES
from ptxguard.web.stores import ThreadStores
from ptxguard.web.upload import UploadError

_LOG = logging.getLogger("ptxguard.web")
GPU_PARAM = Param(GPU, "Card on which prices are shown.", "choice", tuple(gpu.name for gpu in priced_cards()))
LOOPBACK = ["localhost", "127.0.0.1", "::1", "[::1]"]


def create_app(settings: Settings) -> Flask:
    """The application over one store.

    Raises:
        ConfigError: the store is none, or the card is not known.
        ToolError: the store cannot be reached.
    """
    find_gpu(settings.gpu)
    stores = ThreadStores(settings.store)
    stores.get()
    app = Flask("ptxguard.web", static_folder=None, template_folder=None)
    app.config.update(
        SECRET_KEY=session_key(settings.token),
        SESSION_COOKIE_NAME="ptxguard",
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Strict",
        SESSION_COOKIE_SECURE=settings.base_url.startswith("https:"),
        MAX_CONTENT_LENGTH=settings.max_upload_bytes,
        MAX_FORM_MEMORY_SIZE=64 * 1024,
        TRUSTED_HOSTS=_hosts(settings),
    )
    app.url_map.strict_slashes = False
    site = _Site(settings, stores, Renderer(environment()))
    for page in PAGES.values():
        for form in ("html", *TWINS):
            app.add_url_rule(_rule(page, form), f"{page.name}.{form}", partial(site.page, page, form))
    app.add_url_rule("/static/<name>", "static", site.asset)
    app.add_url_rule("/openapi.json", "openapi", site.description)
    app.add_url_rule("/feed.atom", "feed", site.feed)
    app.add_url_rule("/badge.svg", "badge", site.badge)
    if settings.token is not None:
        app.add_url_rule("/sign-in", "sign_in", site.sign_in, methods=["GET", "POST"])
        app.add_url_rule("/sign-out", "sign_out", site.sign_out, methods=["POST"])
        app.add_url_rule("/reviews", "review", site.review, methods=["POST"])
        app.add_url_rule("/api/runs", "upload", site.upload, methods=["POST"])
        app.add_url_rule("/api/reviews", "review_api", site.review_api, methods=["PUT"])
    app.register_error_handler(PtxguardError, site.refuse)
    app.register_error_handler(HTTPException, site.refuse_http)
    app.register_error_handler(Exception, site.fail)
    answers.install(app)
    return app


def _hosts(settings: Settings) -> list[str] | None:
    """Names under which the site answers; a page of another site cannot reach it by renaming itself."""
    if settings.hosts is None:
        return None
    own = urlsplit(settings.base_url).hostname
    return [*LOOPBACK, *settings.hosts, *([own] if own else [])]


def _rule(page: PageSpec, form: str) -> str:
    path = "/index" if page.path == "/" and form != "html" else page.path
    rule = path.replace("{", "<").replace("}", ">")
    return rule if form == "html" else f"{rule}.{form}"


class _Site:
    """Handlers of all routes."""

    def __init__(self, settings: Settings, stores: ThreadStores, renderer: Renderer) -> None:
        self.settings, self.stores, self.renderer = settings, stores, renderer
        self.uploads = Limiter(settings.uploads_per_minute)
        self.logins = Limiter(LOGINS_PER_MINUTE)
        self.assets = dict(read_assets())

    def page(self, page: PageSpec, form: str, **parts: str) -> Response:
        """A page or a twin."""
        view = self._view(page, parts, empty_is_none=form == "html")
        links = self._links(page, view)
        viewer = viewer_of(session, self.settings.token)
        response = Response(self.renderer.page(page, view, form, links, viewer), content_type=MIME[form])
        if viewer.signed_in:
            response.headers["Cache-Control"] = "private, no-cache"
        return response

    def _view(self, page: PageSpec, parts: dict[str, str], *, empty_is_none: bool) -> View:
        query = request.args.to_dict(flat=False)
        values = parse_query((*page.params, GPU_PARAM), query, empty_is_none=empty_is_none)
        for part in page.parts:
            try:
                values[part.name] = part.parse(parts[part.name])
            except ConfigError as error:
                raise NotThereError(error.message) from error
        gpu = find_gpu(values.pop(GPU) or self.settings.gpu)
        return View(self.stores.get(), self.settings, gpu, values)

    def _links(self, page: PageSpec, view: View | None) -> ServerLinks:
        chosen = view.gpu.name if view is not None and view.gpu.name != self.settings.gpu else None
        values = view.values if view is not None else {}
        return ServerLinks(PAGES, (page, values), chosen, request.script_root)

    def asset(self, name: str) -> Response:
        """A file of `static`, out of memory: no path of a request ever becomes a path of this machine."""
        _refuse_query()
        if name not in self.assets:
            raise NotThereError("there is no such page")
        return Response(self.assets[name], mimetype=ASSET_TYPES[name.rpartition(".")[2]])

    def description(self) -> Response:
        """The OpenAPI description."""
        _refuse_query()
        return Response(openapi.render(self.settings), content_type="application/json")

    def feed(self) -> Response:
        """New findings as an Atom feed."""
        values = parse_query(feed.PARAMS, request.args.to_dict(flat=False), empty_is_none=False)
        base = self.settings.base_url or request.url_root.rstrip("/")
        return Response(
            feed.render_feed(self.stores.get(), base, values["subject"]), content_type="application/atom+xml"
        )

    def badge(self) -> Response:
        """The price of the newest runs as a badge."""
        values = parse_query((*feed.PARAMS, GPU_PARAM), request.args.to_dict(flat=False), empty_is_none=False)
        gpu = find_gpu(values[GPU] or self.settings.gpu)
        return Response(
            feed.render_badge(self.stores.get(), gpu, values["subject"]), content_type="image/svg+xml"
        )

    def upload(self) -> Response:
        """Take a run from CI."""
        return api.upload(self.settings, self.stores.get(), self.uploads)

    def review_api(self) -> Response:
        """Take a review from a program."""
        return api.review(self.settings, self.stores.get(), self.uploads)

    def sign_in(self) -> Any:
        """Show the form for the token, or take it."""
        wrong = False
        if request.method == "POST":
            if not self.logins.allows(request.remote_addr or ""):
                raise UploadError("too many attempts; wait a minute", 429)
            if is_token(request.form.get("token"), self.settings.token):
                session.clear()
                sign_in(session)
                return redirect(self._links(PAGES["findings"], None).to("findings") or "/", 303)
            wrong = True
        links = self._links(PAGES["overview"], None)
        body = self.renderer.template(
            "sign_in.html", None, links, viewer_of(session, self.settings.token), wrong=wrong
        )
        return Response(body, 403 if wrong else 200, content_type=MIME["html"])

    def sign_out(self) -> Any:
        """Forget the browser."""
        self._demand_own_form()
        session.clear()
        return redirect(self._links(PAGES["overview"], None).to("overview") or "/", 303)

    def review(self) -> Any:
        """Take the form of a finding's page."""
        self._demand_own_form()
        form = request.form
        subject, fingerprint = form.get("subject", ""), form.get("fingerprint", "")
        self.stores.get().review(subject, fingerprint, form.get("status", ""), form.get("note", ""))
        target = self._links(PAGES["finding"], None).to("finding", fingerprint=fingerprint, subject=subject)
        return redirect(f"{target}#review", 303)

    def _demand_own_form(self) -> None:
        viewer = viewer_of(session, self.settings.token)
        if not viewer.signed_in or not is_own_form(session, request.form.get("csrf", "")):
            raise UploadError("this form is not valid any more; sign in and send it again", 403)

    def refuse(self, error: PtxguardError) -> Response:
        """One clear answer for what cannot be done."""
        if isinstance(error, ToolError):
            self.stores.drop()
            _LOG.error("%s", error)
            return self._problem(503, "the store cannot be used at the moment")
        if isinstance(error, UploadError):
            return self._problem(error.status, error.message)
        return self._problem(404 if isinstance(error, NotThereError) else 400, error.message)

    def refuse_http(self, error: HTTPException) -> Response:
        """The same for what Flask refuses."""
        answer = self._problem(
            error.code or 500, _REASONS.get(error.code or 0) or error.description or error.name
        )
        for name, value in error.get_headers(request.environ):
            if name.lower() in ("allow", "location"):
                answer.headers[name] = value
        return answer

    def fail(self, error: Exception) -> Response:
        """A defect of ours: the log has it, the page does not."""
        _LOG.exception("failed on %s", request.path, exc_info=error)
        return self._problem(500, "the site has failed; its log says why")

    def _problem(self, status: int, message: str) -> Response:
        if _wants_json(request):
            body = api.problem(status, message)
            return Response(body, status, content_type="application/problem+json")
        try:
            body = self.renderer.template(
                "problem.html",
                None,
                self._links(PAGES["overview"], None),
                viewer_of(session, self.settings.token),
                status=status,
                message=message,
            )
        except Exception:  # whatever is broken, the answer is one sentence
            _LOG.exception("no page for a problem")
            return Response(message, status, content_type="text/plain; charset=utf-8")
        return Response(body, status, content_type=MIME["html"])


_REASONS = {
    404: "there is no such page",
    405: "this address does not take that method",
    413: "the upload is larger than this site takes",
}


def _wants_json(asked: Request) -> bool:
    return asked.path.startswith("/api/") or asked.path.endswith((".json", ".csv", ".atom", ".svg"))


def _refuse_query() -> None:
    parse_query((), request.args.to_dict(flat=False), empty_is_none=False)

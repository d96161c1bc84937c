"""The OpenAPI 3.1 description, made from the same declarations that parse and render."""

from __future__ import annotations

from typing import Any

import msgspec

from ptxguard import __version__
from ptxguard.web import api, feed
from ptxguard.web.links import TWINS
from ptxguard.web.page import GPU, PageSpec
from ptxguard.web.pages.gpus import priced_cards
from ptxguard.web.params import Param
from ptxguard.web.render import VERSION
from ptxguard.web.settings import Settings
from ptxguard.web.sitemap import PAGES
from ptxguard.web.upload import CheckReport, ProbeResult, ScanReport

_GPU = Param(GPU, "Card on which prices are shown.", "choice", tuple(gpu.name for gpu in priced_cards()))
_REF = "#/components/schemas/{name}"
_PROBLEM = {"application/problem+json": {"schema": {"$ref": _REF.format(name="Problem")}}}


def render(settings: Settings) -> bytes:
    """The description as JSON."""
    return msgspec.json.encode(description(settings)) + b"\n"


def description(settings: Settings) -> dict[str, Any]:
    """What this site answers; uploads and reviews only where a token is set."""
    types: list[Any] = [page.context for page in PAGES.values()] + [api.Problem]
    if settings.token is not None:
        types += [api.Accepted, api.ReviewRequest, CheckReport, ScanReport, ProbeResult]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    named = dict(zip((page.name for page in PAGES.values()), schemas, strict=False))
    paths: dict[str, Any] = {}
    for page in PAGES.values():
        for form in TWINS:
            paths[_path(page, form)] = {"get": _operation(page, form, named[page.name])}
    paths["/feed.atom"] = {
        "get": _other("feed", "New findings as an Atom feed.", "application/atom+xml", feed.PARAMS)
    }
    paths["/badge.svg"] = {
        "get": _other("badge", "The price of the newest runs.", "image/svg+xml", (*feed.PARAMS, _GPU))
    }
    components["Problem"]["additionalProperties"] = False
    described: dict[str, Any] = {"schemas": components}
    if settings.token is not None:
        paths["/api/runs"] = {"post": _upload()}
        paths["/api/reviews"] = {"put": _review()}
        described["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"{settings.title}: findings site",
            "version": __version__,
            "description": "Every page has a JSON and a CSV twin of the same address.",
        },
        "paths": paths,
        "components": described,
    }


def _path(page: PageSpec, form: str) -> str:
    return f"{'/index' if page.path == '/' else page.path}.{form}"


def _parameter(param: Param, place: str) -> dict[str, Any]:
    schema = param.schema()
    if place == "path" and schema["type"] == "string":
        schema = {"type": "string", "minLength": 1}
    return {
        "name": param.name,
        "in": place,
        "required": place == "path",
        "description": param.text,
        "schema": schema,
    }


def _operation(page: PageSpec, form: str, context: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {"text/csv": {"schema": {"type": "string"}}}
    if form == "json":
        body = {"application/json": {"schema": _envelope(page, context)}}
    return {
        "operationId": f"{page.name}_{form}",
        "summary": page.summary,
        "parameters": [_parameter(part, "path") for part in page.parts]
        + [_parameter(param, "query") for param in (*page.params, _GPU)],
        "responses": {
            "200": {"description": f"The {form.upper()} twin of the page.", "content": body},
            "400": {"description": "A parameter cannot be used.", "content": _PROBLEM},
            "404": {"description": "The store has no such thing.", "content": _PROBLEM},
        },
    }


def _envelope(page: PageSpec, context: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["version", "page", "gpu", "data"],
        "properties": {
            "version": {"const": VERSION},
            "page": {"const": page.name},
            "gpu": {"type": "string"},
            "data": context,
        },
    }


def _other(name: str, summary: str, mime: str, params: tuple[Param, ...]) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "parameters": [_parameter(param, "query") for param in params],
        "responses": {
            "200": {"description": summary, "content": {mime: {"schema": {"type": "string"}}}},
            "400": {"description": "A parameter cannot be used.", "content": _PROBLEM},
        },
    }


_REFUSALS = {
    400: "Malformed.",
    401: "No token, or a wrong one.",
    413: "Too large.",
    415: "Neither JSON nor gzip of it.",
    422: "No such report or review.",
    429: "Too many requests.",
}


def _refusals(*more: int) -> dict[str, Any]:
    known = {**_REFUSALS, **dict.fromkeys(more, "The store has no such finding.")}
    return {str(status): {"description": text, "content": _PROBLEM} for status, text in known.items()}


def _upload() -> dict[str, Any]:
    reports = [{"$ref": _REF.format(name=one.__name__)} for one in (CheckReport, ScanReport, ProbeResult)]
    accepted = {"application/json": {"schema": {"$ref": _REF.format(name="Accepted")}}}
    subject, revision = (_parameter(param, "query") for param in api.UPLOAD_PARAMS)
    key = {
        "name": api.KEY_HEADER,
        "in": "header",
        "description": "Names the upload: a second one of the same name is not stored again.",
        "schema": {"type": "string", "pattern": "^[!-~]{1,100}$"},
    }
    return {
        "operationId": "upload",
        "summary": "Store what `check`, `scan` or `probe` wrote with --output-format json.",
        "security": [{"token": []}],
        "parameters": [{**subject, "required": True}, revision, key],
        "requestBody": {"required": True, "content": {"application/json": {"schema": {"anyOf": reports}}}},
        "responses": {
            "200": {"description": "The key was known; nothing was stored.", "content": accepted},
            "201": {"description": "Stored, and safe on disk.", "content": accepted},
            **_refusals(),
        },
    }


def _review() -> dict[str, Any]:
    schema = {"$ref": _REF.format(name="ReviewRequest")}
    return {
        "operationId": "review",
        "summary": "Note what people decided about a finding.",
        "security": [{"token": []}],
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {"204": {"description": "Noted."}, **_refusals(404)},
    }

"""What programs send: runs and reviews, with a bearer token."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from flask import Response, request

from ptxguard.errors import ConfigError
from ptxguard.store.store import Store
from ptxguard.web.access import Limiter, bearer, is_token
from ptxguard.web.params import MAX_TEXT, Param, parse_query
from ptxguard.web.settings import Settings
from ptxguard.web.upload import UploadError, inflate, read_upload

UPLOAD_PARAMS = (
    Param("subject", "What was looked at: runs of one subject are compared with each other."),
    Param("revision", "Commit of the repository."),
)
KEY_HEADER = "Idempotency-Key"
_MAX_KEY = 100


class Accepted(msgspec.Struct):
    """Answer to an upload: number of the run, whether it is new here, what became of its findings."""

    run: int
    created: bool
    states: dict[str, int]


class ReviewRequest(msgspec.Struct):
    """A review of a finding; "not reviewed" takes one back."""

    subject: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT)]
    fingerprint: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    status: Literal["confirmed", "intended", "false alarm", "not reviewed"]
    note: Annotated[str, msgspec.Meta(max_length=4000)] = ""


class Problem(msgspec.Struct):
    """An answer that says what was wrong (RFC 9457)."""

    status: int
    title: str


def problem(status: int, message: str) -> bytes:
    """The body of an error."""
    return msgspec.json.encode(Problem(status, message)) + b"\n"


def upload(settings: Settings, store: Store, limiter: Limiter) -> Response:
    """Store a run; 201 where it is new, 200 where its key was known, both only once it is safe on disk."""
    _demand(settings, limiter)
    values = parse_query(UPLOAD_PARAMS, request.args.to_dict(flat=False), empty_is_none=False)
    if values["subject"] is None:
        raise UploadError("name what was looked at: ?subject=…", 400)
    run = read_upload(_body(settings), values["subject"], values["revision"] or "", _key())
    known = next((one for one in store.runs() if one.key == run.key), None)
    if known is None:
        try:
            number, created = store.add(run), True
        except ConfigError as error:
            raise UploadError(error.message, 422) from error
    else:
        number, created = known.number, False
    answer = msgspec.json.encode(Accepted(number, created, store.states(number))) + b"\n"
    return Response(answer, 201 if created else 200, content_type="application/json")


def review(settings: Settings, store: Store, limiter: Limiter) -> Response:
    """Store a review; 204."""
    _demand(settings, limiter)
    parse_query((), request.args.to_dict(flat=False), empty_is_none=False)
    try:
        asked = msgspec.json.decode(_body(settings), type=ReviewRequest)
    except msgspec.ValidationError as error:
        raise UploadError(str(error), 422) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UploadError(f"the body is no JSON: {error}", 400) from error
    try:
        store.review(asked.subject, asked.fingerprint, asked.status, asked.note)
    except ConfigError as error:
        raise UploadError(error.message, 404) from error
    return Response(status=204)


def _demand(settings: Settings, limiter: Limiter) -> None:
    if not limiter.allows(request.remote_addr or ""):
        raise UploadError("too many requests; wait a minute", 429)
    if not is_token(bearer(request.headers.get("Authorization")), settings.token):
        raise UploadError("this needs the token of the site: Authorization: Bearer …", 401)


def _body(settings: Settings) -> bytes:
    if request.mimetype != "application/json":
        raise UploadError("send application/json", 415)
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    return inflate(request.get_data(cache=False), encoding, settings.max_upload_bytes)


def _key() -> str | None:
    key = request.headers.get(KEY_HEADER)
    if key is None:
        return None
    if not key.isprintable() or not key.isascii() or not 1 <= len(key) <= _MAX_KEY:
        raise UploadError(f"{KEY_HEADER} is no text of 1 to {_MAX_KEY} printable ASCII characters", 400)
    return key

"""What every answer carries: security headers, a validator for caches, compression."""

from __future__ import annotations

import gzip

from flask import Flask, Request, Response, request

# Nothing runs, nothing is loaded from elsewhere, nothing frames the site; forms come back to it.
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; font-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_SMALLEST = 1024
_LEVEL = 5


def install(app: Flask) -> None:
    """Finish every answer of an application."""

    @app.after_request
    def finish(response: Response) -> Response:
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if response.status_code == 200 and request.method in ("GET", "HEAD") and not response.is_streamed:
            response.headers.setdefault("Cache-Control", "no-cache")
            response.add_etag()
            response.make_conditional(request)
        return _compressed(response, request)


def _compressed(response: Response, asked: Request) -> Response:
    """The answer as gzip where the client takes it and there is something to gain."""
    kind = response.mimetype or ""
    text = kind.startswith("text/") or kind in (
        "application/json",
        "application/atom+xml",
        "image/svg+xml",
    )
    response.vary.add("Accept-Encoding")
    if (
        not text
        or response.status_code != 200
        or response.direct_passthrough
        or asked.accept_encodings.best_match(["gzip"]) is None
    ):
        return response
    body = response.get_data()
    if len(body) >= _SMALLEST:
        response.set_data(gzip.compress(body, _LEVEL, mtime=0))
        response.headers["Content-Encoding"] = "gzip"
    return response

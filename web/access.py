"""Who may change something: bearer tokens, signed-in browsers with their form tokens, and limits."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import MutableMapping
from typing import Any

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from ptxguard.web.render import Viewer

_SIGNED_IN, _CSRF = "signed_in", "csrf"
LOGINS_PER_MINUTE = 10


def is_token(given: str | None, token: str | None) -> bool:
    """Whether a text is the token of the site; the time that it takes says nothing about it."""
    if given is None or token is None:
        return False
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), token.encode())


def bearer(header: str | None) -> str | None:
    """The token of an `Authorization: Bearer …` header."""
    scheme, _, value = (header or "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" and value.strip() else None


def session_key(token: str | None) -> bytes:
    """Signs the cookie of a browser: follows from the token, so that a restart signs nobody out."""
    if token is None:
        return secrets.token_bytes(32)
    return hmac.new(token.encode(), b"ptxguard session", hashlib.sha256).digest()


def sign_in(session: MutableMapping[str, Any]) -> None:
    """Remember that this browser has shown the token."""
    session[_SIGNED_IN] = True
    session[_CSRF] = secrets.token_urlsafe(24)


def viewer_of(session: MutableMapping[str, Any], token: str | None) -> Viewer:
    """What a browser may do."""
    if token is None:
        return Viewer()
    signed_in = bool(session.get(_SIGNED_IN))
    return Viewer(
        may_sign_in=True, signed_in=signed_in, csrf=str(session.get(_CSRF, "")) if signed_in else ""
    )


def is_own_form(session: MutableMapping[str, Any], given: str) -> bool:
    """Whether a form was made by a page of ours for this browser."""
    own = session.get(_CSRF)
    return bool(own) and hmac.compare_digest(str(own).encode(), given.encode("utf-8", "surrogatepass"))


class Limiter:
    """How often an address may do something: a moving window of a minute, in this process."""

    def __init__(self, per_minute: int) -> None:
        self._item = RateLimitItemPerMinute(per_minute)
        self._window = MovingWindowRateLimiter(MemoryStorage())

    def allows(self, who: str) -> bool:
        """Count one more attempt; False where there were too many."""
        return self._window.hit(self._item, who)

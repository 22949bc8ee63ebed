"""Forms that a browser sends: their fields, and the proof that a page of this monitor made them."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request

from rowtide.monitor.web.access import COOKIE
from rowtide.monitor.web.guard import viewer_of

CSRF = "csrf"
_MOST_BYTES = 16384
_OWN_SITES = ("same-origin", "none")


class FormProofs:
    """Tokens of forms, each of one session of one viewer; they end with the process."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def make(self, request: Request) -> str:
        """Return the token of the forms that a page has."""
        viewer = viewer_of(request)
        who = f"{viewer.name if viewer is not None else None}\0{_session_of(request)}"
        return hmac.digest(self._key, who.encode(), "sha256").hex()

    def is_made_here(self, request: Request, form: Mapping[str, str]) -> bool:
        """Return whether a page of this monitor, in the same session, made a form."""
        is_made = hmac.compare_digest(form.get(CSRF, "").encode(), self.make(request).encode())
        return is_made and is_own_site(request)


def is_own_site(request: Request) -> bool:
    """Return whether the browser says that a page of this monitor sends the request, or does not say."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in _OWN_SITES
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host", "")


async def read_body(request: Request) -> bytes:
    """Return a small body. Raises `HTTPException` of a longer one."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_BYTES:
            raise HTTPException(413)
    return body


async def read_form(request: Request) -> Mapping[str, str]:
    """Return the fields of a small form. Raises `HTTPException` of a longer one."""
    body = (await read_body(request)).decode("utf-8", "replace")
    return {name: values[-1] for name, values in parse_qs(body).items()}


def _session_of(request: Request) -> str:
    try:
        cookie = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return cookie.value if cookie is not None else ""

"""Checks of each request: the Host header, authentication, and protection of forms against CSRF."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rowtide.core.errors import RowtideError
from rowtide.events.catalogue import TokensNotRead
from rowtide.events.event import emit
from rowtide.monitor.web.access import COOKIE, SECURITY_HEADERS, Access, Viewer

SIGN_IN = "/sign-in"
_WITHOUT_VIEWER = frozenset({SIGN_IN, "/healthz"})
_STATIC = "/static/"
_FOR_A_DAY = "public, max-age=86400"


class Guard:
    """Middleware that checks the host and authenticates the viewer, who is then `request.state.viewer`."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._reported: str | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                if path.startswith(_STATIC):
                    headers["Cache-Control"] = _FOR_A_DAY
            await send(message)

        headers = Headers(scope=scope)
        answer: ASGIApp = self._app
        if not self._access.allows_host(headers.get("host", "")):
            answer = PlainTextResponse("This monitor has no such name; --host gives it one.\n", status_code=421)
        else:
            answer = self._answer(scope, headers, path)
        await answer(scope, receive, send_with_headers)

    def _answer(self, scope: Scope, headers: Headers, path: str) -> ASGIApp:
        state = scope.setdefault("state", {})
        if path in _WITHOUT_VIEWER or path.startswith(_STATIC):
            state["viewer"] = None
            return self._app
        client = scope["client"][0] if scope.get("client") else None
        try:
            viewer = self._access.find_viewer(client, headers)
        except RowtideError as error:
            self._report(error)
            return PlainTextResponse("The tokens cannot be read; the monitor's log says why.\n", status_code=503)
        self._reported = None
        state["viewer"] = viewer
        return self._app if viewer is not None else _ask_who(Request(scope))

    def _report(self, error: RowtideError) -> None:
        """Report an error once, not at every request."""
        if str(error) != self._reported:
            self._reported = str(error)
            emit(TokensNotRead(error))


def viewer_of(request: Request) -> Viewer | None:
    """Return the viewer."""
    viewer: Viewer | None = request.state.viewer
    return viewer


def _ask_who(request: Request) -> Response:
    if "text/html" in request.headers.get("accept", "") and request.method in ("GET", "POST"):
        # A form is not submitted after its session ended: its page is shown again, for a new confirmation.
        path = request.scope["raw_path"].decode("ascii") + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"{SIGN_IN}?next={quote(path)}", status_code=303)
    return PlainTextResponse("no token\n", status_code=401, headers={"WWW-Authenticate": "Bearer"})


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
        """Return whether a form was made by a page of this monitor, in the same session."""
        is_made = hmac.compare_digest(form.get(CSRF, "").encode(), self.make(request).encode())
        return is_made and is_own_site(request)


def is_own_site(request: Request) -> bool:
    """Return whether the browser's headers say that a page of this monitor sent the request, or say nothing."""
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

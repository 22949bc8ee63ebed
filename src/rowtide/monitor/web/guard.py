"""The gate before all pages: the Host header, who asks, and the headers that each answer has."""

from __future__ import annotations

from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rowtide.core.errors import RowtideError
from rowtide.events.catalogue import TokensNotRead
from rowtide.events.emission import emit
from rowtide.monitor.web.access import SECURITY_HEADERS, Access, Viewer

SIGN_IN = "/sign-in"
_WITHOUT_VIEWER = frozenset({SIGN_IN, "/healthz"})
_STATIC = "/static/"
_FOR_A_DAY = "public, max-age=86400"


class Guard:
    """Lets requests pass whose host is the monitor's and whose viewer is known, who is `request.state.viewer` then."""

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
    """Return who asks."""
    viewer: Viewer | None = request.state.viewer
    return viewer


def _ask_who(request: Request) -> Response:
    if "text/html" in request.headers.get("accept", "") and request.method in ("GET", "POST"):
        # A form whose session has ended is not sent on: its page is shown again, to be confirmed again.
        path = request.scope["raw_path"].decode("ascii") + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"{SIGN_IN}?next={quote(path)}", status_code=303)
    return PlainTextResponse("no token\n", status_code=401, headers={"WWW-Authenticate": "Bearer"})

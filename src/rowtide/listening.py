"""HTTP servers of this process: their sockets, and running them in a thread beside other work."""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rowtide.core.addresses import Address
from rowtide.core.errors import RowtideError

if TYPE_CHECKING:
    import asyncio

    from starlette.types import ASGIApp

LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain"})
_ENDING_S = 1.0
HEAD_S = 20.0
"""How long the head of a request may come in; uvicorn would wait for ever, until no connection is left for others."""
_MOST_HEAD_BYTES = 64 * 1024
"""Of a request, and of each line of a chunked body."""

_MALFORMED = b"This is no request of HTTP/1.1.\n"
_FOLDED_OR_BARE = re.compile(rb"\n[ \t]|\r(?!\n)|(?<!\r)\n")
"""A continued header line, or a line that CR or LF alone ends: a proxy may see other lines there."""


class ListeningFailed(RowtideError, number=1204):
    """The address cannot be listened on."""

    fact = "rowtide cannot listen on {address}: {reason}"
    hint = "Stop what uses the port, or name another address with --listen, or --metrics-listen."
    address: str
    reason: str


def read_bearer(authorization: str) -> str:
    """Return the token of an Authorization header; "" if it has none."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def is_loopback(host: str) -> bool:
    """Return whether a server on this host is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in LOCAL_NAMES


@contextmanager
def bound_to(listen: Address) -> Iterator[socket.socket]:
    """Yield a socket that listens on an address, which no other process does. Raises `ListeningFailed`."""
    try:
        found = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ListeningFailed(str(listen), error.strerror or str(error)) from error
    with bound:
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(128)
        except OSError as error:
            raise ListeningFailed(str(listen), error.strerror or str(error)) from error
        yield bound


def _make_protocol(describe_malformed: Callable[[], tuple[bytes, str]]) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol that closes connections whose request does not begin in time, or is ambiguous."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class UnambiguousConnection(h11.Connection):
        """Refuses what a proxy before this server may have read as another sequence of requests (RFC 9112, 6 and 11).

        h11 refuses most of it: lengths that differ or are no digits, codings other than chunked, spaces before colons.
        """

        def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
            if self.their_state is not h11.IDLE:
                return super().next_event()
            before = self.trailing_data[0]
            event = super().next_event()
            if isinstance(event, h11.Request):
                if _FOLDED_OR_BARE.search(before[: len(before) - len(self.trailing_data[0])]):
                    raise h11.RemoteProtocolError("a line is folded, or ends with CR or LF alone")
                self._require_framed(event)
            return event

        def _require_framed(self, request: h11.Request) -> None:
            if request.http_version not in (b"1.0", b"1.1"):
                raise h11.RemoteProtocolError("another version of HTTP")
            names = {name for name, _ in request.headers}
            if b"transfer-encoding" in names and (b"content-length" in names or request.http_version < b"1.1"):
                raise h11.RemoteProtocolError("Transfer-Encoding beside Content-Length, or in HTTP/1.0")

    class HurriedProtocol(H11Protocol):
        def __init__(self, *settings: Any, **named: Any) -> None:
            super().__init__(*settings, **named)
            self.conn = UnambiguousConnection(h11.SERVER, _MOST_HEAD_BYTES)

        def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - as uvicorn has it
            if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
                # The answer has begun, of a request whose body is malformed.
                self.transport.close()
                return
            body, content_type = describe_malformed()
            headers = [("content-type", content_type), ("content-length", str(len(body))), ("connection", "close")]
            for event in (h11.Response(status_code=400, headers=headers), h11.Data(body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
            self.transport.close()

        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
            super().connection_made(transport)
            self._judge(is_begun=False)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._judge(is_begun=self._has_begun)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._judge(is_begun=self._has_begun)

        @property
        def _has_begun(self) -> bool:
            # Between two requests uvicorn's own timer runs, until there is a byte of the next.
            return self.conn.their_state is not h11.IDLE or not self.conn.trailing_data[0]

        def connection_lost(self, exc: Exception | None) -> None:
            self._judge(is_begun=True)
            super().connection_lost(exc)

        def _judge(self, *, is_begun: bool) -> None:
            if is_begun and self._timer is not None:
                self._timer.cancel()
                self._timer = None
            elif not is_begun and self._timer is None:
                self._timer = self.loop.call_later(HEAD_S, self.transport.close)

    return HurriedProtocol


@contextmanager
def serving_app(
    app: ASGIApp,
    bound: socket.socket,
    *,
    describe_malformed: Callable[[], tuple[bytes, str]] = lambda: (_MALFORMED, "text/plain"),
    **settings: Any,
) -> Iterator[Address]:
    """Serve an ASGI application in a thread during the block; yield its address.

    `describe_malformed` returns the body and the content type of the answer to what is no request of HTTP/1.1.
    `settings` are uvicorn's.
    """
    import uvicorn

    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            # Forwarding headers are evaluated by the application, which trusts only configured proxies.
            proxy_headers=False,
            http=_make_protocol(describe_malformed),
            ws="none",
            timeout_graceful_shutdown=1,
            **settings,
        )
    )
    thread = threading.Thread(target=server.run, args=([bound],), name="serve", daemon=True)
    thread.start()
    try:
        yield Address(*bound.getsockname()[:2])
    finally:
        server.should_exit = True
        thread.join(_ENDING_S)
        server.force_exit = True
        thread.join(_ENDING_S)

"""HTTP servers of this process: their sockets, and running them in a thread beside other work."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Iterator
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


def _make_protocol() -> type[asyncio.Protocol]:
    """Return uvicorn's protocol that closes connections whose request does not begin in time."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class HurriedProtocol(H11Protocol):
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
def serving_app(app: ASGIApp, bound: socket.socket, **settings: Any) -> Iterator[Address]:
    """Serve an ASGI application in a thread during the block; yield its address. `settings` are uvicorn's."""
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
            http=_make_protocol(),
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

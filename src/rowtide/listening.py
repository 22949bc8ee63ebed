"""HTTP servers of this process: their sockets, and running them in a thread beside other work."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from rowtide.core.addresses import Address
from rowtide.core.errors import RowtideError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain"})
_ENDING_S = 1.0
_MALFORMED = b"This is no request of HTTP/1.1.\n"


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

    from rowtide.http_connections import HurriedProtocol

    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            # Forwarding headers are evaluated by the application, which trusts only configured proxies.
            proxy_headers=False,
            # Called as the class would be.
            http=cast(Any, partial(HurriedProtocol, describe_malformed=describe_malformed)),
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

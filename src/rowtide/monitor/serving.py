"""The monitor's HTTP server: `/metrics`, `/healthz`, `/readyz`, from what polls found; no request reads a database."""

from __future__ import annotations

import hmac
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from rowtide.core.values import frozen
from rowtide.monitor.databases import NamedUrl
from rowtide.monitor.errors import ListenAddressInvalid, ListeningFailed, NoDatabaseGiven
from rowtide.monitor.exposition import render
from rowtide.monitor.polling import EVERY_S, Polling
from rowtide.monitor.ring import Ring

_ENDING_S = 1.0
_MOST_PORT = 65535


@frozen
class Address:
    """Where the server listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read HOST:PORT; an IPv6 address is in brackets. Raises `ListenAddressInvalid`."""
        host, colon, port = text.rpartition(":")
        if not colon or not host:
            raise ListenAddressInvalid(text, "it has no port")
        if not port.isascii() or not port.isdigit() or int(port) > _MOST_PORT:
            raise ListenAddressInvalid(text, f"{port} is no port")
        if host.startswith("[") and host.endswith("]"):
            return cls(host[1:-1], int(port))
        if ":" in host:
            raise ListenAddressInvalid(text, "an IPv6 address is written in brackets")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@frozen
class Served:
    """A server that runs."""

    address: Address
    is_alive: Callable[[], bool]
    """Whether each database is still polled."""


def make_app(polling: Polling, *, device_series: bool, token: str | None = None) -> Starlette:
    """Return the application; with a token, what says more than that it lives is for those who send it."""

    def guarded(answer: Callable[[Request], Response]) -> Callable[[Request], Response]:
        def guard(request: Request) -> Response:
            given = request.headers.get("authorization", "").encode()
            if token is None or hmac.compare_digest(given, f"Bearer {token}".encode()):
                return answer(request)
            return PlainTextResponse("no token\n", status_code=401, headers={"WWW-Authenticate": "Bearer"})

        return guard

    def metrics(request: Request) -> Response:
        accepted = request.headers.get("accept", "")
        body, content_type = render(polling.list_polled(), device_series=device_series, accept=accepted)
        return Response(body, media_type=content_type)

    def healthz(_request: Request) -> Response:
        if polling.is_alive:
            return PlainTextResponse("ok\n")
        return PlainTextResponse("a database is polled no more\n", status_code=503)

    def readyz(_request: Request) -> Response:
        found = polling.list_readiness()
        listed = {
            name: {"ready": one.is_ready, "read_seconds_ago": one.age_s, "reason": one.reason}
            for name, one in found.items()
        }
        is_ready = all(one.is_ready for one in found.values())
        return JSONResponse({"ready": is_ready, "databases": listed}, status_code=200 if is_ready else 503)

    return Starlette(
        routes=[
            Route("/metrics", guarded(metrics)),
            Route("/healthz", healthz),
            Route("/readyz", guarded(readyz)),
        ],
    )


@contextmanager
def serving(
    databases: Sequence[NamedUrl],
    ring: Ring,
    listen: Address,
    *,
    device_series: bool = False,
    every_s: float = EVERY_S,
    token: str | None = None,
) -> Iterator[Served]:
    """Poll databases and serve what is found, until the block ends.

    Raises `NoDatabaseGiven`, `ListeningFailed`, `UrlNotRead`, `DatabaseKindUnknown`, `ExtraMissing`.
    """
    if not databases:
        raise NoDatabaseGiven
    polling = Polling(databases, ring, every_s)
    with _bound(listen) as bound, polling:
        server = uvicorn.Server(
            uvicorn.Config(
                make_app(polling, device_series=device_series, token=token),
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )
        thread = threading.Thread(target=server.run, args=([bound],), name="serve", daemon=True)
        thread.start()
        try:
            yield Served(Address(*bound.getsockname()[:2]), lambda: polling.is_alive)
        finally:
            server.should_exit = True
            thread.join(_ENDING_S)
            server.force_exit = True
            thread.join(_ENDING_S)


@contextmanager
def _bound(listen: Address) -> Iterator[socket.socket]:
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

"""The monitor's HTTP server: pages and metrics, made of the last polls; no request reads a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from rowtide.core.addresses import Address
from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.listening import bound_to, serving_app
from rowtide.monitor.databases import NamedUrl
from rowtide.monitor.errors import NoDatabaseGiven
from rowtide.monitor.exposition import render
from rowtide.monitor.inboxes import Inboxes, ReadInboxes
from rowtide.monitor.polling import EVERY_S, Polling
from rowtide.monitor.ring import Ring
from rowtide.monitor.web.access import NOBODY_OPERATES, OPEN, Access, Operating, require_asked, require_closed
from rowtide.monitor.web.guard import Guard
from rowtide.monitor.web.pages import Pages, Polls


@frozen
class Served:
    """A server that runs."""

    address: Address
    is_alive: Callable[[], bool]
    """Whether each database is still polled."""


def make_app(
    polling: Polls,
    ring: Ring,
    access: Access = OPEN,
    operating: Operating = NOBODY_OPERATES,
    *,
    device_series: bool = False,
    inboxes: Inboxes | None = None,
) -> Starlette:
    """Return the application: pages, metrics, and whether the monitor works.

    `inboxes` are those of the databases through which operators act, by default.
    """
    pages = Pages(polling, ring, access, operating, inboxes or ReadInboxes(operating.urls))

    def metrics(request: Request) -> Response:
        accepted = request.headers.get("accept", "")
        body, content_type = render(
            polling.list_polled(), device_series=device_series, accept=accepted, actions=pages.count_actions()
        )
        return Response(body, media_type=content_type)

    def healthz(_request: Request) -> Response:
        if polling.is_alive:
            return PlainTextResponse("ok\n")
        return PlainTextResponse("a database is no longer polled\n", status_code=503)

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
            Route("/metrics", metrics),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            *pages.routes(),
        ],
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={HTTPException: pages.show_error, RowtideError: pages.show_error},
    )


@contextmanager
def serving(
    databases: Sequence[NamedUrl],
    ring: Ring,
    listen: Address,
    *,
    device_series: bool = False,
    every_s: float = EVERY_S,
    access: Access = OPEN,
    operating: Operating = NOBODY_OPERATES,
) -> Iterator[Served]:
    """Poll databases and serve the results, until the block ends.

    Raises `NoDatabaseGiven`, `AccessOpen`, `ActionsOpen`, `ListeningFailed`, `UrlNotRead`, `DatabaseKindUnknown`,
    `ExtraMissing`.
    """
    if not databases:
        raise NoDatabaseGiven
    require_closed(access, listen.host)
    require_asked(access, operating)
    polling = Polling(databases, ring, every_s)
    operating = replace(operating, own_urls={one.name: one.url for one in databases})
    app = make_app(polling, ring, access, operating, device_series=device_series)
    with bound_to(listen) as bound, polling, serving_app(app, bound) as address:
        yield Served(address, lambda: polling.is_alive)

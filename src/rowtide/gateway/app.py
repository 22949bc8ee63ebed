"""The gateway's ASGI application: routes, authentication, limits, and errors as problem documents.

What a request does is in `hub_requests`; this module knows nothing of synchronisations and databases.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.events.catalogue import GatewayAnswered, GatewayBroken
from rowtide.events.event import emit, format_places
from rowtide.gateway.errors import (
    BodyTooLarge,
    GatewayAddressUnknown,
    GatewayBusy,
    GatewayFailed,
    MessageMalformed,
    MethodNotThere,
    OriginNotListed,
    RangeNotThere,
    SenderTooSlow,
    TooManyRequests,
)
from rowtide.gateway.hub_requests import STEPS_OF_STRANGERS, Answering, DeviceRequest
from rowtide.gateway.hubs import Hub
from rowtide.gateway.limits import (
    BUSY_S,
    DevicePlaces,
    GatewayLimits,
    Places,
    Refusals,
    RequestMeter,
    address_of,
)
from rowtide.gateway.long_polling import HeadWatch
from rowtide.gateway.requests import CLAIMS_HEADER, CLIENT_HEADER, KEY_HEADER, PROTOCOL_HEADER, Wait, Waited
from rowtide.gateway.wire import problems
from rowtide.gateway.wire.envelopes import CONTENT_TYPE, VERSION, Envelope, Unfit, pack, read, unpack, write
from rowtide.listening import read_bearer
from rowtide.merge.session.messages import SyncAnswer

Result = TypeVar("Result")
_MOST_BYTES_WITHOUT_TOKEN = 65_536
"""Limit of a body whose token is not known to be valid. A registration, which has no token, is smaller."""
REST_S = 10.0
"""How long the rest of a refused request's body is received."""
_RANGE = re.compile(r"bytes=([0-9]{1,18})-([0-9]{0,18})")
_GONE = 499
"""Status of a request whose client disconnected, as in nginx; it is only logged."""
_PUBLIC = ("/healthz", "/readyz")
_ALLOWED = ", ".join(
    ("Authorization", "Content-Type", "Content-Encoding", "Idempotency-Key", "Rowtide-Claims", "Rowtide-Client")
)
_EXPOSED = "Retry-After, Rowtide-Protocol"
_NEVER_STORED = {"cache-control": "no-store", PROTOCOL_HEADER: str(VERSION), "x-content-type-options": "nosniff"}


@frozen
class ServedHubs:
    """The settings of an application: hubs, limits, and how it is reached."""

    hubs: Mapping[str, Hub]
    answering: Answering
    refusals: Refusals
    """Of tokens; `answering` notes in it which ones are valid."""
    limits: GatewayLimits
    origins: frozenset[str] = frozenset()
    is_proxied: bool = False
    """Whether the proxy is another machine, whose forwarding headers are trusted."""


class GatewayApp:
    """Answers requests of devices."""

    def __init__(self, served: ServedHubs, waiting: Places | None = None) -> None:
        """`waiting` counts the devices with a long poll, for metrics."""
        self._served = served
        self._meter = RequestMeter(served.limits.requests_per_minute)
        self._refusals = served.refusals
        self._device_places = DevicePlaces(served.limits.device_requests)
        # For each thread one request that runs and three that wait; further ones get `GatewayBusy`, so that the queue
        # is bounded.
        self._places = Places(4 * served.limits.sessions, "requests")
        # Registrations have places of their own, because a request keeps its place while its body is received: senders
        # without a token can only exclude each other.
        self._registering = Places(4 * served.limits.sessions, "registrations")
        self._watches: dict[str, HeadWatch] = {}
        self._waiting = waiting or Places(served.limits.waiting, "waiting devices")

    def make(self) -> ASGIApp:
        """Return the application."""
        steps = self._served.answering.steps
        app = Starlette(
            routes=[
                Route("/healthz", self._healthz),
                Route("/readyz", self._readyz),
                Route("/{hub}/wait", self._wait, methods=["POST"]),
                Route("/{hub}/files/{name}", self._file, methods=["GET"]),
                *(Route(f"/{{hub}}/{step}", self._step(step), methods=["POST"]) for step in steps),
            ],
            exception_handlers={
                HTTPException: _of_starlette,
                RowtideError: _as_problem,
                ClientDisconnect: _as_gone,
                Exception: _as_fault,
            },
        )
        # A redirection would name the address as the proxy has it, without TLS: devices would send their token there.
        app.router.redirect_slashes = False
        return EdgeMiddleware(app, self._served.origins)

    def _healthz(self, _request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _readyz(self, _request: Request) -> Response:
        found = await asyncio.gather(*map(self._served.answering.is_ready, self._served.hubs.values()))
        hubs = dict(zip(self._served.hubs, found, strict=True))
        is_ready = all(hubs.values())
        return JSONResponse({"ready": is_ready, "hubs": hubs}, status_code=200 if is_ready else 503)

    async def _file(self, request: Request) -> Response:
        """Send a device's file, or the requested range of it."""
        asked = self._begin(request, "files")
        with self._admitted(request, asked), self._places.place():
            path = await self._served.answering.find_file(asked, request.path_params["name"])
        _require_range(request, path.stat().st_size)
        return FileResponse(path, media_type="application/octet-stream")

    async def _wait(self, request: Request) -> Response:
        """Answer a long poll: once the hub has changes for the device, or when the time is over."""
        asked = self._begin(request, "wait")
        with self._admitted(request, asked), self._waiting.place():
            async with _taking_rest(request):
                await self._require_known(asked)
            # Only while the token is looked up: a thousand waiting devices leave the threads to those that synchronise.
            with self._places.place():
                asked = replace(asked, body=await self._read(request))
                device = await self._served.answering.know(asked)
            wanted: Wait = read(asked.body, Wait).message
            if asked.hub.name not in self._watches:
                self._watches[asked.hub.name] = HeadWatch(partial(self._served.answering.run, asked.hub))
            waiting = self._watches[asked.hub.name].wait(device.subid, wanted.generation, wanted.wait_s)
            has_changes = await _unless_gone(request, waiting)
        return _respond(request, Envelope(Waited(has_changes)))

    def _begin(self, request: Request, step: str) -> DeviceRequest:
        """Return a request without its body, and record its device in the request log.

        Raises `GatewayAddressUnknown`.
        """
        hub = self._find_hub(request)
        asked = _asked(request, hub)
        request.state.hub, request.state.step, request.state.device = hub.name, step, asked.who
        return asked

    @contextmanager
    def _admitted(self, request: Request, asked: DeviceRequest) -> Iterator[None]:
        """Count a request, and a refusal of it. Raises `TooManyRequests`."""
        peer = "" if request.client is None else request.client.host
        # Some proxies append a line of their own to one that the client has made up.
        forwarded = ",".join(request.headers.getlist("x-forwarded-for"))
        address, now_s = address_of(peer, forwarded, is_proxied=self._served.is_proxied), time.monotonic()
        with self._refusals.counted(address, asked.token, now_s), ExitStack() as held:
            if asked.who:
                device = f"{asked.hub.name} {asked.who}"
                self._meter.require(device, now_s)
                held.enter_context(self._device_places.place(device))
            yield

    def _find_hub(self, request: Request) -> Hub:
        hub = self._served.hubs.get(request.path_params["hub"])
        if hub is None:
            raise GatewayAddressUnknown(request.url.path)
        return hub

    def _step(self, step: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            asked = self._begin(request, step)
            is_stranger = step in STEPS_OF_STRANGERS
            places = self._registering if is_stranger else self._places
            with self._admitted(request, asked):
                async with _taking_rest(request):
                    if not is_stranger:
                        await self._require_known(asked)
                    with places.place():
                        envelope = await self._work(request, step, asked)
            request.state.rows_down = sum(len(batch.changes) for batch in envelope.batches)
            if isinstance(envelope.message, SyncAnswer) and envelope.message.result is not None:
                request.state.rows_up = sum(counts.moved for counts in envelope.message.result.counts.values())
            return _respond(request, envelope)

        return answer

    async def _require_known(self, asked: DeviceRequest) -> None:
        """Raise `TokenRefused`, `DeviceRevoked` before a body is read, which may be large, and come slowly."""
        if not self._refusals.is_known(asked.token):
            with self._places.place():
                await self._in_time(self._served.answering.know(asked))

    async def _work(self, request: Request, step: str, asked: DeviceRequest) -> Envelope:
        """Return the answer to a request, whose body is read first. Raises `GatewayBusy`, and what both raise."""
        asked = replace(asked, body=await self._read(request))
        return await self._in_time(self._served.answering.answer(step, asked))

    async def _in_time(self, work: Awaitable[Result]) -> Result:
        """Return the result of work. Raises `GatewayBusy`, and what the work raises."""
        limit_s = self._served.limits.request_s
        try:
            async with asyncio.timeout(limit_s):
                return await work
        except TimeoutError as error:
            raise GatewayBusy(f"the request takes longer than {limit_s:g} seconds", BUSY_S) from error

    async def _read(self, request: Request) -> bytes:
        """Return the unpacked body of a request. Raises `BodyTooLarge`, `SenderTooSlow`, `MessageMalformed`."""
        limits = self._served.limits
        try:
            async with asyncio.timeout(limits.body_s):
                body = await self._receive(request)
        except TimeoutError as error:
            raise SenderTooSlow(limits.body_s) from error
        match request.headers.get("content-encoding", "identity"):
            case "identity":
                return body
            case "gzip":
                unpacked = unpack(body, limits.unpacked_bytes)
            case other:
                unpacked = Unfit(f"content-encoding {other[:40]!a} is not known; gzip is")
        if isinstance(unpacked, Unfit):
            if unpacked.is_too_large:
                raise BodyTooLarge(unpacked.reason)
            raise MessageMalformed("/", unpacked.reason, str(VERSION))
        return unpacked

    async def _receive(self, request: Request) -> bytes:
        is_known = self._refusals.is_known(_bearer(request))
        most = self._served.limits.body_bytes if is_known else _MOST_BYTES_WITHOUT_TOKEN
        declared = request.headers.get("content-length", "")
        if declared.isascii() and declared.isdigit() and int(declared[:20]) > most:
            raise BodyTooLarge(f"{most:,} bytes")
        pieces = bytearray()
        async for piece in request.stream():
            pieces += piece
            if len(pieces) > most:
                raise BodyTooLarge(f"{most:,} bytes")
        request.state.has_come = True
        return bytes(pieces)


@asynccontextmanager
async def _taking_rest(request: Request) -> AsyncIterator[None]:
    """Receive and discard the rest of a body, for at most `REST_S`, before an error is answered.

    A connection that is closed with bytes unread is reset, and the device would not learn why.
    """
    try:
        yield
    except RowtideError:
        if not hasattr(request.state, "has_come"):
            with suppress(TimeoutError, ClientDisconnect):
                async with asyncio.timeout(REST_S):
                    async for _ in request.stream():
                        pass
        raise


class EdgeMiddleware:
    """Middleware for every request: the origin check (CORS), and the request log."""

    def __init__(self, app: ASGIApp, origins: frozenset[str]) -> None:
        self._app = app
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, began = Request(scope, receive), time.monotonic()
        origin = request.headers.get("origin")
        status, sent = 0, 0

        async def send_noting(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *self._headers_for(origin)]
            else:
                sent += len(message.get("body", b""))
            await send(message)

        try:
            await self._answerer(request, origin)(scope, receive, send_noting)
            status = status or _GONE
        finally:
            if request.url.path not in _PUBLIC:
                _note(request, status, sent, time.monotonic() - began)

    def _answerer(self, request: Request, origin: str | None) -> ASGIApp:
        if origin is None:
            return self._app
        if origin not in self._origins:
            return problem_response(OriginNotListed(origin[:200]))
        if request.method == "OPTIONS":
            allowed = {"access-control-allow-methods": "POST", "access-control-allow-headers": _ALLOWED}
            return Response(status_code=204, headers={**allowed, "access-control-max-age": "600"})
        return self._app

    def _headers_for(self, origin: str | None) -> list[tuple[bytes, bytes]]:
        headers = dict(_NEVER_STORED)
        if origin is not None and origin in self._origins:
            headers |= {
                "access-control-allow-origin": origin,
                "access-control-expose-headers": _EXPOSED,
                "vary": "Origin",
            }
        return [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]


def problem_response(error: RowtideError) -> Response:
    """Return the answer for an error."""
    headers = {}
    if (after_s := problems.retry_after_s(error)) is not None:
        # Retry-After has whole seconds; after 0 a client uses its own pauses.
        headers["retry-after"] = str(round(after_s))
    if isinstance(error, RangeNotThere):
        headers["content-range"] = f"bytes */{error.size}"
    if isinstance(error, TooManyRequests) and headers.get("retry-after") == "0":
        headers["retry-after"] = "1"
    body = json.dumps(problems.describe(error)).encode()
    return Response(body, problems.status_of(error), headers, problems.CONTENT_TYPE)


def _respond(request: Request, envelope: Envelope) -> Response:
    body, headers = write(envelope), {}
    if "gzip" in request.headers.get("accept-encoding", ""):
        body, is_packed = pack(body)
        if is_packed:
            headers["content-encoding"] = "gzip"
    return Response(body, 200, headers, CONTENT_TYPE)


def describe_malformed() -> tuple[bytes, str]:
    """Return the body and the content type of the answer to what is no request."""
    error = MessageMalformed("/", "it is no request of HTTP/1.1, or an ambiguous one", str(VERSION))
    return json.dumps(problems.describe(error)).encode(), problems.CONTENT_TYPE


def _require_range(request: Request, size: int) -> None:
    """Let a request have one range at most: as RFC 9110 allows, others are ignored. Raises `RangeNotThere`."""
    listed = request.headers.getlist("range")
    found = _RANGE.fullmatch(listed[0]) if len(listed) == 1 else None
    if found is None or (found[2] and int(found[2]) < int(found[1])):
        request.scope["headers"] = [one for one in request.scope["headers"] if one[0] != b"range"]
    elif int(found[1]) >= size:
        raise RangeNotThere(size)


def _asked(request: Request, hub: Hub) -> DeviceRequest:
    return DeviceRequest(
        hub=hub,
        body=b"",
        token=_bearer(request),
        key=request.headers.get(KEY_HEADER, ""),
        claims=request.headers.get(CLAIMS_HEADER),
        client=request.headers.get(CLIENT_HEADER, ""),
    )


def _bearer(request: Request) -> str:
    return read_bearer(request.headers.get("authorization", ""))


def _of_starlette(request: Request, error: Exception) -> Response:
    path = request.url.path[:200]
    if isinstance(error, HTTPException) and error.status_code == 405:
        return problem_response(MethodNotThere(path, request.method[:20]))
    return problem_response(GatewayAddressUnknown(path))


def _as_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, RowtideError)
    request.state.code = f"RT-{error.number}"
    return problem_response(error)


def _as_gone(_request: Request, _error: Exception) -> Response:
    """Answer a device that disconnected before its request was complete: for the request log alone."""
    return Response(status_code=_GONE)


async def _unless_gone(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of work, cancelled when the client closes its connection. Raises `ClientDisconnect`."""

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, watching = asyncio.create_task(work), asyncio.create_task(watch())
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        watching.cancel()


def _as_fault(request: Request, error: Exception) -> Response:
    incident = secrets.token_hex(4)
    request.state.code = incident
    emit(GatewayBroken(incident, error, format_places(error)))
    return problem_response(GatewayFailed(incident))


def _note(request: Request, status: int, sent: int, seconds: float) -> None:
    state: Mapping[str, Any] = request.scope.get("state", {})
    emit(
        GatewayAnswered(
            path=request.url.path[:200],
            hub=state.get("hub", ""),
            step=state.get("step", ""),
            device=state.get("device", ""),
            status=status,
            code=state.get("code", ""),
            sent=sent,
            rows_up=state.get("rows_up", 0),
            rows_down=state.get("rows_down", 0),
            seconds=round(seconds, 3),
        )
    )

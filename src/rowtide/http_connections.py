"""uvicorn's HTTP/1.1 connections, closed if a request is ambiguous, or does not begin in time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 20.0
"""How long the head of a request may come in; uvicorn would wait for ever, until no connection is left for others."""
_MOST_HEAD_BYTES = 64 * 1024
"""Of a request, and of each line of a chunked body."""
_FOLDED_OR_BARE = re.compile(rb"\n[ \t]|\r(?!\n)|(?<!\r)\n")
"""A continued header line, or a line that CR or LF alone ends: a proxy may see other lines there."""


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
    """Closes a connection whose request does not begin in time; answers a malformed one with a body of the caller's."""

    _timer: asyncio.TimerHandle | None = None

    def __init__(self, *settings: Any, describe_malformed: Callable[[], tuple[bytes, str]], **named: Any) -> None:
        """`describe_malformed` returns the body of an answer to a malformed request, and its content type."""
        super().__init__(*settings, **named)
        self._describe_malformed = describe_malformed
        self.conn = UnambiguousConnection(h11.SERVER, _MOST_HEAD_BYTES)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - as uvicorn has it
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            # The answer has begun, of a request whose body is malformed.
            self.transport.close()
            return
        body, content_type = self._describe_malformed()
        headers = [("content-type", content_type), ("content-length", str(len(body))), ("connection", "close")]
        for event in (h11.Response(status_code=400, headers=headers), h11.Data(body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

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

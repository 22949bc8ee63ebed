"""The HTTP client of a device: requests to a gateway over a kept connection, retries, and their errors."""

from __future__ import annotations

import http.client
import random
import selectors
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from rowtide.core.errors import Retryable, RowtideError
from rowtide.gateway.errors import (
    AnswerNotOfGateway,
    AnswerTruncated,
    BodyTooLarge,
    GatewayNotReached,
    GatewayUrlInvalid,
    JwtRefused,
    MessageMalformed,
)
from rowtide.gateway.limits import retry_pause_s
from rowtide.gateway.requests import CLAIMS_HEADER, CLIENT_HEADER, KEY_HEADER, PROTOCOL_HEADER
from rowtide.gateway.wire import problems
from rowtide.gateway.wire.envelopes import CONTENT_TYPE, Envelope, Unfit, pack, parse, read, unpack, write
from rowtide.gateway.wire.typed_json import Misfit
from rowtide.merge.errors.subscribing import DownloadLost, UploadLost

Answer = TypeVar("Answer")
Result = TypeVar("Result")
CONNECT_S = 10.0
ANSWER_S = 330.0
"""Longer than a gateway's timeout for a request, and than the longest long poll."""
MOST_ATTEMPTS = 6
_MOST_OF_LOST = 2
"""Attempts after a gateway lost the state of a session, as after a restart: more would not bring it back."""
_MOST_ANSWER = 1 << 30
_MOST_PROBLEM = 1 << 16
_PIECE = 1 << 18
_SHOWN = 60
"""Characters that are shown of an answer that is no gateway's."""


def read_gateway_url(url: str) -> SplitResult:
    """Return the parts of a gateway's address. Raises `GatewayUrlInvalid`."""
    shown = url.partition("?")[0]
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise GatewayUrlInvalid(shown, str(error)) from None
    if parts.username is not None or parts.password is not None:
        raise GatewayUrlInvalid(f"{parts.scheme}://{parts.hostname}", "it has a user or a password")
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise GatewayUrlInvalid(shown, "it does not begin with https:// and a host")
    if parts.query or parts.fragment:
        raise GatewayUrlInvalid(shown, "something follows its path")
    if not parts.path.strip("/"):
        raise GatewayUrlInvalid(shown, "it names no hub")
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise GatewayUrlInvalid(shown, "without TLS the token could be read on the network")
    return parts


@dataclass(slots=True)
class GatewayClient:
    """Sends requests to a gateway's hub.

    `claims` returns a new JSON Web Token of the device's user at each call: it is called again when the token is
    refused. Idempotent requests are retried after pauses: Retry-After of the answer, else an exponential backoff with
    jitter.
    """

    url: str
    token: str = field(default="", repr=False)
    claims: Callable[[], str] | None = None
    attempts: int = MOST_ATTEMPTS
    pause: Callable[[float], None] = time.sleep
    answer_s: float = ANSWER_S
    requests: int = 0
    """The number of requests that were sent."""
    sent_bytes: int = 0
    received_bytes: int = 0
    _parts: SplitResult | None = None
    _connection: http.client.HTTPConnection | None = field(default=None, repr=False)
    _claims: str | None = field(default=None, repr=False)
    _step: Callable[[], bool] = field(default=lambda: False, repr=False)

    def ask(self, step: str, envelope: Envelope, kind: type[Answer], *, key: str = "") -> Envelope:
        """Return the answer to a request, which is retried where that may help.

        Raises the error that the gateway answers with; `GatewayNotReached`, `AnswerNotOfGateway`, `AnswerTruncated`,
        `MessageMalformed`, `ProtocolUnknown`.
        """
        body = write(envelope)
        for attempt in range(self.attempts):
            try:
                return read(self._renewing(lambda: self.exchange(step, body, key)), kind)
            except Retryable as error:
                # A proxy may forward the second attempt to the gateway that has the lost state; else the
                # synchronisation starts over.
                attempts = (
                    min(self.attempts, _MOST_OF_LOST) if isinstance(error, DownloadLost | UploadLost) else self.attempts
                )
                if attempt + 1 >= attempts:
                    raise
                self.pause(retry_pause_s(problems.retry_after_s(error), attempt, random.random()))  # noqa: S311
        raise AssertionError("no attempt was made")

    def fetch(self, path: str, begin: int) -> Iterator[bytes]:
        """Yield a file of the gateway from an offset on. Raises as `ask`, without retries: the caller resumes at its
        offset.
        """
        try:
            answer = self._renewing(lambda: self._begin_file(path, begin))
            while piece := answer.read1(_PIECE):
                self.received_bytes += len(piece)
                yield piece
            self._require_end(answer)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise GatewayNotReached(self.url, _reason(error)) from error
        except BaseException:
            self.close()
            raise

    def _begin_file(self, path: str, begin: int) -> http.client.HTTPResponse:
        parts = self._parts = self._parts or read_gateway_url(self.url)
        self.requests += 1
        headers = {
            **self._credentials(),
            "Accept-Encoding": "identity",
            **({"Range": f"bytes={begin}-"} if begin else {}),
        }
        connection = self._connected()
        connection.request("GET", f"{parts.path.rstrip('/')}/{path}", headers=headers)
        answer = connection.getresponse()
        self._require_part(answer, begin)
        return answer

    def _require_part(self, answer: http.client.HTTPResponse, begin: int) -> None:
        is_sent = answer.status == (HTTPStatus.PARTIAL_CONTENT if begin else HTTPStatus.OK)
        if is_sent and PROTOCOL_HEADER in answer.headers:
            return
        self._judge(answer.status, answer.headers, answer.read(_MOST_PROBLEM))
        raise AnswerTruncated(self.url, "it does not send a part of a file")

    def _require_end(self, answer: http.client.HTTPResponse) -> None:
        missing = answer.length or 0
        # An answer that is not closed would block the next request.
        answer.close()
        if missing:
            raise AnswerTruncated(self.url, f"{missing:,} bytes are missing")

    @contextmanager
    def working(self, step: Callable[[], bool]) -> Iterator[None]:
        """Take steps of other work within the block, while an answer is waited for.

        A step returns whether there is more, takes milliseconds, and does not raise.
        """
        before, self._step = self._step, step
        try:
            yield
        finally:
            self._step = before

    def forget_claims(self) -> None:
        """Get a new token of the device's user."""
        self._claims = None

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _renewing(self, send: Callable[[], Result]) -> Result:
        """Return the answer to a request; a token of the user that has expired is renewed once."""
        try:
            return send()
        except JwtRefused:
            if self.claims is None:
                raise
            self._claims = self.claims()
            return send()

    def _credentials(self) -> Mapping[str, str]:
        if self.claims is not None and self._claims is None:
            self._claims = self.claims()
        return {
            **({"Authorization": f"Bearer {self.token}"} if self.token else {}),
            **({CLAIMS_HEADER: self._claims} if self._claims is not None else {}),
        }

    def exchange(self, step: str, body: bytes, key: str) -> bytes:
        """Send one request, once, and return the body of its answer."""
        parts = self._parts = self._parts or read_gateway_url(self.url)
        packed, is_packed = pack(body)
        headers = {
            "Content-Type": CONTENT_TYPE,
            "Accept": f"{CONTENT_TYPE}, {problems.CONTENT_TYPE}",
            "Accept-Encoding": "gzip",
            CLIENT_HEADER: _client_version(),
            **({"Content-Encoding": "gzip"} if is_packed else {}),
            **self._credentials(),
            **({KEY_HEADER: key} if key else {}),
        }
        answer, content = self._send(f"{parts.path.rstrip('/')}/{step}", packed, headers)
        self.requests += 1
        self.sent_bytes += len(packed)
        self.received_bytes += len(content)
        return self._judge(answer.status, answer.headers, self._unpacked(answer.headers, content))

    def _send(self, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[http.client.HTTPResponse, bytes]:
        was_kept = self._connection is not None
        try:
            connection = self._connected()
            connection.request("POST", path, body, dict(headers))
            self._work(connection.sock)
            answer = connection.getresponse()
            content = answer.read(_MOST_ANSWER)
        except http.client.IncompleteRead as error:
            self.close()
            raise AnswerTruncated(self.url, f"{len(error.partial):,} bytes came") from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if was_kept and isinstance(error, http.client.RemoteDisconnected | BrokenPipeError | ConnectionResetError):
                # The gateway closed an idle connection; a new one may succeed.
                return self._send(path, body, headers)
            raise GatewayNotReached(self.url, _reason(error)) from error
        if answer.length or answer.will_close:
            self.close()
        # A read with a limit does not raise if the connection ends early.
        self._require_end(answer)
        return answer, content

    def _work(self, waited_for: socket.socket) -> None:
        """Take steps of the other work until something arrives, or nothing is left to do."""
        with selectors.DefaultSelector() as selector:
            selector.register(waited_for, selectors.EVENT_READ)
            while not selector.select(0) and self._step():
                pass

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            parts = self._parts
            assert parts is not None
            host = parts.hostname or ""
            if parts.scheme == "https":
                context = ssl.create_default_context()
                made: http.client.HTTPConnection = http.client.HTTPSConnection(
                    host, parts.port, timeout=CONNECT_S, context=context
                )
            else:
                made = http.client.HTTPConnection(host, parts.port, timeout=CONNECT_S)
            made.connect()
            made.sock.settimeout(self.answer_s)
            made.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connection = made
        return self._connection

    def _unpacked(self, headers: Message, content: bytes) -> bytes:
        if headers.get("content-encoding", "identity") == "identity":
            return content
        found = unpack(content, _MOST_ANSWER)
        if isinstance(found, Unfit):
            raise AnswerTruncated(self.url, found.reason)
        return found

    def _judge(self, status: int, headers: Message, content: bytes) -> bytes:
        """Return the body of an answer of the gateway. Raises the error that it is."""
        said = headers.get("content-type", "none")
        content_type = said.partition(";")[0].strip().lower()
        if status == HTTPStatus.OK and content_type == CONTENT_TYPE and PROTOCOL_HEADER in headers:
            return content
        if content_type == problems.CONTENT_TYPE:
            error = _read_problem(content)
            if error is not None:
                raise error
        if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            raise BodyTooLarge("what a proxy before the gateway takes")
        raise AnswerNotOfGateway(self.url, status, said[:_SHOWN])


def _read_problem(content: bytes) -> RowtideError | None:
    try:
        return problems.read_problem(parse(content))
    except (Misfit, MessageMalformed):
        return None


@cache
def _client_version() -> str:
    """Return this client's User-Agent; the version is cached, since it is read from a file."""
    return f"rowtide/{version('rowtide')}"


def _reason(error: Exception) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {error.verify_message}"
        case TimeoutError():
            return "it did not answer in time"
        case OSError():
            return error.strerror or str(error)
        case _:
            return type(error).__name__


def make_request_key() -> str:
    """Return an idempotency key for a new request; retries have the same one."""
    import secrets

    return secrets.token_urlsafe(24)


def send_plain(client: GatewayClient, step: str, message: Any, kind: type[Answer], *, key: str = "") -> Answer:
    """Return the message of an answer without rows."""
    answer: Answer = client.ask(step, Envelope(message), kind, key=key).message
    return answer

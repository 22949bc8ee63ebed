"""Events by HTTP POST: in batches over one connection, each sent until the receiver answers 2xx or refuses it."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from rowtide.agents.loop import OnRetry, pauses_s
from rowtide.cdc.errors.consuming import EventsRefused, ReceiverFails, ReceiverUntrusted
from rowtide.cdc.following.formats import EVENT, EVENT_ID, EventFormat
from rowtide.cdc.following.sinks import wait
from rowtide.cdc.lake_readers.json_texts import joined
from rowtide.cdc.lake_readers.ordering import ORDER
from rowtide.cdc.lake_readers.value_texts import kernels
from rowtide.core.lsn import CommitLsn

TIMEOUT_S = 30.0
MOST_EVENTS = 500
MOST_BYTES = 1024 * 1024
_LONGEST_ASKED_PAUSE_S = 300
_MOST_ANSWER_BYTES = 64 * 1024
_TRY_AGAIN = frozenset({408, 429})
_CONTENT_TYPES: Mapping[EventFormat, str] = {
    EventFormat.JSONL: "application/x-ndjson",
    EventFormat.DEBEZIUM: "application/json",
    EventFormat.CLOUDEVENTS: "application/cloudevents-batch+json",
}


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where events are posted to; `headers` may hold secrets, and are never shown."""

    url: str
    headers: Mapping[str, str]
    timeout_s: float = TIMEOUT_S

    @property
    def name(self) -> str:
        """The address without its query, which may hold a secret."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{parts.path}"

    @property
    def target(self) -> str:
        """What a request asks for."""
        parts = urlsplit(self.url)
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def open(self) -> HTTPConnection:
        """Return a connection; a certificate is verified."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        if parts.scheme == "https":
            context = ssl.create_default_context()
            return HTTPSConnection(parts.hostname, parts.port, timeout=self.timeout_s, context=context)
        return HTTPConnection(parts.hostname, parts.port, timeout=self.timeout_s)


class Posting:
    """Posts events. Raises `EventsRefused`, `ReceiverUntrusted`; what may pass is reported and tried again."""

    def __init__(self, receiver: Receiver, form: EventFormat, stop: threading.Event, on_retry: OnRetry) -> None:
        self._receiver, self._form, self._stop, self._on_retry = receiver, form, stop, on_retry
        self._connection: HTTPConnection | None = None

    def deliver(self, events: pa.RecordBatch, whole_to: CommitLsn) -> Iterator[CommitLsn]:
        """Post events; yield after each answer what is delivered."""
        for part in cut(events):
            self._post(_body(part, self._form), part.column(EVENT_ID)[0].as_py())
            # More of the last event's transaction may follow.
            yield min(whole_to, CommitLsn(part.column(ORDER[0])[-1].as_py()).decrement())
        yield whole_to

    def settle(self) -> None:
        """Do nothing: everything is answered."""

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _post(self, body: bytes, event_id: str) -> None:
        for usual_s in pauses_s():
            if self._stop.is_set():
                wait(self._stop, 0)
            failure, asked_s = self._try(body, event_id)
            if failure is None:
                return
            pause_s = max(usual_s, asked_s)
            self._on_retry(failure, pause_s)
            wait(self._stop, pause_s)

    def _try(self, body: bytes, event_id: str) -> tuple[ReceiverFails | None, float]:
        """Post once; return what may pass, and after how many seconds the receiver asks for another try."""
        name = self._receiver.name
        try:
            response = self._request(body)
        except ssl.SSLCertVerificationError as error:
            raise ReceiverUntrusted(name, error.verify_message) from error
        except (OSError, HTTPException) as error:
            self.close()
            return ReceiverFails(name, str(error) or type(error).__name__), 0
        if 200 <= response.status < 300:
            return None, 0
        status = f"{response.status} {response.reason}".rstrip()
        if response.status >= 500 or response.status in _TRY_AGAIN:
            return ReceiverFails(name, f"it answers {status}"), _asked_pause_s(response)
        raise EventsRefused(name, status, event_id)

    def _request(self, body: bytes) -> HTTPResponse:
        """Return the answer; a connection that the receiver closed since the last one is opened again."""
        is_used = self._connection is not None
        try:
            return self._exchange(body)
        except (ConnectionError, HTTPException):
            if not is_used:
                raise
            self.close()
            return self._exchange(body)

    def _exchange(self, body: bytes) -> HTTPResponse:
        if self._connection is None:
            self._connection = self._receiver.open()
        headers = {"Content-Type": _CONTENT_TYPES[self._form], **self._receiver.headers}
        self._connection.request("POST", self._receiver.target, body, headers)
        response = self._connection.getresponse()
        response.read(_MOST_ANSWER_BYTES)
        if not response.isclosed():
            self.close()
        return response


def cut(events: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut events into parts of at most `MOST_EVENTS`, and, unless one event is larger, `MOST_BYTES`."""
    sizes = kernels.binary_length(events.column(EVENT)).to_numpy(zero_copy_only=False)
    ends = np.cumsum(sizes, dtype=np.int64)
    begin = 0
    while begin < events.num_rows:
        before = int(ends[begin - 1]) if begin else 0
        fitting = int(np.searchsorted(ends, before + MOST_BYTES, "right"))
        end = min(max(fitting, begin + 1), begin + MOST_EVENTS)
        yield events.slice(begin, end - begin)
        begin = end


def _body(events: pa.RecordBatch, form: EventFormat) -> bytes:
    lines: Any = events.column(EVENT)
    if form is EventFormat.JSONL:
        return joined(lines).encode()
    return f"[{','.join(lines.to_pylist())}]".encode()


def _asked_pause_s(response: HTTPResponse) -> float:
    asked = response.getheader("Retry-After", "")
    with suppress(ValueError):
        return float(min(int(asked), _LONGEST_ASKED_PAUSE_S))
    return 0

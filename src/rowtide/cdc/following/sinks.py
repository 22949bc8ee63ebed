"""Sinks of events: a folder of JSON lines, or HTTP POST. A sink reports the LSN up to which everything is durable
there.
"""

from __future__ import annotations

import os
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TextIO
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from rowtide.agents.loop import OnRetry, pauses_s
from rowtide.cdc.errors.jobs import EventsNotWritten, EventsRefused, ReceiverFails, ReceiverUntrusted
from rowtide.cdc.following.row_events import EVENT, EVENT_ID, EventFormat
from rowtide.cdc.lake_readers.bits import kernels
from rowtide.cdc.lake_readers.ordering import ORDER
from rowtide.cdc.lake_readers.presentation import joined
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen


class Interrupted(Exception):
    """The follower was asked to stop while a sink waits."""


class Sink(Protocol):
    """Takes events, whole transactions or parts of one, in the order of the stream."""

    def deliver(self, events: pa.RecordBatch, whole_to: CommitLsn) -> Iterator[CommitLsn]:
        """Take events; yield LSNs up to which all events are durable, rising, each as soon as it is so.

        With these events every transaction up to `whole_to` is complete; later ones may not be. Raises `Interrupted`.
        """
        ...

    def settle(self) -> CommitLsn | None:
        """Do what is due by time; return an LSN as `deliver` yields them, or None."""
        ...

    def close(self) -> CommitLsn | None:
        """Complete what can be; return as `settle`."""
        ...


class Printing:
    """Prints lines to a text stream, flushed after each batch. The stream's exceptions are left to the caller."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def deliver(self, events: pa.RecordBatch, whole_to: CommitLsn) -> Iterator[CommitLsn]:
        """Print events."""
        self._out.write(joined(events.column(EVENT)))
        self._out.flush()
        yield whole_to

    def settle(self) -> None:
        """Do nothing: everything is flushed."""

    def close(self) -> None:
        """Do nothing: everything is flushed."""


def wait(stop: threading.Event, pause_s: float) -> None:
    """Pause between tries. Raises `Interrupted`."""
    if stop.wait(pause_s):
        raise Interrupted


@frozen
class Rotation:
    """A file is completed at a size or an age, with the next end of a transaction."""

    most_bytes: int
    most_s: float


class Filing:
    """Files named by the LSN of their first event; a transaction is never divided between two.

    A file that is written again after a failure, from the same position on, replaces the earlier one. Calls raise
    `EventsNotWritten`.
    """

    def __init__(self, folder: Path, rotation: Rotation) -> None:
        self._folder, self._rotation = folder, rotation
        self._file: BinaryIO | None = None
        self._first = self._last = 0
        self._opened_at = 0.0
        self._whole_bytes = 0
        self._whole_to: CommitLsn | None = None

    def deliver(self, events: pa.RecordBatch, whole_to: CommitLsn) -> Iterator[CommitLsn]:
        """Write events; yield when a file is complete."""
        with self._naming_errors():
            count = int(np.searchsorted(events.column(ORDER[0]).to_numpy(), whole_to.value, "right"))
            self._write(events.slice(0, count))
            self._whole_to = whole_to
            if self._file is not None and self._last <= whole_to.value:
                self._whole_bytes = self._file.tell()
            durable = self._complete() if self._file is None or self._is_due() else None
            self._write(events.slice(count))
        if durable is not None:
            yield durable

    def settle(self) -> CommitLsn | None:
        """Complete a file that is old enough."""
        with self._naming_errors():
            return self._complete() if self._file is not None and self._is_due() else None

    def close(self) -> CommitLsn | None:
        """Complete the file, without the transaction that is not whole."""
        with self._naming_errors():
            return self._complete()

    def _write(self, events: pa.RecordBatch) -> None:
        if not events.num_rows:
            return
        if self._file is None:
            self._first = events.column(ORDER[0])[0].as_py()
            self._file, self._opened_at, self._whole_bytes = self._partial.open("wb"), time.monotonic(), 0
        self._file.write(joined(events.column(EVENT)).encode())
        self._last = events.column(ORDER[0])[-1].as_py()

    def _is_due(self) -> bool:
        assert self._file is not None
        # Files end only between transactions, so that a program which reads them one by one sees no half of a
        # transaction.
        if self._whole_bytes < self._file.tell():
            # It ends within a transaction.
            return False
        return (
            self._whole_bytes >= self._rotation.most_bytes
            or time.monotonic() - self._opened_at >= self._rotation.most_s
        )

    def _complete(self) -> CommitLsn | None:
        """Truncate the file after its last complete transaction, and give it its name."""
        if self._file is None:
            return self._whole_to
        with self._file as file:
            self._file = None
            # The rest belongs to an incomplete transaction, which is read again and begins the next file.
            file.truncate(self._whole_bytes)
            file.flush()
            os.fsync(file.fileno())
        if not self._whole_bytes:
            self._partial.unlink()
            return None
        # Synced before it gets its name, and the folder after that, so that a file with a name is complete even after a
        # power failure.
        self._partial.replace(self._folder / self._name)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return self._whole_to

    @property
    def _name(self) -> str:
        return f"changes-{self._first:019d}.jsonl"

    @property
    def _partial(self) -> Path:
        return self._folder / f".{self._name}.partial"

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if self._file is not None:
                with suppress(OSError):
                    self._file.close()
                self._file = None
            self._whole_to = None
            raise EventsNotWritten(str(self._folder), error.strerror or str(error)) from error


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


@frozen
class EventEndpoint:
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
    """Posts events. Raises `EventsRefused`, `ReceiverUntrusted`; transient errors are reported and retried."""

    def __init__(self, receiver: EventEndpoint, form: EventFormat, stop: threading.Event, on_retry: OnRetry) -> None:
        self._receiver, self._form, self._stop, self._on_retry = receiver, form, stop, on_retry
        self._connection: HTTPConnection | None = None

    def deliver(self, events: pa.RecordBatch, whole_to: CommitLsn) -> Iterator[CommitLsn]:
        """Post events; yield after each answer what is delivered."""
        for part in cut_into_batches(events):
            self._post(_body(part, self._form), part.column(EVENT_ID)[0].as_py())
            # More of the last event's transaction may follow. Yielded before the position moves: if the receiver's
            # reply is lost, it gets the events again with the same ids.
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
        """Post once; return a transient error, and the delay in seconds that the receiver requests."""
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
        # The response is longer than what is read of it: its rest would be taken for the next one.
        if not response.isclosed():
            self.close()
        return response


def cut_into_batches(events: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
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

"""The CopyData messages of a replication connection, read by libpq."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import psycopg
from psycopg import pq
from psycopg.pq import abc

from rowtide.core.values import frozen
from rowtide.log.batches import LARGE_MESSAGE_BYTES
from rowtide.log.log_source import ReceivedMessages, SelectableEvent, await_readable
from rowtide.log.postgres.stream.xlog_data import XLOG_DATA, is_logical_message

_FEW_BYTES = 8 * 1024
"""Less than libpq reads at once if more is available."""
_GATHERING_S = 0.001
"""The server sends each message separately, over TCP faster than they can be fetched one by one. Waiting until a few
have arrived takes a fifth of the system calls and wake-ups.
"""


@frozen
class Report:
    """An error or a notice of the server; `text` is the whole of it, `primary` its first line."""

    sqlstate: str
    primary: str
    text: str

    @classmethod
    def of(cls, result: abc.PGresult) -> Report:
        return cls(
            _field(result, pq.DiagnosticField.SQLSTATE),
            _field(result, pq.DiagnosticField.MESSAGE_PRIMARY),
            _one_line(result.error_message.decode(errors="replace")),
        )


class CopyEnded(Exception):
    """The server, or the connection, ended; `report` is None if the server gave no reason."""

    def __init__(self, report: Report | None) -> None:
        super().__init__(report)
        self.report = report


class CopyData(Protocol):
    """A connection in CopyBoth mode."""

    def start(self, command: bytes) -> Report | None:
        """Send a command that begins CopyBoth mode; return the server's refusal, if it refuses."""

    def fetch(self, received: ReceivedMessages, *, max_size: int, max_messages: int) -> bytes | memoryview | None:
        """Add the XLogData messages that have arrived, up to a limit and to the next message of another kind.

        Return that one, a keepalive; None at a limit, or if nothing else has arrived. Raises `CopyEnded`.
        """

    def wait(self, timeout: float, stop: SelectableEvent | None = None) -> bool:
        """Return whether more arrived within some seconds, and before the event. Raises `CopyEnded`."""

    def send(self, message: bytes) -> None:
        """Send a CopyData message. Raises `CopyEnded`."""

    def close(self) -> None:
        """Close what belongs to this object, not the connection."""


class LibpqCopy:
    """Reads by libpq, over any connection. `is_end` decides by a server's notice whether the messages before it are the
    last.
    """

    def __init__(self, connection: abc.PGconn, is_end: Callable[[Report], bool]) -> None:
        self._connection = connection
        self._is_end = is_end
        self._has_ended = False
        self._fetched = 0
        connection.notice_handler = self._read_notice

    def start(self, command: bytes) -> Report | None:
        result = self._connection.exec_(command)
        return None if result.status == pq.ExecStatus.COPY_BOTH else Report.of(result)

    def fetch(self, received: ReceivedMessages, *, max_size: int, max_messages: int) -> bytes | memoryview | None:
        get, messages = self._connection.get_copy_data, received.messages
        while received.size < max_size and len(messages) < max_messages:
            try:
                size, data = get(1)
            except psycopg.Error as error:
                raise broken(str(error)) from error
            if self._has_ended:
                raise CopyEnded(None)
            if size == 0:
                return None
            if size < 0:
                raise CopyEnded(self._reason())
            if data[0] != XLOG_DATA:
                return data
            if size >= LARGE_MESSAGE_BYTES and is_logical_message(data):
                continue  # an application's message: no announcement is so large
            messages.append(data)
            received.size += size
            self._fetched += size
            received.keepalive = None
        return None

    def wait(self, timeout: float, stop: SelectableEvent | None = None) -> bool:
        if self._fetched < _FEW_BYTES:
            time.sleep(_GATHERING_S)
        self._fetched = 0
        is_ready = await_readable(self._connection.socket, timeout, stop)
        if is_ready:
            try:
                self._connection.consume_input()
            except psycopg.Error as error:
                raise broken(str(error)) from error
        return is_ready

    def send(self, message: bytes) -> None:
        try:
            self._connection.put_copy_data(message)
            self._connection.flush()
        except psycopg.Error as error:
            raise broken(str(error)) from error

    def close(self) -> None:
        """Do nothing: this class owns only the connection."""

    def _reason(self) -> Report | None:
        result = self._connection.get_result()
        return None if result is None else Report.of(result)

    def _read_notice(self, notice: abc.PGresult) -> None:
        self._has_ended |= self._is_end(Report.of(notice))


def broken(reason: str) -> CopyEnded:
    """Return the end of a connection that broke, for a reason of the driver's or the system's."""
    text = _one_line(reason)
    return CopyEnded(Report("", text, text))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _field(result: abc.PGresult, field: pq.DiagnosticField) -> str:
    return (result.error_field(field) or b"").decode(errors="replace")

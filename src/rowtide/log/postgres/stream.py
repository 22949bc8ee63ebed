"""The replication stream: messages from the walsender and confirmations back, over libpq; it knows only frames."""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psycopg
from psycopg import pq
from psycopg.pq import abc

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import format_log_position, parse_log_position
from rowtide.databases.postgres.connect import open_replication_connection, pin_settings, stream_settings
from rowtide.databases.postgres.errors import NoFreeSender, UnexpectedSqlError, translated
from rowtide.databases.postgres.quoting import quote
from rowtide.log.batches import LARGE_MESSAGE_BYTES
from rowtide.log.errors import SettingNotPinned, SlotInUse, SlotMissing, StreamEnded
from rowtide.log.postgres.xlog_data import is_logical_message
from rowtide.log.source import ChangeRefused, Keepalive, Received

_XLOG_DATA = ord("w")
_KEEPALIVE = struct.Struct(">cqqb")
_STATUS = struct.Struct(">cqqqqb")
_EPOCH_2000_US = 946_684_800_000_000
_FEW_BYTES = 8 * 1024
"""Less than libpq reads at once if more is available."""
_GATHERING_S = 0.001
"""The server sends each message by itself, over TCP faster than it can be fetched one by one. Waiting until a few
have arrived takes a fifth of the system calls and wake-ups.
"""
_UNSENDABLE = ("22", "54", "XX")
"""SQLSTATE classes of errors that recur with the same change: a character that UTF-8 lacks, a text beyond the
server's limits, damaged data.
"""
_UNKNOWN_PUBLICATION = "42704"
_SKIPPED_PUBLICATION = "55000"
_EPOCH_2000 = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class StreamIdentity:
    """The system and timeline that the stream comes from; `flushed` is the end of its log at connect."""

    system_identifier: str
    timeline: int
    flushed: int


@dataclass(frozen=True, slots=True)
class TimelineFork:
    """A timeline of the server's history ended at this log position."""

    timeline: int
    end: int


class ReplicationStream:
    """One walsender connection, from `START_REPLICATION` to its end. Not thread-safe."""

    def __init__(self, connection: abc.PGconn) -> None:
        self._connection = connection
        # A local socket holds a few hundred messages: there the server would have to wait.
        self._requires_all = False
        self._misses_publication = False
        connection.notice_handler = self._read_notice
        self._gathering_s = 0.0 if connection.host.startswith(b"/") else _GATHERING_S

    @classmethod
    def connect(cls, url: str, *, application_name: str) -> ReplicationStream:
        """Connect, set the session settings and verify them. Raises `SettingNotPinned` and connection errors."""
        connection = open_replication_connection(url, application_name=application_name)
        stream = cls(connection)
        settings = stream_settings((connection.parameter_status(b"server_encoding") or b"").decode())
        (values,) = stream._query(pin_settings(settings))
        for (name, wanted), actual in zip(settings.items(), values, strict=True):
            if actual.replace(" ", "").lower() != wanted.replace(" ", "").lower():
                raise SettingNotPinned(name, actual, wanted)
        return stream

    def identify(self) -> StreamIdentity:
        """Return the server's system identifier and timeline (IDENTIFY_SYSTEM)."""
        system, timeline, flushed, _ = self._query("IDENTIFY_SYSTEM")[0]
        return StreamIdentity(system, int(timeline), parse_log_position(flushed))

    def read_timeline_history(self, timeline: int) -> tuple[TimelineFork, ...]:
        """Return where each earlier timeline ended, oldest first."""
        if timeline == 1:
            return ()
        content = self._query(f"TIMELINE_HISTORY {timeline}")[0][1]
        lines = (line.split("\t") for line in content.splitlines() if line and not line.startswith("#"))
        return tuple(TimelineFork(int(parts[0]), parse_log_position(parts[1])) for parts in lines)

    @property
    def misses_publication(self) -> bool:
        """Whether a publication did not exist when the next transaction was written: its changes would be missing."""
        return self._misses_publication

    def start(
        self,
        slot: str,
        publications: Sequence[str],
        position: int,
        *,
        reads_messages: bool,
        requires_all: bool = False,
    ) -> None:
        """Start streaming the changes of publications from a log position on, with logical messages if wanted.

        `requires_all`: the stream ends if one of them does not exist. (Up to 17 the server itself ends it.) Raises
        `SlotInUse`, `NoFreeSender` and connection errors.
        """
        self._requires_all = requires_all
        options = f"proto_version '1', publication_names '{','.join(map(quote, publications))}'"
        if reads_messages:
            options += ", messages 'true'"
        start = f"START_REPLICATION SLOT {quote(slot)} LOGICAL {format_log_position(position)} ({options})"
        result = self._connection.exec_(start.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise _refusal(result, slot)

    def receive(
        self,
        received: Received,
        *,
        max_size: int,
        max_messages: int,
        until: float,
        ends_with_mark: Callable[[Sequence[bytes]], bool],
    ) -> None:
        """Add what arrives to `received`, until a limit or the time (`time.monotonic`) is reached, or nothing
        follows a mark.
        """
        get, messages = self._connection.get_copy_data, received.messages
        fetched = received.size
        while received.size < max_size and len(messages) < max_messages:
            try:
                size, data = get(1)
            except psycopg.Error as error:
                raise StreamEnded(" ".join(str(error).split())) from error
            if self._misses_publication and self._requires_all:
                # Sent before this message, and after what is in `received`.
                raise StreamEnded("a publication was not there")
            if size >= LARGE_MESSAGE_BYTES and is_logical_message(data):
                continue  # an application's message: no announcement is so large
            if size > 0:
                if data[0] == _XLOG_DATA:
                    # A copy: else the garbage collector traverses libpq's buffers over and over, half of the time.
                    messages.append(bytes(data))
                    received.size += size
                    received.keepalive = None
                else:
                    received.keepalive, reply = _read_keepalive(data)
                    received.reply_requested |= reply
                    if reply:
                        return
            elif size == 0:
                if received.size > fetched and ends_with_mark(messages):
                    received.is_marked = True
                    return
                if self._gathering_s and received.size - fetched < _FEW_BYTES:
                    time.sleep(self._gathering_s)
                fetched = received.size
                if not self._wait(until):
                    return
            else:
                raise self._end()

    def confirm(self, position: int) -> None:
        """Confirm a position, below which the server may remove its log. Raises `StreamEnded`."""
        now = time.time_ns() // 1000 - _EPOCH_2000_US
        try:
            self._connection.put_copy_data(_STATUS.pack(b"r", position, position, position, now, 0))
            self._connection.flush()
        except psycopg.Error as error:
            raise StreamEnded(" ".join(str(error).split())) from error

    def close(self) -> None:
        self._connection.finish()

    def _wait(self, until: float) -> bool:
        timeout = until - time.monotonic()
        if timeout <= 0:
            return False
        ready, _, _ = select.select([self._connection.socket], [], [], timeout)
        if ready:
            try:
                self._connection.consume_input()
            except psycopg.Error as error:
                raise StreamEnded(" ".join(str(error).split())) from error
        return bool(ready)

    def _end(self) -> Exception:
        """Return the reason for the stream's end: a broken connection, or a change that the server cannot send."""
        result = self._connection.get_result()
        if result is None:
            return StreamEnded("the server closed the stream")
        reason = " ".join(result.error_message.decode(errors="replace").split())
        # Until 17 an error, from 18 on a warning.
        self._misses_publication |= _sqlstate(result) == _UNKNOWN_PUBLICATION
        if _sqlstate(result).startswith(_UNSENDABLE):
            primary = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b""
            return ChangeRefused(f"the server says: {primary.decode(errors='replace')}")
        return StreamEnded(reason or "the server closed the stream")

    def _read_notice(self, notice: abc.PGresult) -> None:
        self._misses_publication |= _sqlstate(notice) == _SKIPPED_PUBLICATION

    def _query(self, command: str) -> list[list[str]]:
        with translated():
            result = self._connection.exec_(command.encode())
        if result.status != pq.ExecStatus.TUPLES_OK:
            raise _refusal(result)
        return [
            [(result.get_value(row, column) or b"").decode() for column in range(result.nfields)]
            for row in range(result.ntuples)
        ]


def _sqlstate(result: abc.PGresult) -> str:
    return (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()


def _read_keepalive(data: bytes | memoryview) -> tuple[Keepalive, bool]:
    """Return a keepalive, and whether it requests a reply: the server may be in the middle of its work then."""
    _, position, sent_us, reply = _KEEPALIVE.unpack(data)
    as_of = None if reply else _EPOCH_2000 + timedelta(microseconds=sent_us)
    return Keepalive(position, as_of), bool(reply)


def _refusal(result: abc.PGresult, slot: str = "") -> RowtideError:
    """Return the error for a command that the walsender refused."""
    reason = " ".join(result.error_message.decode(errors="replace").split())
    sqlstate = _sqlstate(result)
    if sqlstate == "55006":
        return SlotInUse(slot, reason)
    if sqlstate == "42704":
        return SlotMissing(slot)
    if sqlstate == "53300":
        return NoFreeSender()
    if not sqlstate or sqlstate.startswith(("08", "57")):
        return StreamEnded(reason)
    return UnexpectedSqlError(sqlstate, reason)

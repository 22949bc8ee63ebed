"""The replication stream: receives messages from the walsender and sends confirmations; it interprets only their
frames.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from psycopg import pq
from psycopg.pq import abc

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import format_log_position, parse_log_position
from rowtide.core.redaction import shown
from rowtide.core.values import frozen
from rowtide.databases.postgres.connect import open_replication_connection
from rowtide.databases.postgres.errors import NoFreeSender, UnexpectedSqlError, translated
from rowtide.databases.postgres.quoting import quote
from rowtide.databases.postgres.session_settings import pin_settings, stream_settings
from rowtide.log.errors import SettingNotPinned, SlotInUse, SlotMissing, StreamEnded
from rowtide.log.log_source import ChangeNotReceivable, Keepalive, ReceivedMessages, SelectableEvent, StreamLost
from rowtide.log.postgres.stream.copy_data import CopyData, CopyEnded, LibpqCopy, Report

_ASK_AFTER_S = 15.0
"""After this silence the server is asked for a reply: it sends keepalives by itself within `wal_sender_timeout`, but
none if that is 0.
"""
_KEEPALIVE = struct.Struct(">cqqb")
_STATUS = struct.Struct(">cqqqqb")
_EPOCH_2000_US = 946_684_800_000_000
_UNSENDABLE = ("22", "54", "XX")
"""SQLSTATE classes of errors that recur with the same change: a character that UTF-8 lacks, a text beyond the
server's limits, damaged data. All of class 22, since a walsender runs no query of ours that could be at fault; copying
tables, where one could, has its own list.
"""
# undefined_object: up to PostgreSQL 17 a missing publication is an error of the stream.
_UNKNOWN_PUBLICATION = "42704"
# object_not_in_prerequisite_state: from 18 on it is a warning, and the stream continues without the publication.
_SKIPPED_PUBLICATION = "55000"
_EPOCH_2000 = datetime(2000, 1, 1, tzinfo=UTC)


@frozen
class StreamIdentity:
    """The system and timeline that the stream comes from; `flushed` is the end of its log at connect."""

    system_identifier: str
    timeline: int
    flushed: int


@frozen
class TimelineFork:
    """A timeline of the server's history ended at this log position."""

    timeline: int
    end: int


@frozen
class NewSlot:
    """A slot was created: what committed below `start` is seen by the exported snapshot, the rest is streamed."""

    start: int
    snapshot: str


class ReplicationStream:
    """One walsender connection, from `START_REPLICATION` to its end. Not thread-safe."""

    def __init__(self, connection: abc.PGconn, stop: SelectableEvent | None = None) -> None:
        self._connection = connection
        self._stop = stop
        self._heard = time.monotonic()
        self._requires_all = False
        self._misses_publication = False
        self._copy: CopyData = LibpqCopy(connection, self._read_notice)

    @classmethod
    def connect(cls, url: str, *, application_name: str, stop: SelectableEvent | None = None) -> ReplicationStream:
        """Connect, set the session settings and verify them. Raises `SettingNotPinned` and connection errors.

        `stop` ends waits for messages early.
        """
        connection = open_replication_connection(url, application_name=application_name)
        stream = cls(connection, stop)
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

    def create_slot(self, slot: str, *, has_failover: bool) -> NewSlot:
        """Create a slot, and export the snapshot of its start (CREATE_REPLICATION_SLOT).

        Waits for open transactions. The snapshot can be imported until the next command of the stream.
        """
        options = "SNAPSHOT 'export'" + (", FAILOVER" if has_failover else "")
        _, start, snapshot, _ = self._query(f"CREATE_REPLICATION_SLOT {quote(slot)} LOGICAL pgoutput ({options})")[0]
        return NewSlot(parse_log_position(start), snapshot)

    def make_failover_slot(self, slot: str) -> None:
        """Let standbys keep a copy of a slot (ALTER_REPLICATION_SLOT, PostgreSQL 17). Waits while it is in use."""
        with translated():
            result = self._connection.exec_(f"ALTER_REPLICATION_SLOT {quote(slot)} (FAILOVER true)".encode())
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise _refusal(Report.of(result), slot)

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
        requires_all: bool = False,
    ) -> None:
        """Start streaming the changes of publications from a log position on, with logical messages.

        `requires_all`: the stream ends if one of them does not exist. (Up to 17 the server itself ends it.) Raises
        `SlotInUse`, `NoFreeSender` and connection errors.
        """
        self._requires_all = requires_all
        options = f"proto_version '1', publication_names '{','.join(map(quote, publications))}', messages 'true'"
        start = f"START_REPLICATION SLOT {quote(slot)} LOGICAL {format_log_position(position)} ({options})"
        if self._connection.host.startswith(b"/"):
            # Imported here because it imports NumPy, and checks only connect.
            from rowtide.log.postgres.stream.local_copy import LocalCopy

            self._copy = LocalCopy(self._connection, self._read_notice)
        with self._translated():
            refused = self._copy.start(start.encode())
        if refused is not None:
            raise _refusal(refused, slot)

    def receive(
        self,
        received: ReceivedMessages,
        *,
        max_size: int,
        max_messages: int,
        until: float,
        ends_with_mark: Callable[[Sequence[bytes]], bool],
    ) -> StreamLost | ChangeNotReceivable | None:
        """Add what arrives to `received`, until a limit or the time (`time.monotonic`) is reached, or nothing
        follows a mark. Return how the stream ended, None while it goes on.
        """
        try:
            self._receive(received, max_size, max_messages, until, ends_with_mark)
        except CopyEnded as ended:
            report = ended.report
            if report is not None and report.sqlstate.startswith(_UNSENDABLE):
                return ChangeNotReceivable(f"the server says: {shown(report.primary)}")
            return StreamLost(self._name_end(ended))
        return None

    def _receive(
        self,
        received: ReceivedMessages,
        max_size: int,
        max_messages: int,
        until: float,
        ends_with_mark: Callable[[Sequence[bytes]], bool],
    ) -> None:
        fetched = received.size
        while received.size < max_size and len(received.messages) < max_messages:
            keepalive = self._copy.fetch(received, max_size=max_size, max_messages=max_messages)
            if keepalive is not None or received.size > fetched:
                self._heard = time.monotonic()
            if keepalive is not None:
                received.keepalive, reply = _read_keepalive(keepalive)
                received.reply_requested |= reply
                if reply:
                    return
            elif received.size < max_size and len(received.messages) < max_messages:
                if received.size > fetched and ends_with_mark(received.messages):
                    received.is_marked = True
                    return
                fetched = received.size
                if not self._wait(until):
                    return

    @property
    def unheard_s(self) -> float:
        """How long nothing has come from the server."""
        return time.monotonic() - self._heard

    @property
    def sender_id(self) -> int:
        """The process id of the walsender."""
        return self._connection.backend_pid

    def confirm(self, position: int) -> None:
        """Confirm a position, below which the server may remove its log; ask a silent server for a reply.

        Raises `StreamEnded`.
        """
        asks = self.unheard_s > _ASK_AFTER_S
        now = time.time_ns() // 1000 - _EPOCH_2000_US
        with self._translated():
            self._copy.send(_STATUS.pack(b"r", position, position, position, now, asks))

    def close(self) -> None:
        self._copy.close()
        self._connection.finish()

    def _wait(self, until: float) -> bool:
        timeout = until - time.monotonic()
        return timeout > 0 and self._copy.wait(timeout, self._stop)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise `StreamEnded` with the reason for the stream's end."""
        try:
            yield
        except CopyEnded as ended:
            raise self._name_end(ended) from ended

    def _name_end(self, ended: CopyEnded) -> StreamEnded:
        report = ended.report
        if report is None:
            return StreamEnded("the server closed the stream")
        # Until 17 an error, from 18 on a warning.
        self._misses_publication |= report.sqlstate == _UNKNOWN_PUBLICATION
        return StreamEnded(report.text or "the server closed the stream")

    def _read_notice(self, notice: Report) -> bool:
        """Return whether the stream ends before the next message, because that would lack a required publication."""
        self._misses_publication |= notice.sqlstate == _SKIPPED_PUBLICATION
        return self._misses_publication and self._requires_all

    def _query(self, command: str) -> list[list[str]]:
        with translated():
            result = self._connection.exec_(command.encode())
        if result.status != pq.ExecStatus.TUPLES_OK:
            raise _refusal(Report.of(result))
        return [
            [(result.get_value(row, column) or b"").decode() for column in range(result.nfields)]
            for row in range(result.ntuples)
        ]


def _read_keepalive(data: bytes | memoryview) -> tuple[Keepalive, bool]:
    """Return a keepalive, and whether it requests a reply; such a keepalive may come in the middle of the server's
    work.
    """
    _, position, sent_us, reply = _KEEPALIVE.unpack(data)
    as_of = None if reply else _EPOCH_2000 + timedelta(microseconds=sent_us)
    return Keepalive(position, as_of), bool(reply)


def _refusal(report: Report, slot: str = "") -> RowtideError:
    """Return the error for a command that the walsender refused."""
    sqlstate, reason = report.sqlstate, report.text
    if sqlstate == "55006":
        return SlotInUse(slot, reason)
    if sqlstate == "42704":
        return SlotMissing(slot)
    if sqlstate == "53300":
        return NoFreeSender()
    # Also a command that was cancelled (57014): a stream is opened again, where another session would report it.
    if not sqlstate or sqlstate.startswith(("08", "57")):
        return StreamEnded(reason)
    return UnexpectedSqlError(sqlstate, reason)

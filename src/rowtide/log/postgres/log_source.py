"""PostgreSQL's log as the log reader uses it: one stream, one decoder, and a session that verifies both.

Commits are searched for in all messages of a batch at once. The log reader verifies marks of delivery by the secrets of
the subscriptions that deliver to the database.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import numpy as np
from sqlalchemy import Connection, text

from rowtide.core.errors import Remedy, RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.errors import RightMissing, WritesRefused, translated
from rowtide.databases.postgres.silent_sessions import watched_of
from rowtide.events.catalogue import HeartbeatNotWritten, MarkNotVerified
from rowtide.events.event import emit
from rowtide.log.batches import Messages
from rowtide.log.errors import ChangeUnreadable, HeartbeatRefused, MarkUnverified, SlotInUse, StreamEnded
from rowtide.log.features import ORIGINS
from rowtide.log.log_source import ChangeNotReceivable, Decoded, EndOfStream, ReceivedMessages, StreamLost, Undecodable
from rowtide.log.membership import AlteredColumn, ControlRow
from rowtide.log.origin_marks import SecretWanted
from rowtide.log.postgres import control_table, ddl_triggers, pgoutput, slot
from rowtide.log.postgres.lease import verify_format
from rowtide.log.postgres.missed_ddl import attach_partitions, end_dropped, find_altered_columns
from rowtide.log.postgres.pgoutput import Decoder
from rowtide.log.postgres.provenance import verify_history, verify_resent, verify_slot_on
from rowtide.log.postgres.restricted_reading import (
    LogAccess,
    RestrictedStream,
    TransactionReread,
    find_refused,
    persist,
)
from rowtide.log.postgres.stream.stream import ReplicationStream
from rowtide.log.postgres.stream.xlog_data import COMMIT, HEADER_BYTES, commit_end, ends_with_mark
from rowtide.log.postgres.table_publications import find_blocker
from rowtide.log.store.entries import TimelineFollowed


def find_commits(messages: Messages) -> tuple[int, int] | None:
    """Return the first and the last Commit, None if there is none."""
    if not messages:
        return None
    octets = np.frombuffer(messages.buffer, np.uint8)
    kinds = np.frombuffer(messages.starts, np.int64) + HEADER_BYTES
    ends = np.frombuffer(messages.ends, np.int64)
    complete = np.flatnonzero(kinds < ends)
    commits = complete[octets[kinds[complete]] == COMMIT]
    return (int(commits[0]), int(commits[-1])) if len(commits) else None


def find_secret(connection: Connection, subscription: str) -> str | None:
    """Return a subscription's secret by its guid; None if there is no such subscription, or this role may not read."""
    with translated():
        if not connection.execute(text(_IS_READABLE)).scalar_one():
            return None
        return connection.execute(text(_SECRET), {"guid": subscription}).scalar()


_IS_READABLE = f"""
select coalesce(has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select'), false)
from (select to_regclass('{ORIGINS.path}')) found (oid)
left join pg_class c on c.oid = found.oid
left join pg_namespace n on n.oid = c.relnamespace
"""  # noqa: S608 - of constants

_SECRET = f"select secret from {ORIGINS.path} where subscription_guid = :guid"  # noqa: S608 - of constants


# How long the walsender is silent before it is looked at, and between two looks: each is a query of its session's
# state.
_LOOK_S = 5.0
_SENDER_NAME = "rowtide log reader"
# The walsender is working, for example on a large transaction, unless it waits for messages or for more WAL. Server
# versions spell the last wait event differently.
_SENDER = """
select coalesce(wait_event in ('ClientRead', 'WalSenderMain', 'WalSenderWaitForWal', 'WalSenderWaitForWAL'), false)
from pg_stat_activity where pid = %s
"""
_END_SENDER = """
select pg_terminate_backend(a.pid)
from pg_replication_slots s join pg_stat_activity a on a.pid = s.active_pid
where s.slot_name = %s and a.application_name = %s and a.usename = session_user
"""


class PostgresSource:
    """An open stream from the manifest's position on; with a `reread`, the stream of one transaction."""

    def __init__(
        self, access: LogAccess, stream: ReplicationStream | RestrictedStream, reread: TransactionReread | None = None
    ) -> None:
        self._access = access
        self._connection = access.connection
        with translated():
            self._session = watched_of(access.connection)
        self._definition = access.definition
        self._stream = stream
        self._reread = reread
        with translated():
            self._next_xid, control_oid = access.connection.execute(text(_REFERENCES)).one()
        self._ends_with_mark = partial(ends_with_mark, control_oid=control_oid)
        self._decoder = _open_decoder(access, self._next_xid)
        self._refusal: RowtideError | None = None
        self._next_look = 0.0
        self._secrets: dict[str, str] = {}
        self._has_reported = False
        self._ends_dropped = True

    @classmethod
    def open(cls, access: LogAccess) -> PostgresSource:
        """Connect, verify that nothing is missing since the manifest's position, and start the stream.

        Also verifies that the log is the one that was read. Once the session that holds the lease is gone, no range
        becomes durable and no heartbeat is written. Raises `HistoryDiverged`, `ServerPromoted`, `SlotMissing`,
        `SlotInvalidated`, `SlotAdvanced`, `PublicationAltered`.
        """
        return cls._open(access, was_read=False)

    @classmethod
    def _open(cls, access: LogAccess, *, was_read: bool) -> PostgresSource:
        connection, definition, state = access.connection, access.definition, access.manifest.state
        stream = ReplicationStream.connect(access.url, application_name=_SENDER_NAME, stop=access.stop)
        try:
            timeline = verify_history(stream, state)
            with translated():
                # With the session that holds the lease, so that no other log reader can move the slot during the
                # checks.
                seen = verify_slot_on(timeline, connection, definition.slot, state)
                end_dropped(connection)
                attach_partitions(connection)
                slot.verify_publication(connection, definition)
                if not was_read:
                    with _taking_slot(access):
                        verify_resent(connection, definition, seen.confirmed, state)
                if seen.has_failover is False and seen.active_pid is None:
                    # The slot was created on an earlier version of the server, or by hand.
                    stream.make_failover_slot(definition.slot)
                # Heartbeats need not wait for the disk or a standby. Neither need the ends of dropped members, which
                # this session announces too: after a crash of the server they are found again.
                connection.execute(text("set synchronous_commit to off"))
                _forget_stored(connection, state.control_row)
            if timeline != state.source.timeline:
                # Last: a copy of the server that cannot continue leaves the original's log store unchanged.
                access.manifest.append(TimelineFollowed(token=access.token, timeline=timeline))
            source = cls(access, stream)
            with _taking_slot(access):
                stream.start(definition.slot, [definition.publication], access.manifest.state.position.log)
        except BaseException:
            stream.close()
            raise
        return source

    def receive(
        self, received: ReceivedMessages, *, max_size: int, max_messages: int, until: float
    ) -> EndOfStream | None:
        end = self._stream.receive(
            received,
            max_size=max_size,
            max_messages=max_messages,
            until=until,
            ends_with_mark=self._ends_with_mark,
        )
        if time.monotonic() >= self._next_look and self._stream.unheard_s > self._session.silence_s:
            self._next_look = time.monotonic() + _LOOK_S
            return end or self._find_silent_sender()
        return end

    def _find_silent_sender(self) -> StreamLost | None:
        """Return that the stream is lost if the walsender waits too, although it was asked for a reply."""
        sender, silent_s = self._stream.sender_id, self._stream.unheard_s
        with translated():
            found = self._session.execute(_SENDER, [sender]).fetchone()
        if found is None or found[0]:
            reason = "is gone" if found is None else "waits too"
            return StreamLost(
                StreamEnded(f"nothing came for {silent_s:.0f} s, and the walsender, pid {sender}, {reason}")
            )
        return None

    def confirm(self, position: int) -> None:
        self._stream.confirm(position)

    def decode(self, messages: Sequence[bytes]) -> Decoded:
        present: dict[int, tuple[AlteredColumn, ...] | None] = {}
        secrets: dict[str, str | None] = dict(self._secrets)
        while True:
            try:
                decoded = self._decoder.decode(messages, present, secrets)
                break
            # The decoder does no I/O: it stops without a change of its state, and gets what it asks for together with
            # the same messages.
            except pgoutput.TableWanted as wanted:
                with translated():
                    present[wanted.source_id] = find_altered_columns(self._connection, wanted.source_id)
            except SecretWanted as unknown:
                secrets[unknown.subscription] = self._find_secret(unknown.subscription)
        self._report_unverified(decoded)
        if self._reread is None:
            return decoded
        left_out = self._reread.report(self._access.manifest.state.members)
        return replace(decoded, events=(*left_out, *decoded.events))

    def _find_secret(self, subscription: str) -> str | None:
        found = find_secret(self._connection, subscription)
        if found is not None:
            self._secrets[subscription] = found
        return found

    def _report_unverified(self, decoded: Decoded) -> None:
        """Report only the first one of the connection, since any role can write any number of them."""
        if decoded.unverified and not self._has_reported:
            emit(MarkNotVerified(MarkUnverified(str(decoded.unverified[0]))))
            self._has_reported = True

    def without_refused(self, messages: Sequence[bytes], refused: ChangeNotReceivable) -> PostgresSource:
        try:
            self.decode(messages)
        except Undecodable as stopped:
            raise stopped.error from stopped
        self.close()
        if not self._decoder.in_transaction:
            raise StreamEnded(refused.reason)
        lsn = CommitLsn(self._decoder.name_open_transaction())
        left_out = self._reread.reasons if self._reread is not None else {}
        suspects = [source_id for source_id in self._decoder.find_suspects(messages) if source_id not in left_out]
        tables = {member.source_id for member in self._access.manifest.state.members} - left_out.keys()
        with translated():
            # The transaction is read again, through publications of single tables instead of the one that has all.
            blocker = find_blocker(self._connection, self._definition, tables)
        unreadable = self._name_unreadable(messages, lsn, "; ".join(filter(None, (refused.reason, blocker))))
        if blocker is not None or not suspects:
            raise unreadable
        found = find_refused(suspects, partial(self._is_refused, lsn, unreadable))
        reread = TransactionReread(lsn, {**left_out, found: refused.reason})
        stream = RestrictedStream.open(self._access, reread, tables - {found}, unreadable)
        try:
            return PostgresSource(self._access, stream, reread)
        except BaseException:
            stream.close()
            raise

    def reopen(self) -> PostgresSource:
        self.close()
        # Its walsender may still process a confirmation, so it is not known what it would send again.
        return persist(lambda: PostgresSource._open(self._access, was_read=True))

    def _is_refused(self, lsn: CommitLsn, unreadable: RowtideError, tables: Sequence[int]) -> bool:
        """Return whether the server refuses to send a transaction's changes of some tables."""
        stream = RestrictedStream.open(self._access, TransactionReread(lsn, {}), tables, unreadable)
        try:
            return stream.is_refused(self._access.manifest.state.position.log)
        finally:
            stream.close()

    def _name_unreadable(self, messages: Sequence[bytes], lsn: CommitLsn, reason: str) -> RowtideError:
        table = self._decoder.name_table(messages)
        if table is None:
            # Everything before it is stored: the next connection begins with this transaction, and describes only its
            # tables.
            return StreamEnded(reason)
        return ChangeUnreadable(table, str(lsn), reason)

    def verify(self) -> None:
        with translated():
            # Without the event trigger only the catalogue shows that a table was dropped. If the role lacks the rights
            # to announce that, it lacks them for as long as this connection, so it is not tried again.
            self._ends_dropped = self._ends_dropped and end_dropped(self._connection)
            verify_format(self._connection)
            slot.verify_publication(self._connection, self._definition)

    def write_heartbeat(self, stored: ControlRow | None) -> None:
        """Write a heartbeat, unless no other transaction wrote since the last one; if it is refused, reading continues.

        Partitions added in the meantime are attached. Raises `ConnectionFailed`.
        """
        try:
            with translated():
                attach_partitions(self._connection)
                written = control_table.write_heartbeat(self._connection, self._next_xid, stored)
            self._next_xid = written or self._next_xid
            self._refusal = None
        except RowtideError as error:
            if error.remedy is Remedy.RETRY:
                raise
            if self._refusal is None:
                emit(HeartbeatNotWritten(HeartbeatRefused(str(error))))
            self._refusal = error

    def find_commits(self, messages: Messages) -> tuple[int, int] | None:
        return find_commits(messages)

    def commit_end(self, message: bytes) -> int:
        return commit_end(message)

    def close(self) -> None:
        self._stream.close()


@contextmanager
def _taking_slot(access: LogAccess) -> Iterator[None]:
    """Let the block use the slot; if it is in use, end the walsender of a log reader that lost the lease.

    That log reader may be stopped: with `wal_sender_timeout = 0` its walsender would exist as long as the process. The
    session that holds the lease ends it.
    """
    try:
        yield
    except SlotInUse:
        with translated():
            watched_of(access.connection).execute(_END_SENDER, [access.definition.slot, _SENDER_NAME])
        raise


def _open_decoder(access: LogAccess, xid_reference: int) -> Decoder:
    state = access.manifest.state
    with translated():
        announces_ddl = ddl_triggers.has_triggers(access.connection)
    return Decoder(
        epoch=state.epoch,
        position=state.position,
        members=state.members,
        tables=state.tables.values(),
        xid_reference=xid_reference,
        announces_ddl=announces_ddl,
    )


def _forget_stored(connection: Connection, stored: ControlRow | None) -> None:
    """Delete the rows of `rowtide.control` that the log store has; if that is refused, so is the heartbeat, which
    reports it.
    """
    with suppress(RightMissing, WritesRefused), translated():
        control_table.forget_before(connection, stored)


_REFERENCES = """
select pg_snapshot_xmax(pg_current_snapshot())::text::bigint, coalesce(to_regclass('rowtide.control')::oid::bigint, 0)
"""
"""If the table is created again while the log is read, it has another oid, and its marks do not end a batch early."""

"""PostgreSQL's log as the log reader uses it: one stream, one decoder, and a session that verifies both."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

import psycopg
from sqlalchemy import Connection, text

from rowtide.core.errors import Remedy, RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.catalogue import find_by_id
from rowtide.databases.postgres.encodings import find_codec
from rowtide.databases.postgres.errors import translated
from rowtide.databases.source_table import SourceTable
from rowtide.log.catalogue import SourceDefinition
from rowtide.log.entries import TimelineFollowed
from rowtide.log.errors import ChangeUnreadable, HeartbeatRefused, StreamEnded
from rowtide.log.manifest import Manifest
from rowtide.log.postgres import control, pgoutput, slot
from rowtide.log.postgres.history import verify_history, verify_slot_on
from rowtide.log.postgres.pgoutput import Decoder
from rowtide.log.postgres.resent import verify_resent
from rowtide.log.postgres.stream import ReplicationStream
from rowtide.log.postgres.xlog_data import commit_end, ends_with_mark, is_commit
from rowtide.log.source import ChangeRefused, Decoded, Received, Undecodable

log = logging.getLogger("rowtide.log")


class PostgresSource:
    """An open stream from the manifest's position on."""

    def __init__(
        self,
        stream: ReplicationStream,
        decoder: Decoder,
        connection: Connection,
        definition: SourceDefinition,
        next_xid: int,
        control_oid: int,
    ) -> None:
        self._stream = stream
        self._decoder = decoder
        self._connection = connection
        self._definition = definition
        self._next_xid = next_xid
        self._ends_with_mark = partial(ends_with_mark, control_oid=control_oid)
        self._refusal: RowtideError | None = None

    @classmethod
    def open(
        cls, url: str, connection: Connection, definition: SourceDefinition, manifest: Manifest, token: int
    ) -> PostgresSource:
        """Connect, verify that nothing is missing since the manifest's position, and start the stream.

        `connection` is the session that holds the log lease: no range is kept, no heartbeat written, once it is gone.
        Raises `HistoryDiverged`, `ServerPromoted`, `SlotMissing`, `SlotInvalidated`, `SlotAdvanced`,
        `PublicationAltered`.
        """
        state = manifest.state
        stream = ReplicationStream.connect(url, application_name="rowtide log reader")
        try:
            timeline = verify_history(stream, state)
            with translated():
                confirmed = verify_slot_on(timeline, connection, definition.slot, state).confirmed
                slot.verify_publication(connection, definition)
                verify_resent(connection, definition, confirmed, state)
                xid_reference, control_oid = connection.execute(text(_REFERENCES)).one()
                # A heartbeat waits for no disk and no standby.
                connection.execute(text("set synchronous_commit to off"))
                message_codec = _find_codec(connection) if state.reads_messages else None
            if timeline != state.source.timeline:
                # Last: a copy of the server that cannot go on leaves the original's log store as it is.
                manifest.append(TimelineFollowed(token=token, timeline=timeline))
            stream.start(
                definition.slot, definition.publication, state.position.log, reads_messages=state.reads_messages
            )
        except BaseException:
            stream.close()
            raise
        decoder = Decoder(
            epoch=state.epoch,
            position=state.position,
            members=state.members,
            tables=state.tables.values(),
            xid_reference=xid_reference,
            reads_messages=state.reads_messages,
            message_codec=message_codec or "utf-8",
        )
        return cls(stream, decoder, connection, definition, xid_reference, control_oid)

    def receive(self, received: Received, *, max_size: int, max_messages: int, until: float) -> None:
        self._stream.receive(
            received,
            max_size=max_size,
            max_messages=max_messages,
            until=until,
            ends_with_mark=self._ends_with_mark,
        )

    def confirm(self, position: int) -> None:
        self._stream.confirm(position)

    def decode(self, messages: Sequence[bytes]) -> Decoded:
        present: dict[int, SourceTable | None] = {}
        while True:
            try:
                return self._decoder.decode(messages, present)
            except pgoutput.TableWanted as wanted:
                with translated():
                    present[wanted.source_id] = find_by_id(self._connection, wanted.source_id)

    def explain(self, messages: Sequence[bytes], refused: ChangeRefused) -> RowtideError:
        try:
            self.decode(messages)
        except Undecodable as stopped:
            return stopped.error
        table = self._decoder.name_table(messages)
        if table is None:
            # All before it is stored: the next connection begins with its transaction, and describes its tables only.
            return StreamEnded(refused.reason)
        return ChangeUnreadable(table, str(CommitLsn(self._decoder.name_open_transaction())), refused.reason)

    def verify(self) -> None:
        with translated():
            slot.verify_publication(self._connection, self._definition)

    def beat(self) -> None:
        """Write a heartbeat, unless nobody else wrote since the last one; reading goes on where that is refused.

        Raises `ConnectionFailed`.
        """
        try:
            with translated():
                self._next_xid = control.write_heartbeat(self._connection, self._next_xid) or self._next_xid
            self._refusal = None
        except RowtideError as error:
            if error.remedy is Remedy.RETRY:
                raise
            if self._refusal is None:
                log.warning("%s", HeartbeatRefused(str(error)))
            self._refusal = error

    def is_commit(self, message: bytes) -> bool:
        return is_commit(message)

    def commit_end(self, message: bytes) -> int:
        return commit_end(message)

    def close(self) -> None:
        self._stream.close()


def _find_codec(connection: Connection) -> str | None:
    """Return the codec of the database's encoding: an earlier build's messages are in it."""
    session = connection.connection.driver_connection
    assert isinstance(session, psycopg.Connection)
    return find_codec(session)


_REFERENCES = """
select pg_snapshot_xmax(pg_current_snapshot())::text::bigint, coalesce(to_regclass('rowtide.control')::oid::bigint, 0)
"""
"""One that is made again while the log is read has another oid: its marks close no batch, which closes as others do."""

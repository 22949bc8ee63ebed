"""Checks that the server's log continues the one that was read: by timeline, slot, and the row that was read last."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text

from rowtide.core.errors import Remedy, RowtideError
from rowtide.core.formats import FormatUnnumbered
from rowtide.core.lsn import CommitLsn, format_log_position
from rowtide.databases.postgres.catalogue import ServerIdentity, read_server_identity
from rowtide.databases.postgres.errors import ServerIsStandby, UnexpectedSqlError, translated
from rowtide.events.catalogue import ResentNotVerified
from rowtide.events.event import emit
from rowtide.log.errors import WAY_AFTER_PROMOTION, HistoryDiverged, ManifestCorrupt, ServerPromoted, SlotInUse
from rowtide.log.membership import ControlRow, Heartbeat
from rowtide.log.postgres import slot
from rowtide.log.postgres.stream.stream import ReplicationStream, StreamIdentity, TimelineFork
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.location import is_own, open_store
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.state import ManifestState


def verify_provenance(connection: Connection, manifest: Manifest) -> ServerIdentity:
    """Return the server's identity.

    Raises `HistoryDiverged` if another server wrote what was read last, `ServerIsStandby` at a standby.
    """
    server = read_server_identity(connection)
    if server.in_recovery:
        # A standby has the identity and the slot of its primary, whose log is the one that is read.
        raise ServerIsStandby
    state = manifest.refresh()
    while (difference := _find_difference(connection, server, state)) is not None:
        # A log reader may meanwhile have stored a later row, and deleted the one that was searched for.
        if manifest.refresh().control_row == state.control_row:
            raise HistoryDiverged(difference, str(state.position))
        state = manifest.state
    return server


def find_difference(connection: Connection, state: ManifestState) -> str | None:
    """Return how the server differs from the one that wrote what was read; None if no difference can be found.

    On another timeline the server's history decides. If no row is earlier than the missing one, nothing is proved: the
    log store may have been restored to an earlier state, or the table may have been emptied.
    """
    return _find_difference(connection, read_server_identity(connection), state)


def _find_difference(connection: Connection, server: ServerIdentity, state: ManifestState) -> str | None:
    if server.in_recovery or server.timeline != state.source.timeline:
        return None
    flushed = int(connection.execute(text(_FLUSHED)).scalar_one())
    if flushed < state.position.log:
        return f"its log ends at {format_log_position(flushed)}"
    row = state.control_row
    if row is None or not connection.execute(text(_IS_READABLE)).scalar_one():
        return None
    return _describe(row) if connection.execute(text(_LACKS), _values(row)).scalar_one() else None


def find_owner(connection: Connection, source: SourceDefinition) -> str | None:
    """Return the owner of a source's log store if it is not this database on this server.

    A store without a manifest is left by an interrupted removal, and has no owner. Raises `LogStoreReadFailed`.
    """
    try:
        manifest = Manifest.find(open_store(source.log_store))
    except ManifestCorrupt as error:
        return f"the source that its damaged manifest names ({error.filled_fact})"
    except FormatUnnumbered:
        return "a version of rowtide from before formats had numbers"
    if manifest is None:
        return None
    state = manifest.state
    if not is_own(source, state.source):
        return f"slot {state.source.slot} of system {state.source.system_identifier}"
    timeline = read_server_identity(connection).timeline
    if timeline != state.source.timeline:
        return f"timeline {state.source.timeline} of the server, which is on timeline {timeline} here"
    difference = find_difference(connection, state)
    if difference is not None:
        return f"the server whose log was read, of which this one is a copy ({difference})"
    return None


def _describe(row: ControlRow) -> str:
    return (
        "it did not write the row of rowtide.control that was read last "
        f"(transaction {row.xid}, written at {row.written_at})"
    )


def _values(row: ControlRow) -> dict[str, str]:
    return {"xid": str(row.xid), "written_at": row.written_at}


_FLUSHED = "select (pg_current_wal_flush_lsn() - '0/0')::bigint"

_IS_READABLE = """
select coalesce(has_table_privilege(to_regclass('rowtide.control'), 'select'), false)
       and (select count(*) from pg_attribute
            where attrelid = to_regclass('rowtide.control') and attname in ('xid', 'written_at')
              and not attisdropped) = 2
"""
"""Without the right to read the table, or if another role made it, nothing is verified."""

_LACKS = """
select not exists (select from rowtide.control where xid = cast(cast(:xid as text) as xid8)
                   and written_at = cast(cast(:written_at as text) as timestamptz))
       and exists (select from rowtide.control where xid <= cast(cast(:xid as text) as xid8)
                   and xmin::text::bigint = xid::text::bigint & 4294967295)
"""
"""Rows that were restored from a dump prove nothing: they were not written by the transactions that they name."""


def verify_history(stream: ReplicationStream, state: ManifestState) -> int:
    """Return the server's timeline. Raises `HistoryDiverged` unless its history contains everything below the
    position.
    """
    identity = stream.identify()
    forks = stream.read_timeline_history(identity.timeline) if identity.timeline != state.source.timeline else ()
    difference = find_history_difference(identity, forks, state)
    if difference is not None:
        is_promoted = identity.system_identifier == state.source.system_identifier and bool(forks)
        way = {"way": WAY_AFTER_PROMOTION} if is_promoted else {}
        raise HistoryDiverged(difference, str(state.position), **way)
    return identity.timeline


def verify_slot_on(timeline: int, connection: Connection, name: str, state: ManifestState) -> slot.SlotState:
    """Verify the slot's present state, as `verify_seen_slot` does: for the log reader, whose position only it moves."""
    return verify_seen_slot(timeline, slot.find_slot(connection, name), name, state)


def verify_seen_slot(timeline: int, seen: slot.SlotState | None, name: str, state: ManifestState) -> slot.SlotState:
    """Verify a slot's state; on another timeline than the one that was read, raise an error that says so.

    A promoted standby, or a copy of the server, lacks the slot or has it at another position. Beside a running log
    reader, read the slot before `state`: see `slot.require_usable`.
    """
    try:
        return slot.require_usable(seen, name, state.position.log)
    except RowtideError as error:
        if timeline == state.source.timeline or error.remedy is not Remedy.STOP:
            raise
        raise ServerPromoted(timeline, state.source.timeline, error.filled_fact) from error


def find_history_difference(
    identity: StreamIdentity, forks: Sequence[TimelineFork], state: ManifestState
) -> str | None:
    """Return how the server's history differs from the one that was read, None if it continues it. Pure."""
    if identity.system_identifier != state.source.system_identifier:
        return f"system {identity.system_identifier}, not {state.source.system_identifier}"
    if identity.flushed < state.position.log:
        return f"its log ends at {format_log_position(identity.flushed)}"
    if identity.timeline == state.source.timeline:
        return None
    ends = {fork.timeline: fork.end for fork in forks}
    end = ends.get(state.source.timeline)
    if end is None:
        return f"timeline {identity.timeline} does not come from timeline {state.source.timeline}"
    # What was read between the fork and the position is not in this server's history, but consumers may have it.
    if end < state.position.log:
        return f"timeline {state.source.timeline} ended at {format_log_position(end)}"
    return None


# object_in_use: another connection streams from the slot, so it cannot be decoded here.
_IN_USE = "55006"


def find_last_stored(state: ManifestState) -> CommitLsn | None:
    """Return the last transaction of the present epoch in the log store, None if it is not known. Pure."""
    heartbeats = (event.commit_lsn for event in state.events if isinstance(event, Heartbeat))
    stored = [lsn for lsn in (*(segment.last for segment in state.segments), *heartbeats) if lsn.epoch == state.epoch]
    return max(stored, default=None)


def verify_resent(connection: Connection, definition: SourceDefinition, confirmed: int, state: ManifestState) -> None:
    """Verify that the server would send again what is stored and not confirmed, without moving the slot.

    Raises `HistoryDiverged`, `SlotInUse`.
    """
    last = find_last_stored(state)
    # Below the confirmed position the server sends nothing again: there is nothing to compare.
    if last is None or last.log < confirmed:
        return
    asked = {
        "slot": definition.slot,
        "end": last.log + 1,
        "publication": definition.publication,
        # In Begin the transaction's commit LSN follows the kind byte.
        "begin": b"B" + last.log.to_bytes(8),
    }
    try:
        with translated():
            is_sent = connection.execute(text(_IS_SENT), asked).scalar_one()
    except UnexpectedSqlError as error:
        if error.sqlstate == _IN_USE:
            raise SlotInUse(definition.slot, error.reason) from error
        # For example, the server lacks resources: then nothing is known.
        emit(ResentNotVerified(error))
        return
    if not is_sent:
        raise HistoryDiverged(f"it has no transaction at {last}, which was read", str(state.position))


# Without a limit of changes, because a transaction is counted whole: the peek ends at `end`, so the server decodes what
# lies between the slot's restart position and the last transaction that was read.
_IS_SENT = """
select exists (
    select from pg_logical_slot_peek_binary_changes(
        :slot, '0/0'::pg_lsn + cast(:end as numeric), null, 'proto_version', '1', 'publication_names', :publication)
    where substring(data from 1 for 9) = :begin)
"""

"""Checks whether this server wrote what its log store holds, and finds the log store's owner if not.

A server started on a copy of another's files has the same system identifier, and on the same timeline its history does
not differ. But it lacks what the original wrote since: rows of `rowtide.control`, which are kept from the last one that
the log store has (see `control`), and the log itself up to the position.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

from rowtide.core.formats import FormatUnnumbered
from rowtide.core.lsn import format_log_position
from rowtide.databases.postgres.catalogue import ServerIdentity, read_server_identity
from rowtide.databases.postgres.errors import ServerIsStandby
from rowtide.log.announcements import ControlRow
from rowtide.log.errors import HistoryDiverged, ManifestCorrupt
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.location import open_store
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.ownership import is_own
from rowtide.log.store.state import ManifestState


def verify_provenance(connection: Connection, manifest: Manifest) -> ServerIdentity:
    """Return the server's identity.

    Raises `HistoryDiverged` if another server wrote what was read last, `ServerIsStandby` at a standby.
    """
    server = read_server_identity(connection)
    if server.in_recovery:
        # It has the identity and the slot of its primary, which is the one that is read.
        raise ServerIsStandby
    state = manifest.refresh()
    while (difference := _find_difference(connection, server, state)) is not None:
        # A log reader may have stored a later row meanwhile, and deleted the one that was looked for.
        if manifest.refresh().control_row == state.control_row:
            raise HistoryDiverged(difference, str(state.position))
        state = manifest.state
    return server


def find_difference(connection: Connection, state: ManifestState) -> str | None:
    """Return how the server differs from the one that wrote what was read; None if no difference can be found.

    On another timeline the server's history decides (`history`). A log store restored to an earlier state, and an
    emptied table, prove nothing: no row is there then that is earlier than the missing one.
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

    A store without a manifest is what an interrupted removal left. Raises `LogStoreReadFailed`.
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
"""Rows restored from a dump prove nothing: other transactions wrote them than those that they name."""

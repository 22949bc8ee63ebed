"""Checks that the server would send again what was read and not confirmed: that its log is the one that was read.

Two servers have the same identifiers if one was copied from the other's files while that was stopped. Each has a slot
at the position of the copy, and its own log since. Ordinarily the slot is past everything stored; after a crash of
either side it may be before it, and stored transactions are sent once more.
"""

from __future__ import annotations

import logging

from sqlalchemy import Connection, text

from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.errors import UnexpectedSqlError, translated
from rowtide.log.errors import HistoryDiverged, SlotInUse
from rowtide.log.membership import Heartbeat
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.state import ManifestState

log = logging.getLogger("rowtide.log")

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
    if last is None or last.log < confirmed:
        return
    asked = {
        "slot": definition.slot,
        "end": last.log + 1,
        "publication": definition.publication,
        "begin": b"B" + last.log.to_bytes(8),
    }
    try:
        with translated():
            is_sent = connection.execute(text(_IS_SENT), asked).scalar_one()
    except UnexpectedSqlError as error:
        if error.sqlstate == _IN_USE:
            raise SlotInUse(definition.slot, error.reason) from error
        # Too much for the server to hold at once, for one: nothing is known then.
        log.warning("resent_transactions_not_verified: %s", error)
        return
    if not is_sent:
        raise HistoryDiverged(f"it has no transaction at {last}, which was read", str(state.position))


_IS_SENT = """
select exists (
    select from pg_logical_slot_peek_binary_changes(
        :slot, '0/0'::pg_lsn + cast(:end as numeric), null, 'proto_version', '1', 'publication_names', :publication)
    where substring(data from 1 for 9) = :begin)
"""

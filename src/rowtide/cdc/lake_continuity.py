"""Whether a lake continues the log store that it is captured from, since one of them may have been restored alone.

A database and its log store that were restored together write other transactions at LSNs that the lake already has. So
the transaction that the lake published last has to be in the log store, with the same commit time.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from rowtide.cdc.definitions import READER
from rowtide.cdc.errors.capturing import LakeOfAnotherHistory
from rowtide.cdc.published import LastTransaction, read_last_transaction
from rowtide.cdc.system_tables import LakeState
from rowtide.core.lsn import Position
from rowtide.log.membership import Heartbeat
from rowtide.log.store.segments import read_segment
from rowtide.log.store.state import ManifestState, segments_between
from rowtide.storage.store import Store


def is_behind(lake_state: LakeState, state: ManifestState) -> bool:
    """Return whether the log store has recorded more cycles than the lake has: the lake was restored."""
    reader = state.readers.get(READER)
    return reader is not None and reader.cycle > lake_state.cycle


def find_contradiction(
    lake: str, position: Position | None, state: ManifestState, store: Store, *, is_read_on: bool = True
) -> str | None:
    """Return why the log store cannot be the one from which a lake was captured up to a position; None if nothing
    contradicts it.

    The lake's last publication is read only if the log store has not recorded that capture got that far: after a crash,
    or a restore. If the log store itself is not that far, and `is_read_on`, nothing follows from that: after a power
    failure it lacks its last entries, which the log reader reads again. Raises `LogStoreReadFailed`.
    """
    reader = state.readers.get(READER)
    if position is None or (reader is not None and position <= reader.position):
        return None
    if position.epoch > state.epoch:
        return f"the lake was captured up to {position}, and the log store is at {state.position}, an epoch before"
    if position > state.position:
        behind = f"the lake was captured up to {position}, and the log was read up to {state.position}"
        return None if is_read_on else behind
    last = read_last_transaction(lake)
    if last is None or last.lsn.epoch < state.epoch or state.low.covers(last.lsn) or _has(last, state, store):
        return None
    return f"it lacks the transaction of {last.committed_at} at LSN {last.lsn}, which the lake has"


def _has(last: LastTransaction, state: ManifestState, store: Store) -> bool:
    if any(
        isinstance(event, Heartbeat) and event.commit_lsn == last.lsn and event.committed_at == last.committed_at
        for event in state.events
    ):
        return True
    begin, end = Position(last.lsn.value), Position(last.lsn.value + 1)
    return any(_is_in(last, segment.path, store) for segment in segments_between(state, begin, end))


def _is_in(last: LastTransaction, path: str, store: Store) -> bool:
    records = read_segment(store, path, ("commit_lsn", "commit_time"))
    found = records.filter(pc.equal(records["commit_lsn"], pa.scalar(last.lsn.value, pa.int64())))
    return last.committed_at in found["commit_time"].to_pylist()


def require_continued(
    lake: str, position: Position | None, state: ManifestState, store: Store, *, is_read_on: bool = True
) -> None:
    """Raise `LakeOfAnotherHistory` where `find_contradiction` finds one."""
    contradiction = find_contradiction(lake, position, state, store, is_read_on=is_read_on)
    if contradiction is not None:
        raise LakeOfAnotherHistory(contradiction)

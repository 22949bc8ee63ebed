"""When the transactions in the log store were committed."""

from __future__ import annotations

from datetime import datetime

from rowtide.core.lsn import Position
from rowtide.log.store.state import ManifestState, segments_between
from rowtide.storage.store import Store


def find_oldest_waiting(store: Store, state: ManifestState, position: Position) -> datetime | None:
    """Return when the first transaction after a position committed; None if the log store has none."""
    for segment in segments_between(state, position, state.position):
        from rowtide.log.store.segments import read_segment

        records = read_segment(store, segment.path, ("commit_lsn", "commit_time"))
        behind = records.filter(records["commit_lsn"].to_numpy() >= position.value)
        times = [time for time in behind["commit_time"].unique().to_pylist() if isinstance(time, datetime)]
        if times:
            return min(times)
    return None

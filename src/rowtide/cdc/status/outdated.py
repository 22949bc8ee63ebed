"""Instances whose snapshot and change rows are no longer their table, or whose key is lost: from the lake."""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.cdc.ddl.history import ListedChange, read_histories
from rowtide.cdc.instances import Instance
from rowtide.cdc.published import ENABLED, read_instances, read_visible_publication
from rowtide.cdc.recorded_snapshots import SnapshotState, read_snapshots


def find_outdated(lake: str) -> tuple[ListedChange, ...]:
    """Return the last statement that left no change rows of what it changed, of each instance copied before it.

    An instance that is copied again meanwhile is left out. Raises `LakeReadFailed`, `TableUnreadable`.
    """
    publication = read_visible_publication(lake)
    return tuple(_find_outdated(lake, publication.cycle)) if publication is not None else ()


def find_lost_keys(lake: str) -> tuple[Instance, ...]:
    """Return the instances whose keys no longer identify rows. Raises `LakeReadFailed`, `TableUnreadable`."""
    publication = read_visible_publication(lake)
    recorded = read_instances(lake, publication.cycle).values() if publication is not None else ()
    return tuple(one.instance for one in recorded if one.state == ENABLED and one.instance.key_lost_at is not None)


def _find_outdated(lake: str, cycle: int) -> Iterator[ListedChange]:
    histories, snapshots = read_histories(lake, cycle), read_snapshots(lake)
    for recorded in read_instances(lake, cycle).values():
        member_id = recorded.instance.member_id
        rewrites = [change for change in histories.get(member_id, ()) if change.rewrites_values]
        copies = [
            copy.begin
            for copy in snapshots.get(member_id, ())
            if copy.is_whole and copy.state is not SnapshotState.CANCELLED
        ]
        if recorded.state == ENABLED and rewrites and copies and max(copies) < rewrites[-1].ddl_lsn:
            yield rewrites[-1]

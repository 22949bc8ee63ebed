"""The change rows of a table's next window, by what the files' statistics say of them, without Spark."""

from __future__ import annotations

from dataclasses import dataclass

from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_tables import change_table_path
from rowtide.cdc.published import RecordedInstance
from rowtide.cdc.queries.windows import require_key
from rowtide.cdc.rows.operations import TRUNCATE
from rowtide.core.lsn import CommitLsn
from rowtide.delta.snapshot import open_snapshot
from rowtide.delta.statistics import Between
from rowtide.lake.stores import locate
from rowtide.targets.errors import TargetPassed

_LSN = "__$start_lsn"


@dataclass(frozen=True, slots=True)
class TargetWindow:
    """An instance's changes in [start, end], and what may be among them."""

    instance: Instance
    start: CommitLsn
    end: CommitLsn
    is_empty: bool
    may_truncate: bool
    may_lack: bool
    may_have_misfits: bool


def find_drops(instance: Instance, after: CommitLsn | None, end: CommitLsn) -> list[CommitLsn]:
    """Return the LSNs behind one, up to another, at which columns were dropped: in all rows, without change rows."""
    dropped = {column.dropped_at for column in instance.columns if column.dropped_at is not None}
    return [CommitLsn(lsn) for lsn in sorted(dropped) if (after is None or after.value < lsn) and lsn <= end.value]


def open_target_window(
    target: str, recorded: RecordedInstance, after: CommitLsn | None, end: CommitLsn, lake: str
) -> TargetWindow:
    """Return the window after an LSN, from the instance's low endpoint on for None. Raises `TargetPassed`."""
    low, instance = recorded.lsn, recorded.instance
    start = after.increment() if after is not None else low
    if start < low:
        # A cleanup that removed nothing of the window moved it no further than the target allowed.
        reason = recorded.note or f"and the low endpoint is {low}"
        raise TargetPassed(instance.capture_instance, target, str(after), reason)
    require_key(instance, end)
    snapshot = open_snapshot(locate(change_table_path(lake, instance.capture_instance)))
    lsns = Between(_LSN, start.value, end.value)

    def may_have(*ranges: Between) -> bool:
        return snapshot is not None and bool(snapshot.list_files(lsns, *ranges))

    return TargetWindow(
        instance=instance.for_readers(),
        start=start,
        end=end,
        is_empty=start > end or not may_have(),
        may_truncate=may_have(Between("__$operation", low=TRUNCATE)),
        may_lack=may_have(Between("__$absent_mask")),
        may_have_misfits=may_have(Between("__$exact")),
    )

"""The lake's system table `cleanups`, and the low endpoints that cleanups move in `instances`.

A cleanup is recorded before anything moves, as a cycle is; after a crash the recorded cleanup is redone. The rows that
it adds to `instances` carry the last published cycle and sort after that cycle's own rows, so they take effect at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from rowtide.cdc.cleanup.retention import Mark
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_tables import CLEANUPS, INSTANCES, arrow_schema, system_table_path
from rowtide.cdc.published import ENABLED
from rowtide.cdc.system_tables import InstanceEvent, SystemTables, instance_row, rows_of
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn
from rowtide.lake import tables
from rowtide.lake.small_tables import SmallTable, append_small

_AFTER_EVENTS = 1_000_000
"""Above the ordinals of a cycle's own rows; a cleanup's number is added."""


@dataclass(frozen=True, slots=True)
class RecordedCleanup:
    """A row of `cleanups`: which instance's low endpoint moves to the mark (None: all), decided after `cycle`."""

    number: int
    cycle: int
    capture_instance: str | None
    mark: Mark
    began_at: datetime


class CleanupsTable:
    """Reads and writes table `cleanups` of one lake, and moves low endpoints in `instances`."""

    def __init__(self, system_tables: SystemTables) -> None:
        self._system_tables = system_tables
        self._path = system_table_path(system_tables.lake, "cleanups")
        self._identity = f"{system_tables.source_id}:cleanups"
        tables.ensure_table(self._path, CLEANUPS, identity=self._identity)

    def read_last(self) -> RecordedCleanup | None:
        """Return the last recorded cleanup, None before the first."""
        table = SmallTable.open(self._path)
        rows = table.read(arrow_schema(CLEANUPS)).to_pylist() if table is not None else []
        last = max(rows, key=lambda row: int(row["cleanup"]), default=None)
        if last is None:
            return None
        mark = Mark(CommitLsn(last["low_water_mark"]), last["mark_time"])
        return RecordedCleanup(last["cleanup"], last["cycle"], last["capture_instance"], mark, last["began_at"])

    def record(self, cleanup: RecordedCleanup, token: int) -> bool:
        """Record a cleanup, before anything moves; return False if its number is recorded already."""
        values: dict[str, object] = {
            "cleanup": cleanup.number,
            "cycle": cleanup.cycle,
            "capture_instance": cleanup.capture_instance,
            "low_water_mark": cleanup.mark.lsn.value,
            "mark_time": cleanup.mark.time,
            "began_at": cleanup.began_at,
            "token": token,
            "host": self._system_tables.host,
        }
        failpoint("cleanup_record.before")
        is_new = self._append("cleanups", CLEANUPS, [values], cleanup.number)
        failpoint("cleanup_record.after")
        return is_new

    def move(self, cleanup: RecordedCleanup, instances: Iterable[Instance]) -> None:
        """Move the low endpoints of instances to a cleanup's mark, all at once. Idempotent."""
        note = f"the change rows were removed by the cleanup of {cleanup.began_at:%Y-%m-%d %H:%M:%S} UTC"
        ordinal = _AFTER_EVENTS + cleanup.number
        events = (InstanceEvent(instance, ENABLED, cleanup.mark.lsn, note) for instance in instances)
        rows = [instance_row(cleanup.cycle, ordinal, event) for event in events]
        if rows:
            failpoint("low_endpoints.before")
            self._append("instances", INSTANCES, rows, cleanup.number)
            failpoint("low_endpoints.after")

    def _append(self, name: str, columns: list[tuple[str, str]], rows: list[dict[str, object]], number: int) -> bool:
        return append_small(
            self._system_tables.committer,
            rows_of(columns, rows),
            system_table_path(self._system_tables.lake, name),
            identity=self._identity,
            cycle=number,
        )

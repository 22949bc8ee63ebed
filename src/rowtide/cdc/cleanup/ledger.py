"""The lake's account of cleanups: table `cleanups`, and the low endpoints that they move in `instances`.

A cleanup is recorded before anything moves, as a cycle is: after a crash the recorded one is redone. The rows that
it leaves in `instances` are of the last published cycle, behind those of the cycle itself, so they count at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from rowtide.cdc.cleanup.retention import Mark
from rowtide.cdc.definitions import Instance
from rowtide.cdc.lake_tables import CLEANUPS, INSTANCES, RANGED, arrow_schema, ledger_path
from rowtide.cdc.ledger import InstanceEvent, Ledger, instance_row, rows_of
from rowtide.cdc.published import ENABLED
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


class CleanupLedger:
    """Table `cleanups` of one lake, and what its rows do to `instances`."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._path = ledger_path(ledger.lake, "cleanups")
        self._identity = f"{ledger.source_id}:cleanups"
        tables.ensure_table(ledger.spark, self._path, CLEANUPS, identity=self._identity)

    def read_last(self) -> RecordedCleanup | None:
        """Return the last cleanup that was recorded, None before the first."""
        table = SmallTable.open(self._ledger.spark, self._path)
        rows = table.read(arrow_schema(CLEANUPS)).to_pylist() if table is not None else []
        last = max(rows, key=lambda row: int(row["cleanup"]), default=None)
        if last is None:
            return None
        mark = Mark(CommitLsn(last["low_water_mark"]), last["mark_time"])
        return RecordedCleanup(last["cleanup"], last["cycle"], last["capture_instance"], mark, last["began_at"])

    def record(self, cleanup: RecordedCleanup, token: int) -> None:
        """Record what a cleanup is going to move, before anything moves."""
        values: dict[str, object] = {
            "cleanup": cleanup.number,
            "cycle": cleanup.cycle,
            "capture_instance": cleanup.capture_instance,
            "low_water_mark": cleanup.mark.lsn.value,
            "mark_time": cleanup.mark.time,
            "began_at": cleanup.began_at,
            "token": token,
            "host": self._ledger.host,
        }
        failpoint("cleanup_record.before")
        self._append("cleanups", CLEANUPS, [values], cleanup.number)
        failpoint("cleanup_record.after")

    def move(self, cleanup: RecordedCleanup, instances: Iterable[Instance]) -> None:
        """Move the low endpoints of instances to a cleanup's mark, all at once; a repeat changes nothing."""
        note = f"the change rows were removed by the cleanup of {cleanup.began_at:%Y-%m-%d %H:%M:%S} UTC"
        ordinal = _AFTER_EVENTS + cleanup.number
        events = (InstanceEvent(instance, ENABLED, cleanup.mark.lsn, note) for instance in instances)
        rows = [instance_row(cleanup.cycle, ordinal, event) for event in events]
        if rows:
            failpoint("low_endpoints.before")
            self._append("instances", INSTANCES, rows, cleanup.number)
            failpoint("low_endpoints.after")

    def _append(self, name: str, columns: list[tuple[str, str]], rows: list[dict[str, object]], number: int) -> None:
        append_small(
            self._ledger.committer,
            rows_of(columns, rows),
            ledger_path(self._ledger.lake, name),
            identity=self._identity,
            cycle=number,
            ranged=RANGED[name],
        )

"""Consistent reads of the workload's changes: from the lake alone, without the database."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from rowtide.cdc.errors.capturing import LakeUnknown
from rowtide.cdc.lake_readers.arrow_changes import ArrowChanges
from rowtide.cdc.lake_readers.lake import Lake
from rowtide.cdc.lake_tables import system_table_path
from rowtide.cdc.rows.operations import UPDATE_BEFORE
from rowtide.core.lsn import CommitLsn
from rowtide.demo.invariant import Read
from rowtide.demo.workload import KEYS

_AMOUNTS = {
    "pgbench_accounts": "abalance",
    "pgbench_branches": "bbalance",
    "pgbench_tellers": "tbalance",
    "pgbench_history": "delta",
}
"""What a change row adds to its table's sum: a balance after an update, less the one before; a booking's delta."""

_POLL_S = 0.05


def instance_of(table: str) -> str:
    """Return the name of a table's capture instance."""
    return f"public_{table}"


class ConsistentReader:
    """Takes a maximum LSN, and reads up to it."""

    def __init__(self, lake: str) -> None:
        self._lake = Lake(lake)
        self._seen = 0

    def is_possible(self) -> bool:
        """Return whether capture has created all change tables."""
        try:
            return len(self._lake.list_recorded_instances()) == len(KEYS)
        except LakeUnknown:
            return False

    def read(self, *, patience_s: float) -> Read | None:
        """Take the maximum LSN and read the four tables up to it; None if nothing is published.

        Waits for a publication later than the last read's, for at most `patience_s`.
        """
        deadline = time.monotonic() + patience_s
        while (commits := self._commits()) == self._seen and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        self._seen = commits
        lsn = self._lake.get_max_lsn()
        return self._read(lsn) if lsn is not None else None

    def _commits(self) -> int:
        log = Path(system_table_path(self._lake.lake, "lsn_time_mapping"), "_delta_log")
        return sum(1 for _ in log.glob("*.json"))

    def _read(self, lsn: CommitLsn) -> Read:
        known_at = time.monotonic()
        opened = [self._lake.get_all_changes(instance_of(table), None, lsn, "all update old") for table in KEYS]
        begun_at = time.monotonic()
        sums = {table: _sum(changes, _AMOUNTS[table]) for table, changes in zip(KEYS, opened, strict=True)}
        ended_at = time.monotonic()
        return Read(
            lsn=lsn.value,
            accounts=sums["pgbench_accounts"][0],
            tellers=sums["pgbench_tellers"][0],
            branches=sums["pgbench_branches"][0],
            history=sums["pgbench_history"][0],
            transactions=sums["pgbench_history"][1],
            delay_s=begun_at - known_at,
            read_s=ended_at - begun_at,
        )


def _sum(changes: ArrowChanges, column: str) -> tuple[int, int]:
    """Return the sum of what the change rows add, and how many there are."""
    amount = rows = 0
    for batch in changes.batches():
        before = pa.Table.from_batches([batch]).filter(pc.field("__$operation") == UPDATE_BEFORE)
        amount += (pc.sum(batch[column]).as_py() or 0) - 2 * (pc.sum(before[column]).as_py() or 0)
        rows += batch.num_rows
    return amount, rows

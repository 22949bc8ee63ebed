"""Consistent reads of the workload's change tables, in Spark, without the database."""

from __future__ import annotations

import time
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from rowtide.cdc.errors import LakeUnknown
from rowtide.cdc.lake_tables import change_table_path, system_table_path
from rowtide.cdc.queries.changes import Changes
from rowtide.core.lsn import CommitLsn
from rowtide.demo.invariant import Read
from rowtide.demo.workload import KEYS
from rowtide.lake import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_AMOUNTS = {
    "pgbench_accounts": "if(`__$operation` = 4, 1, -1) * abalance",
    "pgbench_branches": "if(`__$operation` = 4, 1, -1) * bbalance",
    "pgbench_tellers": "if(`__$operation` = 4, 1, -1) * tbalance",
    "pgbench_history": "delta",
}
"""A change row's contribution to its table's sum: for a balance, the value after an update minus the one before."""

_POLL_S = 0.1


def instance_of(table: str) -> str:
    """Return the name of a table's capture instance."""
    return f"public_{table}"


def changes_of(spark: SparkSession, lake: str, table: str) -> DataFrame:
    """Return the rows of a table's change table, published or not."""
    return tables.read_table(spark, change_table_path(lake, instance_of(table)))


class ConsistentReader:
    """Takes a maximum LSN, and reads up to it."""

    def __init__(self, spark: SparkSession, lake: str) -> None:
        self._spark = spark
        self._lake = lake
        self._changes = Changes(spark, lake)
        self._seen = 0

    def is_possible(self) -> bool:
        """Return whether capture has created all change tables."""
        try:
            return len(self._changes.list_recorded_instances()) == len(KEYS)
        except LakeUnknown:
            return False

    def read(self, *, patience_s: float) -> Read | None:
        """Take the maximum LSN and read the four tables up to it, in one query; None if nothing is published.

        Waits for a publication later than the last read's, for at most `patience_s`.
        """
        deadline = time.monotonic() + patience_s
        # Looking for a new commit costs nothing; asking Spark again and again would take capture's CPU.
        while (commits := self._commits()) == self._seen and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        self._seen = commits
        lsn = self._changes.get_max_lsn()
        return self._read(lsn) if lsn is not None else None

    def _commits(self) -> int:
        log = Path(system_table_path(self._lake, "lsn_time_mapping"), "_delta_log")
        return sum(1 for _ in log.glob("*.json"))

    def _read(self, lsn: CommitLsn) -> Read:
        known_at = time.monotonic()
        sums = reduce(lambda one, other: one.unionAll(other), (self._sum(table, lsn) for table in KEYS))
        begun_at = time.monotonic()
        found = {row["table"]: row for row in sums.collect()}
        ended_at = time.monotonic()
        return Read(
            lsn=lsn.value,
            accounts=found["pgbench_accounts"]["amount"],
            tellers=found["pgbench_tellers"]["amount"],
            branches=found["pgbench_branches"]["amount"],
            history=found["pgbench_history"]["amount"],
            transactions=found["pgbench_history"]["rows"],
            delay_s=begun_at - known_at,
            read_s=ended_at - begun_at,
        )

    def _sum(self, table: str, lsn: CommitLsn) -> DataFrame:
        changes = changes_of(self._spark, self._lake, table).where(f"`__$start_lsn` <= {lsn.value}")
        return changes.selectExpr(
            f"'{table}' as table", f"coalesce(sum({_AMOUNTS[table]}), 0) as amount", "count(*) as rows"
        )

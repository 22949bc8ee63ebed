"""Looks up low-water marks in `lsn_time_mapping`.

Of the transactions that share a commit time the mark is the first: what committed together is kept or removed together.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from rowtide.cdc.cleanup.retention import Mark, Reference
from rowtide.cdc.errors import LowWaterMarkUnknown
from rowtide.cdc.lake_tables import system_table_path
from rowtide.core.lsn import CommitLsn
from rowtide.lake import tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Marks:
    """The low-water marks of one lake's published transactions."""

    def __init__(self, spark: SparkSession, lake: str) -> None:
        self._spark = spark
        self._path = system_table_path(lake, "lsn_time_mapping")

    def by_retention(self, retention: timedelta) -> Mark | None:
        """Return the first transaction not older than `retention` before the last; None without transactions."""
        last = self._ask("start_lsn is not null", "max(tran_end_time)")
        return self._first_from(last - retention) if last is not None else None

    def at(self, lsn: CommitLsn) -> Mark:
        """Return the mark of a transaction. Raises `LowWaterMarkUnknown` if it is not listed."""
        time = self._ask(f"start_lsn = {lsn.value}", "max(tran_end_time)")
        mark = self._first_from(time) if time is not None else None
        if mark is None:
            raise LowWaterMarkUnknown(str(lsn))
        return mark

    def up_to(self, lsn: CommitLsn) -> Mark | None:
        """Return the mark of the last transaction up to an LSN, None if there is none."""
        time = self._ask(f"start_lsn <= {lsn.value}", "max(tran_end_time)")
        return self._first_from(time) if time is not None else None

    def reference(self, low: CommitLsn) -> Reference | None:
        """Return the time of the first transaction from a low endpoint on, and when it was published."""
        first = "min_by(struct(tran_end_time, published_at), start_lsn)"
        found = self._ask(f"start_lsn >= {low.value}", first)
        return Reference(found["tran_end_time"], found["published_at"]) if found is not None else None

    def cycle_of(self, lsn: CommitLsn) -> int | None:
        """Return the cycle that published a transaction, None if it is not listed."""
        cycle = self._ask(f"start_lsn = {lsn.value}", "max(cycle)")
        return int(cycle) if cycle is not None else None

    def _first_from(self, time: datetime) -> Mark | None:
        since = f"start_lsn is not null and tran_end_time >= timestamp '{time:%Y-%m-%d %H:%M:%S.%f} UTC'"
        found = self._ask(since, "min_by(struct(start_lsn, tran_end_time), start_lsn)")
        return Mark(CommitLsn(found["start_lsn"]), found["tran_end_time"]) if found is not None else None

    def _ask(self, condition: str, aggregate: str) -> Any:
        """Return an aggregate over the rows that meet a condition; times in UTC, whatever this process's time zone."""
        with tables.reading(self._path):
            rows = tables.read_table(self._spark, self._path).where(condition)
            return rows.selectExpr(f"{aggregate} as found").toArrow()["found"][0].as_py()

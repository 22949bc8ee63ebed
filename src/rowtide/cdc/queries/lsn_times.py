"""Maps LSNs and times: the last transaction before a time, and when a transaction ended (by `tran_end_time`).

A window by time is (start, end], as in SQL Server's wrapper functions: the window after (a, b] is (b, c].
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rowtide.cdc.errors import LakeUnknown, TimeOutOfRange, UnknownTimeOperator
from rowtide.cdc.lake_tables import system_table_path
from rowtide.cdc.published import CLOCK_MARGIN
from rowtide.core.lsn import CommitLsn
from rowtide.lake.sql_text import literal, table_at
from rowtide.lake.tables import host_name, is_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGEST_BEFORE, LARGEST_UP_TO = "largest less than", "largest less than or equal"
TIME_OPERATORS: Mapping[str, tuple[str, str]] = {
    LARGEST_BEFORE: ("max", "<"),
    LARGEST_UP_TO: ("max", "<="),
    "smallest greater than": ("min", ">"),
    "smallest greater than or equal": ("min", ">="),
}
"""SQL Server's relational operators: which LSN of those whose time compares so."""

Bound = CommitLsn | datetime
"""An end of a window: an LSN, which is inclusive, or a time; a time without zone is in UTC."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def visible_mapping(lake: str, host: str) -> str:
    """Return the query for the rows of `lsn_time_mapping` that a reader on a host may see. Pure."""
    margin = f"if(host = {literal(host)}, interval 0 seconds, interval {CLOCK_MARGIN.seconds} seconds)"
    place = table_at(system_table_path(lake, "lsn_time_mapping"))
    return f"(select * from {place} where published_at < current_timestamp() - {margin})"


class LsnTimes:
    """The published LSNs and times of one lake. Calls raise `LakeUnknown`."""

    def __init__(self, spark: SparkSession, lake: str) -> None:
        self._spark = spark
        self._lake = lake

    def map_time_to_lsn(self, relational_operator: str, time: datetime) -> CommitLsn | None:
        """Return the LSN next to a time, None if there is none. Raises `UnknownTimeOperator`."""
        found = TIME_OPERATORS.get(relational_operator.strip().lower())
        if found is None:
            raise UnknownTimeOperator(relational_operator, ", ".join(TIME_OPERATORS))
        end, comparison = found
        (lsn,) = self._ask(f"{end}(start_lsn)", f"tran_end_time {comparison} {_timestamp(time)}")
        return CommitLsn(lsn) if lsn is not None else None

    def map_lsn_to_time(self, lsn: CommitLsn) -> datetime | None:
        """Return when a transaction ended, None for an unknown LSN."""
        (time,) = self._ask("unix_micros(max(tran_end_time))", f"start_lsn = {lsn.value}")
        return _EPOCH + timedelta(microseconds=time) if time is not None else None

    def find_time(self, lsn: CommitLsn) -> datetime | None:
        """Return when the last transaction up to an LSN ended, None if there is none."""
        (time,) = self._ask("unix_micros(max(tran_end_time))", f"start_lsn <= {lsn.value}")
        return _EPOCH + timedelta(microseconds=time) if time is not None else None

    def find_window(
        self, capture_instance: str, low: CommitLsn, start: Bound | None, end: Bound | None
    ) -> tuple[CommitLsn | None, CommitLsn | None]:
        """Return the LSNs, both inclusive, of a window of an instance whose low endpoint is `low`.

        Two LSNs are returned unchanged. A window by time in which no transaction ended becomes one LSN without a
        transaction. Raises `TimeOutOfRange`.
        """
        if not (isinstance(start, datetime) or isinstance(end, datetime)):
            return start, end
        from_lsn = self._last_until(capture_instance, low, start).increment() if isinstance(start, datetime) else start
        to_lsn = self._last_until(capture_instance, low, end) if isinstance(end, datetime) else end
        is_empty = from_lsn is not None and to_lsn is not None and from_lsn == to_lsn.increment()
        return from_lsn, from_lsn if is_empty else to_lsn

    def _last_until(self, capture_instance: str, low: CommitLsn, time: datetime) -> CommitLsn:
        """Return the last LSN up to a time inside the validity interval."""
        is_before = f"tran_end_time <= {_timestamp(time)}"
        lsn, first, last = self._ask(
            f"max(start_lsn) filter (where {is_before}), unix_micros(min(tran_end_time)), "
            "unix_micros(max(tran_end_time))",
            f"start_lsn >= {low.value}",
        )
        ends = [_EPOCH + timedelta(microseconds=micros) for micros in (first, last) if micros is not None]
        if lsn is None or _as_utc(time) > ends[-1]:
            shown = [end.isoformat() for end in ends] or ["-", "-"]
            raise TimeOutOfRange(capture_instance, _as_utc(time).isoformat(), *shown)
        return CommitLsn(lsn)

    def _ask(self, columns: str, condition: str) -> tuple[int | None, ...]:
        if not is_table(self._spark, system_table_path(self._lake, "lsn_time_mapping")):
            raise LakeUnknown(self._lake)
        mapping = visible_mapping(self._lake, host_name())
        return tuple(self._spark.sql(f"select {columns} from {mapping} where {condition}").collect()[0])


def _as_utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _timestamp(time: datetime) -> str:
    return f"timestamp_micros({(_as_utc(time) - _EPOCH) // timedelta(microseconds=1)})"

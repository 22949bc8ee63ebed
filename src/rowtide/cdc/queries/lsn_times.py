"""LSNs and times: the last transaction before a time, and when a transaction ended (by `tran_end_time`).

A window by time is (start, end], as in SQL Server's wrapper functions: the window after (a, b] is (b, c].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowtide.cdc.errors import querying as errors
from rowtide.cdc.errors.capturing import LakeUnknown
from rowtide.cdc.published import (
    CLOCK_MARGIN,
    LSN_TIME_MAPPING,
    arrow_schema,
    past,
    system_table_path,
)
from rowtide.cdc.queries.windows import PublishedLake
from rowtide.core.lsn import CommitLsn
from rowtide.delta.data_files import Between
from rowtide.lake.small_tables import SmallTable
from rowtide.lake.sql_text import literal, table_at
from rowtide.lake.tables import host_name

LARGEST_BEFORE, LARGEST_UP_TO = "largest less than", "largest less than or equal"
TIME_OPERATORS: Mapping[str, tuple[str, str]] = {
    LARGEST_BEFORE: ("max", "<"),
    LARGEST_UP_TO: ("max", "<="),
    "smallest greater than": ("min", ">"),
    "smallest greater than or equal": ("min", ">="),
}
"""SQL Server's relational operators: which LSN of those whose time compares so."""

Bound = CommitLsn | datetime
"""A bound of a window: an LSN, which is inclusive, or a time; a time without zone is in UTC."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_COLUMNS = arrow_schema(LSN_TIME_MAPPING, "start_lsn", "tran_end_time", "published_at", "host")
_COMPARISONS: Mapping[str, Callable[..., Any]] = {
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_EXTREMES: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]] = {"max": (pc.max, max), "min": (pc.min, min)}


def visible_mapping(lake: str, host: str) -> str:
    """Return the query for the rows of `lsn_time_mapping` that a reader on a host may see. Pure."""
    margin = f"if(host = {literal(host)}, interval 0 seconds, interval {CLOCK_MARGIN.seconds} seconds)"
    place = table_at(system_table_path(lake, "lsn_time_mapping"))
    return f"(select * from {place} where published_at < current_timestamp() - {margin})"


class LsnTimes:
    """The published LSNs and times of one lake, read without Spark. Calls raise `LakeUnknown`."""

    def __init__(self, lake: str) -> None:
        self._lake = lake

    def map_time_to_lsn(self, relational_operator: str, time: datetime) -> CommitLsn | None:
        """Return the LSN next to a time, None if there is none. Raises `UnknownTimeOperator`."""
        found = TIME_OPERATORS.get(relational_operator.strip().lower())
        if found is None:
            raise errors.UnknownTimeOperator(relational_operator, ", ".join(TIME_OPERATORS))
        end, comparison = found
        lsn = _extreme(end, (_lsns(rows, comparison, time) for rows in self._published()))
        return CommitLsn(lsn) if lsn is not None else None

    def map_lsn_to_time(self, lsn: CommitLsn) -> datetime | None:
        """Return when a transaction ended, None for an unknown LSN."""
        return self._last_end(lsn.value, lsn.value)

    def find_time(self, lsn: CommitLsn) -> datetime | None:
        """Return when the last transaction up to an LSN ended, None if there is none."""
        return self._last_end(None, lsn.value)

    def find_next_times(self, lsns: Iterable[CommitLsn], most_reads: int) -> dict[CommitLsn, datetime]:
        """Return when the first transaction from each LSN on ended, as far as there is one.

        The lowest are looked up first. A read is of few files of the table, and answers for all LSNs in these.
        """
        table, found, reads = self._open(), dict[CommitLsn, datetime](), 0
        rows: pa.Table = _COLUMNS.empty_table()
        end: int | None = -1
        for lsn in sorted(lsns):
            rows = rows.filter(pc.greater_equal(rows["start_lsn"], pa.scalar(lsn.value)))
            if not rows.num_rows and end is not None:
                if reads == most_reads:
                    break
                reads, end = reads + 1, table.find_end("start_lsn", lsn.value, 1)
                rows = pa.concat_tables([_COLUMNS.empty_table(), *self._published(lsn.value, end, table)])
            ended = _moment(_extreme("min", [_ends(rows)]))
            if ended is not None:
                found[lsn] = ended
        return found

    def may_know(self, lsn: CommitLsn) -> bool:
        """Return whether a transaction of an LSN, or of the next one, was published, visible to readers or not.

        True as well where transactions of that age may have been cleaned up.
        """
        if self._has_between(lsn.value, lsn.increment().value):
            return True
        return not self._has_between(None, lsn.value)

    def _has_between(self, low: int | None, high: int) -> bool:
        for rows in self._open().stream(_COLUMNS, Between("start_lsn", low, high)):
            lsns = rows["start_lsn"]
            is_within = pc.and_(
                pc.greater_equal(lsns, pa.scalar(low if low is not None else _LEAST)),
                pc.less_equal(lsns, pa.scalar(high)),
            )
            if pc.any(is_within).as_py():
                return True
        return False

    def find_window(
        self, capture_instance: str, start: Bound | None, end: Bound | None
    ) -> tuple[CommitLsn | None, CommitLsn | None]:
        """Return the LSNs, both inclusive, of a window of an instance; None is an end of its validity interval.

        Two LSNs are returned unchanged. A window by time in which no transaction ended becomes one LSN without a
        transaction. Raises `TimeOutOfRange`, and `InstanceUnknown` for a window by time.
        """
        if not (isinstance(start, datetime) or isinstance(end, datetime)):
            return start, end
        low = PublishedLake(self._lake).get_min_lsn(capture_instance)
        from_lsn = self._last_until(capture_instance, low, start).increment() if isinstance(start, datetime) else start
        to_lsn = self._last_until(capture_instance, low, end) if isinstance(end, datetime) else end
        is_empty = from_lsn is not None and to_lsn is not None and from_lsn == to_lsn.increment()
        return from_lsn, from_lsn if is_empty else to_lsn

    def _last_until(self, capture_instance: str, low: CommitLsn, time: datetime) -> CommitLsn:
        """Return the last LSN up to a time inside the validity interval."""
        published = list(self._published(low.value))
        lsn = _extreme("max", (_lsns(rows, "<=", time) for rows in published))
        ends = [_moment(_extreme(end, map(_ends, published))) for end in ("min", "max")]
        last = ends[-1]
        if lsn is None or last is None or _as_utc(time) > last:
            shown = [end.isoformat() if end is not None else "-" for end in ends]
            raise errors.TimeOutOfRange(capture_instance, _as_utc(time).isoformat(), *shown)
        return CommitLsn(lsn)

    def _last_end(self, low: int | None, high: int | None) -> datetime | None:
        return _moment(_extreme("max", map(_ends, self._published(low, high))))

    def _open(self) -> SmallTable:
        table = SmallTable.open(system_table_path(self._lake, "lsn_time_mapping"))
        if table is None:
            raise LakeUnknown(self._lake)
        return table

    def _published(
        self, low: int | None = None, high: int | None = None, table: SmallTable | None = None
    ) -> Iterator[pa.Table]:
        """Yield the transactions with LSNs in [low, high] that a reader on this host may see."""
        now = datetime.now(UTC)
        for rows in (table or self._open()).stream(_COLUMNS, Between("start_lsn", low, high)):
            visible = past(rows, now, host_name())
            lsns = visible["start_lsn"]
            is_above = pc.greater_equal(lsns, pa.scalar(low if low is not None else _LEAST))
            is_below = pc.less_equal(lsns, pa.scalar(high if high is not None else _MOST))
            yield visible.filter(pc.and_(is_above, is_below))


def _lsns(rows: pa.Table, comparison: str, time: datetime) -> pa.ChunkedArray[Any]:
    """Return the LSNs of the transactions whose end compares so with a time."""
    compared = _COMPARISONS[comparison](rows["tran_end_time"], pa.scalar(_as_utc(time), _COLUMNS.field(1).type))
    return rows["start_lsn"].filter(compared)


def _ends(rows: pa.Table) -> pa.ChunkedArray[Any]:
    """Return when transactions ended, in microseconds."""
    return rows["tran_end_time"].cast(pa.int64())


def _extreme(end: str, columns: Iterable[pa.ChunkedArray[Any]]) -> int | None:
    """Return the greatest or least value of columns, None if there is none."""
    of_column, of_values = _EXTREMES[end]
    found = (of_column(column).as_py() for column in columns)
    extreme: int | None = of_values((value for value in found if value is not None), default=None)
    return extreme


def _moment(micros: int | None) -> datetime | None:
    return _EPOCH + timedelta(microseconds=micros) if micros is not None else None


def _as_utc(time: datetime) -> datetime:
    if time.tzinfo is None:
        return time.replace(tzinfo=UTC)
    try:
        return time.astimezone(UTC)
    except OverflowError:
        # Beyond the years that Python has in UTC.
        return time.replace(tzinfo=UTC)

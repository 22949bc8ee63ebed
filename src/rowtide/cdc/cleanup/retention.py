"""Low-water marks: the rules of retention, where they are found, and the system table `cleanups`.

Rules of SQL Server's cleanup job and of sp_cdc_cleanup_change_table (specification, part 1.6): the retention counts
back from the last captured commit, not from now; only low endpoints below the mark move, all together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowtide.cdc.errors.capturing import CleanupImplausible, LowWaterMarkOutOfRange, LowWaterMarkUnknown
from rowtide.cdc.errors.jobs import ConsumersBehind
from rowtide.cdc.instances import Instance
from rowtide.cdc.published import (
    CLEANUPS,
    ENABLED,
    INSTANCES,
    LSN_TIME_MAPPING,
    RecordedInstance,
    arrow_schema,
    system_table_path,
)
from rowtide.cdc.requests import CleanupOrder
from rowtide.cdc.system_tables import InstanceEvent, SystemTables, instance_row, rows_of
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.delta.data_files import Between
from rowtide.lake import tables
from rowtide.lake.small_tables import SmallTable, append_small

SLACK = timedelta(hours=1)
"""A mark may move by the time since the last cleanup, plus this."""


@frozen
class LowWaterMark:
    """A low-water mark: the first transaction that is kept, and its `tran_end_time`."""

    lsn: CommitLsn
    time: datetime


@frozen
class MarkReference:
    """The origin of a mark: the time of the transaction at the previous mark, and when that was set."""

    time: datetime
    set_at: datetime


def choose(instances: Iterable[RecordedInstance], order: CleanupOrder) -> tuple[RecordedInstance, ...]:
    """Return the enabled instances in an order's scope."""
    enabled = (recorded for recorded in instances if recorded.state == ENABLED)
    wanted = order.capture_instance
    return tuple(found for found in enabled if wanted in (None, found.instance.capture_instance))


def below(instances: Iterable[RecordedInstance], mark: LowWaterMark) -> tuple[RecordedInstance, ...]:
    """Return the instances whose low endpoint is below the mark."""
    return tuple(recorded for recorded in instances if recorded.lsn < mark.lsn)


@frozen
class ConsumerLimit:
    """A consumer for which cleanup waits, and the mark up to which cleanup does not pass it."""

    consumer: str
    mark: LowWaterMark


def find_consumer_limit(
    consumer: str, acknowledged: LowWaterMark | None, limit: LowWaterMark | None
) -> ConsumerLimit | None:
    """Return the furthest mark that a consumer allows: what it acknowledged, and whatever is older than its limit.

    `acknowledged` is the mark of the last transaction that it acknowledged, `limit` that of its limit counted back from
    the last captured commit; None for either if there is no such transaction. Without both nothing is held.
    """
    marks = [mark for mark in (acknowledged, limit) if mark is not None]
    return ConsumerLimit(consumer, max(marks, key=lambda mark: mark.lsn)) if marks else None


def require_acknowledged(mark: LowWaterMark, holds: Iterable[ConsumerLimit]) -> None:
    """Raise `ConsumersBehind` if a mark would pass a consumer."""
    passed = [f"consumer {hold.consumer} holds it at {hold.mark.lsn}" for hold in holds if hold.mark.lsn < mark.lsn]
    if passed:
        raise ConsumersBehind(str(mark.lsn), "; ".join(passed))


def require_in_interval(recorded: RecordedInstance, mark: LowWaterMark) -> None:
    """Raise `LowWaterMarkOutOfRange` if the mark is below the low endpoint; published transactions are never above."""
    if mark.lsn < recorded.lsn:
        raise LowWaterMarkOutOfRange(str(mark.lsn), recorded.instance.capture_instance, str(recorded.lsn))


def require_plausible(mark: LowWaterMark, last: MarkReference, now: datetime) -> None:
    """Raise `CleanupImplausible` if the mark moves by more than the clock did: the source's time has jumped."""
    moved, elapsed = mark.time - last.time, now - last.set_at
    if moved > elapsed + SLACK:
        raise CleanupImplausible(mark.time.isoformat(), last.time.isoformat(), last.set_at.isoformat())


_LSN, _TIME = "start_lsn", "tran_end_time"
_kernels: Any = pc


class LowWaterMarks:
    """The low-water marks of one lake's published transactions. Reads the table in parts of bounded size."""

    def __init__(self, lake: str) -> None:
        self._path = system_table_path(lake, "lsn_time_mapping")

    def by_retention(self, retention: timedelta) -> LowWaterMark | None:
        """Return the first transaction not older than `retention` before the last; None without transactions."""
        # Counted back from the last captured commit and not from now, so that no rows expire during an outage of
        # capture before a reader could read them.
        last = self._last_time()
        return self._first_from(last - retention) if last is not None else None

    def at(self, lsn: CommitLsn) -> LowWaterMark:
        """Return the mark of a transaction. Raises `LowWaterMarkUnknown` if it is not listed."""
        time = self._last_time(low=lsn.value, high=lsn.value)
        mark = self._first_from(time) if time is not None else None
        if mark is None:
            raise LowWaterMarkUnknown(str(lsn))
        return mark

    def up_to(self, lsn: CommitLsn) -> LowWaterMark | None:
        """Return the mark of the last transaction up to an LSN, None if there is none."""
        time = self._last_time(high=lsn.value)
        return self._first_from(time) if time is not None else None

    def reference(self, low: CommitLsn) -> MarkReference | None:
        """Return the time of the first transaction from a low endpoint on, and when it was published."""
        first = _first(self._stream((_LSN, _TIME, "published_at"), low=low.value))
        return MarkReference(first[_TIME], first["published_at"]) if first is not None else None

    def cycle_of(self, lsn: CommitLsn) -> int | None:
        """Return the cycle that published a transaction, None if it is not listed."""
        first = _first(self._stream((_LSN, "cycle"), low=lsn.value, high=lsn.value))
        return int(first["cycle"]) if first is not None else None

    def _last_time(self, *, low: int | None = None, high: int | None = None) -> datetime | None:
        """Return the latest time of the transactions in a range."""
        times = (_kernels.max(rows[_TIME]).as_py() for rows in self._stream((_LSN, _TIME), low=low, high=high))
        return max((time for time in times if time is not None), default=None)

    def _first_from(self, time: datetime) -> LowWaterMark | None:
        # Commit times need not ascend with LSNs: from the lowest LSN at or after the time on, everything that the
        # retention covers is kept.
        since = pa.scalar(time, pa.timestamp("us", tz="UTC"))
        later = (rows.filter(_kernels.greater_equal(rows[_TIME], since)) for rows in self._stream((_LSN, _TIME)))
        first = _first(later)
        return LowWaterMark(CommitLsn(first[_LSN]), first[_TIME]) if first is not None else None

    def _stream(self, names: tuple[str, ...], *, low: int | None = None, high: int | None = None) -> Iterator[pa.Table]:
        """Yield columns of the transactions in a range, both ends inclusive."""
        table = SmallTable.open(self._path)
        if table is None:
            return
        # `Between` only skips files by their statistics; the rows of the others are filtered here.
        for rows in table.stream(arrow_schema(LSN_TIME_MAPPING, *names), Between(_LSN, low, high)):
            lsns = rows[_LSN]
            wanted = lsns.is_valid()
            if low is not None:
                wanted = _kernels.and_(wanted, _kernels.greater_equal(lsns, low))
            if high is not None:
                wanted = _kernels.and_(wanted, _kernels.less_equal(lsns, high))
            yield rows.filter(wanted)


def _first(parts: Iterator[pa.Table]) -> dict[str, Any] | None:
    """Return the row of the lowest LSN."""
    first: dict[str, Any] | None = None
    for rows in parts:
        if not rows.num_rows:
            continue
        place = int(_kernels.index(rows[_LSN], _kernels.min(rows[_LSN])).as_py())
        found = rows.slice(place, 1).to_pylist()[0]
        if first is None or found[_LSN] < first[_LSN]:
            first = found
    return first


_AFTER_EVENTS = 1_000_000
"""Above the ordinals of a cycle's own rows; a cleanup's number is added."""


@frozen
class RecordedCleanup:
    """A row of `cleanups`: which instance's low endpoint moves to the mark (None: all), decided after `cycle`."""

    number: int
    cycle: int
    capture_instance: str | None
    mark: LowWaterMark
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
        mark = LowWaterMark(CommitLsn(last["low_water_mark"]), last["mark_time"])
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
        # The last row of an instance has its state and low endpoint, so this one has to come after the cycle's own.
        events = (InstanceEvent(instance, ENABLED, cleanup.mark.lsn, note) for instance in instances)
        rows = [instance_row(cleanup.cycle, ordinal, event) for event in events]
        if rows:
            failpoint("low_endpoints.before")
            self._append("instances", INSTANCES, rows, cleanup.number)
            failpoint("low_endpoints.after")

    def _append(self, name: str, columns: list[tuple[str, str]], rows: list[dict[str, object]], number: int) -> bool:
        # Both tables get the cleanup's number as an application's version, so that a repeat after a crash adds nothing
        # twice.
        return append_small(
            self._system_tables.committer,
            rows_of(columns, rows),
            system_table_path(self._system_tables.lake, name),
            identity=self._identity,
            cycle=number,
        )

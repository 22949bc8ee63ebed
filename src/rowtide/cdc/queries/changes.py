"""Queries on the lake: validity interval and changes by LSN. They need no database connection.

A bound is always read in a separate statement, before the rows: Delta takes each table's snapshot separately and late,
so a plain maximum read in the same statement can be ahead of the rows (in SQL: `sql_functions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from rowtide.cdc.definitions import Instance
from rowtide.cdc.errors import (
    InstanceUnknown,
    LsnOutOfRange,
    NetChangesUnsupported,
    RangeOverGap,
    UnknownRowFilter,
)
from rowtide.cdc.lake_tables import change_table_path
from rowtide.cdc.published import RecordedInstance
from rowtide.cdc.queries.net_changes import NET_ROW_FILTERS, Truncates, net_select
from rowtide.cdc.queries.published_lake import PublishedLake
from rowtide.cdc.queries.table_changes import share_out, unite, united_columns
from rowtide.cdc.rows.expressions import ROW_FILTERS, TRUNCATE
from rowtide.core.lsn import CommitLsn
from rowtide.lake import tables
from rowtide.lake.tables import TableVersion
from rowtide.lake.views import named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ORDER = ("`__$start_lsn`", "`__$seqval`", "`__$operation`")


@dataclass(frozen=True, slots=True)
class _AskedWindow:
    """An instance, its change table, and the rows of the window."""

    instance: Instance
    table: TableVersion
    rows: DataFrame


class Changes(PublishedLake):
    """The change tables of one lake, read by a Spark session (used with rowtide's pinned settings)."""

    def __init__(self, spark: SparkSession, lake: str) -> None:
        super().__init__(lake)
        self._spark = spark

    def get_all_changes(
        self,
        capture_instance: str,
        from_lsn: CommitLsn | None = None,
        to_lsn: CommitLsn | None = None,
        row_filter_option: str = "all",
    ) -> DataFrame:
        """Return every change in [from, to] (SQL Server: fn_cdc_get_all_changes_<instance>).

        None stands for the interval's end. Columns: `__$start_lsn`, `__$seqval`, `__$operation`, `__$update_mask`,
        the captured columns, `__$absent_mask`, `__$exact`; ordered by the first three. `from` one above the
        last LSN is an empty result: the next window has not begun. Raises `LsnOutOfRange`, `RangeOverGap`,
        `UnknownRowFilter`.
        """
        operations = ", ".join(map(str, ROW_FILTERS[_choose(row_filter_option, ROW_FILTERS)]))
        rows = self._window(capture_instance, from_lsn, to_lsn).rows
        return rows.where(f"`__$operation` in ({operations})").drop("__$end_lsn").orderBy(*_ORDER)

    def get_table_changes(
        self,
        instances: Sequence[str],
        from_lsn: CommitLsn | None = None,
        to_lsn: CommitLsn | None = None,
        row_filter_option: str = "all",
    ) -> tuple[DataFrame, Instance]:
        """Return every change of a table in [from, to] over its instances, named oldest first.

        As `get_all_changes`, with the columns of the instance that comes with it, then `__$capture_instance`.
        """
        recorded = [self.get_recorded_instance(name) for name in instances]
        united = unite([one.instance for one in recorded])
        by_name = {one.instance.capture_instance: one.instance for one in recorded}
        lows = [(one.instance.capture_instance, one.lsn) for one in recorded]
        parts = [
            self.get_all_changes(share.capture_instance, share.from_lsn, share.to_lsn, row_filter_option).selectExpr(
                *united_columns(by_name[share.capture_instance], united)
            )
            for share in share_out(lows, from_lsn, to_lsn)
        ]
        return reduce(lambda one, other: one.unionAll(other), parts).orderBy(*_ORDER), united

    def get_net_changes(
        self,
        capture_instance: str,
        from_lsn: CommitLsn | None = None,
        to_lsn: CommitLsn | None = None,
        row_filter_option: str = "all",
        *,
        is_ordered: bool = False,
    ) -> DataFrame:
        """Return one change for each key that changed in [from, to] (SQL Server: fn_cdc_get_net_changes_<instance>).

        As `get_all_changes`, without `__$seqval`; in the order of each key's last change if `is_ordered`, which takes
        about as long again. Options: `all` (1, 2 and 4 without mask), `all with mask`, `all with merge` (1, and 5 for
        what is to be inserted or updated). After a truncate: one row 6, to be applied first, and the net of what
        followed. Raises `NetChangesUnsupported` too.
        """
        option = _choose(row_filter_option, NET_ROW_FILTERS)
        window = self._window(capture_instance, from_lsn, to_lsn)
        instance = window.instance
        if not instance.supports_net_changes:
            raise NetChangesUnsupported(capture_instance, f"{instance.source_schema}.{instance.source_table}")
        may_truncate = window.table.may_reach("__$operation", TRUNCATE)
        net = reduce_changes(window.rows, instance, option, may_truncate=may_truncate)
        return (net.orderBy(*_ORDER) if is_ordered else net).drop("__$seqval")

    def _window(self, capture_instance: str, from_lsn: CommitLsn | None, to_lsn: CommitLsn | None) -> _AskedWindow:
        """Return an instance and its change rows in [from, to].

        Reads the high endpoint, then the rows, then the low endpoint: so no published row is missing, and no row that a
        cleanup removed lies above the low endpoint.
        """
        known, high = self.read_instance_and_high(capture_instance)
        path, identity = change_table_path(self.lake, capture_instance), known.instance.member_id
        table = tables.read_identified(self._spark, path, identity=identity)
        recorded, _ = self.read_instance_and_high(capture_instance)
        if table is None or recorded.instance.member_id != identity:
            # Disabled since it was read.
            raise InstanceUnknown(capture_instance)
        low, high = _require_valid(recorded, from_lsn, to_lsn, high)
        rows = table.rows.where(f"`__$start_lsn` between {low.value} and {high.value}")
        return _AskedWindow(recorded.instance, table, rows)


def reduce_changes(changes: DataFrame, instance: Instance, option: str, *, may_truncate: bool = True) -> DataFrame:
    """Return the net changes of an instance's change rows of a window, with `__$seqval`, unordered.

    `option` is one of `NET_ROW_FILTERS`; `may_truncate` is false if no truncate is among the rows; see `net_select`.
    """
    truncates = Truncates.SOUGHT if may_truncate else Truncates.NONE
    with named(changes) as rows:
        return changes.sparkSession.sql(net_select(rows, instance, f"'{option}'", truncates))


def _choose(option: str, options: Iterable[str]) -> str:
    """Return an option as it is documented. Raises `UnknownRowFilter`."""
    chosen = option.strip().lower()
    if chosen not in options:
        raise UnknownRowFilter(option, ", ".join(options))
    return chosen


def _require_valid(
    recorded: RecordedInstance, from_lsn: CommitLsn | None, to_lsn: CommitLsn | None, high: CommitLsn
) -> tuple[CommitLsn, CommitLsn]:
    """Return the bounds, or raise `LsnOutOfRange` naming the valid interval."""
    asked_from, asked_to = from_lsn or recorded.lsn, to_lsn or high
    is_next_window = asked_from == high.increment() and to_lsn in (None, high, asked_from)
    if is_next_window:
        return asked_from, high
    if recorded.lsn <= asked_from <= asked_to <= high:
        _require_whole(recorded, asked_from, asked_to)
        return asked_from, asked_to
    raise LsnOutOfRange(
        instance=recorded.instance.capture_instance,
        from_lsn=str(asked_from),
        to_lsn=str(asked_to),
        low=str(recorded.lsn),
        high=str(high),
        gap=f" Below it, {recorded.note}." if recorded.note else "",
    )


def _require_whole(recorded: RecordedInstance, from_lsn: CommitLsn, to_lsn: CommitLsn) -> None:
    """Raise `RangeOverGap` if the changes of a transaction in [from, to] are missing."""
    for missing in recorded.missing:
        if from_lsn <= missing.lsn <= to_lsn:
            raise RangeOverGap(
                instance=recorded.instance.capture_instance,
                from_lsn=str(from_lsn),
                to_lsn=str(to_lsn),
                missing=str(missing.lsn),
                note=missing.note or "",
                before=str(missing.lsn.decrement()),
                after=str(missing.lsn.increment()),
            )

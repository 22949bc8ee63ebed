"""The lake's changes as DataFrames: by LSN, net, and tables as of an LSN. They need no database connection.

A bound is always read in a separate statement, before the rows: Delta takes each table's snapshot separately and late,
so a plain maximum read in the same statement can be ahead of the rows (in SQL: `sql_functions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from rowtide.cdc.change_columns import INSERT, ROW_FILTERS, TRUNCATE, change_columns
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.as_of.moved_rows import MovedRows
from rowtide.cdc.lake_readers.change_tables import ChangeTable
from rowtide.cdc.queries.as_of.bag_rows import bag_as_of, find_counted
from rowtide.cdc.queries.as_of.function import without_dropped
from rowtide.cdc.queries.as_of.opening import open_as_of
from rowtide.cdc.queries.as_of.rows import table_as_of
from rowtide.cdc.queries.net_changes import NET_ROW_FILTERS, Truncates, net_select
from rowtide.cdc.queries.united_instances import share_out, unite, united_columns
from rowtide.cdc.queries.windows import PublishedLake, RequestedRange, choose_option, open_window, require_net_changes
from rowtide.core.lsn import CommitLsn
from rowtide.core.tables import BeforeImages
from rowtide.core.values import frozen
from rowtide.delta.data_files import Between
from rowtide.lake import tables
from rowtide.lake.sql_text import quote, select_from
from rowtide.lake.tables import LakeTableVersion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LSN, _ABSENT = "__$start_lsn", "__$absent_mask"
_ORDER = ("`__$start_lsn`", "`__$seqval`", "`__$operation`")


@frozen
class _AskedWindow:
    """An instance, its change table, and the rows of the window."""

    instance: Instance
    table: LakeTableVersion
    lsns: Between
    high: CommitLsn
    rows: DataFrame

    def may_have(self, values: Between) -> bool:
        """Return whether, by the files' statistics, a row may be in a range; see `LakeTableVersion`."""
        return self.table.may_have(self.lsns, values)


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
        operations = ", ".join(map(str, ROW_FILTERS[choose_option(row_filter_option, ROW_FILTERS)]))
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
        united = unite([one.instance.for_readers() for one in recorded])
        by_name = {one.instance.capture_instance: one.instance.for_readers() for one in recorded}
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
        option = choose_option(row_filter_option, NET_ROW_FILTERS)
        window = self._window(capture_instance, from_lsn, to_lsn)
        require_net_changes(window.instance, window.high)
        may_truncate = window.may_have(Between("__$operation", low=TRUNCATE))
        net = reduce_changes(*_without_empty(window), option, may_truncate=may_truncate)
        return (net.orderBy(*_ORDER) if is_ordered else net).drop("__$seqval")

    def get_table_as_of(self, capture_instance: str, lsn: CommitLsn | None = None) -> DataFrame:
        """Return the rows of an instance's table as of an LSN, by default the last published one, unordered.

        Columns: the captured ones, `__$absent_mask`, `__$exact`. Raises `NeverCopied`, `BeforeSnapshot`,
        `OutsideInterval`, `RewrittenSinceSnapshot`, `ChangesMissingSinceSnapshot`, `TypesDiffer`.
        """
        as_of = open_as_of(self, capture_instance, lsn, self._open_table)
        if as_of.instance.index_columns:
            rows = self._with_moved(as_of.instance, as_of.changes, as_of.first_change, as_of.lsn)
            found = table_as_of(replace(as_of, changes=replace(as_of.changes, rows=rows)))
        else:
            found = bag_as_of(as_of, find_counted(self.lake, as_of.snapshot))
        dropped = as_of.instance.list_dropped(as_of.lsn.value)
        return found.selectExpr(*without_dropped(as_of.instance, dropped, "true")) if dropped else found

    def _window(self, capture_instance: str, from_lsn: CommitLsn | None, to_lsn: CommitLsn | None) -> _AskedWindow:
        """Return an instance and its change rows in [from, to]."""
        window = open_window(self, RequestedRange(capture_instance, from_lsn, to_lsn), self._open_table)
        lsns = Between(_LSN, window.low.value, window.high.value)
        rows = self._with_moved(window.instance, window.table, window.low, window.high)
        rows = rows.where(f"`{_LSN}` between {lsns.low} and {lsns.high}")
        return _AskedWindow(window.instance, window.table, lsns, window.high, rows)

    def _open_table(self, path: str, instance: Instance) -> LakeTableVersion | None:
        """Return the current version of an instance's table under the readers' names; None if it is not its own."""
        table = tables.read_identified(self._spark, path, identity=instance.member_id)
        if table is None:
            return None
        snapshot = replace(table.snapshot, renamed=instance.reader_names)
        return replace(table, rows=table.rows.withColumnsRenamed(dict(instance.reader_names)), snapshot=snapshot)

    def _with_moved(self, instance: Instance, table: LakeTableVersion, low: CommitLsn, high: CommitLsn) -> DataFrame:
        """Return a change table's rows; those in [low, high] that moved have the values that they lack."""
        lsns = Between(_LSN, low.value, high.value)
        if not (instance.may_lack_values and instance.index_columns and table.may_have(lsns, Between(_ABSENT))):
            return table.rows
        moved = MovedRows(self.lake, instance, ChangeTable(table.snapshot), high)
        completed = list(moved.read_whole(low, high))
        if not completed:
            return table.rows
        rows = self._spark.createDataFrame(pa.Table.from_batches(completed))
        cast = [f"cast({quote(name)} as {kind}) as {quote(name)}" for name, kind in table.rows.dtypes]
        is_moved = (
            f"`__$operation` = {INSERT} and `{_ABSENT}` is not null and `{_LSN}` between {lsns.low} and {lsns.high}"
        )
        return table.rows.where(f"not ({is_moved})").unionAll(rows.selectExpr(*cast))


def _without_empty(window: _AskedWindow) -> tuple[DataFrame, Instance]:
    """Return a window's rows and its instance as they are without what, by statistics, no row has.

    Columns that are null in all rows are not read then; rows of which none lacks a value need no earlier ones'.
    """
    empty = {name for name in (_ABSENT, "__$exact") if not window.may_have(Between(name))}
    if not empty:
        return window.rows, window.instance
    shown = [
        f"cast(null as {column.type_name}) as {quote(column.name)}" if column.name in empty else quote(column.name)
        for column in change_columns(window.instance)
    ]
    instance = window.instance
    if _ABSENT in empty:
        instance = replace(instance, before_images=BeforeImages.FULL, is_partitioned=False)
    return window.rows.selectExpr(*shown), instance


def reduce_changes(changes: DataFrame, instance: Instance, option: str, *, may_truncate: bool = True) -> DataFrame:
    """Return the net changes of an instance's change rows of a window, with `__$seqval`, unordered.

    `option` is one of `NET_ROW_FILTERS`; `may_truncate` is false if no truncate is among the rows; see `net_select`.
    """
    truncates = Truncates.SOUGHT if may_truncate else Truncates.NONE
    return select_from(changes, lambda rows: net_select(rows, instance, f"'{option}'", truncates))

"""A lake read without Spark and without a database: `rowtide.open_lake(path)`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import pyarrow as pa

from rowtide.cdc.change_columns import ROW_FILTERS, shown_columns
from rowtide.cdc.lake_readers import change_tables
from rowtide.cdc.lake_readers.as_of.moved_rows import find_moved
from rowtide.cdc.lake_readers.as_of.tables import table_as_of
from rowtide.cdc.lake_readers.completions import Completions
from rowtide.cdc.lake_readers.net_changes import NetChanges
from rowtide.cdc.lake_readers.presentation import ArrowChanges, as_united, united_schema
from rowtide.cdc.queries import lsn_times, windows
from rowtide.cdc.queries.as_of.opening import as_of_columns, open_as_of
from rowtide.cdc.queries.lsn_times import Bound
from rowtide.cdc.queries.net_changes import NET_ROW_FILTERS
from rowtide.cdc.queries.united_instances import share_out, unite
from rowtide.core.lsn import CommitLsn


class Lake(windows.PublishedLake):
    """The published changes of one lake as Arrow.

    Who may read the lake's files may read everything in it: roles and grants of the source database do not apply here.
    Windows are [from, to] by LSN and (from, to] by time; None is the end of the validity interval. Calls raise
    `LakeUnknown`, `LakeReadFailed`, `TableUnreadable`; those about an instance `InstanceUnknown`.
    """

    def map_time_to_lsn(self, relational_operator: str, time: datetime) -> CommitLsn | None:
        """Return the LSN next to a time, None if there is none (SQL Server: fn_cdc_map_time_to_lsn).

        Raises `UnknownTimeOperator`.
        """
        return lsn_times.LsnTimes(self.lake).map_time_to_lsn(relational_operator, time)

    def map_lsn_to_time(self, lsn: CommitLsn) -> datetime | None:
        """Return when a transaction ended, in UTC (SQL Server: fn_cdc_map_lsn_to_time); None for an unknown LSN."""
        return lsn_times.LsnTimes(self.lake).map_lsn_to_time(lsn)

    def get_all_changes(
        self,
        capture_instance: str,
        from_lsn: Bound | None = None,
        to_lsn: Bound | None = None,
        row_filter_option: str = "all",
    ) -> ArrowChanges:
        """Return every change in a window (SQL Server: fn_cdc_get_all_changes_<instance>).

        Columns: `__$start_lsn`, `__$seqval`, `__$operation`, `__$update_mask`, the captured columns, `__$absent_mask`,
        `__$exact`; in the order of the first three. Option: `all`, or `all update old`. Raises `LsnOutOfRange`,
        `RangeOverGap`, `TimeOutOfRange`, `UnknownRowFilter`.
        """
        operations = ROW_FILTERS[windows.choose_option(row_filter_option, ROW_FILTERS)]
        window = self._open(capture_instance, from_lsn, to_lsn)
        table, part = window.table, change_tables.ChangeTablePart(window.low, window.high, operations)
        columns = [name for name, _ in shown_columns(window.instance)]
        moved = find_moved(self.lake, window)

        def read() -> Iterator[pa.RecordBatch]:
            rows = table.stream(part, columns)
            return rows if moved is None else Completions(moved, window.low, window.high).apply(rows)

        return ArrowChanges(table.schema(columns), window.instance, read)

    def get_net_changes(
        self,
        capture_instance: str,
        from_lsn: Bound | None = None,
        to_lsn: Bound | None = None,
        row_filter_option: str = "all",
    ) -> ArrowChanges:
        """Return one change for each key that changed in a window (SQL Server: fn_cdc_get_net_changes_<instance>).

        As `get_all_changes`, without `__$seqval`, in the order of each key's last change. Options: `all`, `all with
        mask`, `all with merge`. Raises `NetChangesUnsupported` too; reading the rows raises `QueryFailed`.
        """
        option = windows.choose_option(row_filter_option, NET_ROW_FILTERS)
        window = self._open(capture_instance, from_lsn, to_lsn)
        windows.require_net_changes(window.instance, window.high)
        net = NetChanges(window, option, find_moved(self.lake, window))
        return ArrowChanges(net.schema, window.instance, net.read)

    def get_table_changes(
        self,
        instances: Sequence[str],
        from_lsn: Bound | None = None,
        to_lsn: Bound | None = None,
        row_filter_option: str = "all",
    ) -> ArrowChanges:
        """Return every change of a table in a window over its instances, named oldest first.

        As `get_all_changes`, with the columns of all instances, then `__$capture_instance`.
        """
        first, last = lsn_times.LsnTimes(self.lake).find_window(instances[0], from_lsn, to_lsn)
        recorded = [self.get_recorded_instance(name) for name in instances]
        united = unite([one.instance.for_readers() for one in recorded])
        lows = [(one.instance.capture_instance, one.lsn) for one in recorded]
        parts = [
            self.get_all_changes(share.capture_instance, share.from_lsn, share.to_lsn, row_filter_option)
            for share in share_out(lows, first, last)
        ]

        def read() -> Iterator[pa.RecordBatch]:
            # The shares follow one another.
            return (as_united(batch, part.instance, united) for part in parts for batch in part.batches())

        return ArrowChanges(united_schema(united), united, read)

    def get_table_as_of(
        self, capture_instance: str, at: Bound | None = None, columns: Sequence[str] | None = None
    ) -> ArrowChanges:
        """Return the rows of an instance's table as of an LSN or a time, by default the last published LSN, unordered.

        Columns: the captured ones, or those of them that are named as readers know them, then `__$absent_mask`,
        `__$exact`. A time stands for the last transaction up to it. Raises `NeverCopied`, `BeforeSnapshot`,
        `OutsideInterval`, `RewrittenSinceSnapshot`, `ChangesMissingSinceSnapshot`, `TypesDiffer`,
        `TimeOutOfRange`, `ColumnNotCaptured`; reading the rows raises `QueryFailed`.
        """
        _, lsn = lsn_times.LsnTimes(self.lake).find_window(capture_instance, None, at)
        as_of = open_as_of(self, capture_instance, lsn, change_tables.open_change_table)
        table = table_as_of(self.lake, as_of, as_of_columns(as_of.instance, columns))
        return ArrowChanges(table.schema, as_of.instance, table.read)

    def _open(
        self, capture_instance: str, start: Bound | None, end: Bound | None
    ) -> windows.InstanceWindow[change_tables.ChangeTable]:
        asked = windows.RequestedRange(
            capture_instance, *lsn_times.LsnTimes(self.lake).find_window(capture_instance, start, end)
        )
        return windows.open_window(self, asked, change_tables.open_change_table)

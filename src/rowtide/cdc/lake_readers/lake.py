"""A lake read without Spark and without a database: `rowtide.open_lake(path)`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.cdc.instances import (
    DELETE,
    INSERT,
    ROW_FILTERS,
    TRUNCATE,
    UPDATE_AFTER,
    Instance,
    mask_length,
    shown_columns,
)
from rowtide.cdc.lake_readers import change_tables, last_rows
from rowtide.cdc.lake_readers.as_of.moved_rows import find_moved
from rowtide.cdc.lake_readers.as_of.tables import table_as_of
from rowtide.cdc.lake_readers.bits import Bits
from rowtide.cdc.lake_readers.grouping import KeyGroup, group_rows
from rowtide.cdc.lake_readers.ordering import ORDER
from rowtide.cdc.lake_readers.presentation import ArrowChanges, as_united, united_schema
from rowtide.cdc.queries import windows
from rowtide.cdc.queries.as_of.opening import as_of_columns, open_as_of
from rowtide.cdc.queries.net_changes import MERGE, NET_ROW_FILTERS, WITH_MASK, WITH_MERGE, net_columns, share_out, unite
from rowtide.cdc.queries.windows import Bound
from rowtide.cdc.rows.conversion import as_binary
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.databases.lake_values.casting import arrow_schema

Flags = npt.NDArray[np.bool_]


@frozen
class NetChanges:
    """The net changes of a window; `option` is one of `NET_ROW_FILTERS`."""

    window: windows.InstanceWindow[change_tables.ChangeTable]
    option: str
    moved: change_tables.FindsValues | None = None
    """Finds the values that moved rows lack."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return arrow_schema(net_columns(self._instance))

    @property
    def _instance(self) -> Instance:
        return self.window.instance

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield a row per key, in the order of each key's last change, after the window's last truncate.

        Raises as `ChangeTable.stream`, and `QueryFailed`.
        """
        window = self.window
        completions = change_tables.Completions(self.moved, window.low, window.high) if self.moved is not None else None
        rows = last_rows.StandingRows.of(
            last_rows.TablePart(window.table, window.low, window.high), completions=completions
        )
        if rows.truncate is not None:
            yield self._truncate_row(rows.truncate[0])
        columns = [*ORDER, *(name for name in self.schema.names if name not in ORDER)]
        last = last_rows.LastRows(self._instance, rows, columns, has_masks=self.option == WITH_MASK)
        groups = group_rows(last.numbered(), last.key_names, len(last.mask_parts), last.fillable)
        for completed in last.read(groups):
            yield self._net_rows(completed)

    def _truncate_row(self, lsn: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([{last_rows.LSN: lsn, last_rows.OPERATION: TRUNCATE}], schema=self.schema)

    def _net_rows(self, completed: last_rows.Completed) -> pa.RecordBatch:
        group = completed.group
        is_replaced = _find_replaced(self._instance, completed)
        values = {
            last_rows.OPERATION: self._operations(group, is_replaced),
            last_rows.MASK: self._masks(group),
            **completed.values,
        }
        columns = [values[name] if name in values else completed.last.column(name) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _operations(self, group: KeyGroup, is_replaced: Flags) -> pa.Array[Any]:
        other = MERGE if self.option == WITH_MERGE else np.where(group.first == INSERT, INSERT, UPDATE_AFTER)
        other = np.where(is_replaced, INSERT, other)
        return pa.array(np.where(group.last_operation == DELETE, DELETE, other).astype(np.int32))

    def _masks(self, group: KeyGroup) -> pa.Array[Any]:
        """Return the columns that any row of the key changed; null for what is not an update."""
        count = len(group.last)
        if self.option != WITH_MASK:
            return pa.nulls(count, pa.binary())
        length = mask_length(len(self._instance.columns))
        parts = [numbers.astype(">u8").view(np.uint8).reshape(count, last_rows.MASK_PART) for numbers in group.masks]
        masks = np.concatenate(parts, axis=1)
        is_update = (group.last_operation != DELETE) & (group.first != INSERT)
        return as_binary(np.ascontiguousarray(masks[:, :length]), ~is_update)


def _find_replaced(instance: Instance, completed: last_rows.Completed) -> Flags:
    """Return which rows lack values that no row before them has, not of their key either: those that moved there.

    Only an insert counts as the source of a value that it lacks.
    """
    group, is_replaced = completed.group, np.zeros(len(completed.group.last), np.bool_)
    if group.sources:
        is_absent = Bits(completed.values[last_rows.ABSENT], len(instance.columns))
        for ordinal, source in zip(last_rows.fillable_ordinals(instance), group.sources, strict=True):
            is_replaced |= (source >= 0) & is_absent.of(ordinal)
    return is_replaced


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
        return windows.LsnTimes(self.lake).map_time_to_lsn(relational_operator, time)

    def map_lsn_to_time(self, lsn: CommitLsn) -> datetime | None:
        """Return when a transaction ended, in UTC (SQL Server: fn_cdc_map_lsn_to_time); None for an unknown LSN."""
        return windows.LsnTimes(self.lake).map_lsn_to_time(lsn)

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
            return rows if moved is None else change_tables.Completions(moved, window.low, window.high).apply(rows)

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
        first, last = windows.LsnTimes(self.lake).find_window(instances[0], from_lsn, to_lsn)
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
        _, lsn = windows.LsnTimes(self.lake).find_window(capture_instance, None, at)
        as_of = open_as_of(self, capture_instance, lsn, change_tables.open_change_table)
        table = table_as_of(self.lake, as_of, as_of_columns(as_of.instance, columns))
        return ArrowChanges(table.schema, as_of.instance, table.read)

    def _open(
        self, capture_instance: str, start: Bound | None, end: Bound | None
    ) -> windows.InstanceWindow[change_tables.ChangeTable]:
        asked = windows.RequestedRange(
            capture_instance, *windows.LsnTimes(self.lake).find_window(capture_instance, start, end)
        )
        return windows.open_window(self, asked, change_tables.open_change_table)

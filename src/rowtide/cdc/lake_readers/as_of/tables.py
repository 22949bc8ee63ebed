"""A table as of an LSN without Spark, with or without a key."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.cdc.lake_readers.as_of.bags import BagTable
from rowtide.cdc.lake_readers.as_of.dropped_columns import ReadsTable, WithoutDropped
from rowtide.cdc.lake_readers.as_of.keyed_tables import KeyedTable
from rowtide.cdc.lake_readers.as_of.moved_rows import MovedRows
from rowtide.cdc.lake_readers.change_tables import ChangeTable
from rowtide.cdc.lake_readers.completions import Completions
from rowtide.cdc.queries.as_of.bag_visibility import find_counted
from rowtide.cdc.queries.as_of.opening import AsOf


def table_as_of(lake: str, as_of: AsOf[ChangeTable], columns: Sequence[str]) -> ReadsTable:
    """Return what reads columns of a table of a lake as of an LSN. Raises `LakeReadFailed`."""
    table = _whole_table(lake, as_of, columns)
    dropped = as_of.instance.list_dropped(as_of.lsn.value)
    return WithoutDropped(table, as_of.instance, dropped) if dropped else table


def _whole_table(lake: str, as_of: AsOf[ChangeTable], columns: Sequence[str]) -> ReadsTable:
    if as_of.instance.index_columns:
        moved = MovedRows(lake, as_of.instance, as_of.changes, as_of.lsn)
        completions = Completions(moved, as_of.first_change, as_of.lsn) if as_of.instance.may_lack_values else None
        return KeyedTable(as_of, columns, completions)
    return BagTable(as_of, columns, find_counted(lake, as_of.snapshot))

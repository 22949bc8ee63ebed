"""A table as of an LSN without Spark, with or without a key.

A table as of an LSN without the values of columns that its source had dropped by then: null in all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.as_of.bags import BagTable
from rowtide.cdc.lake_readers.as_of.keyed_tables import KeyedTable
from rowtide.cdc.lake_readers.as_of.moved_rows import MovedRows
from rowtide.cdc.lake_readers.bits import Bits
from rowtide.cdc.lake_readers.change_tables import ChangeTable
from rowtide.cdc.lake_readers.completions import Completions
from rowtide.cdc.lake_readers.last_rows import ABSENT, exact_columns
from rowtide.cdc.lake_readers.value_texts import EXACT
from rowtide.cdc.queries.as_of.bag_rows import find_counted
from rowtide.cdc.queries.as_of.opening import AsOf
from rowtide.cdc.rows.exact_values import ExactValues, as_binary, empty_masks, set_bits
from rowtide.core.values import frozen


class ReadsTable(Protocol):
    """Reads columns of a table as of an LSN."""

    @property
    def schema(self) -> pa.Schema:
        """The wanted columns."""
        ...

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in no order."""
        ...


@frozen
class WithoutDropped:
    """The same table, some columns of which, by ordinal, are null."""

    table: ReadsTable
    instance: Instance
    dropped: Sequence[int]

    @property
    def schema(self) -> pa.Schema:
        """The wanted columns."""
        return self.table.schema

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows. Raises as the table does."""
        return map(self._without, self.table.read())

    def _without(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        names = {self.instance.columns[ordinal - 1].lake_name for ordinal in self.dropped}
        values = {
            field.name: pa.nulls(rows.num_rows, field.type) if field.name in names else rows.column(field.name)
            for field in rows.schema
        }
        if ABSENT in values and values[ABSENT].null_count < rows.num_rows:
            values[ABSENT] = self._masks(rows)
        if EXACT in values and values[EXACT].null_count < rows.num_rows:
            exact = ExactValues(rows.num_rows)
            for ordinal, texts in sorted(exact_columns(rows).items()):
                if ordinal not in self.dropped:
                    exact.add(ordinal, texts, pa.nulls(rows.num_rows))
            values[EXACT] = exact.as_maps()
        return pa.RecordBatch.from_arrays(list(values.values()), schema=rows.schema)

    def _masks(self, rows: pa.RecordBatch) -> pa.Array[pa.BinaryScalar]:
        count = len(self.instance.columns)
        is_absent, masks = Bits(rows.column(ABSENT), count), empty_masks(rows.num_rows, count)
        for ordinal in range(1, count + 1):
            if ordinal not in self.dropped:
                set_bits(masks, ordinal, is_absent.of(ordinal))
        return as_binary(masks, np.asarray(~masks.any(axis=1)))


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

"""Net changes of a window without Spark: one row for each key, made from its rows a group at a time.

`rowtide.cdc.queries.net_changes` defines a key's net effect, and has the same rules in Spark SQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.cdc.change_columns import DELETE, INSERT, TRUNCATE, UPDATE_AFTER, mask_length
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers import change_tables, last_rows
from rowtide.cdc.lake_readers.bits import Bits
from rowtide.cdc.lake_readers.completions import Completions, FindsValues
from rowtide.cdc.lake_readers.grouping import KeyGroup, group_rows
from rowtide.cdc.lake_readers.ordering import ORDER
from rowtide.cdc.queries import windows
from rowtide.cdc.queries.net_changes import MERGE, WITH_MASK, WITH_MERGE, net_columns
from rowtide.cdc.rows.conversion import as_binary
from rowtide.core.values import frozen
from rowtide.databases.lake_values.casting import arrow_schema

Flags = npt.NDArray[np.bool_]


@frozen
class NetChanges:
    """The net changes of a window; `option` is one of `NET_ROW_FILTERS`."""

    window: windows.InstanceWindow[change_tables.ChangeTable]
    option: str
    moved: FindsValues | None = None
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
        completions = Completions(self.moved, window.low, window.high) if self.moved is not None else None
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

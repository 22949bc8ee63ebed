"""Tables with one whole number as key as of an LSN, without Spark: read once, from the last row to the first.

A row counts if its key has not been seen, and a bit for each key remembers that; so nothing is sorted, grouped or read
twice. Rows that lack values are left to the reader that finds these in earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.as_of.lowest_layers import LowestLayer
from rowtide.cdc.lake_readers.as_of.newest_first import Run, find_runs, stream_newest_first
from rowtide.cdc.lake_readers.key_bits import MOST_KEYS, Flags, KeyBits, Numbers
from rowtide.cdc.lake_readers.last_rows import ABSENT, OPERATION, TablePart
from rowtide.cdc.lake_readers.ordering import ORDER
from rowtide.cdc.rows.change_columns import column_type
from rowtide.cdc.rows.operations import DELETE, INSERT, TRUNCATE, UPDATE_AFTER

_COUNTED = (DELETE, INSERT, UPDATE_AFTER, TRUNCATE)


@dataclass(frozen=True, slots=True)
class LatestRows:
    """Columns of the last row of each key; `lacking` gets the keys of those that lack values of earlier rows."""

    key: str
    columns: Sequence[str]
    runs: Sequence[Run]
    seen: KeyBits
    lacking: KeyBits | None

    @classmethod
    def of(cls, instance: Instance, parts: Sequence[TablePart], columns: Sequence[str]) -> LatestRows | None:
        """Return the reader of the rows above the lowest layer; None if they are not to be read so.

        Raises as `ChangeTable.stream`.
        """
        key = _whole_number(instance, parts)
        if key is None:
            return None
        divided = [(part.table, part.of(*_COUNTED)) for part in parts]
        runs = find_runs(divided)
        seen = _range_of(runs, key) if runs is not None else None
        if runs is None or seen is None:
            return None
        return cls(key, columns, runs, seen, seen.new() if instance.may_lack_values else None)

    def read(self, lowest: LowestLayer) -> Iterator[pa.RecordBatch]:
        """Yield the rows, and those of the lowest layer that they do not hide; rows of `lacking` are not among them."""
        wanted = list(dict.fromkeys([*ORDER, self.key, *self.columns]))
        for batch, is_counted in stream_newest_first(self.runs, wanted):
            operations = batch.column(OPERATION).to_numpy()
            positions = np.flatnonzero(is_counted)
            truncates = np.flatnonzero(operations[positions] == TRUNCATE)
            yield self._last_of(batch, positions[truncates[-1] + 1 :] if len(truncates) else positions)
            if len(truncates):
                return
        if not self.seen.has_room:
            yield from lowest.stream(self.columns)
            return
        for batch in lowest.stream(list(dict.fromkeys([*self.columns, self.key]))):
            yield _select(batch, ~self.seen.has(batch.column(self.key).to_numpy()))

    def _last_of(self, batch: pa.RecordBatch, positions: Numbers) -> pa.RecordBatch:
        """Return, of the rows at some positions, which ascend, those that are the last ones of their keys."""
        # Null where a table was truncated.
        keys = batch.column(self.key).fill_null(0).to_numpy()[positions]
        is_last = self.seen.take_new(keys)
        keys, positions = keys[is_last], positions[is_last]
        operations = batch.column(OPERATION).to_numpy()[positions]
        is_shown = operations != DELETE
        if self.lacking is not None:
            is_absent = batch.column(ABSENT).is_valid().to_numpy(zero_copy_only=False)[positions]
            # An insert that lacks values is a row that moved: they are in that of its old key.
            is_lacking = is_absent & np.isin(operations, (UPDATE_AFTER, INSERT))
            self.lacking.add(keys[is_lacking])
            is_shown &= ~is_lacking
        is_wanted = np.zeros(batch.num_rows, np.bool_)
        is_wanted[positions[is_shown]] = True
        return _select(batch, is_wanted)


def _select(batch: pa.RecordBatch, is_wanted: Flags) -> pa.RecordBatch:
    """Return some of the rows: a column at a time, which takes less than all of them at once."""
    count = int(np.count_nonzero(is_wanted))
    if count == len(is_wanted):
        return batch
    wanted: Any = pa.array(is_wanted)
    # Most rows have no masks and no exact texts: of columns without values there is nothing to select.
    selected: list[Any] = [
        pa.nulls(count, column.type) if column.null_count == len(column) else column.filter(wanted)
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(selected, schema=batch.schema)


def _whole_number(instance: Instance, parts: Sequence[TablePart]) -> str | None:
    """Return the key's column, if it is one and of whole numbers."""
    if len(instance.index_columns) != 1:
        return None
    (column,) = instance.index_columns
    is_whole = all(pa.types.is_integer(part.table.schema([column.lake_name]).types[0]) for part in parts)
    return column.lake_name if is_whole and column_type(instance, column).holds_all else None


def _range_of(runs: Sequence[Run], key: str) -> KeyBits | None:
    """Return a set for the keys of runs; None if, by the files' statistics, their range is not known, or too large."""
    bounds = []
    for file, table in {piece.file.path: (piece.file, piece.table) for run in runs for piece in run}.values():
        if table.is_empty(file, key):
            # Truncates only.
            continue
        found = table.bounds(file, key)
        if found is None:
            return None
        bounds.append(found)
    if not bounds:
        return KeyBits()
    least, most = min(low for low, _ in bounds), max(high for _, high in bounds)
    return KeyBits(least, most) if most - least < MOST_KEYS else None

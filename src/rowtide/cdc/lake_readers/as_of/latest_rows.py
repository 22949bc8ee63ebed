"""Tables as of an LSN whose key is a single integer, without Spark: read once, from the last row to the first.

A row counts if its key has not been seen, and a bit for each key remembers that; so nothing is sorted, grouped or read
twice. Rows that lack values are left to the reader that finds these in earlier ones.

Change rows from the last to the first: files and row groups that follow one another are read backwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.cdc.change_columns import DELETE, INSERT, TRUNCATE, UPDATE_AFTER, column_type
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.bits import MOST_KEYS, Flags, KeyBits, Numbers
from rowtide.cdc.lake_readers.change_tables import ChangeTable, ChangeTablePart
from rowtide.cdc.lake_readers.last_rows import ABSENT, LSN, OPERATION, OnlyKeys, TablePart
from rowtide.cdc.lake_readers.ordering import ORDER, are_ordered, in_memory_order, join
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.delta.data_files import Between, find_bounds
from rowtide.delta.replay import AddFile

# The lowest layer of a base: rows of one LSN, in whatever order their files have, numbered by that. Ascending numbers
# of rows, taken up to an end at a time.

_BATCH_ROWS = 64 * 1024
_BATCH_BYTES = 4 * 1024 * 1024


@frozen
class LowestLayer:
    """The rows of a version of a base that have an LSN."""

    table: ChangeTable
    lsn: CommitLsn
    only: OnlyKeys | None = None

    def stream(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield columns of the rows. Raises as `ChangeTable.stream`."""
        return self._stream(columns) if self.only is None else self.only.stream(self._stream, columns)

    def _stream(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        snapshot = self.table.snapshot
        snapshot.require_readable()
        (lsn,) = snapshot.select([LSN]).fields
        for file in snapshot.list_files(Between(LSN, self.lsn.value, self.lsn.value)):
            is_whole = find_bounds(file, lsn.physical_name) == (self.lsn.value, self.lsn.value)
            wanted = list(columns) if is_whole or LSN in columns else [*columns, LSN]
            batches = snapshot.stream_file(
                file, wanted, batch_rows=_BATCH_ROWS, batch_bytes=_BATCH_BYTES, on_all_cores=True
            )
            for batch in batches:
                yield batch if is_whole else self._only_this(batch).select(list(columns))

    def _only_this(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        is_this = batch.column(LSN).to_numpy() == self.lsn.value
        return batch if np.all(is_this) else batch.filter(pa.array(is_this))


@dataclass(slots=True)
class Ascending:
    """Numbers that come in parts."""

    more: Iterator[Numbers]
    buffered: Numbers = field(default_factory=lambda: np.empty(0, np.int64))

    def take(self, end: int) -> Numbers:
        """Return the numbers below an end that were not taken yet."""
        taken = []
        while True:
            count = int(np.searchsorted(self.buffered, end))
            taken.append(self.buffered[:count])
            self.buffered = self.buffered[count:]
            if len(self.buffered):
                break
            found = next(self.more, None)
            if found is None:
                break
            self.buffered = found
        return np.concatenate(taken)


_MOST_BYTES = 64 * 1024 * 1024
"""The uncompressed size of what is read from files at once."""
_SMALL_BYTES = 4 * 1024 * 1024
"""A file up to this size is not divided into its row groups."""
_COMPRESSION = 4
"""An estimate: the size of rows in memory per size of small files."""


Chosen = tuple[pa.RecordBatch, npt.NDArray[np.bool_]]
"""Rows, and which of them are meant."""


@frozen
class Piece:
    """Row groups of a file that may have rows of a part, None: all; bounds of their LSNs, and their size."""

    table: ChangeTable
    part: ChangeTablePart
    file: AddFile
    low: int
    high: int
    size: int
    row_groups: tuple[int, ...] | None = None

    def read(self, columns: Sequence[str]) -> Iterator[Chosen]:
        """Yield columns, `ORDER` among them, of the rows, and which are the part's. Raises as `ChangeTable.stream`."""
        for batch in self.table.read_file(self.file, columns, self.row_groups):
            yield batch, self.part.find_rows(batch)


Run = tuple[Piece, ...]
"""Pieces that are read at once."""


def find_runs(parts: Sequence[tuple[ChangeTable, ChangeTablePart]]) -> list[Run] | None:
    """Return the parts' rows in runs that follow one another by LSN; None if one is too large to be read at once.

    Raises as `ChangeTable.stream`.
    """
    pieces: list[Piece] = []
    for table, part in parts:
        for file in table.list_files(part):
            found = _divide(table, part, file)
            if found is None:
                return None
            pieces += found
    runs: list[list[Piece]] = []
    high = -1
    for piece in sorted(pieces, key=lambda piece: piece.low):
        if not runs or piece.low > high:
            runs.append([])
        runs[-1].append(piece)
        high = max(high, piece.high)
    if any(sum(piece.size for piece in run) > _MOST_BYTES for run in runs):
        return None
    return [tuple(run) for run in runs]


def stream_newest_first(runs: Sequence[Run], columns: Sequence[str]) -> Iterator[Chosen]:
    """Yield columns, `ORDER` among them, of the runs' rows: in order within a batch, the last batch first."""
    for run in reversed(runs):
        found = [chosen for piece in run for chosen in piece.read(columns) if chosen[1].any()]
        if are_ordered(batch for batch, _ in found):
            yield from reversed(found)
        else:
            rows = in_memory_order(join([batch.filter(pa.array(is_part)) for batch, is_part in found]))
            yield rows, np.ones(rows.num_rows, np.bool_)


def _divide(table: ChangeTable, part: ChangeTablePart, file: AddFile) -> list[Piece] | None:
    bounds = table.bounds(file)
    if file.size <= _SMALL_BYTES:
        return [Piece(table, part, file, *bounds, file.size * _COMPRESSION)] if bounds is not None else None
    pieces = []
    for place, group in enumerate(table.list_row_groups(file)):
        if group.least is None or group.most is None:
            return None
        if group.least <= part.high.value and group.most >= part.low.value:
            pieces.append(Piece(table, part, file, group.least, group.most, group.size, (place,)))
    return pieces


_COUNTED = (DELETE, INSERT, UPDATE_AFTER, TRUNCATE)


@frozen
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
            yield _select(batch, ~self.seen.find_known(batch.column(self.key).to_numpy()))

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

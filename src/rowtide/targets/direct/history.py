"""Changes of a table of history, without Spark.

The effect of a window's change rows on the slices of their keys, the same as that of the SQL in
`rowtide.targets.statements`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.cdc.change_columns import DELETE, INSERT, TRUNCATE, UPDATE_AFTER, UPDATE_BEFORE
from rowtide.cdc.lake_readers.lake import Lake
from rowtide.cdc.lake_readers.last_rows import comparable
from rowtide.cdc.published import LSN_TIME_MAPPING, arrow_schema, system_table_path
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.delta.data_files import Between
from rowtide.delta.replay import AddFile
from rowtide.delta.snapshot import Snapshot
from rowtide.delta.writing.row_edits import Indexes
from rowtide.lake.small_tables import SmallTable
from rowtide.targets.direct.tables import DirectTable, KeySet, ShownColumns
from rowtide.targets.keepers import TargetWindow
from rowtide.targets.statements import FROM_LSN, FROM_TIME, HISTORY_COLUMNS, IS_CURRENT, TO_LSN, TO_TIME

Numbers: TypeAlias = npt.NDArray[Any]
_kernels: Any = pc
_NONE = -1


@frozen
class Closed:
    """The change of each key's open slice, by the key's number.

    `alters`: it gets the values of `row`. `to` is the LSN at which it ends, -1 if it stays open.
    """

    alters: Numbers
    row: Numbers
    to: Numbers


@frozen
class OpenedSlices:
    """Slices that begin: their rows, and the LSNs at which they begin and end; -1: they stay open."""

    row: Numbers
    start: Numbers
    to: Numbers


@frozen
class ChangeRows:
    """Change rows of a window in their order, without truncates, with the number of each row's key."""

    rows: pa.Table
    keys: Numbers
    lsns: Numbers
    operations: Numbers

    def slice(self, tracked: Iterable[str]) -> tuple[Closed, OpenedSlices]:
        """Return the changes of slices; a change of `tracked` columns begins a new one."""
        # Sorted by key, and for each key in log order.
        order = np.argsort(self.keys, kind="stable")
        events = self._find_events(order)
        is_boundary = self._find_boundaries(events, tracked)
        is_first = _begins(events.keys)
        first = np.flatnonzero(is_first | is_boundary)
        last = np.append(first[1:], len(events.keys)) - 1 if len(first) else first
        starts, row, keys = events.lsns[first], events.last[last], events.keys[first]
        following = np.append(starts[1:], _NONE)
        ends_key = np.append(keys[1:] != keys[:-1], True)
        following = np.where(ends_key[: len(keys)], _NONE, following[: len(keys)])
        is_begun, is_of_key = is_boundary[first], _begins(keys)
        closed = Closed(~is_begun[is_of_key], row[is_of_key], np.where(is_begun, starts, following)[is_of_key])
        opens = is_begun & events.is_row[first]
        return closed, OpenedSlices(row[opens], starts[opens], following[opens])

    def _find_events(self, order: Numbers) -> _Events:
        """Return the effect of each transaction on a key."""
        keys, lsns, operations = self.keys[order], self.lsns[order], self.operations[order]
        first = np.flatnonzero(_begins(keys) | _begins(lsns))
        after = np.where(operations != UPDATE_BEFORE, np.arange(len(order)), _NONE)
        last = np.maximum.reduceat(after, first) if len(first) else first
        assert (last != _NONE).all(), "a before image comes with what the update left"
        has_found = np.isin(operations[first], (DELETE, UPDATE_BEFORE))
        return _Events(
            keys[first],
            lsns[first],
            np.where(has_found, order[first], _NONE),
            order[last],
            np.isin(operations[last], (INSERT, UPDATE_AFTER)),
        )

    def _find_boundaries(self, events: _Events, tracked: Iterable[str]) -> Numbers:
        """Return the events with which a slice ends or begins."""
        has_both = np.flatnonzero(events.is_row & (events.found != _NONE))
        differs = np.zeros(len(has_both), np.bool_)
        for name in tracked:
            column = self.rows[name]
            before, after = (column.take(pa.array(rows[has_both], pa.int64())) for rows in (events.found, events.last))
            differs |= _differ(before, after)
        boundaries = np.ones(len(events.keys), np.bool_)
        boundaries[has_both] = differs
        return boundaries


@frozen
class _Events:
    """Transactions by key: the row that each found, -1 if none, its last row, and whether there is a row then."""

    keys: Numbers
    lsns: Numbers
    found: Numbers
    last: Numbers
    is_row: Numbers


def _begins(values: Numbers) -> Numbers:
    """Return where a value differs from the one before."""
    begins = np.ones(len(values), np.bool_)
    begins[1:] = values[1:] != values[:-1]
    return begins


def _differ(one: pa.ChunkedArray[Any], other: pa.ChunkedArray[Any]) -> Numbers:
    """Return where values differ; nulls are alike, and so are NaNs."""
    before, after = (comparable(each.combine_chunks()) for each in (one, other))
    alike = _kernels.equal(before, after).fill_null(fill_value=False)
    alike = _kernels.or_(alike, _kernels.and_(before.is_null(), after.is_null()))
    if pa.types.is_floating(before.type):
        nans = (_kernels.is_nan(each).fill_null(fill_value=False) for each in (before, after))
        alike = _kernels.or_(alike, _kernels.and_(*nans))
    differs: Numbers = ~np.asarray(alike.to_numpy(zero_copy_only=False))
    return differs


_ORDER = ("__$start_lsn", "__$operation")
_TIMES = arrow_schema(LSN_TIME_MAPPING, "start_lsn", "tran_end_time")
_TIME = _TIMES.field("tran_end_time").type


@frozen
class DirectHistory:
    """A table of slices, and the changes that come to it."""

    lake: str
    table: DirectTable
    shown: ShownColumns

    own_columns: ClassVar[Sequence[tuple[str, str]]] = HISTORY_COLUMNS

    def follow(self, window: TargetWindow, found: Snapshot) -> bool:
        """Close, alter and open slices for a window of changes; return False if that is for Spark."""
        name = window.instance.capture_instance
        changes = Lake(self.lake).get_all_changes(name, window.start, window.end, "all update old")
        batches = [self.shown.show(batch, _ORDER) for batch in changes.batches()]
        if not batches:
            return True
        rows = pa.Table.from_batches(batches)
        # A truncate ends every open slice, which rewrites the table; that is left to Spark.
        if (rows["__$operation"].to_numpy() == TRUNCATE).any():
            return False
        keys = KeySet(rows, self.shown.keys)
        lsns, operations = (rows[column].to_numpy() for column in _ORDER)
        tracked = [column.name for column in self.shown.shape.columns if column.is_tracked and not column.is_key]
        closed, opened = ChangeRows(rows, keys.find(rows), lsns, operations).slice(tracked)
        times = _Times.read(self.lake, window.start, window.end)
        edit = SlicesClosed.of(keys, rows.drop_columns(list(_ORDER)), closed, times, found)
        if not self.table.can_edit(found, edit):
            return False
        self.table.edit(window.end, found, edit, lambda: self._open(rows, opened, times).to_batches())
        return True

    def fill(self, at: CommitLsn, time: datetime | None, found: Snapshot) -> None:
        """Fill an empty table with slices of the source's rows as of an LSN, which begin there."""

        def read() -> Iterator[pa.RecordBatch]:
            name = self.shown.instance.capture_instance
            rows = Lake(self.lake).get_table_as_of(name, at, self.shown.sources)
            return (_stamp(self.shown.show(batch), at, time) for batch in rows.batches())

        self.table.replace(at, found, read)

    def _open(self, rows: pa.Table, opened: OpenedSlices, times: _Times) -> pa.Table:
        begun = rows.drop_columns(list(_ORDER)).take(pa.array(opened.row, pa.int64()))
        values = {
            FROM_LSN: pa.array(opened.start),
            FROM_TIME: times.of(opened.start),
            TO_LSN: _lsns(opened.to),
            TO_TIME: times.of(opened.to),
            IS_CURRENT: pa.array(opened.to == _NONE),
        }
        for name, column in values.items():
            begun = begun.append_column(name, column)
        return begun


@frozen
class SlicesClosed:
    """Open slices of some keys, which end or get other values."""

    keys: KeySet
    rows: pa.Table
    closed: Closed
    times: _Times
    ranges: Sequence[Between]
    end_in_files: str
    """The name that data files have for the column of the LSN at which a slice ends."""
    current_in_files: str
    """The same of whether a slice is open."""

    @classmethod
    def of(cls, keys: KeySet, rows: pa.Table, closed: Closed, times: _Times, found: Snapshot) -> SlicesClosed:
        """Return the closing of these keys' slices in a table's version."""
        wanted = found.select([*keys.columns, TO_LSN, IS_CURRENT])
        *names, end, current = (field.physical_name for field in wanted.fields)
        return cls(keys, rows, closed, times, list(keys.ranges(names)), end, current)

    @property
    def columns(self) -> Sequence[str]:
        """The key's, and which slices are open."""
        return (*self.keys.columns, TO_LSN)

    def may_be_in(self, file: AddFile) -> bool:
        """Return whether, by its statistics, a file may have open slices of the keys."""
        # Open slices have no end, so a file without nulls in that column has none.
        has_none_open = (file.statistics.get("nullCount") or {}).get(self.end_in_files) == 0
        if file.partition_values.get(self.current_in_files) == "false":
            return False
        return not has_none_open and all(each.may_be_in(file) for each in self.ranges)

    def find(self, rows: pa.Table) -> Indexes:
        """Return which keys open slices have."""
        is_open = rows[TO_LSN].is_null().to_numpy()
        indexes: Indexes = np.where(is_open, self.keys.find(rows), np.int32(_NONE))
        return indexes

    def apply(self, rows: pa.RecordBatch, indexes: Indexes) -> pa.RecordBatch:
        """Return the slices, some of them closed or with other values."""
        is_closed = indexes != _NONE
        is_altered = is_closed & self.closed.alters[indexes]
        ends = self.closed.to[indexes[is_closed]]
        altered = self.rows.take(pa.array(self.closed.row[indexes[is_altered]], pa.int64()))
        values = {TO_LSN: _lsns(ends), TO_TIME: self.times.of(ends), IS_CURRENT: pa.array(ends == _NONE)}
        columns = []
        for field in rows.schema:
            column: Any = rows.column(field.name)
            if field.name in values:
                column = _kernels.replace_with_mask(column, pa.array(is_closed), values[field.name])
            elif field.name in altered.column_names and is_altered.any():
                mask = pa.array(is_altered)
                column = _kernels.replace_with_mask(column, mask, altered[field.name].combine_chunks())
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


@frozen
class _Times:
    """When the transactions of a window ended, by their LSNs, which ascend."""

    lsns: Numbers
    times: pa.Array[Any]

    @classmethod
    def read(cls, lake: str, start: CommitLsn, end: CommitLsn) -> _Times:
        table = SmallTable.open(system_table_path(lake, "lsn_time_mapping"))
        parts = list(table.stream(_TIMES, Between("start_lsn", start.value, end.value))) if table is not None else []
        rows = pa.concat_tables([_TIMES.empty_table(), *parts]).sort_by("start_lsn").combine_chunks()
        return cls(rows["start_lsn"].to_numpy(), pa.concat_arrays(rows["tran_end_time"].chunks))

    def of(self, lsns: Numbers) -> pa.Array[Any]:
        """Return the times of LSNs; null for one that is unknown."""
        indexes = np.searchsorted(self.lsns, lsns)
        inside = np.minimum(indexes, max(len(self.lsns) - 1, 0))
        is_known = self.lsns[inside] == lsns if len(self.lsns) else np.zeros(len(lsns), np.bool_)
        return self.times.take(pa.array(inside, pa.int64(), mask=~is_known))


def _lsns(lsns: Numbers) -> pa.Array[Any]:
    return pa.array(lsns, pa.int64(), mask=lsns == _NONE)


def _stamp(rows: pa.RecordBatch, at: CommitLsn, time: datetime | None) -> pa.RecordBatch:
    count = rows.num_rows
    stamps = {
        FROM_LSN: pa.repeat(pa.scalar(at.value, pa.int64()), count),
        FROM_TIME: pa.repeat(pa.scalar(time, _TIME), count),
        TO_LSN: pa.nulls(count, pa.int64()),
        TO_TIME: pa.nulls(count, _TIME),
        IS_CURRENT: pa.repeat(pa.scalar(value=True), count),
    }
    return pa.RecordBatch.from_arrays([*rows.columns, *stamps.values()], names=[*rows.schema.names, *stamps])

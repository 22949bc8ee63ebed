"""Tables with a key as of an LSN, without Spark: the lowest layer of the base, under the last row of each key above it.

If a bit for each key suffices, `latest_rows` finds both in one pass. Otherwise, and for rows that lack values, DuckDB
first finds the rows that later ones hide, in one pass over the keys of the lowest layer; a second pass returns the
others. A value that a key's last row lacks is taken from the row that it hides.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rowtide.cdc.change_columns import DELETE
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.as_of.latest_rows import Ascending, LatestRows, LowestLayer
from rowtide.cdc.lake_readers.bits import EXACT, Bits, Numbers, kernels
from rowtide.cdc.lake_readers.change_tables import ChangeTable
from rowtide.cdc.lake_readers.completions import Completions
from rowtide.cdc.lake_readers.grouping import KeyGroups, open_engine
from rowtide.cdc.lake_readers.last_rows import (
    ABSENT,
    LSN,
    Completed,
    LastRows,
    OnlyKeys,
    StandingRows,
    TablePart,
    exact_columns,
    key_columns,
    key_values,
)
from rowtide.cdc.lake_readers.ordering import ORDER, sort
from rowtide.cdc.queries.as_of.opening import AsOf
from rowtide.cdc.rows.conversion import ExactValues, as_binary, empty_masks, set_bits
from rowtide.core.values import frozen

_NOWHERE = -1


def upper_parts(as_of: AsOf[ChangeTable]) -> tuple[TablePart, ...]:
    """Return the rows above the lowest layer: of later layers of the base, and of the change table."""
    above = as_of.lowest.increment()
    return (
        TablePart(as_of.base, above, as_of.lsn, as_of.excluded),
        TablePart(as_of.changes, as_of.first_change, as_of.lsn),
    )


@frozen
class KeyedTable:
    """A table with a key as of an LSN; `columns` are those of the change table that are wanted."""

    as_of: AsOf[ChangeTable]
    columns: Sequence[str]
    completions: Completions | None = None
    """The values that moved rows lack."""

    @property
    def schema(self) -> pa.Schema:
        """The wanted columns."""
        return self.as_of.changes.schema(self.columns)

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in no order. Raises as `ChangeTable.stream`, and `QueryFailed`."""
        latest = LatestRows.of(self._instance, upper_parts(self.as_of), self.columns)
        if latest is None:
            yield from self._read_grouped()
            return
        yield from show_columns(self.schema, latest.read(LowestLayer(self.as_of.base, self.as_of.lowest)))
        if latest.lacking is not None and not latest.lacking.is_empty:
            yield from self._read_grouped(OnlyKeys(latest.key, latest.lacking))

    def _read_grouped(self, only: OnlyKeys | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, by default of all keys."""
        rows = StandingRows.of(*upper_parts(self.as_of), only=only, completions=self.completions)
        last = LastRows(self._instance, rows, [*ORDER, *self.columns])
        lowest = LowestLayer(self.as_of.base, self.as_of.lowest, only) if rows.truncate is None else None
        with ExitStack() as opened:
            engine = opened.enter_context(open_engine())
            groups = KeyGroups.of(engine, last.numbered(), last.key_names, last.fillable)
            if groups is None:
                yield from show_columns(self.schema, lowest.stream(self.columns) if lowest is not None else iter(()))
                return
            if lowest is None:
                yield from (self._live(completed) for completed in last.read(groups.read()))
                return
            groups.hide(self._keys_of(lowest))
            lacking = _Lacking(Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="rowtide-"))))
            yield from self._covering(last, groups, lacking)
            yield from self._covered(lowest, groups, lacking)

    @property
    def _instance(self) -> Instance:
        return self.as_of.instance

    def _keys_of(self, lowest: LowestLayer) -> Iterator[list[Any]]:
        begin = 0
        for batch in lowest.stream(key_columns(self._instance)):
            end = begin + batch.num_rows
            yield [pa.array(np.arange(begin, end)), *key_values(self._instance, batch)]
            begin = end

    def _live(self, completed: Completed) -> pa.RecordBatch:
        """Return the last rows that are no deletes."""
        last, schema = completed.last, self.schema
        columns = [completed.values.get(name, last.column(name)) for name in schema.names]
        rows = pa.RecordBatch.from_arrays(columns, schema=schema)
        return rows.filter(pa.array(completed.group.last_operation != DELETE))

    def _covering(self, last: LastRows, groups: KeyGroups, lacking: _Lacking) -> Iterator[pa.RecordBatch]:
        """Yield the rows above the lowest layer; those that lack values of the rows that they hide go to `lacking`."""
        if not last.fillable:
            yield from (self._live(completed) for completed in last.read(groups.read()))
            return
        hidden = _Hidden(groups.read_hidden_by_group())
        for completed in last.read(groups.read()):
            group = completed.group
            is_live = group.last_operation != DELETE
            is_absent = completed.values[ABSENT].is_valid().to_numpy(zero_copy_only=False)
            numbers = hidden.numbers_of(group.last)
            is_lacking = is_live & is_absent & ~group.has_insert & (numbers != _NOWHERE)
            names = list(dict.fromkeys([*self.columns, ABSENT, EXACT]))
            columns = [completed.values.get(name, completed.last.column(name)) for name in names]
            rows = pa.RecordBatch.from_arrays(columns, names=names)
            if is_lacking.any():
                lacking.add(rows.filter(pa.array(is_lacking)), numbers[is_lacking])
            yield from show_columns(self.schema, iter([rows.filter(pa.array(is_live & ~is_lacking))]))

    def _covered(self, lowest: LowestLayer, groups: KeyGroups, lacking: _Lacking) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the lowest layer that are not hidden, and those that lack their values, with these."""
        hidden, filled = Ascending(groups.read_hidden()), lacking.read()
        columns = list(dict.fromkeys([*self.columns, ABSENT, EXACT])) if lacking.has_rows else list(self.columns)
        begin = 0
        for batch in lowest.stream(columns):
            end = begin + batch.num_rows
            is_shown = np.ones(batch.num_rows, np.bool_)
            is_shown[hidden.take(end) - begin] = False
            yield from show_columns(self.schema, iter([batch.filter(pa.array(is_shown))]))
            for rows in filled.take(end):
                numbers = rows.column(LSN).to_numpy() - begin
                yield from show_columns(
                    self.schema, iter([_complete(rows, batch.take(pa.array(numbers)), self._instance)])
                )
            begin = end


def show_columns(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the schema's columns of batches; empty batches are omitted."""
    for batch in batches:
        if batch.num_rows:
            yield pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)


def _complete(rows: pa.RecordBatch, below: pa.RecordBatch, instance: Instance) -> pa.RecordBatch:
    """Return rows with the values that they lack from the rows that they hide, one for each."""
    count = rows.num_rows
    is_absent, is_absent_below = (Bits(one.column(ABSENT), len(instance.columns)) for one in (rows, below))
    texts, texts_below, nothing = exact_columns(rows), exact_columns(below), pa.nulls(count, pa.string())
    masks, exact = empty_masks(count, len(instance.columns)), ExactValues(count)
    values = {name: rows.column(name) for name in rows.schema.names}
    for ordinal, column in enumerate(instance.columns, 1):
        is_taken = is_absent.of(ordinal)
        taken: Any = pa.array(is_taken)
        set_bits(masks, ordinal, is_taken & is_absent_below.of(ordinal))
        if ordinal in texts or ordinal in texts_below:
            found = kernels.if_else(taken, texts_below.get(ordinal, nothing), texts.get(ordinal, nothing))
            exact.add(ordinal, found, pa.nulls(count))
        if column.lake_name in values:
            values[column.lake_name] = kernels.if_else(taken, below.column(column.lake_name), values[column.lake_name])
    values |= {ABSENT: as_binary(masks, np.asarray(~masks.any(axis=1))), EXACT: exact.as_maps()}
    return pa.RecordBatch.from_arrays(list(values.values()), names=list(values))


@dataclass(slots=True)
class _Hidden:
    """The number of the row that a key's last row hides, by the index of that."""

    more: Iterator[tuple[Numbers, Numbers]]
    indexes: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    numbers: Numbers = field(default_factory=lambda: np.empty(0, np.int64))

    def numbers_of(self, last: Numbers) -> Numbers:
        """Return the numbers for indexes, which ascend from call to call; `_NOWHERE` for those that hide none."""
        while not len(self.indexes) or self.indexes[-1] < last[-1]:
            found = next(self.more, None)
            if found is None:
                break
            self.indexes, self.numbers = (
                np.concatenate(both) for both in zip((self.indexes, self.numbers), found, strict=True)
            )
        if not len(self.indexes):
            return np.full(len(last), _NOWHERE)
        at = np.minimum(np.searchsorted(self.indexes, last), len(self.indexes) - 1)
        numbers = np.where(self.indexes[at] == last, self.numbers[at], _NOWHERE)
        done = int(np.searchsorted(self.indexes, last[-1], "right"))
        self.indexes, self.numbers = self.indexes[done:], self.numbers[done:]
        return numbers


class _Lacking:
    """Rows that lack values of those that they hide: kept in a file, read in the order of the hidden rows' numbers."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lacking"
        self._files = ExitStack()
        self._writer: Any = None

    @property
    def has_rows(self) -> bool:
        """There are such rows."""
        return self._writer is not None

    def add(self, rows: pa.RecordBatch, numbers: Numbers) -> None:
        """Keep rows, with the numbers of those that they hide."""
        zeros = pa.array(np.zeros(len(numbers), np.int64))
        numbered = dict(zip(ORDER, (pa.array(numbers), zeros, zeros), strict=True))
        columns = {name: rows.column(name) for name in rows.schema.names if name not in ORDER}
        batch = pa.RecordBatch.from_pydict({**numbered, **columns})
        if self._writer is None:
            file = self._files.enter_context(pa.OSFile(str(self._path), "wb"))
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            self._writer = self._files.enter_context(pa.ipc.new_stream(file, batch.schema, options=options))
        self._writer.write_batch(batch)

    def read(self) -> _LackingInOrder:
        """Return the rows; none can be added any more."""
        self._files.close()
        return _LackingInOrder(sort(self._stream()) if self.has_rows else iter(()))

    def _stream(self) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(self._path), "rb") as file:
            yield from pa.ipc.open_stream(file)


@dataclass(slots=True)
class _LackingInOrder:
    """Rows in the order of numbers, taken up to a number at a time."""

    more: Iterator[pa.RecordBatch]
    buffered: pa.RecordBatch | None = None

    def take(self, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows below an end that were not taken yet."""
        while True:
            if self.buffered is None or not self.buffered.num_rows:
                self.buffered = next(self.more, None)
                if self.buffered is None:
                    return
            count = int(np.searchsorted(self.buffered.column(LSN).to_numpy(), end))
            if not count:
                return
            yield self.buffered.slice(0, count)
            self.buffered = self.buffered.slice(count)

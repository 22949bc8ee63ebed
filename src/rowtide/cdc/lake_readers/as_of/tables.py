"""A table as of an LSN without Spark: with a key, or as a bag of rows.

Columns that the source had dropped by then are null in all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from rowtide.cdc.change_columns import DELETE, INSERT, TRUNCATE, UPDATE_AFTER, UPDATE_BEFORE, column_type
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.as_of.keyed_tables import KeyedTable, show_columns
from rowtide.cdc.lake_readers.as_of.latest_rows import Ascending, LowestLayer
from rowtide.cdc.lake_readers.as_of.moved_rows import MovedRows
from rowtide.cdc.lake_readers.bits import EXACT, Bits, Numbers, kernels
from rowtide.cdc.lake_readers.change_tables import ChangeTable, stream_parts
from rowtide.cdc.lake_readers.completions import Completions
from rowtide.cdc.lake_readers.grouping import GroupingDatabase, open_engine
from rowtide.cdc.lake_readers.last_rows import ABSENT, LSN, OPERATION, SEQVAL, TablePart, exact_columns
from rowtide.cdc.lake_readers.ordering import ORDER
from rowtide.cdc.queries.as_of.bag_rows import Counted, find_counted
from rowtide.cdc.queries.as_of.opening import AsOf
from rowtide.cdc.rows.conversion import ExactValues, as_binary, empty_masks, set_bits
from rowtide.core.values import frozen

# Tables without a key as of an LSN, without Spark: bags of rows, in which a whole row is added or removed once. The
# changes that count are those of transactions that the snapshot does not see (`queries.as_of.bag_rows`). DuckDB sums
# them up by row, finds in one pass over the lowest layer the rows that are removed, and in a second the others are
# returned.

_ADDING, _REMOVING = (INSERT, UPDATE_AFTER), (DELETE, UPDATE_BEFORE)


@frozen
class CountedRows:
    """The rows of parts that count, behind the last truncate that counts; numbered by their order."""

    base: TablePart | None
    changes: TablePart
    counted: Counted
    truncate: tuple[int, int] | None = None
    """LSN and seqval of the last truncate."""

    def behind_truncate(self) -> CountedRows:
        """Find the last truncate. Raises as `ChangeTable.stream`."""
        last = None
        for rows in self._stream(ORDER, (TRUNCATE,)):
            if rows.num_rows:
                last = rows.column(LSN)[-1].as_py(), rows.column(SEQVAL)[-1].as_py()
        return CountedRows(self.base, self.changes, self.counted, last)

    def stream(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield columns of the rows, `ORDER` among them."""
        yield from self._stream(columns, (*_ADDING, *_REMOVING))

    def _stream(self, columns: Sequence[str], operations: tuple[int, ...]) -> Iterator[pa.RecordBatch]:
        parts = [(part.table, part.of(*operations)) for part in (self.base, self.changes) if part is not None]
        for batch in stream_parts(parts, columns):
            lsns, seqvals = (batch.column(name).to_numpy() for name in (LSN, SEQVAL))
            # What is in the base counts: it was chosen when it went there.
            counts = self.counted.find_counted(lsns) | (lsns < self.changes.low.value)
            if self.truncate is not None:
                lsn, seqval = self.truncate
                counts &= (lsns > lsn) | ((lsns == lsn) & (seqvals > seqval))
            yield batch if counts.all() else batch.filter(pa.array(counts))


@frozen
class BagTable:
    """A table without a key as of an LSN; `columns` are those of the change table that are wanted."""

    as_of: AsOf[ChangeTable]
    columns: Sequence[str]
    counted: Counted

    @property
    def schema(self) -> pa.Schema:
        """The wanted columns."""
        return self.as_of.changes.schema(self.columns)

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in no order. Raises as `ChangeTable.stream`, and `QueryFailed`."""
        as_of = self.as_of
        base = TablePart(as_of.base, as_of.lowest.increment(), as_of.lsn, as_of.excluded)
        changes = TablePart(as_of.changes, as_of.first_change, as_of.lsn)
        rows = CountedRows(base, changes, self.counted).behind_truncate()
        lowest = LowestLayer(as_of.base, as_of.lowest) if rows.truncate is None else None
        with open_engine() as engine:
            sums = _Sums(engine, as_of.instance)
            if not sums.add(rows):
                yield from show_columns(self.schema, lowest.stream(self.columns)) if lowest is not None else ()
                return
            yield from show_columns(self.schema, _repeated(rows.stream([*ORDER, *self.columns]), sums.read_added()))
            if lowest is not None:
                sums.remove_from(lowest)
                yield from show_columns(self.schema, _without(lowest.stream(self.columns), sums.read_removed()))


class _Sums:
    """How often each row was added, in an engine's tables, and which rows of the lowest layer are removed by that."""

    def __init__(self, engine: GroupingDatabase, instance: Instance) -> None:
        self._engine = engine
        self._instance = instance
        self._names = [f"value_{place}" for place in range(len(_identity_names(instance)))]

    def add(self, rows: CountedRows) -> bool:
        """Sum up rows; return False if there are none."""
        if not self._engine.register("upper_rows", ["number", "weight", *self._names], self._weighted(rows)):
            return False
        self._engine.execute(
            "create table sums as select sum(weight)::bigint as balance, max(number) as number, "
            f"{', '.join(self._names)} from upper_rows group by {', '.join(self._names)} having sum(weight) <> 0"
        )
        return True

    def read_added(self) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield numbers of rows, which ascend, and how often they are to be added."""
        found = self._engine.read("select number, balance from sums where balance > 0 order by number")
        return ((np.asarray(batch.column(0).to_numpy()), np.asarray(batch.column(1).to_numpy())) for batch in found)

    def remove_from(self, lowest: LowestLayer) -> None:
        """Find the rows of the lowest layer that are removed: of equal ones as many as are."""
        is_same = " and ".join(f"below.{name} is not distinct from sums.{name}" for name in self._names)
        matched = (
            "select below.number, -balance as most, row_number() over (partition by sums.number) as place "
            f"from below join (from sums where balance < 0) as sums on {is_same}"
        )
        if not self._engine.register("below", ["number", *self._names], self._numbered(lowest)):
            matched = "select 0::bigint as number, 0 as most, 1 as place"
        self._engine.execute(f"create table removed as select number from ({matched}) where place <= most")

    def read_removed(self) -> Iterator[Numbers]:
        """Yield the numbers of the removed rows, which ascend."""
        found = self._engine.read("select number from removed order by number")
        return (np.asarray(batch.column(0).to_numpy()) for batch in found)

    def _weighted(self, rows: CountedRows) -> Iterator[list[Any]]:
        begin = 0
        for batch in rows.stream([*ORDER, *_identity_columns(self._instance)]):
            end = begin + batch.num_rows
            weights = np.where(np.isin(batch.column(OPERATION).to_numpy(), _ADDING), 1, -1)
            yield [pa.array(np.arange(begin, end)), pa.array(weights), *_identity(self._instance, batch)]
            begin = end

    def _numbered(self, lowest: LowestLayer) -> Iterator[list[Any]]:
        begin = 0
        for batch in lowest.stream(_identity_columns(self._instance)):
            end = begin + batch.num_rows
            yield [pa.array(np.arange(begin, end)), *_identity(self._instance, batch)]
            begin = end


def _repeated(rows: Iterator[pa.RecordBatch], added: Iterator[tuple[Numbers, Numbers]]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some numbers, each as often as it was added."""
    numbers, counts = np.empty(0, np.int64), np.empty(0, np.int64)
    begin = 0
    for batch in rows:
        end = begin + batch.num_rows
        while (not len(numbers) or numbers[-1] < end) and (more := next(added, None)) is not None:
            numbers, counts = (np.concatenate(both) for both in zip((numbers, counts), more, strict=True))
        here = int(np.searchsorted(numbers, end))
        yield batch.take(np.repeat(numbers[:here] - begin, counts[:here]))
        numbers, counts, begin = numbers[here:], counts[here:], end


def _without(rows: Iterator[pa.RecordBatch], removed: Iterator[Numbers]) -> Iterator[pa.RecordBatch]:
    numbers, begin = Ascending(removed), 0
    for batch in rows:
        end = begin + batch.num_rows
        is_left = np.ones(batch.num_rows, np.bool_)
        is_left[numbers.take(end) - begin] = False
        yield batch.filter(pa.array(is_left))
        begin = end


def _identity_columns(instance: Instance) -> list[str]:
    return [*(column.lake_name for column in instance.columns), EXACT]


def _identity_names(instance: Instance) -> list[str]:
    names = []
    for column in instance.columns:
        names += [column.lake_name] if column_type(instance, column).holds_all else [column.lake_name, EXACT]
    return names


def _identity(instance: Instance, batch: pa.RecordBatch) -> Iterator[Any]:
    """Yield what makes rows equal: the values, and the exact texts of those that their types cannot hold."""
    texts = exact_columns(batch)
    for ordinal, column in enumerate(instance.columns, 1):
        yield _exactly(batch.column(column.lake_name))
        if not column_type(instance, column).holds_all:
            yield texts.get(ordinal, pa.nulls(batch.num_rows, pa.string()))


def _exactly(values: Any) -> Any:
    """Return values of a type in which only identical ones are equal to DuckDB."""
    if pa.types.is_floating(values.type):
        # -0.0 is not 0.0; the texts of equal numbers are equal.
        return kernels.cast(values, pa.string())
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.int64())
    return values.cast(pa.int32()) if pa.types.is_date(values.type) else values


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

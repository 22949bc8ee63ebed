"""The last row of each key, completed from the key's earlier rows: the basis of net changes and of tables as of an LSN.

Rows have numbers, by their order, and places: the number, in which the operation is packed. In one pass over the key's
columns DuckDB finds each key's first and last place, within bounded memory; in a second the rows at the last places
are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.cdc import change_columns, instances
from rowtide.cdc.lake_readers.bits import EXACT, Bits, KeyBits, kernels, pack_rows, read_exact_texts
from rowtide.cdc.lake_readers.change_tables import ChangeTable, ChangeTablePart, stream_parts
from rowtide.cdc.lake_readers.completions import Completions
from rowtide.cdc.lake_readers.grouping import KeyGroup
from rowtide.cdc.lake_readers.ordering import ORDER, join
from rowtide.cdc.rows.conversion import ExactValues, as_binary, empty_masks, set_bits
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen

LSN, SEQVAL, OPERATION = ORDER
MASK, ABSENT = "__$update_mask", "__$absent_mask"
MASK_PART = 8
"""The number of a mask's bytes that are one number."""

# Operations are 1 to 6. A number of a row takes the other 60 bits.
_OPERATION_BITS = 3
_STANDING = (change_columns.DELETE, change_columns.INSERT, change_columns.UPDATE_AFTER)
_SLICE_BYTES = 64 * 1024 * 1024
"""The size in memory of the rows from which keys take values."""

Places = npt.NDArray[np.int64]


@frozen
class TablePart:
    """The rows of a version of a change table in [low, high], but for those at some LSNs."""

    table: ChangeTable
    low: CommitLsn
    high: CommitLsn
    without: tuple[int, ...] = ()

    def of(self, *operations: int) -> ChangeTablePart:
        """Return the rows that have one of some operations."""
        return ChangeTablePart(self.low, self.high, operations, self.without)


@frozen
class OnlyKeys:
    """A restriction to rows whose key, a whole number in a column, is in a set."""

    column: str
    keys: KeyBits

    def stream(
        self, read: Callable[[Sequence[str]], Iterator[pa.RecordBatch]], columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of those of the rows that `read` yields, given columns."""
        for batch in read(list(dict.fromkeys([*columns, self.column]))):
            is_chosen = self.keys.find_known(batch.column(self.column).to_numpy())
            yield batch.filter(pa.array(is_chosen)).select(list(columns))


@frozen
class StandingRows:
    """The rows of parts behind their last truncate, without the old rows of updates; numbered by their order."""

    parts: tuple[TablePart, ...]
    truncate: tuple[int, int] | None
    """LSN and seqval of the last truncate."""
    only: OnlyKeys | None = None
    completions: Completions | None = None
    """The values that moved rows lack."""

    @classmethod
    def of(
        cls, *parts: TablePart, only: OnlyKeys | None = None, completions: Completions | None = None
    ) -> StandingRows:
        """Find the last truncate. Raises as `ChangeTable.stream`."""
        last = None
        truncates = [(part.table, part.of(change_columns.TRUNCATE)) for part in parts]
        if any(table.may_have(part, change_columns.TRUNCATE) for table, part in truncates):
            for rows in stream_parts(truncates, ORDER):
                if rows.num_rows:
                    last = rows.column(LSN)[-1].as_py(), rows.column(SEQVAL)[-1].as_py()
        return cls(parts, last, only, completions)

    def stream(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield columns of the rows, `ORDER` among them."""
        if self.completions is None:
            return self._chosen(columns)
        completed = self.completions.apply(self._chosen(list(dict.fromkeys([*columns, ABSENT]))))
        return (batch.select(list(columns)) for batch in completed)

    def _chosen(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self._stream(columns) if self.only is None else self.only.stream(self._stream, columns)

    def _stream(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        # Files that lie below the truncate are not opened; within its transaction, `_only_after` decides by `seqval`.
        low = CommitLsn(self.truncate[0]) if self.truncate is not None else None
        parts = (part if low is None or part.low >= low else replace(part, low=low) for part in self.parts)
        for batch in stream_parts([(part.table, part.of(*_STANDING)) for part in parts], columns):
            yield batch if self.truncate is None else _only_after(self.truncate, batch)

    def take(self, numbers: Places, columns: Sequence[str]) -> pa.RecordBatch:
        """Return the rows of these numbers, which ascend."""
        return take_numbered(self.stream(columns), numbers)

    def row_bytes(self) -> int:
        """Return about how many bytes a row has in memory."""
        return max(part.table.row_bytes() for part in self.parts)


def take_numbered(rows: Iterator[pa.RecordBatch], numbers: Places) -> pa.RecordBatch:
    """Return the rows of these numbers, which ascend, of rows that are numbered by their order."""
    begin, taken = 0, []
    for batch in rows:
        end = begin + batch.num_rows
        inside = numbers[np.searchsorted(numbers, begin) : np.searchsorted(numbers, end)]
        if len(inside):
            taken.append(batch.take(inside - begin))
        begin = end
    return join(taken)


@frozen
class Completed:
    """Last rows and their keys; `values` are the columns that are not as in the rows."""

    group: KeyGroup
    last: pa.RecordBatch
    values: Mapping[str, Any]


@frozen
class LastRows:
    """The last rows of keys; `columns`, `ORDER` among them, are wanted of them. `has_masks`: so are updated columns."""

    instance: instances.Instance
    rows: StandingRows
    columns: Sequence[str]
    has_masks: bool = False

    @property
    def key_names(self) -> list[str]:
        """The names of what identifies a key, in `key_values`."""
        return key_names(self.instance)

    @property
    def mask_parts(self) -> range:
        """Where the parts of an update mask begin."""
        return range(0, change_columns.mask_length(len(self.instance.columns)) if self.has_masks else 0, MASK_PART)

    @property
    def fillable(self) -> list[int]:
        """The ordinals of the columns whose values the log may lack."""
        return fillable_ordinals(self.instance)

    def numbered(self) -> Iterator[list[Any]]:
        """Yield what groups are made of: places, keys, parts of masks, and which rows carry each fillable value."""
        instance = self.instance
        wanted = [*ORDER, *key_columns(instance), *self._needed_beside_keys()]
        begin = 0
        for batch in self.rows.stream(wanted):
            operations = batch.column(OPERATION).to_numpy()
            # Place and operation in one number: the greatest one of a group is its last row, and says what that did.
            places = np.arange(begin, begin + batch.num_rows, dtype=np.int64) << _OPERATION_BITS | operations
            begin += batch.num_rows
            columns = [pa.array(places), *key_values(instance, batch)]
            if parts := self.mask_parts:
                columns += _mask_numbers(batch.column(MASK), parts, change_columns.mask_length(len(instance.columns)))
            if fillable := self.fillable:
                is_absent = Bits(batch.column(ABSENT), len(instance.columns))
                # An insert ends the search for a value: rows of the key from before it were of another row.
                columns += [
                    pa.array((operations == change_columns.INSERT) | ~is_absent.of(ordinal)) for ordinal in fillable
                ]
            yield columns

    def read(self, groups: Iterator[KeyGroup]) -> Iterator[Completed]:
        """Yield the last rows of groups, in the order of the rows, with values from the rows before that carry them."""
        yield from self._filled(groups) if self.fillable else self._last_rows(groups)

    def _needed_beside_keys(self) -> Iterator[str]:
        if self.mask_parts:
            yield MASK
        if self.fillable:
            yield ABSENT

    def _last_rows(self, groups: Iterator[KeyGroup]) -> Iterator[Completed]:
        following = _FollowingGroups(groups)
        begin = 0
        for batch in self.rows.stream(self.columns):
            end = begin + batch.num_rows
            for group in following.take(end << _OPERATION_BITS):
                yield Completed(group, batch.take((group.last >> _OPERATION_BITS) - begin), {})
            begin = end
            if following.is_at_end():
                return

    def _filled(self, groups: Iterator[KeyGroup]) -> Iterator[Completed]:
        # Filling needs several rows of each key at once: groups are cut so that these fit into memory, and the rows are
        # read once for each slice.
        for group in _cut(groups, max(1, _SLICE_BYTES // max(self.rows.row_bytes(), 1))):
            sources = [group.last, *group.sources]
            numbers = np.unique(np.concatenate([found[found >= 0] for found in sources]) >> _OPERATION_BITS)
            needed = self.rows.take(numbers, self._columns_to_fill())
            last = needed.take(np.searchsorted(numbers, group.last >> _OPERATION_BITS))
            yield Completed(group, last, self._taken(needed, numbers, last, group))

    def _columns_to_fill(self) -> list[str]:
        return list(dict.fromkeys([*self.columns, ABSENT, EXACT]))

    def _taken(self, needed: pa.RecordBatch, numbers: Places, last: pa.RecordBatch, group: KeyGroup) -> dict[str, Any]:
        """Return values, absent masks and exact texts from the rows that each column's values are taken from."""
        instance, count = self.instance, len(group.last)
        is_absent = Bits(needed.column(ABSENT), len(instance.columns))
        fillable = dict(zip(self.fillable, group.sources, strict=True))
        texts, texts_of_last = exact_columns(needed), exact_columns(last)
        there = set(needed.schema.names)
        masks, exact, taken = empty_masks(count, len(instance.columns)), ExactValues(count), {}
        for ordinal, column in enumerate(instance.columns, 1):
            if ordinal not in fillable:
                found = texts_of_last.get(ordinal)
            else:
                has_source = fillable[ordinal] >= 0
                rows = np.where(has_source, np.searchsorted(numbers, fillable[ordinal] >> _OPERATION_BITS), 0)
                source: Any = pa.array(rows, mask=~has_source)
                if column.lake_name in there:
                    taken[column.lake_name] = needed.column(column.lake_name).take(source)
                set_bits(masks, ordinal, ~has_source | is_absent.of(ordinal)[rows])
                found = texts[ordinal].take(source) if ordinal in texts else None
            if found is not None:
                exact.add(ordinal, found, pa.nulls(count))
        return {**taken, ABSENT: as_binary(masks, np.asarray(~masks.any(axis=1))), EXACT: exact.as_maps()}


def fillable_ordinals(instance: instances.Instance) -> list[int]:
    """Return the ordinals of the columns whose values the log may lack."""
    if not instance.may_lack_values:
        return []
    return [ordinal for ordinal, column in enumerate(instance.columns, 1) if column.index_ordinal is None]


def key_columns(instance: instances.Instance) -> list[str]:
    """Return the columns of a change table that identify rows."""
    keys = [column for _, column in _numbered_keys(instance)]
    needs_texts = not all(change_columns.column_type(instance, column).holds_all for column in keys)
    return [*(column.lake_name for column in keys), *([EXACT] if needs_texts else [])]


def key_names(instance: instances.Instance) -> list[str]:
    """Return names for `key_values`."""
    names = []
    for ordinal, column in _numbered_keys(instance):
        names.append(f"key_{ordinal}")
        if not change_columns.column_type(instance, column).holds_all:
            names.append(f"exact_{ordinal}")
    return names


def key_values(instance: instances.Instance, batch: pa.RecordBatch) -> Iterator[Any]:
    """Yield what identifies a key: its values, and the exact texts of those that their types cannot hold."""
    texts: dict[int, Any] | None = None
    for ordinal, column in _numbered_keys(instance):
        yield comparable(batch.column(column.lake_name))
        if not change_columns.column_type(instance, column).holds_all:
            texts = exact_columns(batch) if texts is None else texts
            yield texts.get(ordinal, pa.nulls(batch.num_rows, pa.string()))


def exact_columns(batch: pa.RecordBatch) -> dict[int, Any]:
    """Return the exact texts by ordinal, a value for each row."""
    nothing = pa.nulls(batch.num_rows, pa.string())
    return {ordinal: found.put_into(nothing) for ordinal, found in read_exact_texts(batch.column(EXACT)).items()}


def _numbered_keys(instance: instances.Instance) -> list[tuple[int, instances.CapturedColumn]]:
    return [(ordinal, one) for ordinal, one in enumerate(instance.columns, 1) if one.index_ordinal is not None]


def _only_after(truncate: tuple[int, int], batch: pa.RecordBatch) -> pa.RecordBatch:
    lsns, seqvals = batch.column(LSN).to_numpy(), batch.column(SEQVAL).to_numpy()
    is_after = (lsns > truncate[0]) | ((lsns == truncate[0]) & (seqvals > truncate[1]))
    return batch if is_after.all() else batch.filter(pa.array(is_after))


@dataclass(slots=True)
class _FollowingGroups:
    """Groups in the order of their last rows, taken up to a place at a time."""

    groups: Iterator[KeyGroup]
    buffered: KeyGroup | None = field(default=None)

    def take(self, end: int) -> Iterator[KeyGroup]:
        """Yield the groups whose last row is before a place."""
        while not self.is_at_end():
            assert self.buffered is not None
            count = int(np.searchsorted(self.buffered.last, end))
            if count:
                yield self.buffered.slice(0, count)
            if count < len(self.buffered.last):
                self.buffered = self.buffered.slice(count)
                return
            self.buffered = None

    def is_at_end(self) -> bool:
        """Return whether there are no more groups."""
        while self.buffered is None or not len(self.buffered.last):
            self.buffered = next(self.groups, None)
            if self.buffered is None:
                return True
        return False


def _cut(groups: Iterator[KeyGroup], most: int) -> Iterator[KeyGroup]:
    for group in groups:
        for begin in range(0, len(group.last), most):
            yield group.slice(begin, min(begin + most, len(group.last)))


def comparable(values: Any) -> Any:
    """Return values of a type in which equal ones are equal to any program."""
    if pa.types.is_floating(values.type):
        # No negative zero.
        return kernels.add(values.cast(pa.float64()), 0.0)
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.int64())
    return values.cast(pa.int32()) if pa.types.is_date(values.type) else values


def _mask_numbers(masks: Any, begins: range, length: int) -> Iterator[pa.Array[Any]]:
    """Yield the parts of masks as numbers."""
    packed = pack_rows(masks, length)
    padded = np.zeros((len(packed), len(begins) * MASK_PART), np.uint8)
    padded[:, :length] = packed
    for begin in begins:
        part = np.ascontiguousarray(padded[:, begin : begin + MASK_PART])
        yield pa.array(part.view(">u8").reshape(-1).astype(np.uint64))

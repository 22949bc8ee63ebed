"""Net changes without Spark: one change per key, by the rules of `rowtide.cdc.queries.net_changes`.

Rows have places, by their order, in which their operation is packed. In one pass over the key's columns DuckDB finds
each key's first and last place, within bounded memory; in a second the rows at the last places are taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.cdc.instances import CapturedColumn, Instance
from rowtide.cdc.lake_readers.change_tables import ChangeTable, Part
from rowtide.cdc.lake_readers.exact_texts import EXACT, kernels, read_exact_texts
from rowtide.cdc.lake_readers.grouping import Group, group_rows
from rowtide.cdc.lake_readers.ordering import ORDER, join
from rowtide.cdc.lake_readers.packed_bits import Bits, pack_rows
from rowtide.cdc.queries.net_changes import MERGE, WITH_MASK, WITH_MERGE, net_columns
from rowtide.cdc.queries.windows import Window
from rowtide.cdc.rows.change_columns import column_type
from rowtide.cdc.rows.exact_values import ExactValues
from rowtide.cdc.rows.masks import as_binary, empty_masks, set_bits
from rowtide.cdc.rows.operations import DELETE, INSERT, TRUNCATE, UPDATE_AFTER
from rowtide.core.lsn import CommitLsn
from rowtide.core.mask import mask_length
from rowtide.databases.lake_values.arrow_types import arrow_schema

_LSN, _SEQVAL, _OPERATION = ORDER
_MASK, _ABSENT = "__$update_mask", "__$absent_mask"
_OPERATION_BITS = 3
_STANDING = (DELETE, INSERT, UPDATE_AFTER)
_CHUNK = 8
"""So many bytes of a mask are one number."""
_SLICE_BYTES = 64 * 1024 * 1024
"""So much of the rows that keys take values from is in memory at a time."""

Places = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class NetChanges:
    """The net changes of a window; `option` is one of `NET_ROW_FILTERS`."""

    window: Window[ChangeTable]
    option: str

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
        truncate = self._find_truncate()
        if truncate is not None:
            yield self._truncate_row(truncate[0])
        rows = _StandingRows(self.window, truncate)
        groups = group_rows(self._numbered(rows), _key_names(self._instance), len(self._chunks()), self._fillable())
        if self._fillable():
            yield from self._filled(rows, groups)
        else:
            yield from self._last_rows(rows, groups)

    def _find_truncate(self) -> tuple[int, int] | None:
        """Return LSN and seqval of the last truncate."""
        table, part = self.window.table, Part(self.window.low, self.window.high, (TRUNCATE,))
        last = None
        if table.may_have(part, TRUNCATE):
            for rows in table.stream(part, ORDER):
                if rows.num_rows:
                    last = rows.column(_LSN)[-1].as_py(), rows.column(_SEQVAL)[-1].as_py()
        return last

    def _truncate_row(self, lsn: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([{_LSN: lsn, _OPERATION: TRUNCATE}], schema=self.schema)

    def _chunks(self) -> range:
        """Return where the parts of a mask begin that is asked for."""
        return range(0, mask_length(len(self._instance.columns)) if self.option == WITH_MASK else 0, _CHUNK)

    def _fillable(self) -> list[int]:
        """Return the ordinals of the columns whose values the log may leave out."""
        if not self._instance.may_lack_values:
            return []
        return [ordinal for ordinal, column in enumerate(self._instance.columns, 1) if column.index_ordinal is None]

    def _numbered(self, rows: _StandingRows) -> Iterator[list[Any]]:
        """Yield what groups are made of: places, keys, parts of masks, and which rows carry each fillable value."""
        instance = self._instance
        keys = [column.lake_name for _, column in _key_columns(instance)]
        wanted = [*ORDER, *keys, *self._needed_beside_keys()]
        begin = 0
        for batch in rows.stream(wanted):
            operations = batch.column(_OPERATION).to_numpy()
            places = np.arange(begin, begin + batch.num_rows, dtype=np.int64) << _OPERATION_BITS | operations
            begin += batch.num_rows
            columns = [pa.array(places), *_key_values(instance, batch)]
            if chunks := self._chunks():
                columns += _mask_numbers(batch.column(_MASK), chunks, mask_length(len(instance.columns)))
            if fillable := self._fillable():
                is_absent = Bits(batch.column(_ABSENT), len(instance.columns))
                columns += [pa.array((operations == INSERT) | ~is_absent.of(ordinal)) for ordinal in fillable]
            yield columns

    def _needed_beside_keys(self) -> Iterator[str]:
        if self._chunks():
            yield _MASK
        if self._fillable():
            yield _ABSENT
        if not all(column_type(self._instance, column).holds_all for _, column in _key_columns(self._instance)):
            yield EXACT

    def _last_rows(self, rows: _StandingRows, groups: Iterator[Group]) -> Iterator[pa.RecordBatch]:
        """Yield the groups' last rows, which come in the order of the rows."""
        following = _Following(groups)
        begin = 0
        for batch in rows.stream(self._columns()):
            end = begin + batch.num_rows
            for group in following.take(end << _OPERATION_BITS):
                taken = batch.take((group.last >> _OPERATION_BITS) - begin)
                yield self._net_rows(taken, group, {})
            begin = end
            if following.is_at_end():
                return

    def _filled(self, rows: _StandingRows, groups: Iterator[Group]) -> Iterator[pa.RecordBatch]:
        """Yield the groups' last rows, with values taken from the rows before that carried them."""
        for group in _cut(groups, self._slice_rows()):
            sources = [group.last, *group.sources]
            numbers = np.unique(np.concatenate([found[found >= 0] for found in sources]) >> _OPERATION_BITS)
            needed = rows.take(numbers, self._columns())
            of_last = needed.take(np.searchsorted(numbers, group.last >> _OPERATION_BITS))
            yield self._net_rows(of_last, group, self._taken(needed, numbers, of_last, group))

    def _slice_rows(self) -> int:
        """Return how many keys' rows are in memory at a time."""
        return max(1, _SLICE_BYTES // max(self.window.table.row_bytes(), 1))

    def _columns(self) -> list[str]:
        return [*ORDER, *(name for name in self.schema.names if name not in ORDER)]

    def _net_rows(self, last: pa.RecordBatch, group: Group, taken: Mapping[str, Any]) -> pa.RecordBatch:
        values = {_OPERATION: self._operations(group), _MASK: self._masks(group), **taken}
        columns = [values[name] if name in values else last.column(name) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _operations(self, group: Group) -> pa.Array[Any]:
        other = MERGE if self.option == WITH_MERGE else np.where(group.first == INSERT, INSERT, UPDATE_AFTER)
        return pa.array(np.where(group.last_operation == DELETE, DELETE, other).astype(np.int32))

    def _masks(self, group: Group) -> pa.Array[Any]:
        """Return the columns that any row of the key changed; null for what is not an update."""
        count = len(group.last)
        if self.option != WITH_MASK:
            return pa.nulls(count, pa.binary())
        length = mask_length(len(self._instance.columns))
        parts = [numbers.astype(">u8").view(np.uint8).reshape(count, _CHUNK) for numbers in group.masks]
        masks = np.concatenate(parts, axis=1)
        is_update: Booleans = (group.last_operation != DELETE) & (group.first != INSERT)
        return as_binary(np.ascontiguousarray(masks[:, :length]), ~is_update)

    def _taken(self, needed: pa.RecordBatch, numbers: Places, last: pa.RecordBatch, group: Group) -> dict[str, Any]:
        """Return values, absent masks and exact texts from the rows that each column's values are taken from."""
        instance, count = self._instance, len(group.last)
        is_absent = Bits(needed.column(_ABSENT), len(instance.columns))
        fillable = dict(zip(self._fillable(), group.sources, strict=True))
        texts, texts_of_last = _exact_columns(needed), _exact_columns(last)
        masks, exact, taken = empty_masks(count, len(instance.columns)), ExactValues(count), {}
        for ordinal, column in enumerate(instance.columns, 1):
            if ordinal not in fillable:
                found = texts_of_last.get(ordinal)
            else:
                has_source = fillable[ordinal] >= 0
                rows = np.where(has_source, np.searchsorted(numbers, fillable[ordinal] >> _OPERATION_BITS), 0)
                source: Any = pa.array(rows, mask=~has_source)
                taken[column.lake_name] = needed.column(column.lake_name).take(source)
                set_bits(masks, ordinal, ~has_source | is_absent.of(ordinal)[rows])
                found = texts[ordinal].take(source) if ordinal in texts else None
            if found is not None:
                exact.add(ordinal, found, pa.nulls(count))
        return {**taken, _ABSENT: as_binary(masks, np.asarray(~masks.any(axis=1))), EXACT: exact.as_maps()}


@dataclass(frozen=True, slots=True)
class _StandingRows:
    """The rows behind the last truncate of a window, without the old rows of updates; numbered by their order."""

    window: Window[ChangeTable]
    truncate: tuple[int, int] | None

    def stream(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        low = self.window.low if self.truncate is None else CommitLsn(self.truncate[0])
        for batch in self.window.table.stream(Part(low, self.window.high, _STANDING), columns):
            yield batch if self.truncate is None else _only_after(self.truncate, batch)

    def take(self, numbers: Places, columns: Sequence[str]) -> pa.RecordBatch:
        """Return the rows of these numbers, which ascend."""
        begin, taken = 0, []
        for batch in self.stream(columns):
            end = begin + batch.num_rows
            inside = numbers[np.searchsorted(numbers, begin) : np.searchsorted(numbers, end)]
            if len(inside):
                taken.append(batch.take(inside - begin))
            begin = end
        return join(taken)


def _only_after(truncate: tuple[int, int], batch: pa.RecordBatch) -> pa.RecordBatch:
    lsns, seqvals = batch.column(_LSN).to_numpy(), batch.column(_SEQVAL).to_numpy()
    is_after = (lsns > truncate[0]) | ((lsns == truncate[0]) & (seqvals > truncate[1]))
    return batch if is_after.all() else batch.filter(pa.array(is_after))


@dataclass(slots=True)
class _Following:
    """Groups in the order of their last rows, taken up to a place at a time."""

    groups: Iterator[Group]
    held: Group | None = field(default=None)

    def take(self, end: int) -> Iterator[Group]:
        """Yield the groups whose last row is before a place."""
        while not self.is_at_end():
            assert self.held is not None
            count = int(np.searchsorted(self.held.last, end))
            if count:
                yield self.held.slice(0, count)
            if count < len(self.held.last):
                self.held = self.held.slice(count)
                return
            self.held = None

    def is_at_end(self) -> bool:
        """Return whether there are no more groups."""
        while self.held is None or not len(self.held.last):
            self.held = next(self.groups, None)
            if self.held is None:
                return True
        return False


def _cut(groups: Iterator[Group], most: int) -> Iterator[Group]:
    for group in groups:
        for begin in range(0, len(group.last), most):
            yield group.slice(begin, min(begin + most, len(group.last)))


def _key_columns(instance: Instance) -> list[tuple[int, CapturedColumn]]:
    return [(ordinal, one) for ordinal, one in enumerate(instance.columns, 1) if one.index_ordinal is not None]


def _key_names(instance: Instance) -> list[str]:
    """Return names for `_key_values`."""
    names = []
    for ordinal, column in _key_columns(instance):
        names.append(f"key_{ordinal}")
        if not column_type(instance, column).holds_all:
            names.append(f"exact_{ordinal}")
    return names


def _key_values(instance: Instance, batch: pa.RecordBatch) -> Iterator[Any]:
    """Yield what identifies a key: its values, and the exact texts of those that their types cannot hold."""
    texts: dict[int, Any] | None = None
    for ordinal, column in _key_columns(instance):
        yield _comparable(batch.column(column.lake_name))
        if not column_type(instance, column).holds_all:
            texts = _exact_columns(batch) if texts is None else texts
            yield texts.get(ordinal, pa.nulls(batch.num_rows, pa.string()))


def _comparable(values: Any) -> Any:
    """Return values of a type in which equal ones are equal to any program."""
    if pa.types.is_floating(values.type):
        # No negative zero.
        return kernels.add(values.cast(pa.float64()), 0.0)
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.int64())
    return values.cast(pa.int32()) if pa.types.is_date(values.type) else values


def _exact_columns(batch: pa.RecordBatch) -> dict[int, Any]:
    """Return the exact texts by ordinal, a value for each row."""
    nothing = pa.nulls(batch.num_rows, pa.string())
    return {ordinal: found.put_into(nothing) for ordinal, found in read_exact_texts(batch.column(EXACT)).items()}


def _mask_numbers(masks: Any, begins: range, length: int) -> Iterator[pa.Array[Any]]:
    """Yield the parts of masks as numbers."""
    packed = pack_rows(masks, length)
    padded = np.zeros((len(packed), len(begins) * _CHUNK), np.uint8)
    padded[:, :length] = packed
    for begin in begins:
        part = np.ascontiguousarray(padded[:, begin : begin + _CHUNK])
        yield pa.array(part.view(">u8").reshape(-1).astype(np.uint64))

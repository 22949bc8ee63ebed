"""Converts log records into rows of change tables, and copied rows into rows of base tables, in Arrow.

A row has typed values, masks, and the exact texts of values that its types do not hold. An update is two rows, 3
(before) and 4 (after); an update of the key is 1 and 2 with one seqval, as SQL Server logs it; a truncate is one row,
6, without values.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

from rowtide.cdc import change_columns, instances
from rowtide.cdc.recorded_snapshots import SEQVAL
from rowtide.cdc.rows.row_images import Booleans, Integers, RowImages, complete_images, read_images
from rowtide.core.lsn import CommitLsn
from rowtide.core.operations import Operation
from rowtide.core.tables import TableShape
from rowtide.core.values import frozen
from rowtide.databases.lake_types import LakeType
from rowtide.databases.lake_values.casting import Column, Texts, arrow_schema, arrow_type, kernels, where
from rowtide.databases.lake_values.texts import as_texts
from rowtide.databases.postgres.typed_values import (
    as_marked_texts,
    is_utf8,
    typed_values as postgres_values,
    typed_values_of,
)

EXACT = pa.map_(pa.int32(), pa.string())


@dataclass(slots=True)
class ExactValues:
    """Collects the misfits of a number of rows, column by column in the order of ordinals."""

    rows: int
    _found: list[tuple[npt.NDArray[np.int64], int, Texts]] = field(default_factory=list)

    def add(self, ordinal: int, texts: Texts, typed: Column) -> None:
        """Add the texts of a column whose typed values are null."""
        if typed.null_count == texts.null_count:
            return
        is_misfit = kernels.and_(texts.is_valid(), typed.is_null())
        rows = np.flatnonzero(is_misfit.to_numpy(zero_copy_only=False))
        self._found.append((rows, ordinal, texts.filter(is_misfit)))

    def as_maps(self) -> Column:
        """Return a map for each row, null if everything fits."""
        if not self._found:
            return pa.nulls(self.rows, EXACT)
        rows = np.concatenate([rows for rows, _, _ in self._found])
        ordinals = np.repeat([ordinal for _, ordinal, _ in self._found], [len(rows) for rows, _, _ in self._found])
        texts = pa.concat_arrays([texts for _, _, texts in self._found])
        by_row = np.argsort(rows, kind="stable")
        counts = np.bincount(rows, minlength=self.rows)
        offsets: Column = pa.array(np.concatenate(([0], np.cumsum(counts))).astype(np.int32))
        keys: Column = pa.array(ordinals[by_row].astype(np.int32))
        maps: Any = pa.MapArray
        return maps.from_arrays(offsets, keys, texts.take(by_row), EXACT, mask=pa.array(counts == 0))


def texts_by_ordinal(maps: Column) -> dict[int, Texts]:
    """Return the texts that maps have, by ordinal, each with an element for every map; null where a map has none."""
    if maps.null_count == len(maps):
        return {}
    whole = maps.take(pa.array(range(len(maps)))) if maps.offset else maps
    offsets = whole.offsets.to_numpy()
    lengths = np.where(whole.is_valid().to_numpy(zero_copy_only=False), np.diff(offsets), 0)
    entries = np.flatnonzero(np.repeat(lengths > 0, np.diff(offsets))) + offsets[0]
    rows = np.repeat(np.arange(len(whole)), lengths)
    keys, items = whole.keys.to_numpy()[entries], whole.items.take(pa.array(entries))
    return {int(ordinal): _spread(items, rows, keys == ordinal, len(whole)) for ordinal in np.unique(keys)}


def _spread(items: Texts, rows: npt.NDArray[np.int64], wanted: npt.NDArray[np.bool_], size: int) -> Texts:
    indexes = np.full(size, -1)
    indexes[rows[wanted]] = np.flatnonzero(wanted)
    return items.take(pa.array(indexes, mask=indexes < 0))


Masks = npt.NDArray[np.uint8]


def empty_masks(rows: int, columns: int) -> Masks:
    """Return masks without a bit."""
    return np.zeros((rows, change_columns.mask_length(columns)), np.uint8)


def full_masks(rows: int, columns: int) -> Masks:
    """Return masks with every column's bit."""
    return np.tile(np.frombuffer(change_columns.full_mask(columns), np.uint8), (rows, 1))


def set_bits(masks: Masks, ordinal: int, is_set: npt.NDArray[np.bool_]) -> None:
    """Set the bit of an ordinal in the masks of the rows that have it set."""
    masks[:, -1 - (ordinal - 1) // 8] |= is_set.astype(np.uint8) << (ordinal - 1) % 8


def as_binary(masks: Masks, is_null: npt.NDArray[np.bool_]) -> pa.Array[Any]:
    """Return masks as an Arrow array, null for some rows."""
    rows, length = masks.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(length)
    valid = pa.py_buffer(np.packbits(~is_null, bitorder="little").data) if is_null.any() else None
    buffers = [valid, pa.py_buffer(offsets.data), pa.py_buffer(np.ascontiguousarray(masks).data)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)


TYPED_VALUES = {"postgres": postgres_values}
"""How texts become typed values, by the kind of the database."""
_LOGGED_VALUES = {"postgres": typed_values_of}
"""The same for texts of the log, which has the types that columns had then."""

BATCH_ROWS = 64 * 1024
"""The records that are converted at a time, so that their texts stay in the processor's cache."""
BATCH_BYTES = 1 << 30
"""Texts of both images are joined, and Arrow's offsets end at 2 GiB."""

_NO_OPERATION = 0
_FIRST_OPERATION = np.full(max(Operation) + 1, _NO_OPERATION, np.int32)
"""`__$operation` of the first row of a record, by the record's operation."""
_FIRST_OPERATION[[Operation.INSERT, Operation.UPDATE, Operation.DELETE, Operation.TRUNCATE]] = (
    *(change_columns.INSERT, change_columns.UPDATE_BEFORE, change_columns.DELETE, change_columns.TRUNCATE),
)


@frozen
class LsnRange:
    """Commit LSNs with first <= LSN < end."""

    first: int
    end: int

    def contains(self, lsns: Integers) -> Booleans:
        """Return which LSNs are in the range."""
        is_in: Booleans = (lsns >= self.first) & (lsns < self.end)
        return is_in


def change_schema(instance: instances.Instance) -> pa.Schema:
    """Return the Arrow schema of an instance's change table."""
    return arrow_schema([(column.name, column.type_name) for column in change_columns.change_columns(instance)])


def convert_records(
    records: pa.Table | pa.RecordBatch, instance: instances.Instance, shape: TableShape, lsns: LsnRange
) -> pa.Table:
    """Return the change rows of log records of one shape, in the records' order, with `change_schema`.

    Raises `ImageMalformed` if a row image does not have the shape's columns.
    """
    schema = change_schema(instance)
    table = records if isinstance(records, pa.Table) else pa.Table.from_batches([records])
    batches = [
        _convert_batch(piece, instance, shape, lsns, schema)
        for batch in table.to_batches(max_chunksize=BATCH_ROWS)
        for piece in _within_bytes(batch)
    ]
    return pa.Table.from_batches(batches, schema)


def count_rows(operations: npt.NDArray[np.int8]) -> Integers:
    """Return how many change rows log records of these operations become."""
    counts: Integers = (_FIRST_OPERATION[operations] != _NO_OPERATION).astype(np.int64)
    counts[operations == Operation.UPDATE] = 2
    return counts


def _within_bytes(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows > 1 and batch.nbytes > BATCH_BYTES:
        half = batch.num_rows // 2
        yield from _within_bytes(batch.slice(0, half))
        yield from _within_bytes(batch.slice(half))
    else:
        yield batch


def _convert_batch(
    records: pa.RecordBatch, instance: instances.Instance, shape: TableShape, lsns: LsnRange, schema: pa.Schema
) -> pa.RecordBatch:
    commit_lsns, operations = records["commit_lsn"].to_numpy(), records["operation"].to_numpy()
    chosen = np.flatnonzero(lsns.contains(commit_lsns) & (_FIRST_OPERATION[operations] != _NO_OPERATION))
    operations = operations[chosen]
    logged = read_images(records, chosen, len(shape.columns))
    images = complete_images(logged, operations, records["image"].to_numpy()[chosen], instance, shape)
    # Like SQL Server, an update of the key becomes a delete and an insert, because net changes are grouped by key.
    moves = _moves(images, np.flatnonzero(operations == Operation.UPDATE))
    versions = _row_versions(operations, moves)
    indexes = change_columns.column_indexes(instance, shape)
    masks, is_null = _update_masks(images, operations, moves, indexes)
    *values, exact = _values(images, versions, instance, shape)
    columns = [
        pa.array(commit_lsns[chosen][versions.record]),
        pa.nulls(len(versions.record), pa.int64()),
        pa.array(records["seqval"].to_numpy()[chosen][versions.record]),
        pa.array(versions.operation),
        as_binary(masks[versions.record], is_null[versions.record]),
        *values,
        _absent_masks(images, versions, indexes),
        exact,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@frozen
class _RowVersions:
    """The rows to be written: of which record, and with which `__$operation`; `is_before`: the record's old row."""

    record: Integers
    operation: npt.NDArray[np.int32]
    is_before: Booleans

    def choose(self, before: npt.NDArray[Any], after: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a value for each row, chosen from the values of the records' old and new rows."""
        if not self.is_before.any():
            return after[self.record]
        return np.where(self.is_before, before[self.record], after[self.record])


def _row_versions(operations: npt.NDArray[np.int8], moves: Booleans) -> _RowVersions:
    is_update = operations == Operation.UPDATE
    record = np.repeat(np.arange(len(operations)), np.where(is_update, 2, 1))
    first = _FIRST_OPERATION[operations]
    # Operations are numbered as SQL Server does it: 1 delete, 2 insert, 3 and 4 the old and the new row of an update.
    first[is_update] = np.where(moves, change_columns.DELETE, change_columns.UPDATE_BEFORE)
    is_second = np.diff(record, prepend=-1) == 0
    second = np.where(first == change_columns.DELETE, change_columns.INSERT, change_columns.UPDATE_AFTER).astype(
        np.int32
    )
    operation = np.where(is_second, second[record], first[record])
    return _RowVersions(
        record, operation, (operation == change_columns.DELETE) | (operation == change_columns.UPDATE_BEFORE)
    )


def _moves(images: RowImages, updates: Integers) -> Booleans:
    """Return which updates changed the key; a key that was not carried did not change."""
    moves = np.zeros(len(updates), np.bool_)
    for index in images.keys if len(updates) else ():
        moves |= images.find_changed_keys(index, updates)
    return moves


def _update_masks(
    images: RowImages, operations: npt.NDArray[np.int8], moves: Booleans, indexes: Sequence[int]
) -> tuple[Masks, Booleans]:
    """Return `__$update_mask` of each record, and which are null: all bits, or those that an update may have changed.

    A value may have changed if it was carried, and no carried value shows that it is the old one.
    """
    masks = full_masks(len(operations), len(indexes))
    updates = np.flatnonzero(operations == Operation.UPDATE)[~moves]
    if len(updates):
        changed = empty_masks(len(updates), len(indexes))
        for ordinal, index in enumerate(indexes, 1):
            if index != change_columns.NO_INDEX:
                set_bits(changed, ordinal, images.find_possibly_changed(index, updates))
        masks[updates] = changed
    return masks, operations == Operation.TRUNCATE


def _absent_masks(images: RowImages, versions: _RowVersions, indexes: Sequence[int]) -> Column:
    """Return `__$absent_mask` of each row: null where every captured value is known."""
    if not images.may_lack_values:
        return pa.nulls(len(versions.record), pa.binary())
    masks = empty_masks(len(versions.record), len(indexes))
    for ordinal, index in enumerate(indexes, 1):
        if index != change_columns.NO_INDEX:
            known = versions.choose(images.find_known_before(index), images.find_known_after(index))
            set_bits(masks, ordinal, ~known)
    is_known: Booleans = np.logical_not(masks.any(axis=1))
    return as_binary(masks, is_known)


def _values(images: RowImages, versions: _RowVersions, instance: instances.Instance, shape: TableShape) -> list[Column]:
    """Return the captured columns, and `__$exact`."""
    indexes = change_columns.find_indexes(instance, shape)
    typed_values_of = _LOGGED_VALUES[instance.database_kind]
    exact = ExactValues(len(versions.record))
    columns: list[Column] = []
    for ordinal, column in enumerate(instance.columns, 1):
        lake_type, index = change_columns.column_type(instance, column), indexes.get(column.name)
        if index is None:
            columns.append(kernels.cast(pa.nulls(len(versions.record)), arrow_type(lake_type.name)))
            continue
        texts = images.logged.take(versions.choose(images.before_at(index), images.after_at(index)))
        columns.append(typed_values_of(texts, shape.columns[index].type_code, lake_type))
        exact.add(ordinal, texts, columns[-1])
    return [*columns, exact.as_maps()]


ROW_COPIES = 10
"""How often a large row is in memory while it is converted; measured."""
_MOST_TEXT = 2**31 - 2**20
"""Texts of both images of a row are joined, and Arrow's offsets end at 2 GiB."""
_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def find_most_row_bytes() -> int:
    """Return the size, in bytes of text, up to which half of this machine's memory is enough to convert a row."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in map(Path, _MEMORY_LIMITS):
        said = file.read_text().strip() if file.is_file() else ""
        # A container's limit counts, in version 2 and version 1 of cgroups; "max" is none.
        limits += [int(said)] if said.isdigit() else []
    return min(_MOST_TEXT, min(limits) // 2 // ROW_COPIES)


_LARGEST_TEXT = 1 << 31
_READ_AS_THEY_ARE = (pa.int16(), pa.int32(), pa.int64())
"""Types for which the CSV reader accepts exactly the texts that the server writes."""


@dataclass(slots=True)
class BaseRows:
    """Converts the rows of one copy; `copied` are the columns that it has, in its order.

    `types` are those of the columns in the lake, by captured name: by default the instance's. Columns that are
    `retyped` have another type there once capture has come so far: until then values that would have another text are
    exact texts.
    """

    instance: instances.Instance
    copied: Sequence[instances.CapturedColumn]
    begin: CommitLsn
    types: Mapping[str, LakeType] = field(default_factory=dict)
    retyped: frozenset[str] = frozenset()
    is_utf8: bool = True
    _schema: pa.Schema = field(init=False)
    _types: Mapping[str, LakeType] = field(init=False)
    _is_quick: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        own = {column.name: change_columns.column_type(self.instance, column) for column in self.instance.columns}
        self._types = {**own, **self.types}
        names = {column.lake_name: self._types[column.name].name for column in self.instance.columns}
        columns = change_columns.change_columns(self.instance)
        self._schema = arrow_schema([(one.name, names.get(one.name, one.type_name)) for one in columns])

    def convert(self, lines: bytes, lacking: Collection[str] = ()) -> pa.RecordBatch:
        """Return the rows of whole lines of CSV, with the instance's `change_schema`.

        Captured columns that are `lacking` have been omitted, and are marked as absent.
        """
        copied = self._read(lines)
        rows = len(next(iter(copied.values())))
        exact = ExactValues(rows)
        typed_values = TYPED_VALUES[self.instance.database_kind]
        values: list[Column] = []
        for ordinal, column in enumerate(self.instance.columns, 1):
            lake_type, found = self._types[column.name], copied.get(column.name)
            if found is None:
                values.append(kernels.cast(pa.nulls(rows), arrow_type(lake_type.name)))
            elif column.name in self.retyped:
                typed = typed_values(found, lake_type)
                values.append(where(kernels.equal(as_texts(typed), found), typed))
                exact.add(ordinal, found, values[-1])
            elif pa.types.is_string(found.type):
                values.append(typed_values(found, lake_type))
                exact.add(ordinal, found, values[-1])
            else:
                values.append(found)
        begins = [
            pa.repeat(pa.scalar(self.begin.value, pa.int64()), rows),
            pa.nulls(rows, pa.int64()),
            pa.repeat(pa.scalar(SEQVAL, pa.int64()), rows),
            pa.repeat(pa.scalar(change_columns.INSERT, pa.int32()), rows),
            pa.nulls(rows, pa.binary()),
        ]
        columns = [*begins, *values, self._absent(rows, lacking), exact.as_maps()]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _absent(self, rows: int, lacking: Collection[str]) -> Column:
        if not lacking:
            return pa.nulls(rows, pa.binary())
        ordinals = [ordinal for ordinal, column in enumerate(self.instance.columns, 1) if column.name in lacking]
        return pa.repeat(pa.scalar(change_columns.pack_mask(ordinals, len(self.instance.columns)), pa.binary()), rows)

    def _read(self, lines: bytes) -> dict[str, Column]:
        """Return the copied columns by their captured names: texts, or values of their types."""
        quick = {name: kind for name, kind in self._quick_types().items() if self._is_quick}
        try:
            table = _read_csv(lines, self._kinds(quick), check_utf8=not self.is_utf8)
        except pa.ArrowInvalid:
            if quick:
                # The CSV reader does not accept some value of the type.
                self._is_quick = False
                return self._read(lines)
            table = _read_csv(lines, self._kinds({}), check_utf8=False)
            return {name: _carried(column) for name, column in table.items()}
        return table

    def _quick_types(self) -> dict[str, pa.DataType]:
        types = {column.name: arrow_type(self._types[column.name].name) for column in self.copied}
        return {name: kind for name, kind in types.items() if kind in _READ_AS_THEY_ARE and name not in self.retyped}

    def _kinds(self, quick: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
        return {column.name: quick.get(column.name, pa.string()) for column in self.copied}


def _read_csv(lines: bytes, kinds: Mapping[str, pa.DataType], *, check_utf8: bool) -> dict[str, Column]:
    names = [str(place) for place in range(len(kinds))]
    types: Any = dict(zip(names, kinds.values(), strict=True))
    file: Any = pa.BufferReader(lines)
    table = pa_csv.read_csv(
        file,
        pa_csv.ReadOptions(use_threads=False, block_size=min(len(lines) + 1, _LARGEST_TEXT - 1), column_names=names),
        pa_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        pa_csv.ConvertOptions(
            check_utf8=check_utf8,
            column_types=types,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    columns = (column.combine_chunks() for column in table.columns)
    return dict(zip(kinds, map(_only_chunk, columns), strict=True))


def _only_chunk(column: Column) -> Column:
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def _carried(texts: Texts) -> Texts:
    """Return texts as captured rows have them: marked hexadecimal digits where a text is not UTF-8."""
    return texts if is_utf8(texts) else as_marked_texts(texts.cast(pa.binary()))

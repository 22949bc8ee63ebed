"""Converts log records into rows of change tables, in Arrow: values, masks and exact texts.

An update is two rows, 3 (before) and 4 (after); an update of the key is 1 and 2 with one seqval, as SQL Server logs it;
a truncate is one row, 6, without values.

How large a row may be that is converted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.cdc.instances import (
    DELETE,
    INSERT,
    NO_INDEX,
    TRUNCATE,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Instance,
    change_columns,
    column_indexes,
    column_type,
    find_indexes,
    full_mask,
    mask_length,
)
from rowtide.cdc.rows.row_images import Booleans, Integers, RowImages, complete_images, read_images
from rowtide.core.operations import Operation
from rowtide.core.tables import TableShape
from rowtide.core.values import frozen
from rowtide.databases.lake_values.casting import Column, Texts, arrow_schema, arrow_type, kernels
from rowtide.databases.postgres.typed_values import typed_values as postgres_values

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
    return np.zeros((rows, mask_length(columns)), np.uint8)


def full_masks(rows: int, columns: int) -> Masks:
    """Return masks with every column's bit."""
    return np.tile(np.frombuffer(full_mask(columns), np.uint8), (rows, 1))


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

BATCH_ROWS = 64 * 1024
"""The records that are converted at a time: their texts stay in the processor's cache."""
BATCH_BYTES = 1 << 30
"""Texts of both images are joined, and Arrow's offsets end at 2 GiB."""

_NO_OPERATION = 0
_FIRST_OPERATION = np.full(max(Operation) + 1, _NO_OPERATION, np.int32)
"""`__$operation` of the first row of a record, by the record's operation."""
_FIRST_OPERATION[[Operation.INSERT, Operation.UPDATE, Operation.DELETE, Operation.TRUNCATE]] = (
    *(INSERT, UPDATE_BEFORE, DELETE, TRUNCATE),
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


def change_schema(instance: Instance) -> pa.Schema:
    """Return the Arrow schema of an instance's change table."""
    return arrow_schema([(column.name, column.type_name) for column in change_columns(instance)])


def convert_records(
    records: pa.Table | pa.RecordBatch, instance: Instance, shape: TableShape, lsns: LsnRange
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
    records: pa.RecordBatch, instance: Instance, shape: TableShape, lsns: LsnRange, schema: pa.Schema
) -> pa.RecordBatch:
    commit_lsns, operations = records["commit_lsn"].to_numpy(), records["operation"].to_numpy()
    chosen = np.flatnonzero(lsns.contains(commit_lsns) & (_FIRST_OPERATION[operations] != _NO_OPERATION))
    operations = operations[chosen]
    logged = read_images(records, chosen, len(shape.columns))
    images = complete_images(logged, operations, records["image"].to_numpy()[chosen], instance, shape)
    # SQL Server, too, logs an update of the key as a delete and an insert: net changes are grouped by key.
    moves = _moves(images, np.flatnonzero(operations == Operation.UPDATE))
    versions = _row_versions(operations, moves)
    indexes = column_indexes(instance, shape)
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
        """Return what belongs to each row, of what belongs to the records' old and new rows."""
        if not self.is_before.any():
            return after[self.record]
        return np.where(self.is_before, before[self.record], after[self.record])


def _row_versions(operations: npt.NDArray[np.int8], moves: Booleans) -> _RowVersions:
    is_update = operations == Operation.UPDATE
    record = np.repeat(np.arange(len(operations)), np.where(is_update, 2, 1))
    first = _FIRST_OPERATION[operations]
    # Operations are numbered as SQL Server does it: 1 delete, 2 insert, 3 and 4 the old and the new row of an update.
    first[is_update] = np.where(moves, DELETE, UPDATE_BEFORE)
    is_second = np.diff(record, prepend=-1) == 0
    second = np.where(first == DELETE, INSERT, UPDATE_AFTER).astype(np.int32)
    operation = np.where(is_second, second[record], first[record])
    return _RowVersions(record, operation, (operation == DELETE) | (operation == UPDATE_BEFORE))


def _moves(images: RowImages, updates: Integers) -> Booleans:
    """Return which updates changed the key; a key that was not carried did not change."""
    moves = np.zeros(len(updates), np.bool_)
    for index in images.keys if len(updates) else ():
        moves |= images.find_changed_keys(index, updates)
    return moves


def _update_masks(
    images: RowImages, operations: npt.NDArray[np.int8], moves: Booleans, indexes: Sequence[int]
) -> tuple[Masks, Booleans]:
    """Return `__$update_mask` of each record, and whose is null: all bits, or those of what an update may have changed.

    A value may have changed if it was carried, and no carried value shows that it is the old one.
    """
    masks = full_masks(len(operations), len(indexes))
    updates = np.flatnonzero(operations == Operation.UPDATE)[~moves]
    if len(updates):
        changed = empty_masks(len(updates), len(indexes))
        for ordinal, index in enumerate(indexes, 1):
            if index != NO_INDEX:
                set_bits(changed, ordinal, images.find_possibly_changed(index, updates))
        masks[updates] = changed
    return masks, operations == Operation.TRUNCATE


def _absent_masks(images: RowImages, versions: _RowVersions, indexes: Sequence[int]) -> Column:
    """Return `__$absent_mask` of each row: null where every captured value is known."""
    if not images.may_lack_values:
        return pa.nulls(len(versions.record), pa.binary())
    masks = empty_masks(len(versions.record), len(indexes))
    for ordinal, index in enumerate(indexes, 1):
        if index != NO_INDEX:
            known = versions.choose(images.find_known_before(index), images.find_known_after(index))
            set_bits(masks, ordinal, ~known)
    is_known: Booleans = np.logical_not(masks.any(axis=1))
    return as_binary(masks, is_known)


def _values(images: RowImages, versions: _RowVersions, instance: Instance, shape: TableShape) -> list[Column]:
    """Return the captured columns, and `__$exact`."""
    indexes = find_indexes(instance, shape)
    typed_values = TYPED_VALUES[instance.database_kind]
    exact = ExactValues(len(versions.record))
    columns: list[Column] = []
    for ordinal, column in enumerate(instance.columns, 1):
        lake_type, index = column_type(instance, column), indexes.get(column.name)
        if index is None:
            columns.append(kernels.cast(pa.nulls(len(versions.record)), arrow_type(lake_type.name)))
            continue
        texts = images.logged.take(versions.choose(images.before_at(index), images.after_at(index)))
        columns.append(typed_values(texts, lake_type))
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

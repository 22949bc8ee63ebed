"""The old and the new row of log records, column by column, each completed from the other.

A log record's old row may be only its key, or be omitted if the key did not change (replica identity); its new row
lacks unchanged TOAST values. A value that is missing in one image may be in the other; one that is missing in both is
null, and unknown. Values are not copied: a row image is the index of its first text, until a column is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.cdc.change_columns import key_indexes
from rowtide.cdc.instances import Instance
from rowtide.core.operations import Operation
from rowtide.core.tables import ImageKind, TableShape
from rowtide.core.values import frozen
from rowtide.databases.lake_values.casting import Column, Texts, bytes_of, kernels

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

NOWHERE = -1
"""The index of a value that no image has."""


class ImageMalformed(ValueError):
    """A row image, or its bitmap of absent values, does not fit the table version."""


@frozen
class LoggedImages:
    """Row images as logged: the texts of all, and where in them the images begin; `NOWHERE` if there is none.

    `absent` has a row of bytes for each record, as `RECORD.absent`; None if every record carries every value.
    `is_null` is None if no text is null.
    """

    texts: Texts
    is_null: Booleans | None
    before: Integers
    after: Integers
    absent: npt.NDArray[np.uint8] | None

    def before_at(self, column: int) -> Integers:
        return _at(self.before, column)

    def after_at(self, column: int) -> Integers:
        return _at(self.after, column)

    def find_absent(self, column: int) -> Booleans | None:
        """Return whose new row lacks the value of a column; None if no record's."""
        if self.absent is None:
            return None
        is_absent: Booleans = (self.absent[:, column // 8] >> (column % 8) & 1).astype(np.bool_)
        return is_absent

    def find_values(self, index: Integers) -> Booleans:
        """Return which indexes lead to a text that is not null."""
        is_there: Booleans = index != NOWHERE
        return is_there if self.is_null is None else is_there & ~self.is_null[index]

    def take(self, index: Integers) -> Texts:
        """Return the texts at indexes, null for `NOWHERE`."""
        is_nowhere = index == NOWHERE
        at: Column = pa.array(index, mask=is_nowhere if is_nowhere.any() else None)
        return self.texts.take(at)


def read_images(records: pa.RecordBatch, chosen: Integers, columns: int) -> LoggedImages:
    """Return the row images of some records of a batch, whose images have a number of columns.

    Raises `ImageMalformed` if an image has another number of values.
    """
    before_texts, before = _read_column(records["before"], chosen, columns)
    after_texts, after = _read_column(records["after"], chosen, columns)
    if len(before_texts) and len(after_texts):
        texts = pa.concat_arrays([before_texts, after_texts])
        after = np.where(after == NOWHERE, NOWHERE, after + len(before_texts))
    else:
        texts = before_texts if len(before_texts) else after_texts
    is_null = texts.is_null().to_numpy(zero_copy_only=False) if texts.null_count else None
    return LoggedImages(texts, is_null, before, after, _read_absent(records["absent"], chosen, columns))


def _read_column(images: Column, chosen: Integers, columns: int) -> tuple[Texts, Integers]:
    """Return a column's texts, and where in them the images of some records begin."""
    if images.null_count == len(images):
        return images.values[:0], np.full(len(chosen), NOWHERE, np.int64)
    offsets = images.offsets.to_numpy().astype(np.int64)
    begins, lengths = offsets[:-1][chosen] - offsets[0], np.diff(offsets)[chosen]
    is_missing = images.is_null().to_numpy(zero_copy_only=False)[chosen]
    _require_length(lengths[~is_missing], columns, "a row image has {} values, not {}")
    return images.values[offsets[0] : offsets[-1]], np.where(is_missing, NOWHERE, begins)


def _read_absent(bitmaps: Column, chosen: Integers, columns: int) -> npt.NDArray[np.uint8] | None:
    if bitmaps.null_count == len(bitmaps):
        return None
    absent = np.zeros((len(bitmaps), (columns + 7) // 8), np.uint8)
    is_there = bitmaps.is_valid().to_numpy(zero_copy_only=False)
    offsets, packed = bytes_of(bitmaps.drop_null())
    _require_length(np.diff(offsets), absent.shape[1], "a bitmap of absent values has {} bytes, not {}")
    absent[is_there] = packed[offsets[0] : offsets[-1]].reshape(-1, absent.shape[1])
    return absent[chosen] if absent[chosen].any() else None


def _require_length(lengths: npt.NDArray[Any], expected: int, problem: str) -> None:
    others = lengths[lengths != expected]
    if len(others):
        raise ImageMalformed(problem.format(others[0], expected))


def _at(begins: Integers, column: int) -> Integers:
    return np.where(begins == NOWHERE, NOWHERE, begins + column)


@frozen
class RowImages:
    """Both rows of log records, completed.

    `lacks_before` are the records whose old row is known in part, `lacks_after` those whose new row is; None: no
    record's. `keeps_key` are the updates without an old row: its key is that of the new one.
    """

    logged: LoggedImages
    keys: tuple[int, ...]
    lacks_before: Booleans | None = None
    lacks_after: Booleans | None = None
    keeps_key: Booleans | None = None

    def before_at(self, column: int) -> Integers:
        """Return where the old value of a column is."""
        before = self.logged.before_at(column)
        if self.keeps_key is None:
            return before
        return np.where(self.keeps_key, self.logged.after_at(column) if column in self.keys else NOWHERE, before)

    def after_at(self, column: int) -> Integers:
        """Return where the new value of a column is."""
        after, is_absent = self.logged.after_at(column), self.logged.find_absent(column)
        if is_absent is None:
            return after
        # An unchanged TOASTed value is not in the new row, but in a full old row.
        return np.where(is_absent & (after != NOWHERE), self.logged.before_at(column), after)

    @property
    def may_lack_values(self) -> bool:
        """Return whether a value may be in neither image."""
        return self.lacks_before is not None

    def find_known_before(self, column: int) -> Booleans:
        """Return whose old value of a column is known."""
        logged = self.logged.find_values(self.logged.before_at(column))
        if self.lacks_before is None or self.keeps_key is None:
            return np.ones(len(logged), np.bool_)
        # A key has no null, and a null in other columns of a partially known old row proves nothing.
        known = ~self.lacks_before | logged
        if column not in self.keys:
            return known
        is_absent = self.logged.find_absent(column)
        return known | (self.keeps_key if is_absent is None else self.keeps_key & ~is_absent)

    def find_known_after(self, column: int) -> Booleans:
        """Return whose new value of a column is known."""
        logged, is_absent = self.logged.find_values(self.logged.before_at(column)), self.logged.find_absent(column)
        if self.lacks_after is None or is_absent is None:
            return np.ones(len(logged), np.bool_)
        return ~self.lacks_after | ~is_absent | logged

    def find_possibly_changed(self, column: int, chosen: Integers) -> Booleans:
        """Return whose value of a column may have changed: it is known, and the old one is not known to equal it."""
        differs = self._differs(column, chosen)
        if not self.may_lack_values:
            return differs
        return self.find_known_after(column)[chosen] & (differs | ~self.find_known_before(column)[chosen])

    def find_changed_keys(self, column: int, chosen: Integers) -> Booleans:
        """Return whose value of a column of the key changed; a value that is not known did not."""
        differs = self._differs(column, chosen)
        if not self.may_lack_values:
            return differs
        before, after = self.before_at(column)[chosen], self.after_at(column)[chosen]
        return differs & self.logged.find_values(before) & self.logged.find_values(after)

    def _differs(self, column: int, chosen: Integers) -> Booleans:
        """Return whose old and new value of a column differ; null differs from every value."""
        before, after = self.before_at(column)[chosen], self.after_at(column)[chosen]
        equal = kernels.equal(self.logged.take(before), self.logged.take(after))
        is_equal: Booleans = equal.fill_null(fill_value=False).to_numpy(zero_copy_only=False)
        # Arrow's `equal` is null where one side is: both null is no change.
        if equal.null_count:
            is_equal = is_equal | ~(self.logged.find_values(before) | self.logged.find_values(after))
        return ~is_equal


def complete_images(
    logged: LoggedImages,
    operations: npt.NDArray[np.int8],
    images: npt.NDArray[np.int8],
    instance: Instance,
    shape: TableShape,
) -> RowImages:
    """Complete the row images of records, given with what `RECORD.operation` and `RECORD.image` say of each."""
    keys = tuple(key_indexes(instance, shape))
    # With full replica identity every old row is complete, so most tables need no further test.
    if shape.identity is ImageKind.FULL and not instance.is_partitioned:
        return RowImages(logged, keys)
    is_full = _find_full(logged, images, keys, instance, shape)
    is_update = operations == Operation.UPDATE
    return RowImages(
        logged,
        keys,
        lacks_before=(is_update | (operations == Operation.DELETE)) & ~is_full,
        lacks_after=None if logged.absent is None else ~is_full,
        keeps_key=is_update & (images == ImageKind.NONE),
    )


def _find_full(
    logged: LoggedImages,
    images: npt.NDArray[np.int8],
    keys: tuple[int, ...],
    instance: Instance,
    shape: TableShape,
) -> Booleans:
    """Return whose old row is whole.

    The log describes old rows of a partitioned table by its own replica identity, but a partition with another one may
    log only the key. Such a row looks like one whose other values are all null.
    """
    is_full: Booleans = images == ImageKind.FULL
    others = [column for column in range(len(shape.columns)) if column not in keys]
    if not (instance.is_partitioned and others):
        return is_full
    has_more = np.zeros(len(images), np.bool_)
    for column in others:
        has_more |= logged.find_values(logged.before_at(column))
    return is_full & has_more

"""Row images as Arrow: lists of text values, and bitmaps of values that the log did not carry (unchanged TOAST).

One cursor per row moves over the tuples: all rows advance by one column at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# Arrow arrays import it at first use: importing it here does so once for both processes of a run.
import pyarrow.compute

from rowtide.core.errors import DecodeError
from rowtide.core.tables import ImageKind
from rowtide.core.values import frozen
from rowtide.databases.postgres.typed_values import as_marked_texts, is_utf8
from rowtide.log.postgres.pgoutput.messages import Bools, Bytes, Frames, Ints, printable
from rowtide.log.postgres.pgoutput.relations import RowLayout

NULL, TEXT, UNCHANGED = ord("n"), ord("t"), ord("u")
CARRIED = np.zeros(256, np.bool_)
"""Kinds of values in old tuples: the server detoasts them, so none is "unchanged TOAST"."""
CARRIED[[NULL, TEXT]] = True
CARRIED_OR_UNCHANGED = CARRIED.copy()
"""Kinds of values in new tuples. Binary values cannot occur, since the reader does not request them."""
CARRIED_OR_UNCHANGED[UNCHANGED] = True
_VALUE_HEADER_BYTES = 5
_COUNT_BYTES = 2


@frozen
class Tuples:
    """Kept values of some rows, each array of shape (rows, kept columns); `ends` point behind each tuple."""

    starts: Ints
    lengths: Ints
    kinds: Bytes
    ends: Ints


def walk(frames: Frames, messages: Ints, cursors: Ints, layout: RowLayout, allowed: Bools) -> Tuples:
    """Walk one tuple per message, from its column count on, over values of the allowed kinds. Raises `DecodeError`.

    A cursor may leave its message, never the buffer: each step reads before it moves and is checked before the next.
    """
    shape = (len(messages), len(layout.kept))
    starts, lengths = np.empty(shape, np.int64), np.empty(shape, np.int64)
    kinds = np.empty(shape, np.uint8)
    if not len(messages):
        return Tuples(starts, lengths, kinds, cursors)
    limits = frames.ends[messages]
    _check_column_counts(frames, messages, cursors, limits, layout)
    indexes = {column: index for index, column in enumerate(layout.kept)}
    cursors = cursors + _COUNT_BYTES
    for column in range(layout.column_count):
        kind, length, nexts = _step(frames, cursors)
        fine = allowed[kind] & (length >= 0) & (nexts <= limits)
        if not fine.all():
            row = int(np.argmin(fine))
            raise _explain(frames, int(messages[row]), int(cursors[row]), column + 1, allowed=allowed)
        if (index := indexes.get(column)) is not None:
            starts[:, index] = cursors + _VALUE_HEADER_BYTES
            lengths[:, index] = length
            kinds[:, index] = kind
        cursors = nexts
    return Tuples(starts, lengths, kinds, cursors)


def _check_column_counts(frames: Frames, messages: Ints, cursors: Ints, limits: Ints, layout: RowLayout) -> None:
    is_there = cursors + _COUNT_BYTES <= limits
    frames.require(is_there, messages, "the tuple has no column count")
    fits = frames.int16_at(cursors) == layout.column_count
    frames.require(fits, messages, f"the row has not the table's {layout.column_count} columns")


def _step(frames: Frames, cursors: Ints) -> tuple[Bytes, Ints, Ints]:
    """Return kind and length of the value at each cursor, and the offset after it; only text has a length."""
    kinds = frames.octets[cursors]
    lengths = frames.int32_at(cursors + 1)
    is_text = kinds == TEXT
    if is_text.all():
        return kinds, lengths, cursors + _VALUE_HEADER_BYTES + lengths
    lengths = np.where(is_text, lengths, 0)
    return kinds, lengths, cursors + np.where(is_text, _VALUE_HEADER_BYTES + lengths, 1)


def _explain(frames: Frames, message: int, offset: int, column: int, *, allowed: Bools) -> DecodeError:
    kind = int(frames.octets[offset])
    if offset >= int(frames.ends[message]):
        problem = f"the row ends before column {column}"
    elif not allowed[kind]:
        problem = f"column {column} has a value of kind {printable(kind)}"
    else:
        problem = f"column {column} has a length beyond the message"
    return frames.error(message, problem, offset)


# Offsets of Arrow's strings have 32 bits.
MAX_TEXT_BYTES = (1 << 31) - 1
_TEXT_LIST = pa.list_(pa.string())
_ABSENT = pa.binary()

_INSERT, _UPDATE, _DELETE, _TRUNCATE = b"IUDT"
_TAG_OFFSET = 5  # kind byte and oid
_NEW = ord("N")
_TAG_IMAGES = {"N": ImageKind.NONE, "K": ImageKind.KEY, "O": ImageKind.FULL}
_IMAGES = np.zeros(256, np.int8)
for _tag, _image in _TAG_IMAGES.items():
    _IMAGES[ord(_tag)] = _image
_TAGS = {_INSERT: b"N", _UPDATE: b"NKO", _DELETE: b"KO"}
_IS_TAG_OF = np.zeros((256, 256), np.bool_)
for _message_kind, _tags in _TAGS.items():
    _IS_TAG_OF[_message_kind, list(_tags)] = True


@frozen
class TableImages:
    """One entry per change: the kind of `before`, both row images, and the values that `after` lacks."""

    image: npt.NDArray[np.int8]
    before: pa.Array[Any]
    after: pa.Array[Any]
    absent: pa.Array[Any]


def read_images(frames: Frames, messages: Ints, layout: RowLayout) -> TableImages:
    """Decode the rows of these messages, all of one layout; truncations have no images. Raises `DecodeError`."""
    starts = frames.starts[messages]
    kinds = frames.kinds[messages]
    tags = frames.octets[starts + _TAG_OFFSET]
    is_row = kinds != _TRUNCATE
    frames.require(_IS_TAG_OF[kinds, tags] | ~is_row, messages, "unknown kind of tuple")
    image = np.where(is_row, _IMAGES[tags], np.int8(ImageKind.NONE)).astype(np.int8)
    has_before = image != ImageKind.NONE
    has_after = is_row & (kinds != _DELETE)
    cursors = starts + _TAG_OFFSET + 1
    before = walk(frames, messages[has_before], cursors[has_before], layout, CARRIED)
    cursors[has_before] = before.ends
    _enter_new_tuples(frames, messages, cursors, np.flatnonzero(has_before & has_after))
    after_messages = messages[has_after]
    # Only a new row may lack a TOASTed value that did not change; old rows have all values of the replica identity.
    after = walk(frames, after_messages, cursors[has_after], layout, CARRIED_OR_UNCHANGED)
    cursors[has_after] = after.ends
    # Bytes after the row would be from a later version of the protocol: an error is better than values that are read
    # with the wrong layout.
    is_at_end = cursors == frames.ends[messages]
    frames.require(is_at_end | ~is_row, messages, "the row is shorter than its message")
    return TableImages(
        image,
        _row_images(frames, messages, has_before, before),
        _row_images(frames, messages, has_after, after),
        _absent_bitmaps(has_after, after.kinds),
    )


def _enter_new_tuples(frames: Frames, messages: Ints, cursors: Ints, updates: Ints) -> None:
    """Move the cursors of updates that have an old tuple past the mark of the new one."""
    ends, changed = cursors[updates], messages[updates]
    is_new = (ends < frames.ends[changed]) & (frames.octets[ends] == _NEW)
    frames.require(is_new, changed, "no new tuple follows the old one")
    cursors[updates] = ends + 1


def _row_images(frames: Frames, messages: Ints, is_present: Bools, tuples: Tuples) -> pa.Array[Any]:
    """Return a list<string> per entry: the tuples in order for entries that have one, null for the others."""
    if not is_present.any():
        return pa.nulls(len(is_present), _TEXT_LIST)
    values = _texts(frames, messages, tuples)
    ends = np.cumsum(is_present) * tuples.kinds.shape[1]
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    buffers = [_validity(is_present), _buffer(offsets)]
    return pa.Array.from_buffers(_TEXT_LIST, len(is_present), buffers, children=[values])


def _absent_bitmaps(is_present: Bools, kinds: Bytes) -> pa.Array[Any]:
    """Return a bitmap per entry over its columns, least significant bit first; null if every value was carried."""
    is_absent = kinds == UNCHANGED
    if not is_absent.any():
        return pa.nulls(len(is_present), _ABSENT)
    is_partial = is_present.copy()
    is_partial[is_present] = is_absent.any(axis=1)
    bitmaps = np.packbits(is_absent[is_absent.any(axis=1)], axis=1, bitorder="little")
    ends = np.cumsum(is_partial) * bitmaps.shape[1]
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    buffers = [_validity(is_partial), _buffer(offsets), _buffer(bitmaps)]
    return pa.Array.from_buffers(_ABSENT, len(is_present), buffers)


def _validity(is_valid: Bools) -> pa.Buffer | None:
    return None if is_valid.all() else _buffer(np.packbits(is_valid, bitorder="little"))


def _buffer(values: npt.NDArray[Any]) -> pa.Buffer:
    return pa.py_buffer(values.data)


def _texts(frames: Frames, messages: Ints, tuples: Tuples) -> pa.Array[Any]:
    """Copy the values out of the batch, row by row.

    The values and the bytes between them are viewed as one Arrow array over the batch, without a copy; taking every
    second element is then one C++ pass (four times as fast as a gather in numpy, and without its index per byte).
    """
    text_bytes = int(tuples.lengths.sum())
    if text_bytes > MAX_TEXT_BYTES:
        raise frames.error(int(messages[0]), "the values of one table exceed 2 GiB in one batch")
    starts, lengths = tuples.starts.ravel(), tuples.lengths.ravel()
    # Offsets of an Arrow array have to ascend: a cursor only moves forward within a row, and rows follow each other in
    # the batch in the order of the messages.
    borders = np.empty(2 * len(starts) + 1, np.int64)
    borders[0:-1:2], borders[1::2] = starts, starts + lengths
    borders[-1] = len(frames.buffer)
    between = pa.Array.from_buffers(
        pa.large_binary(), 2 * len(starts), [None, _buffer(borders), pa.py_buffer(frames.buffer)]
    )
    is_null = tuples.kinds.ravel() != TEXT
    indexes = pa.array(np.arange(0, 2 * len(starts), 2), pa.int64(), mask=is_null if is_null.any() else None)
    values = between.take(indexes).cast(pa.binary())
    if is_utf8(values):
        return values.view(pa.string())
    # Marked hexadecimal has two digits for each byte.
    if 2 * text_bytes > MAX_TEXT_BYTES:
        raise frames.error(int(messages[0]), "values that are not UTF-8, among more than 1 GiB")
    return as_marked_texts(values)

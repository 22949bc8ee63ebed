"""The vectorised walk over row tuples: one cursor per row, all rows one column further at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rowtide.core.errors import DecodeError
from rowtide.log.postgres.pgoutput.frames import Bools, Bytes, Frames, Ints, printable
from rowtide.log.postgres.pgoutput.relations import Layout

NULL, TEXT, UNCHANGED = ord("n"), ord("t"), ord("u")
CARRIED = np.zeros(256, np.bool_)
"""Kinds of values in old tuples: the server detoasts them, so none is "unchanged TOAST"."""
CARRIED[[NULL, TEXT]] = True
CARRIED_OR_UNCHANGED = CARRIED.copy()
"""Kinds of values in new tuples. Binary values never occur: the reader does not request them."""
CARRIED_OR_UNCHANGED[UNCHANGED] = True
_VALUE_HEADER_BYTES = 5
_COUNT_BYTES = 2


@dataclass(frozen=True, slots=True)
class Tuples:
    """Kept values of some rows, each array of shape (rows, kept columns); `ends` point behind each tuple."""

    starts: Ints
    lengths: Ints
    kinds: Bytes
    ends: Ints


def walk(frames: Frames, messages: Ints, cursors: Ints, layout: Layout, allowed: Bools) -> Tuples:
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
    places = {column: place for place, column in enumerate(layout.kept)}
    cursors = cursors + _COUNT_BYTES
    for column in range(layout.column_count):
        kind, length, nexts = _step(frames, cursors)
        fine = allowed[kind] & (length >= 0) & (nexts <= limits)
        if not fine.all():
            row = int(np.argmin(fine))
            raise _explain(frames, int(messages[row]), int(cursors[row]), column + 1, allowed=allowed)
        if (place := places.get(column)) is not None:
            starts[:, place] = cursors + _VALUE_HEADER_BYTES
            lengths[:, place] = length
            kinds[:, place] = kind
        cursors = nexts
    return Tuples(starts, lengths, kinds, cursors)


def _check_column_counts(frames: Frames, messages: Ints, cursors: Ints, limits: Ints, layout: Layout) -> None:
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

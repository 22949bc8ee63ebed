"""New rows of an article as the log has them, kept in Arrow: many are sent without a Python object per value. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from rowtide.replication.distribution.calls.encoding import Arguments

_ESCAPED = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
"""What COPY's text format writes otherwise; the backslash first."""
_NULL = "\\N"


class InsertedRows:
    """Rows of one article: a list of texts per row, one per published column."""

    def __init__(self, rows: pa.Array[Any]) -> None:
        """`rows` are lists, none null, of the same number of texts."""
        assert isinstance(rows, pa.ListArray)
        self._rows = rows
        self._arguments: list[Arguments] | None = None

    @classmethod
    def of(cls, images: pa.ChunkedArray[Any], places: Sequence[int]) -> InsertedRows:
        """Take the columns at these positions from row images."""
        rows = pa.concat_arrays(images.chunks)
        assert isinstance(rows, pa.ListArray)
        width = len(rows[0])
        if list(places) == list(range(width)):
            return cls(rows)
        taken = np.add.outer(np.arange(len(rows)) * width, np.array(places)).reshape(-1)
        return cls(_in_rows(rows.flatten().take(pa.array(taken)), len(rows)))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: int) -> Arguments:
        """Return a row as arguments of a call; the first time all are made."""
        if self._arguments is None:
            width = len(self._rows[0]) if len(self) else 1
            values = np.array(self._rows.flatten().cast(pa.binary()).to_pylist(), dtype=object)
            self._arguments = values.reshape(len(self), width).tolist()
        return self._arguments[place]

    def __iter__(self) -> Iterator[Arguments]:
        return (self[place] for place in range(len(self)))

    def between(self, start: int, end: int) -> InsertedRows:
        """Return some rows, without copying them."""
        return InsertedRows(self._rows.slice(start, end - start))

    def as_copy_text(self) -> bytes:
        """Return the rows in the text format of PostgreSQL's COPY."""
        texts = self._rows.flatten()
        present = _data_of(texts)
        for character, written in _ESCAPED:
            if character.encode() in present:
                texts = pc.replace_substring(texts, character, written)
        # pyarrow's stubs know of separators in arrays only.
        join_list: Any = pc.binary_join
        join: Any = pc.binary_join_element_wise
        lines = join_list(_in_rows(texts.fill_null(_NULL), len(self)), "\t")
        return _data_of(join(lines, "\n", ""))


def _data_of(texts: pa.Array[Any]) -> bytes:
    """Return all characters of an array of texts, which may be a part of a larger one."""
    _, ends, data = texts.buffers()
    if ends is None or data is None:
        return b""
    places = np.frombuffer(memoryview(ends), dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return memoryview(data)[places[0] : places[-1]].tobytes()


def _in_rows(values: pa.Array[Any], rows: int) -> pa.ListArray[Any]:
    """Divide values into lists of the same length."""
    ends = np.arange(rows + 1, dtype=np.int32) * (len(values) // rows if rows else 0)
    return pa.ListArray.from_arrays(pa.array(ends, type=pa.int32()), values)

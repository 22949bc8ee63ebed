"""The arguments of many calls, held by column until a driver needs rows, and the bitmaps of updates among them.

New rows stay in Arrow as the log has them: many are sent without a Python object per value.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Arguments = list[bytes | None]
"""The arguments of one call."""
Matrix = npt.NDArray[np.object_]
"""Values by row and column: bytes, or None."""

_ESCAPED = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
"""What COPY's text format writes otherwise; the backslash first."""
_NULL_OF_ARROW = "\\N"


class CallArguments:
    """The arguments of calls of one operation, by call and parameter."""

    def __init__(self, matrix: Matrix | None) -> None:
        """`matrix` None: a subclass makes it when it is needed."""
        self._matrix = matrix
        self._rows: list[Arguments] | None = None

    @classmethod
    def of(cls, rows: Sequence[Arguments]) -> CallArguments:
        """Return those of calls that are given one by one; at least one."""
        matrix = np.empty((len(rows), len(rows[0])), dtype=object)
        matrix[:] = rows
        return cls(matrix)

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def matrix(self) -> Matrix:
        assert self._matrix is not None
        return self._matrix

    @property
    def rows(self) -> list[Arguments]:
        """The arguments call by call; the first time all are made."""
        if self._rows is None:
            self._rows = self.matrix.tolist()
        return self._rows

    def between(self, start: int, end: int) -> CallArguments:
        """Return those of some calls, without copying them."""
        return CallArguments(self.matrix[start:end])

    def take(self, indexes: npt.NDArray[np.int64]) -> CallArguments:
        """Return those of the calls at these indexes."""
        return CallArguments(self.matrix[indexes])


class InsertedRows(CallArguments):
    """New rows of one article: a text per published column."""

    def __init__(self, rows: pa.Array[Any]) -> None:
        """`rows` are lists, none null, of the same number of texts."""
        assert isinstance(rows, pa.ListArray)
        super().__init__(None)
        self._lists = rows

    @classmethod
    def of_images(cls, images: pa.ChunkedArray[Any], indexes: Sequence[int]) -> InsertedRows:
        """Take the columns at these positions from row images."""
        rows = pa.concat_arrays(images.chunks)
        assert isinstance(rows, pa.ListArray)
        width = len(rows[0])
        if list(indexes) == list(range(width)):
            return cls(rows)
        taken = np.add.outer(np.arange(len(rows)) * width, np.array(indexes)).reshape(-1)
        return cls(_in_rows(rows.flatten().take(pa.array(taken)), len(rows)))

    def __len__(self) -> int:
        return len(self._lists)

    @property
    def matrix(self) -> Matrix:
        if self._matrix is None:
            width = len(self._lists[0]) if len(self) else 1
            values = np.array(self._lists.flatten().cast(pa.binary()).to_pylist(), dtype=object)
            self._matrix = values.reshape(len(self), width)
        return self._matrix

    def between(self, start: int, end: int) -> InsertedRows:
        return InsertedRows(self._lists.slice(start, end - start))

    def take(self, indexes: npt.NDArray[np.int64]) -> InsertedRows:
        taken: Any = pa.array(indexes)
        return InsertedRows(self._lists.take(taken))

    def as_copy_text(self) -> bytes:
        """Return the rows in the text format of PostgreSQL's COPY."""
        texts = self._lists.flatten()
        present = _data_of(texts)
        for character, written in _ESCAPED:
            if character.encode() in present:
                texts = pc.replace_substring(texts, character, written)
        # pyarrow's stubs know of separators in arrays only.
        join_list: Any = pc.binary_join
        join: Any = pc.binary_join_element_wise
        lines = join_list(_in_rows(texts.fill_null(_NULL_OF_ARROW), len(self)), "\t")
        return _data_of(join(lines, "\n", ""))


def _data_of(texts: pa.Array[Any]) -> bytes:
    """Return all characters of an array of texts, which may be a part of a larger one."""
    _, ends, data = texts.buffers()
    if ends is None or data is None:
        return b""
    indexes = np.frombuffer(memoryview(ends), dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return memoryview(data)[indexes[0] : indexes[-1]].tobytes()


def _in_rows(values: pa.Array[Any], rows: int) -> pa.ListArray[Any]:
    """Divide values into lists of the same length."""
    ends = np.arange(rows + 1, dtype=np.int32) * (len(values) // rows if rows else 0)
    return pa.ListArray.from_arrays(pa.array(ends, type=pa.int32()), values)


def bitmap_length(columns: int) -> int:
    """Return the number of bytes of a bitmap over a number of columns."""
    return columns // 8 + 1


def pack_bitmaps(changed: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """Pack a matrix, rows by columns, into bitmaps, rows by bytes."""
    rows, columns = changed.shape
    packed = np.zeros((rows, bitmap_length(columns)), dtype=np.uint8)
    bits = np.packbits(changed, axis=1, bitorder="little")
    packed[:, : bits.shape[1]] = bits
    return packed


def bitmap_texts(changed: npt.NDArray[np.bool_]) -> list[bytes]:
    """Return each row's bitmap as PostgreSQL writes bytes, `\\x` and hexadecimal digits."""
    packed = pack_bitmaps(changed)
    patterns: list[bytes] = packed.view(f"V{packed.shape[1]}").reshape(-1).tolist()
    # Of thousands of updates there are few, which a sort would take long to find.
    texts = {pattern: b"\\x" + pattern.hex().encode() for pattern in set(patterns)}
    return [texts[pattern] for pattern in patterns]


@lru_cache
def unite(one: bytes, other: bytes) -> bytes:
    """Return the text of a bitmap with the bits of two texts of the same length."""
    united = bytes(ours | theirs for ours, theirs in zip(_bytes_of(one), _bytes_of(other), strict=True))
    return b"\\x" + united.hex().encode()


@lru_cache
def columns_of(text: bytes) -> Sequence[int]:
    """Return the columns, from 0, whose bits are set in a bitmap's text."""
    bits = np.unpackbits(np.frombuffer(_bytes_of(text), dtype=np.uint8), bitorder="little")
    return tuple(np.flatnonzero(bits).tolist())


def _bytes_of(text: bytes) -> bytes:
    return bytes.fromhex(text[2:].decode())

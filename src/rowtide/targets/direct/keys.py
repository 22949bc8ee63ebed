"""Keys of rows, by which rows of other tables are found. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.cdc.lake_readers.last_rows import comparable
from rowtide.delta.statistics import Between, bounds_of
from rowtide.delta.writing.edits import Places

_kernels: Any = pc
_NOWHERE = -1


class KeySet:
    """Keys, each of one row; a row with a null in its key is never found, as in a join."""

    def __init__(self, rows: pa.Table, columns: Sequence[str]) -> None:
        """`columns` are those of the key."""
        self.columns = tuple(columns)
        self._rows = rows
        # From the second column on: what is known of a key so far and the column's value are a pair of numbers.
        self._values = [_kernels.unique(_comparable(rows[name])) for name in columns]
        self._pairs: list[Any] = []
        known = self._known(rows, 0)
        for place in range(1, len(self._values)):
            pairs = self._pair(rows, known, place)
            self._pairs.append(_kernels.unique(pairs))
            known = _kernels.index_in(pairs, value_set=self._pairs[-1], skip_nulls=True)

    def find(self, rows: pa.Table) -> Places:
        """Return for each row the number of the row with its key, -1 where none has."""
        known = self._known(rows, 0)
        for place, pairs in enumerate(self._pairs, 1):
            known = _kernels.index_in(self._pair(rows, known, place), value_set=pairs, skip_nulls=True)
        places: Places = known.fill_null(_NOWHERE).to_numpy().astype(np.int32, copy=False)
        return places

    def ranges(self, physical: Sequence[str]) -> Iterator[Between]:
        """Yield the ranges in which all keys are, of integers and texts; `physical` are the columns' names in files.

        Writers do not agree on how statistics have times, and dates of far years.
        """
        for name, in_files in zip(self.columns, physical, strict=True):
            values = self._rows[name]
            if pa.types.is_integer(values.type) or pa.types.is_string(values.type):
                low, high = (bound if isinstance(bound, int | str) else None for bound in bounds_of(values))
                yield Between(in_files, low, high)

    def _known(self, rows: pa.Table, place: int) -> Any:
        values = _comparable(rows[self.columns[place]])
        return _kernels.index_in(values, value_set=self._values[place], skip_nulls=True)

    def _pair(self, rows: pa.Table, known: Any, place: int) -> Any:
        width = pa.scalar(len(self._values[place]), pa.int64())
        return _kernels.add(_kernels.multiply(known.cast(pa.int64()), width), self._known(rows, place).cast(pa.int64()))


def _comparable(values: pa.ChunkedArray[Any]) -> Any:
    chunks = [comparable(chunk) for chunk in values.chunks]
    return pa.chunked_array(chunks) if chunks else comparable(pa.nulls(0, values.type))

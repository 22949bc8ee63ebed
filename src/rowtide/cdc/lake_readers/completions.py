"""Completes rows whose key changed: streams of change rows get the values that the log omitted.

With key images such a row is an insert without its unchanged TOASTed values; no other inserts of the change table lack
values. `as_of.moved_rows` finds the values.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.cdc.change_columns import INSERT
from rowtide.cdc.lake_readers.ordering import (
    ORDER,
)
from rowtide.core.lsn import CommitLsn

_LSN, _SEQVAL, _OPERATION = ORDER
_ABSENT = "__$absent_mask"


class FindsValues(Protocol):
    """Finds the values that moved rows lack."""

    def complete(self, low: CommitLsn, high: CommitLsn) -> Iterator[pa.RecordBatch]:
        """Yield the moved rows in [low, high] in order: LSN, seqval, and the columns that are completed."""
        ...


class Completions:
    """The moved rows in [low, high]; found when the first one is met, and kept in a file as long as this is."""

    def __init__(self, finder: FindsValues, low: CommitLsn, high: CommitLsn) -> None:
        self._finder = finder
        self._low, self._high = low, high
        self._file: Path | None = None

    def apply(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the same rows, completed; they are in order, with `ORDER`'s columns and `__$absent_mask`."""
        completed = _InOrder(self._read())
        for batch in batches:
            indexes = np.flatnonzero(self.find_lacking(batch))
            yield completed.put_into(batch, indexes) if len(indexes) else batch

    def find_lacking(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Return which rows may be moved ones that lack values."""
        lsns = batch.column(_LSN).to_numpy()
        is_inserted = batch.column(_OPERATION).to_numpy() == INSERT
        is_inside = (lsns >= self._low.value) & (lsns <= self._high.value)
        lacking: npt.NDArray[np.bool_] = is_inserted & is_inside
        if lacking.any():
            lacking &= batch.column(_ABSENT).is_valid().to_numpy(zero_copy_only=False)
        return lacking

    def _read(self) -> Iterator[pa.RecordBatch]:
        if self._file is None:
            self._file = self._write()
        with pa.OSFile(str(self._file), "rb") as file:
            yield from pa.ipc.open_stream(file)

    def _write(self) -> Path:
        folder = tempfile.TemporaryDirectory(prefix="rowtide-")
        # With this object, not at the end of a stream: a reader may leave one half read, or read it again.
        weakref.finalize(self, folder.cleanup)
        path = Path(folder.name) / "completed"
        writer: Any = None
        with pa.OSFile(str(path), "wb") as file:
            for batch in self._finder.complete(self._low, self._high):
                if writer is None:
                    options = pa.ipc.IpcWriteOptions(compression="lz4")
                    writer = pa.ipc.new_stream(file, batch.schema, options=options)
                writer.write_batch(batch)
            if writer is None:
                writer = pa.ipc.new_stream(file, pa.schema([(_LSN, pa.int64()), (_SEQVAL, pa.int64())]))
            writer.close()
        return path


class _InOrder:
    """Completed rows, taken in the order of the rows that they are put into."""

    def __init__(self, more: Iterator[pa.RecordBatch]) -> None:
        self._more = more
        self._buffered: list[tuple[pa.RecordBatch, list[tuple[int, int]]]] = []

    def put_into(self, batch: pa.RecordBatch, indexes: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """Return a batch with the completed rows in place of those at some indexes, where they were found."""
        wanted = _keys(batch.take(indexes))
        self._buffer(wanted[0], wanted[-1])
        number, found = 0, dict[tuple[int, int], int]()
        for _, keys in self._buffered:
            found |= {key: number + offset for offset, key in enumerate(keys)}
            number += len(keys)
        index = np.arange(batch.num_rows)
        taken = [(at, found[key]) for at, key in zip(indexes, wanted, strict=True) if key in found]
        if not taken:
            return batch
        index[[at for at, _ in taken]] = [batch.num_rows + number for _, number in taken]
        columns = [self._column(batch, name, index) for name in batch.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _column(self, batch: pa.RecordBatch, name: str, index: npt.NDArray[np.int64]) -> Any:
        column = batch.column(name)
        if name in ORDER or name not in self._buffered[0][0].schema.names:
            return column
        completed = [rows.column(name).cast(column.type) for rows, _ in self._buffered]
        return pa.concat_arrays([column, *completed]).take(index)

    def _buffer(self, first: tuple[int, int], last: tuple[int, int]) -> None:
        """Buffer the completed rows from one key to another, and perhaps more."""
        self._buffered = [buffered for buffered in self._buffered if buffered[1][-1] >= first]
        while not self._buffered or self._buffered[-1][1][-1] < last:
            batch = next(self._more, None)
            if batch is None:
                break
            keys = _keys(batch)
            if keys and keys[-1] >= first:
                self._buffered.append((batch, keys))


def _keys(batch: pa.RecordBatch) -> list[tuple[int, int]]:
    lsns, seqvals = (batch.column(name).to_numpy().tolist() for name in (_LSN, _SEQVAL))
    return list(zip(lsns, seqvals, strict=True))

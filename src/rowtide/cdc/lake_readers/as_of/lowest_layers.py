"""The lowest layer of a base: rows of one LSN, in whatever order their files have, numbered by that.

Ascending numbers of rows, taken up to an end at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.cdc.lake_readers.change_tables import ChangeTable
from rowtide.cdc.lake_readers.last_rows import LSN, OnlyKeys
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.delta.statistics import Between, find_bounds

_BATCH_ROWS = 64 * 1024
_BATCH_BYTES = 4 * 1024 * 1024


@frozen
class LowestLayer:
    """The rows of a version of a base that have an LSN."""

    table: ChangeTable
    lsn: CommitLsn
    only: OnlyKeys | None = None

    def stream(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield columns of the rows. Raises as `ChangeTable.stream`."""
        return self._stream(columns) if self.only is None else self.only.stream(self._stream, columns)

    def _stream(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        snapshot = self.table.snapshot
        snapshot.require_readable()
        (lsn,) = snapshot.select([LSN]).fields
        for file in snapshot.list_files(Between(LSN, self.lsn.value, self.lsn.value)):
            is_whole = find_bounds(file, lsn.physical_name) == (self.lsn.value, self.lsn.value)
            wanted = list(columns) if is_whole or LSN in columns else [*columns, LSN]
            batches = snapshot.stream_file(
                file, wanted, batch_rows=_BATCH_ROWS, batch_bytes=_BATCH_BYTES, on_all_cores=True
            )
            for batch in batches:
                yield batch if is_whole else self._only_this(batch).select(list(columns))

    def _only_this(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        is_this = batch.column(LSN).to_numpy() == self.lsn.value
        return batch if np.all(is_this) else batch.filter(pa.array(is_this))


Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class Ascending:
    """Numbers that come in parts."""

    more: Iterator[Numbers]
    buffered: Numbers = field(default_factory=lambda: np.empty(0, np.int64))

    def take(self, end: int) -> Numbers:
        """Return the numbers below an end that were not taken yet."""
        taken = []
        while True:
            count = int(np.searchsorted(self.buffered, end))
            taken.append(self.buffered[:count])
            self.buffered = self.buffered[count:]
            if len(self.buffered):
                break
            found = next(self.more, None)
            if found is None:
                break
            self.buffered = found
        return np.concatenate(taken)

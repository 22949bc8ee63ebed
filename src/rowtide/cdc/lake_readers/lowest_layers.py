"""The lowest layer of a base: rows of one LSN, in whatever order their files have, numbered by that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rowtide.cdc.lake_readers.change_tables import ChangeTable
from rowtide.cdc.lake_readers.last_rows import LSN
from rowtide.core.lsn import CommitLsn
from rowtide.delta.actions import AddFile
from rowtide.delta.statistics import Between

_BATCH_ROWS = 64 * 1024
_BATCH_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LowestLayer:
    """The rows of a version of a base that have an LSN."""

    table: ChangeTable
    lsn: CommitLsn

    def stream(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield columns of the rows. Raises as `ChangeTable.stream`."""
        snapshot = self.table.snapshot
        snapshot.require_readable()
        (lsn,) = snapshot.select([LSN]).fields
        for file in snapshot.list_files(Between(LSN, self.lsn.value, self.lsn.value)):
            is_whole = _bounds(file, lsn.physical_name) == (self.lsn.value, self.lsn.value)
            wanted = list(columns) if is_whole or LSN in columns else [*columns, LSN]
            for batch in snapshot.stream_file(file, wanted, batch_rows=_BATCH_ROWS, batch_bytes=_BATCH_BYTES):
                yield batch if is_whole else self._only_this(batch).select(list(columns))

    def _only_this(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        is_this = batch.column(LSN).to_numpy() == self.lsn.value
        return batch if np.all(is_this) else batch.filter(pa.array(is_this))


def _bounds(file: AddFile, column: str) -> tuple[object, object]:
    least, most = ((file.statistics.get(which) or {}).get(column) for which in ("minValues", "maxValues"))
    return least, most

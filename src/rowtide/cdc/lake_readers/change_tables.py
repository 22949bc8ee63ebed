"""Change tables read without Spark: the files that a window may have rows in, streamed in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.ordering import (
    BATCH_BYTES,
    BATCH_ROWS,
    ORDER,
    OrderedRows,
    are_ordered,
    drain,
    gather,
    in_memory_order,
    merge,
    sort,
)
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.delta.data_files import Between, RowGroup, find_bounds, find_empty_columns
from rowtide.delta.formats import IDENTITY
from rowtide.delta.replay import AddFile
from rowtide.delta.schema import FieldType
from rowtide.delta.snapshot import Snapshot, open_snapshot
from rowtide.lake.stores import locate

_LSN, _SEQVAL, _OPERATION = ORDER
_OPERATIONS = 8
"""Operations are below."""
_LEAST, _MOST = 0, (1 << 63) - 2
_BATCH_ROWS = 16 * 1024
_COMPRESSION = 4
"""An estimate: the size of rows in memory per size of their files."""


@frozen
class ChangeTablePart:
    """The rows of a change table in [low, high] that have one of these operations, but for those at some LSNs."""

    low: CommitLsn
    high: CommitLsn
    operations: tuple[int, ...]
    without: tuple[int, ...] = ()

    def find_rows(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Return which of a table's rows, of which there are `ORDER`'s columns, are the part's."""
        lsns, operations = (rows.column(name).to_numpy() for name in (_LSN, _OPERATION))
        is_part: npt.NDArray[np.bool_] = np.isin(np.arange(_OPERATIONS), self.operations)[operations]
        if len(lsns) and not (self.low.value <= lsns.min() and lsns.max() <= self.high.value):
            is_part &= (lsns >= self.low.value) & (lsns <= self.high.value)
        if self.without:
            is_part &= ~np.isin(lsns, self.without)
        return is_part


@frozen
class ChangeTable:
    """One version of a change table."""

    snapshot: Snapshot

    def widen(self, types: Mapping[str, FieldType]) -> ChangeTable:
        """Return the table with some columns in wider types, given by the table's names."""
        return ChangeTable(replace(self.snapshot, widened=types))

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return columns of the table, by default all."""
        return self.snapshot.select(columns).schema

    def row_bytes(self) -> int:
        """Return about how many bytes a row has in memory, by the files' sizes and numbers of rows."""
        files = self.snapshot.files.values()
        rows = sum(file.statistics.get("numRecords") or 0 for file in files)
        return _COMPRESSION * sum(file.size for file in files) // max(rows, 1)

    def may_have(self, part: ChangeTablePart, operation: int) -> bool:
        """Return whether, by the files' statistics, an operation may be among the part's."""
        wanted = Between(_OPERATION, operation, operation)
        return bool(self.snapshot.list_files(Between(_LSN, part.low.value, part.high.value), wanted))

    def stream(self, part: ChangeTablePart, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield columns, `ORDER` among them, of the part's rows in order, in batches of about `BATCH_BYTES`.

        Memory is bounded, whatever the part's size: what overlaps and is large passes through temporary files. Raises
        `LakeReadFailed`, `TableUnreadable`.
        """
        yield from stream_parts([(self, part)], columns)

    def sources(self, part: ChangeTablePart, columns: Sequence[str] | None) -> Iterator[OrderedRows]:
        """Yield the part's rows by file, each in order. Raises as `stream`."""
        if part.low > part.high:
            return
        self.snapshot.require_readable()
        physical = self.snapshot.select([_LSN]).fields[0].physical_name
        for file in self._list_files(part):
            yield self._source(file, physical, part, columns)

    def list_files(self, part: ChangeTablePart) -> list[AddFile]:
        """Return the files that may have rows of the part. Raises `TableUnreadable`."""
        self.snapshot.require_readable()
        return self._list_files(part) if part.low <= part.high else []

    def bounds(self, file: AddFile, column: str = _LSN) -> tuple[int, int] | None:
        """Return bounds of an integer column, by default of LSNs, in a file; None if its statistics lack them."""
        return find_bounds(file, self.snapshot.select([column]).fields[0].physical_name)

    def is_empty(self, file: AddFile, column: str) -> bool:
        """Return whether, by a file's statistics, a column is null in all its rows."""
        return self.snapshot.select([column]).fields[0].physical_name in find_empty_columns(file)

    def list_row_groups(self, file: AddFile) -> list[RowGroup]:
        """Return a file's row groups, with bounds of their LSNs. Raises `LakeReadFailed`."""
        return self.snapshot.list_row_groups(file, _LSN)

    def read_file(
        self, file: AddFile, columns: Sequence[str], row_groups: Sequence[int] | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of the rows of a file's row groups, by default all, in the file's order. Raises as `stream`."""
        return self.snapshot.stream_file(
            file, columns, batch_rows=BATCH_ROWS, batch_bytes=BATCH_BYTES, row_groups=row_groups, on_all_cores=True
        )

    def cut(self, part: ChangeTablePart, most_bytes: int) -> Iterator[tuple[ChangeTable, int]]:
        """Yield tables of some of the files that may have the part's rows, and the files' sizes together.

        Neighbours by LSN are together, up to `most_bytes`.
        """
        files: list[AddFile] = []
        for file in sorted(self._list_files(part), key=self._least):
            if files and sum(each.size for each in files) + file.size > most_bytes:
                yield self._of(files), sum(each.size for each in files)
                files = []
            files.append(file)
        if files:
            yield self._of(files), sum(each.size for each in files)

    def _of(self, files: Sequence[AddFile]) -> ChangeTable:
        return ChangeTable(self.snapshot.of_files(files))

    def _least(self, file: AddFile) -> int:
        physical = self.snapshot.select([_LSN]).fields[0].physical_name
        least = (file.statistics.get("minValues") or {}).get(physical)
        return least if isinstance(least, int) else _LEAST

    def _list_files(self, part: ChangeTablePart) -> list[AddFile]:
        return self.snapshot.list_files(Between(_LSN, part.low.value, part.high.value))

    def _source(
        self, file: AddFile, physical: str, part: ChangeTablePart, columns: Sequence[str] | None
    ) -> OrderedRows:
        bounds = (file.statistics.get(which) or {} for which in ("minValues", "maxValues"))
        low, high = (found.get(physical) for found in bounds)
        return OrderedRows(
            max(low if isinstance(low, int) else _LEAST, part.low.value),
            min(high if isinstance(high, int) else _MOST, part.high.value),
            lambda: self._in_order(file, part, columns),
        )

    def _in_order(
        self, file: AddFile, part: ChangeTablePart, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        rows = gather(self._read(file, part, columns))
        head = list(islice(rows, 2))
        if len(head) < 2:
            yield from map(in_memory_order, head)
        elif are_ordered(self._read(file, part, ORDER)):
            yield from drain(head, rows)
        else:
            yield from sort(drain(head, rows))

    def _read(self, file: AddFile, part: ChangeTablePart, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        batches = self.snapshot.stream_file(file, columns, batch_rows=_BATCH_ROWS, batch_bytes=BATCH_BYTES)
        return (_only(part, batch) for batch in batches)


def stream_parts(
    parts: Iterable[tuple[ChangeTable, ChangeTablePart]], columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of parts of several tables with the same columns as one; see `ChangeTable.stream`."""
    yield from gather(merge(source for table, part in parts for source in table.sources(part, columns)))


def open_change_table(path: str, instance: Instance) -> ChangeTable | None:
    """Return the current version of an instance's change table; None unless it has the instance's identity.

    Its columns have the readers' names. Raises `LakeReadFailed`, `TableUnreadable`.
    """
    snapshot = open_snapshot(locate(path))
    if snapshot is None or snapshot.properties.get(IDENTITY) != instance.member_id:
        return None
    return ChangeTable(replace(snapshot, renamed=instance.reader_names))


def _only(part: ChangeTablePart, rows: pa.RecordBatch) -> pa.RecordBatch:
    is_part = part.find_rows(rows)
    return rows if is_part.all() else rows.filter(pa.array(is_part))

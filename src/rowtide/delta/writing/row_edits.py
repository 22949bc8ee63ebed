"""Edits of a table's rows in one commit: data files that have some of them are rewritten, and rows are added.

The commit carries a transaction identifier with a version: a table that has this version already is not edited again,
and neither is one with another version than the edit was planned for. It is committed even if no row changed, to
exclude a writer that comes too late.
"""

from __future__ import annotations

import os
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.core.values import frozen
from rowtide.delta.errors import EditOutdated, PartitionUnfit
from rowtide.delta.replay import AddFile
from rowtide.delta.schema import TextUnfit, split_rows
from rowtide.delta.snapshot import Location, Snapshot
from rowtide.delta.writing.appends import write_partition, write_stream
from rowtide.delta.writing.changes import CommitChange, commit_change
from rowtide.delta.writing.compaction import MERGED_BYTES, SMALL_BYTES, fill_groups

MOST_SMALL = 16
"""If a table has more small files, all are merged into those that an edit writes."""
_FILES_AT_ONCE = min(4, os.cpu_count() or 1)

Indexes: TypeAlias = npt.NDArray[np.int32]
"""For each row the number of its edit; negative if it has none."""
MakeRows: TypeAlias = Callable[[], Iterable[pa.RecordBatch]]


class Edit(Protocol):
    """An edit of some rows of a table."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns by which rows are found."""
        ...

    def may_be_in(self, file: AddFile) -> bool:
        """Return whether, by its statistics, a file may have rows that are edited."""
        ...

    def find(self, rows: pa.Table) -> Indexes:
        """Return the edit of each row of a file, whose `columns` are given."""
        ...

    def apply(self, rows: pa.RecordBatch, indexes: Indexes) -> pa.RecordBatch:
        """Return the edited rows; fewer if some are deleted."""
        ...


@frozen
class Stamp:
    """An application, and the version that its table has after an edit; `after` is the version that the edit was
    planned for.
    """

    application: str
    version: int
    after: int | None = None

    def is_on(self, snapshot: Snapshot) -> bool:
        """Return whether a table has it already. Raises `EditOutdated`."""
        found = snapshot.get_transaction(self.application)
        if found is not None and found >= self.version:
            return True
        if found != self.after:
            raise EditOutdated(snapshot.location.path, "another process has edited it meanwhile")
        return False

    def change(self, removed: Sequence[AddFile], added: Sequence[AddFile]) -> CommitChange:
        """Return the change that replaces files by others."""
        stamped = {self.application: self.version}
        return CommitChange("MERGE", removed=removed, added=added, transactions=stamped, sees_all_files=True)


def edit_rows(location: Location, edit: Edit, added: MakeRows, stamp: Stamp) -> bool:
    """Edit rows and add others, which have all columns; return False if the table has the stamp already.

    Raises `EditOutdated`, and as `commit_change`.
    """

    def plan(snapshot: Snapshot) -> CommitChange | None:
        if stamp.is_on(snapshot):
            return None
        with ThreadPoolExecutor(_FILES_AT_ONCE, "rowtide-edit") as pool:
            candidates = [file for file in snapshot.files.values() if edit.may_be_in(file)]
            found = [one for one in pool.map(lambda file: _find(snapshot, file, edit), candidates) if one is not None]
            groups = _group([*found, *_others_merged(snapshot, found)])
            streams = [_stream_edited(snapshot, group, edit) for group in groups]
            # Added rows go to the small files, which come first.
            streams[0] = chain(streams[0], _order(snapshot, added()))
            files = [file for written in pool.map(lambda rows: _write_all(snapshot, rows), streams) for file in written]
        return stamp.change([one.file for group in groups for one in group], files)

    return commit_change(location, plan)


def replace_rows(location: Location, added: MakeRows, stamp: Stamp) -> bool:
    """Replace all rows by others, which have all columns; return False if the table has the stamp already.

    Raises as `edit_rows`.
    """

    def plan(snapshot: Snapshot) -> CommitChange | None:
        if stamp.is_on(snapshot):
            return None
        removed = list(snapshot.files.values())
        rows = _order(snapshot, added())
        write = _write_all if snapshot.metadata.partition_columns else _write_files
        return stamp.change(removed, list(write(snapshot, rows)))

    return commit_change(location, plan)


def write_any(snapshot: Snapshot, rows: Iterator[pa.RecordBatch]) -> AddFile | None:
    """Write rows to a data file; None if there are none."""
    filled = (batch for batch in rows if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return None
    name = f"edited-{uuid.uuid4().hex}.parquet"
    return write_stream(snapshot.location, snapshot.columns, snapshot.metadata, chain([first], filled), name)


def _write_all(snapshot: Snapshot, rows: Iterator[pa.RecordBatch]) -> list[AddFile]:
    """Write rows to a data file, none without rows; of a partitioned table to files of each partition.

    Raises `PartitionUnfit`.
    """
    names = snapshot.metadata.partition_columns
    if not names:
        file = write_any(snapshot, rows)
        return [file] if file is not None else []
    fields, cut = snapshot.columns.select(names).fields, _Cut(rows, MERGED_BYTES)
    files: list[AddFile] = []
    while batches := list(cut.take()):
        try:
            parts = list(split_rows(pa.Table.from_batches(batches), fields))
        except TextUnfit as error:
            raise PartitionUnfit(snapshot.location.path, error.column, error.reason) from error
        for values, part in parts:
            files.append(write_partition(snapshot, values, part.to_batches(), f"edited-{uuid.uuid4().hex}.parquet"))
    return files


@frozen
class _Edited:
    """A file that is rewritten, and the edits of its rows; None: no edits."""

    file: AddFile
    indexes: Indexes | None


def _find(snapshot: Snapshot, file: AddFile, edit: Edit) -> _Edited | None:
    """Return a file if it has rows that are edited."""
    columns = list(edit.columns)
    rows = pa.Table.from_batches(snapshot.stream_file(file, columns), schema=snapshot.select(columns).schema)
    indexes = edit.find(rows)
    return _Edited(file, indexes) if (indexes >= 0).any() else None


def _others_merged(snapshot: Snapshot, found: Sequence[_Edited]) -> Iterator[_Edited]:
    """Yield small files that are not edited, of partitions that have too many."""
    small: dict[frozenset[tuple[str, str | None]], list[AddFile]] = defaultdict(list)
    for file in snapshot.files.values():
        if file.size < SMALL_BYTES:
            small[frozenset(file.partition_values.items())].append(file)
    edited = {one.file.path for one in found}
    for files in small.values():
        if len(files) > MOST_SMALL:
            yield from (_Edited(file, None) for file in files if file.path not in edited)


def _group(edited: Sequence[_Edited]) -> list[list[_Edited]]:
    """Return files that are written together: small ones first, up to the size of a file; each large one alone.

    The first group may be empty.
    """
    small = fill_groups((one for one in edited if one.file.size < SMALL_BYTES), lambda one: one.file.size)
    return [*(small or [[]]), *([one] for one in edited if one.file.size >= SMALL_BYTES)]


def _stream_edited(snapshot: Snapshot, group: Iterable[_Edited], edit: Edit) -> Iterator[pa.RecordBatch]:
    for one in group:
        begin = 0
        for batch in snapshot.stream_file(one.file):
            indexes = one.indexes[begin : begin + batch.num_rows] if one.indexes is not None else None
            begin += batch.num_rows
            yield batch if indexes is None or not (indexes >= 0).any() else edit.apply(batch, indexes)


def _order(snapshot: Snapshot, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows with the columns in the table's order."""
    schema = snapshot.columns.schema
    for batch in rows:
        yield pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)


def _write_files(snapshot: Snapshot, rows: Iterable[pa.RecordBatch]) -> Iterator[AddFile]:
    """Write rows to files of a bounded size."""
    cut = _Cut(iter(rows), _COMPRESSION * MERGED_BYTES)
    while (file := write_any(snapshot, cut.take())) is not None:
        yield file


@dataclass(slots=True)
class _Cut:
    """Buffers rows, and returns as many at a time as make a file, by their size in memory."""

    rows: Iterator[pa.RecordBatch]
    most_bytes: int

    def take(self) -> Iterator[pa.RecordBatch]:
        size: Any = 0
        while size < self.most_bytes and (batch := next(self.rows, None)) is not None:
            size += batch.nbytes
            yield batch


_COMPRESSION = 4
"""An estimate of the size of rows in memory, divided by the size of their files."""

"""Rolling of an instance's base: cleanup adds the net effect of change rows to it before it removes them.

Low endpoints have moved before; change rows are removed afterwards. The base records the LSN up to which it has changes
in the commit that adds them: a repeat adds nothing, and readers count no change twice. The layers above the lowest one
are merged into it when they have more than a quarter of its rows, so that the cost of a merge is in proportion to the
rows added since the last one.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from rowtide.cdc.change_columns import DELETE, INSERT, TRUNCATE, UPDATE_AFTER
from rowtide.cdc.errors.querying import TypesDiffer
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.as_of.moved_rows import MovedRows
from rowtide.cdc.lake_readers.as_of.tables import CountedRows, table_as_of
from rowtide.cdc.lake_readers.change_tables import ChangeTable
from rowtide.cdc.lake_readers.completions import Completions
from rowtide.cdc.lake_readers.grouping import KeyGroups, open_engine
from rowtide.cdc.lake_readers.last_rows import LSN, OPERATION, SEQVAL, Completed, LastRows, StandingRows, TablePart
from rowtide.cdc.lake_readers.ordering import ORDER
from rowtide.cdc.published import base_table_path, change_table_path
from rowtide.cdc.queries.as_of.bag_rows import Counted, find_counted
from rowtide.cdc.queries.as_of.function import FOLDED_SEQVAL
from rowtide.cdc.queries.as_of.opening import AsOf, as_of_columns, folded_application, read_layers, rolled_application
from rowtide.cdc.recorded_snapshots import RecordedSnapshot, SnapshotState, excluded_begins, find_base, read_snapshots
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.delta.formats import IDENTITY
from rowtide.delta.replay import AddFile, Metadata
from rowtide.delta.schema import Struct
from rowtide.delta.snapshot import Location, Snapshot, open_snapshot
from rowtide.delta.writing.appends import write_stream
from rowtide.delta.writing.changes import Below, CommitChange, commit_change, delete_below
from rowtide.delta.writing.commits import Committer, PriorVersion
from rowtide.lake.stores import locate

_FILE_BYTES = 256 * 1024 * 1024
"""The size in memory of the rows of one data file."""
BeforeCommit = Callable[[], None]


@frozen
class Base:
    """An instance's base, which cleanup moves forward to a low endpoint; `before_commit` is called before commits."""

    lake: str
    instance: Instance
    low: CommitLsn

    def has_snapshots(self) -> bool:
        """Return whether the instance has a base: a snapshot has begun. Raises `LakeReadFailed`."""
        return bool(self._snapshots()) and self._open(self.path) is not None

    def find_end(self) -> CommitLsn:
        """Return the LSN below which changes go to the base, and are then removed.

        Without a key they stay while a snapshot is being copied: it could not be determined which rows of the base the
        snapshot contains.
        """
        if self.instance.index_columns:
            return self.low
        open_copies = (one.begin for one in self._snapshots() if _is_pending(one, self.low))
        return min([self.low, *(begin.increment() for begin in open_copies)])

    def roll(self, before_commit: BeforeCommit) -> None:
        """Add the net effect of the changes below `find_end`, once.

        Raises `QueryFailed`, `LakeReadFailed`, `LakeWriteFailed`, `TypesDiffer`.
        """
        base, snapshots, end = self._open(self.path), self._snapshots(), self.find_end()
        changes = self._open(change_table_path(self.lake, self.instance.capture_instance))
        if base is None or changes is None or not snapshots:
            return
        rolled_to = read_layers(base, self.instance.member_id).rolled_to
        if rolled_to is not None and rolled_to >= end:
            return
        # Changes that committed before the first snapshot began are in the rows that it copied.
        first = min(one.begin for one in snapshots).increment()
        first = first if rolled_to is None else max(first, rolled_to)
        part = TablePart(ChangeTable(changes), first, end.decrement())

        def write(state: PriorVersion) -> Sequence[AddFile]:
            self._require_types(state.columns, part.table)
            rows = self._effect(part, snapshots) if first < end else iter(())
            files = _write_files(base.location, state.columns, state.metadata, rows)
            # After the files are written, which takes minutes for large tables, during which the lease may have been
            # lost.
            before_commit()
            return files

        failpoint("roll_forward.before")
        identity = rolled_application(self.instance.member_id)
        # The end is the commit's transaction version: a repeat after a crash finds it, and adds nothing twice.
        Committer().commit_once(base.location, identity=identity, cycle=end.value, write=write)
        failpoint("roll_forward.after")

    def _require_types(self, columns: Struct, changes: ChangeTable) -> None:
        """Raise `TypesDiffer` while capture changes column types, of the change table first."""
        types = {field.name: field.type for field in changes.schema()}
        differing = [field.name for field in columns.schema if types.get(field.name, field.type) != field.type]
        if differing:
            raise TypesDiffer(self.instance.capture_instance, ", ".join(differing))

    def _effect(self, part: TablePart, snapshots: Sequence[RecordedSnapshot]) -> Iterator[pa.RecordBatch]:
        """Return the net effect of change rows."""
        if self.instance.index_columns:
            moved = MovedRows(self.lake, self.instance, part.table, part.high)
            completions = Completions(moved, part.low, part.high) if self.instance.may_lack_values else None
            return _net_rows(self.instance, part, completions)
        newest = find_base(snapshots, self.low)
        return _counted_rows(part, find_counted(self.lake, newest)) if newest is not None else iter(())

    def tidy(self, before_commit: BeforeCommit) -> None:
        """Remove layers that a newer snapshot supersedes, and fold the others if they outweigh a quarter of the rows.

        Raises as `roll`.
        """
        snapshots = self._snapshots()
        newest = find_base(snapshots, self.low)
        if newest is None or self._open(self.path) is None:
            return
        superseded = Below(LSN, newest.begin.value)
        delete_below(locate(self.path), superseded, before_commit=before_commit)
        last = self.low.decrement()
        is_settled = newest == find_base(snapshots, last) and not any(_is_pending(one, last) for one in snapshots)
        if is_settled:
            commit_change(locate(self.path), lambda base: self._merge_layers(base, newest, snapshots, before_commit))
            failpoint("fold.after")

    @property
    def path(self) -> str:
        """The base's place."""
        return base_table_path(self.lake, self.instance.capture_instance)

    def _open(self, path: str) -> Snapshot | None:
        snapshot = open_snapshot(locate(path))
        if snapshot is None or snapshot.properties.get(IDENTITY) != self.instance.member_id:
            return None
        return snapshot

    def _snapshots(self) -> list[RecordedSnapshot]:
        recorded = read_snapshots(self.lake).get(self.instance.member_id, ())
        return [one for one in recorded if one.state is not SnapshotState.CANCELLED]

    def _merge_layers(
        self,
        base: Snapshot,
        newest: RecordedSnapshot,
        snapshots: Sequence[RecordedSnapshot],
        before_commit: BeforeCommit,
    ) -> CommitChange | None:
        """Return the change that makes one layer of all, as of the last LSN below the low endpoint."""
        last, table = self.low.decrement(), ChangeTable(base)
        member_id = self.instance.member_id
        layers, excluded = read_layers(base, member_id), excluded_begins(snapshots, last)
        as_of = AsOf(self.instance, last, newest, table, table, layers, excluded)
        if base.properties.get(IDENTITY) != member_id or layers.rolled_to != self.low or not _is_merge_due(as_of):
            return None
        found = table_as_of(self.lake, as_of, as_of_columns(self.instance))
        rows = (_as_layer(batch, last, base.columns) for batch in found.read())
        files = _write_files(base.location, base.columns, base.metadata, rows)
        failpoint("fold.before")
        before_commit()
        transactions = {folded_application(member_id): last.value}
        return CommitChange("OPTIMIZE", removed=list(base.files.values()), added=files, transactions=transactions)


def _is_pending(snapshot: RecordedSnapshot, at: CommitLsn) -> bool:
    return snapshot.covered is None or snapshot.covered > at


def _is_merge_due(as_of: AsOf[ChangeTable]) -> bool:
    files = as_of.base.snapshot.files.values()
    rows = {file.path: file.statistics.get("numRecords") or 0 for file in files}
    (lsn,) = as_of.base.snapshot.columns.select([LSN]).fields
    lowest = sum(rows[file.path] for file in files if _greatest(file, lsn.physical_name) == as_of.lowest.value)
    # The table grows by a quarter between two rewrites, so each row is rewritten a bounded number of times.
    return 4 * (sum(rows.values()) - lowest) > lowest


def _greatest(file: AddFile, column: str) -> object:
    return (file.statistics.get("maxValues") or {}).get(column)


def _net_rows(instance: Instance, part: TablePart, completions: Completions | None) -> Iterator[pa.RecordBatch]:
    """Yield the last truncate, then the last row of each key, completed; as rows of the change table."""
    rows = StandingRows.of(part, completions=completions)
    schema = part.table.schema()
    if rows.truncate is not None:
        yield _truncate_row(schema, *rows.truncate)
    last = LastRows(instance, rows, [*ORDER, *(name for name in schema.names if name not in ORDER)])
    with open_engine() as engine:
        groups = KeyGroups.of(engine, last.numbered(), last.key_names, last.fillable)
        for completed in last.read(groups.read()) if groups is not None else ():
            yield _as_rolled(completed, schema)


def _counted_rows(part: TablePart, counted: Counted) -> Iterator[pa.RecordBatch]:
    """Yield the last truncate, then the rows after it, of those that count."""
    rows = CountedRows(None, part, counted).behind_truncate()
    schema = part.table.schema()
    if rows.truncate is not None:
        yield _truncate_row(schema, *rows.truncate)
    for batch in rows.stream([*ORDER, *(name for name in schema.names if name not in ORDER)]):
        yield batch.select(schema.names)


def _truncate_row(schema: pa.Schema, lsn: int, seqval: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{LSN: lsn, SEQVAL: seqval, OPERATION: TRUNCATE}], schema=schema)


def _as_rolled(completed: Completed, schema: pa.Schema) -> pa.RecordBatch:
    """Return last rows as they are added to a base: an insert says that no earlier row has a value that it lacks."""
    group = completed.group
    operations = np.where(group.last_operation == DELETE, DELETE, np.where(group.has_insert, INSERT, UPDATE_AFTER))
    count = len(operations)
    values = {
        **completed.values,
        OPERATION: pa.array(operations.astype(np.int32)),
        "__$update_mask": pa.nulls(count, pa.binary()),
    }
    columns = [values.get(name, completed.last.column(name)) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _as_layer(rows: pa.RecordBatch, lsn: CommitLsn, columns: Struct) -> pa.RecordBatch:
    """Return rows of a table as rows of a base's lowest layer."""
    count = rows.num_rows
    values = {
        LSN: pa.array(np.full(count, lsn.value)),
        SEQVAL: pa.array(np.full(count, FOLDED_SEQVAL)),
        OPERATION: pa.array(np.full(count, INSERT, np.int32)),
    }
    schema, there = columns.schema, set(rows.schema.names)
    arrays = [
        values[field.name]
        if field.name in values
        else rows.column(field.name)
        if field.name in there
        else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _write_files(
    location: Location, columns: Struct, metadata: Metadata, rows: Iterable[pa.RecordBatch]
) -> list[AddFile]:
    """Write rows to data files of some size."""
    files = []
    batches = (batch for batch in rows if batch.num_rows)
    while (first := next(batches, None)) is not None:
        name = f"base-{uuid.uuid4().hex}.parquet"
        files.append(write_stream(location, columns, metadata, _up_to_size(first, batches), name))
    return files


def _up_to_size(first: pa.RecordBatch, more: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    size = first.nbytes
    yield first
    while size < _FILE_BYTES and (batch := next(more, None)) is not None:
        size += batch.nbytes
        yield batch

"""Delete the rows below a bound, and the data files that no version within the table's retention has."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from rowtide.core.failpoints import failpoint
from rowtide.core.values import frozen
from rowtide.delta.actions import AddFile
from rowtide.delta.checkpoints import removed_for
from rowtide.delta.errors import TableUnreadable
from rowtide.delta.snapshot import Location, Snapshot, open_snapshot
from rowtide.delta.writing.appends import write_stream
from rowtide.delta.writing.changes import CommitChange, commit_change
from rowtide.storage.store import Sweepable, delete_all

_kernels: Any = pc


@frozen
class Below:
    """Rows in which an integer column is below a bound.

    A row in which it is null is one of them if it meets `if_null`, None: if never.
    """

    column: str
    bound: int
    if_null: Below | None = None

    @property
    def columns(self) -> list[str]:
        """The columns that decide."""
        return [self.column, *(self.if_null.columns if self.if_null is not None else ())]

    def selects(self, rows: pa.RecordBatch) -> Any:
        """Return which rows are meant, of rows that have the columns."""
        values = rows[self.column]
        is_below = _kernels.less(values, self.bound).fill_null(fill_value=False)
        if self.if_null is None:
            return is_below
        return _kernels.or_(is_below, _kernels.and_(values.is_null(), self.if_null.selects(rows)))

    def has_all(self, file: AddFile, names: dict[str, str]) -> bool:
        """Return whether a file's statistics say that all its rows are meant; `names`: the columns', in files."""
        rows, nulls, _, most = _known(file, names[self.column])
        if rows is None or nulls is None:
            return False
        are_nulls_meant = nulls == 0 or (self.if_null is not None and self.if_null.has_all(file, names))
        return are_nulls_meant and (nulls == rows or (most is not None and most < self.bound))

    def may_have_some(self, file: AddFile, names: dict[str, str]) -> bool:
        """Return whether a file may have such rows: its statistics do not say that it has none."""
        rows, nulls, least, _ = _known(file, names[self.column])
        may_be_below = (rows is None or nulls != rows) and (least is None or least < self.bound)
        return may_be_below or (nulls != 0 and self.if_null is not None and self.if_null.may_have_some(file, names))


def delete_below(location: Location, rows: Below, *, before_commit: Callable[[], None] = lambda: None) -> int:
    """Delete rows in one commit; return how many. Rows that are added meanwhile stay. Raises as `commit_change`."""
    deleted = 0

    def plan(snapshot: Snapshot) -> CommitChange | None:
        nonlocal deleted
        losses = list(_find_losses(snapshot, rows))
        deleted = sum(loss.rows for loss in losses)
        if not losses:
            return None
        added = [_write_rest(snapshot, loss.file, rows) for loss in losses if not loss.is_whole]
        before_commit()
        return CommitChange("DELETE", removed=[loss.file for loss in losses], added=added)

    commit_change(location, plan)
    return deleted


@frozen
class _Loss:
    """A file, and how many rows it loses: all of them, or some."""

    file: AddFile
    rows: int
    is_whole: bool


def _find_losses(snapshot: Snapshot, rows: Below) -> Iterator[_Loss]:
    names = {field.name: field.physical_name for field in snapshot.columns.select(rows.columns).fields}
    for file in snapshot.files.values():
        if rows.has_all(file, names):
            yield _Loss(file, file.statistics["numRecords"], is_whole=True)
        elif rows.may_have_some(file, names):
            loss = _count(snapshot, file, rows)
            if loss.rows or loss.is_whole:
                yield loss


def _count(snapshot: Snapshot, file: AddFile, rows: Below) -> _Loss:
    has, loses = 0, 0
    for batch in snapshot.stream_files([file], rows.columns):
        has += batch.num_rows
        loses += rows.selects(batch).true_count
    return _Loss(file, loses, is_whole=has == loses)


def _write_rest(snapshot: Snapshot, file: AddFile, rows: Below) -> AddFile:
    kept = _without(snapshot.stream_files([file]), rows)
    name = f"rest-{uuid.uuid4().hex}.parquet"
    written = write_stream(snapshot.location, snapshot.columns, snapshot.metadata, kept, name)
    return replace(written, tags=file.tags)


def _without(batches: Iterable[pa.RecordBatch], rows: Below) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(_kernels.invert(rows.selects(batch)))


def _known(file: AddFile, column: str) -> tuple[int | None, int | None, int | None, int | None]:
    """Return what statistics have of rows, and of a column's nulls, least and greatest value; None: unknown.

    Those that are not tight may be of rows that no longer exist: the bounds hold, the counts do not.
    """
    found = file.statistics
    least, most, nulls = ((found.get(kind) or {}).get(column) for kind in ("minValues", "maxValues", "nullCount"))
    rows = found.get("numRecords")
    if found.get("tightBounds", True) is not True:
        rows = nulls = None
    rows, nulls, least, most = (value if isinstance(value, int) else None for value in (rows, nulls, least, most))
    return rows, nulls, least, most


def vacuum(location: Location, files: Sweepable, now: datetime | None = None) -> int:
    """Delete files older than the table's retention of removed files; return how many. No effect without a table.

    Files whose path has a part that begins with `_` or `.`, as the log's, are none of it. Raises `LakeReadFailed`,
    `LakeWriteFailed`, `TableUnreadable`.
    """
    now = now or datetime.now(UTC)
    first = open_snapshot(location)
    if first is None:
        return 0
    before = now - removed_for(first.properties)
    old = location.store.list("", before=before)
    # The newest version, read after the files: what was committed meanwhile is in it.
    snapshot = open_snapshot(location)
    assert snapshot is not None
    oldest = int(before.timestamp() * 1000)
    removed = (gone.path for gone in snapshot.state.removed.values() if gone.deleted_at >= oldest)
    needed = {unquote(path) for path in (*snapshot.files, *removed)}
    if any("://" in path or path.startswith(("/", "file:")) for path in needed):
        raise TableUnreadable(location.path, "data files outside its folder")
    unneeded = [path for path in old if path not in needed and not _is_hidden(path)]
    failpoint("delta_vacuum.before")
    delete_all(location.store, unneeded)
    failpoint("delta_vacuum.after")
    files.sweep(before)
    return len(unneeded)


def _is_hidden(path: str) -> bool:
    return any(part.startswith(("_", ".")) for part in path.split("/"))

"""Changes of a table other than appends, which are planned again if another commit comes first; and deletion below a
bound.

Appends that come in between stay, whatever the change; a change that has to see all files is planned again after them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from rowtide.core.failpoints import failpoint
from rowtide.core.values import frozen
from rowtide.delta.checkpoints import maintain_log, removed_for
from rowtide.delta.errors import TableUnreadable, TableUnwritable
from rowtide.delta.features import COLUMN_MAPPING, with_features
from rowtide.delta.replay import AddFile, Metadata, Protocol, RemoveFile, commit_info
from rowtide.delta.snapshot import Location, Snapshot, open_snapshot
from rowtide.delta.writing.appends import write_stream
from rowtide.delta.writing.commit_race import Action, CommitEntry, CommitLost, Last, Passed, load_writable, put_commit
from rowtide.storage.freshness import read_clock
from rowtide.storage.store import Sweepable, delete_all

_APPEND_ONLY = "delta.appendOnly"


@frozen(slots=False)
class CommitChange:
    """The content of a commit. If `protocol` or `metadata` is None, it does not change."""

    operation: str
    """Delta's name of it, for the table's history."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    removed: Collection[AddFile] = ()
    added: Collection[AddFile] = ()
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: Mapping[str, int] = field(default_factory=dict)
    """Versions of applications that the commit records."""
    changes_rows: bool = True
    """Whether the rows change, not only their files."""
    sees_all_files: bool = False
    """Whether the change has to be planned again if a file is added meanwhile."""

    def actions(self) -> list[Action]:
        """Return the commit's actions, without `commitInfo`."""
        changed: list[Action] = []
        if self.protocol is not None:
            changed.append(("protocol", self.protocol.values()))
        if self.metadata is not None:
            changed.append(("metaData", self.metadata.found))
        transactions = [("txn", {"appId": name, "version": version}) for name, version in self.transactions.items()]
        gone = [("remove", RemoveFile.of(file).values(changes_data=self.changes_rows)) for file in self.removed]
        added = [("add", file.values(changes_data=self.changes_rows)) for file in self.added]
        return [*changed, *transactions, *gone, *added]


def commit_change(location: Location, plan: Callable[[Snapshot], CommitChange | None]) -> bool:
    """Commit the change that `plan` returns for the current version; return False if it returns none.

    `plan` writes the files that it adds. It is called again with the newer version if another commit in between changes
    columns or properties, removes files of the change or has one of its transactions. Raises what `plan` raises,
    `TableUnwritable`, and `LakeReadFailed`, `LakeWriteFailed` if the storage failed, after which the change may have
    been made.
    """
    while True:
        begun = read_clock()
        snapshot = load_writable(location)
        change = plan(snapshot)
        if change is None:
            return False
        change = _name_mapping(snapshot, change)
        # The property binds all writers: readers of an append-only table rely on no row being removed.
        _require_removable(snapshot, change)
        try:
            number = _put(location, Last(snapshot.version, begun), change)
        except CommitLost:
            # The other commit may have removed files on which this change is based: it is planned again for the current
            # table.
            continue
        maintain_log(location, number, (change.metadata or snapshot.metadata).properties)
        return True


def _put(location: Location, last: Last, change: CommitChange) -> int:
    removed = frozenset(file.path for file in change.removed)

    def pass_by(passed: Passed) -> None:
        # The same conflicts as for Delta's own writers: changed metadata, files that both remove, files that had to be
        # seen, and the same transaction identifier. Everything else commutes.
        is_unseen = change.sees_all_files and passed.adds_files
        has_stamp = not change.transactions.keys().isdisjoint(passed.cycles)
        if passed.changes_table or is_unseen or has_stamp or not removed.isdisjoint(passed.removed):
            raise CommitLost

    entry = CommitEntry.of(commit_info(change.operation, change.parameters, is_append=False), change.actions())
    is_counted = partial(_is_counted, location, change)
    return put_commit(location, last, entry, pass_by=pass_by, is_counted=is_counted).version


def _is_counted(location: Location, change: CommitChange) -> bool:
    """Return whether the table as readers see it has the change."""
    now = load_writable(location)
    # A file that the change added may have been removed again since.
    known: Mapping[str, Any] = {**now.state.files, **now.state.removed}
    return (
        all(file.path not in now.files for file in change.removed)
        and all(file.path in known for file in change.added)
        and (change.metadata is None or _says(change.metadata) == _says(now.metadata))
    )


def _says(metadata: Metadata) -> tuple[str, Mapping[str, str]]:
    """Return the values that the change sets; the others come from the checkpoint."""
    return metadata.schema_text, metadata.properties


def _name_mapping(snapshot: Snapshot, change: CommitChange) -> CommitChange:
    """Add the feature of column mapping to a change, which a table that another program mapped may lack: see
    `with_features`.
    """
    if change.protocol is not None or not snapshot.metadata.is_mapped:
        return change
    protocol = with_features(snapshot.protocol, {COLUMN_MAPPING})
    return replace(change, protocol=protocol) if protocol != snapshot.protocol else change


def _require_removable(snapshot: Snapshot, change: CommitChange) -> None:
    is_kept = snapshot.properties.get(_APPEND_ONLY, "false").lower() == "true"
    if is_kept and change.changes_rows and any(change.removed):
        raise TableUnwritable(snapshot.location.path, f"a property that only lets rows be added ({_APPEND_ONLY})")


_kernels: Any = pc


@frozen
class Below:
    """Rows in which an integer column is below a bound.

    A row in which it is null is included if it meets `if_null`; never if that is None.
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
        """Return whether a file may have such rows, that is, unless its statistics exclude them."""
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
    # Tags say which cycle added the rows. The remaining rows keep those of their file.
    return replace(written, tags=file.tags)


def _without(batches: Iterable[pa.RecordBatch], rows: Below) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(_kernels.invert(rows.selects(batch)))


def _known(file: AddFile, column: str) -> tuple[int | None, int | None, int | None, int | None]:
    """Return a file's number of rows, and a column's nulls, least and greatest value, from statistics; None: unknown.

    Statistics that are not tight may include rows that no longer exist: their bounds hold, their counts do not.
    """
    found = file.statistics
    least, most, nulls = ((found.get(kind) or {}).get(column) for kind in ("minValues", "maxValues", "nullCount"))
    rows = found.get("numRecords")
    # With deletion vectors, other writers keep the bounds of rows that are gone.
    if found.get("tightBounds", True) is not True:
        rows = nulls = None
    rows, nulls, least, most = (value if isinstance(value, int) else None for value in (rows, nulls, least, most))
    return rows, nulls, least, most


def vacuum(location: Location, files: Sweepable, now: datetime | None = None) -> int:
    """Delete files older than the table's retention of removed files; return how many. No effect without a table.

    Files with a path component that begins with `_` or `.`, such as those of the log, are spared. Raises
    `LakeReadFailed`, `LakeWriteFailed`, `TableUnreadable`.
    """
    now = now or datetime.now(UTC)
    # Only for its retention: which files are needed is read again after the list of files.
    first = open_snapshot(location)
    if first is None:
        return 0
    before = now - removed_for(first.properties)
    # Only files older than the retention are candidates, because a commit may be about to name a young one.
    old = location.store.list("", before=before)
    # The newest version, read after the list of files, so that it has what was committed meanwhile.
    snapshot = open_snapshot(location)
    assert snapshot is not None
    oldest = int(before.timestamp() * 1000)
    removed = (gone.path for gone in snapshot.state.removed.values() if gone.deleted_at >= oldest)
    needed = {unquote(path) for path in (*snapshot.files, *removed)}
    # A shallow clone names files by absolute paths, possibly in this folder, so names cannot be compared.
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

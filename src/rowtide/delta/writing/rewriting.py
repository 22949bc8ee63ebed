"""Rewriting of data files: to merge them, to give them the table's present types, or to edit some of their rows."""

from __future__ import annotations

import json
import os
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.core.values import frozen
from rowtide.delta.errors import EditOutdated, PartitionUnfit
from rowtide.delta.features import TYPE_WIDENING, WIDENINGS, without_features
from rowtide.delta.replay import AddFile
from rowtide.delta.schema import TextUnfit, split_rows
from rowtide.delta.snapshot import Location, Snapshot
from rowtide.delta.writing.alteration import TYPE_CHANGES, without_widening
from rowtide.delta.writing.appends import write_partition, write_stream
from rowtide.delta.writing.changes import CommitChange, commit_change
from rowtide.delta.writing.commit_race import load_writable

SMALL_BYTES = 8 * 1024 * 1024
"""A file of this size is not written again and again."""
MERGED_BYTES = 128 * 1024 * 1024
_READ_AT_ONCE = 16
_MOST_READ_BYTES = SMALL_BYTES
"""The limit of files that are read concurrently; a larger file is read alone."""

_File = TypeVar("_File")

Choose = Callable[[Sequence[AddFile]], Sequence[AddFile]]
"""Returns those files of a group of small files that are worth merging."""


def choose_all(files: Sequence[AddFile]) -> Sequence[AddFile]:
    """Choose every file."""
    return files


def compact(
    location: Location,
    ordered_by: str,
    *,
    choose: Choose = choose_all,
    before_commit: Callable[[], None] = lambda: None,
) -> int:
    """Merge a table's small files that are neighbours in the order of an integer column; return how many.

    Each new file is committed separately, so that a failure does not undo earlier merges. Files are read and written in
    batches. `before_commit` is called before each commit. Raises as `commit_change`.
    """
    merged = 0

    def plan(snapshot: Snapshot) -> CommitChange | None:
        nonlocal merged
        group = next(iter(find_groups(snapshot, ordered_by, choose)), None)
        if group is None:
            return None
        name = f"compacted-{uuid.uuid4().hex}.parquet"
        added = write_stream(location, snapshot.columns, snapshot.metadata, _stream(snapshot, group), name)
        before_commit()
        merged = len(group)
        # `dataChange` is false, so that streaming readers ignore the commit instead of reading the rows again.
        return CommitChange("OPTIMIZE", removed=group, added=[added], changes_rows=False)

    total = 0
    # The last group may still be small: it is merged with later files, another time.
    for _ in find_groups(load_writable(location), ordered_by, choose):
        if not commit_change(location, plan):
            break
        total += merged
    return total


def find_groups(snapshot: Snapshot, ordered_by: str, choose: Choose = choose_all) -> list[Sequence[AddFile]]:
    """Return the small files that are merged with each other, in the order of a column's least values."""
    [column] = snapshot.columns.select([ordered_by]).fields

    def place(file: AddFile) -> tuple[int, str]:
        least = (file.statistics.get("minValues") or {}).get(column.physical_name)
        return (least if isinstance(least, int) else 0), file.path

    small = sorted((file for file in snapshot.files.values() if file.size < SMALL_BYTES), key=place)
    return [chosen for chosen in map(choose, fill_groups(small, lambda file: file.size)) if len(chosen) > 1]


def fill_groups(files: Iterable[_File], size_of: Callable[[_File], int]) -> list[list[_File]]:
    """Return small files in groups, in their order, each up to the size of a file. Pure."""
    groups: list[list[_File]] = []
    room = 0
    for file in files:
        if size_of(file) > room:
            groups.append([])
            room = MERGED_BYTES
        groups[-1].append(file)
        room -= size_of(file)
    return groups


def _stream(snapshot: Snapshot, files: Sequence[AddFile]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files, one after the other; several are read at once while they are small together."""
    snapshot.require_readable()
    waiting = deque(files)
    reading: deque[tuple[int, Future[list[pa.RecordBatch]]]] = deque()
    with ThreadPoolExecutor(_READ_AT_ONCE, "rowtide-compact") as pool:
        while waiting or reading:
            while waiting and _has_room([size for size, _ in reading], waiting[0].size):
                file = waiting.popleft()
                reading.append((file.size, pool.submit(_read, snapshot, file)))
            yield from reading.popleft()[1].result()


def _read(snapshot: Snapshot, file: AddFile) -> list[pa.RecordBatch]:
    return list(snapshot.stream_file(file))


def _has_room(sizes: Sequence[int], size: int) -> bool:
    return not sizes or (len(sizes) < _READ_AT_ONCE and sum(sizes) + size <= _MOST_READ_BYTES)


# Removal of type widening from a table: files with narrower types are rewritten, then the feature is dropped. Each
# commit replaces a few files, so that a killed run resumes where it stopped. Rows do not change, and files that are
# added meanwhile have the table's types already.

_LOOKED_INTO_AT_ONCE = 16


@frozen
class Mended:
    """The work of mending a table: the files that are rewritten, and their bytes before and after.

    `written_bytes` is None in a plan.
    """

    was_marked: bool
    files: int = 0
    read_bytes: int = 0
    written_bytes: int | None = None


def is_marked(snapshot: Snapshot) -> bool:
    """Return whether a table's readers have to support type widening."""
    return not WIDENINGS.isdisjoint(snapshot.protocol.reader_features)


def plan_mending(snapshot: Snapshot) -> Mended:
    """Return what `mend` would do with a version; reads the footers of its files. Raises `LakeReadFailed`."""
    narrow = _Looked().find_narrow(snapshot) if is_marked(snapshot) else []
    return Mended(is_marked(snapshot), len(narrow), sum(file.size for file in narrow))


def mend(
    location: Location,
    *,
    before_commit: Callable[[], None] = lambda: None,
    on_progress: Callable[[Mended], None] = lambda _mended: None,
) -> Mended:
    """Rewrite files with narrower types, and remove type widening from the table; idempotent.

    `before_commit` is called in front of each commit, and may raise. Raises as `commit_change`.
    """
    looked = _Looked()
    done = Mended(is_marked(load_writable(location)), written_bytes=0)
    step = done

    def plan(snapshot: Snapshot) -> CommitChange | None:
        nonlocal step
        step = done
        if not is_marked(snapshot):
            return None
        snapshot.require_readable()
        groups = fill_groups(looked.find_narrow(snapshot), lambda file: file.size)
        if not groups:
            before_commit()
            return _unmark(snapshot)
        added = [_write_again(snapshot, file) for file in groups[0]]
        looked.wide.update(file.path for file in added)
        step = _sum_up(done, groups[0], added)
        before_commit()
        return CommitChange("REORG", removed=groups[0], added=added, changes_rows=False)

    while commit_change(location, plan):
        done = step
        on_progress(done)
    return done


class _Looked:
    """The files whose footers were read, and which have no narrower types than the present columns."""

    def __init__(self) -> None:
        self.wide: set[str] = set()
        self._schema = ""

    def find_narrow(self, snapshot: Snapshot) -> list[AddFile]:
        """Return the files with narrower types, by path."""
        if snapshot.metadata.schema_text != self._schema:
            self.wide.clear()
            self._schema = snapshot.metadata.schema_text
        widened = [
            field["name"]
            for field in json.loads(snapshot.metadata.schema_text)["fields"]
            if f'"{TYPE_CHANGES}"' in json.dumps(field)
        ]
        files = sorted(set(snapshot.files) - self.wide) if widened else []
        with ThreadPoolExecutor(_LOOKED_INTO_AT_ONCE, "rowtide-mend") as pool:
            are_narrow = list(pool.map(lambda path: snapshot.has_other_types(snapshot.files[path], widened), files))
        found = [path for path, is_narrow in zip(files, are_narrow, strict=True) if is_narrow]
        self.wide.update(set(files).difference(found))
        return [snapshot.files[path] for path in found]


def _write_again(snapshot: Snapshot, file: AddFile) -> AddFile:
    rows, name = snapshot.stream_files([file]), f"mended-{uuid.uuid4().hex}.parquet"
    written = write_partition(snapshot, file.partition_values, rows, name)
    return replace(written, tags=file.tags)


def _unmark(snapshot: Snapshot) -> CommitChange:
    return CommitChange(
        "DROP FEATURE",
        {"featureName": TYPE_WIDENING},
        protocol=without_features(snapshot.protocol, WIDENINGS),
        metadata=without_widening(snapshot.metadata),
        changes_rows=False,
    )


def _sum_up(done: Mended, removed: Sequence[AddFile], added: Sequence[AddFile]) -> Mended:
    return replace(
        done,
        files=done.files + len(added),
        read_bytes=done.read_bytes + sum(file.size for file in removed),
        written_bytes=(done.written_bytes or 0) + sum(file.size for file in added),
    )


# Editing of rows in one commit: files that have some of them are rewritten, and rows are added. The commit carries a
# transaction identifier with a version: a table that has this version already is not edited again, and neither is one
# with another version than the edit was planned for. It is committed even if no row changed, to exclude a writer that
# comes too late.

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
    planned for."""

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

"""Rewrite data files with the same rows: merge small files, or give them the table's types and drop type widening."""

from __future__ import annotations

import json
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from rowtide.core.values import frozen
from rowtide.delta.features import TYPE_WIDENING, WIDENINGS, without_features
from rowtide.delta.replay import AddFile
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
"""Of files that are read at once; a larger one is read alone."""

_File = TypeVar("_File")

Choose = Callable[[Sequence[AddFile]], Sequence[AddFile]]
"""Returns those of a group of small files that are worth to be merged."""


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
    """Merge a table's small files, as they follow each other in the order of an integer column; return how many.

    A commit for each file that is made: what fails then does not undo what was done. Files are read and written in
    batches. `before_commit` is called in front of each. Raises as `commit_change`.
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
        # `dataChange` false: streams of other readers pass the commit over instead of reading the rows again.
        return CommitChange("OPTIMIZE", removed=group, added=[added], changes_rows=False)

    total = 0
    # The last group may still be small: it is merged with the next ones, at another time.
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


# Take type widening out of a table: files with narrower types are written again, then the feature goes. Each commit
# is of some files, so that what is killed resumes where it was; rows and readers stay the same. What is added
# meanwhile has the table's types already.

_LOOKED_INTO_AT_ONCE = 16


@frozen
class Mended:
    """What mending a table does: the files that are written again, and their bytes before and after.

    `written_bytes` is None of a plan.
    """

    was_marked: bool
    files: int = 0
    read_bytes: int = 0
    written_bytes: int | None = None


def is_marked(snapshot: Snapshot) -> bool:
    """Return whether a table's readers have to know type widening."""
    return not WIDENINGS.isdisjoint(snapshot.protocol.reader_features)


def plan_mending(snapshot: Snapshot) -> Mended:
    """Return what `mend` would do with a version; the ends of its files are read. Raises `LakeReadFailed`."""
    narrow = _Looked().find_narrow(snapshot) if is_marked(snapshot) else []
    return Mended(is_marked(snapshot), len(narrow), sum(file.size for file in narrow))


def mend(
    location: Location,
    *,
    before_commit: Callable[[], None] = lambda: None,
    on_progress: Callable[[Mended], None] = lambda _mended: None,
) -> Mended:
    """Write files with narrower types again, and take type widening out of the table; idempotent.

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
    """The files that were looked into: none of these has narrower types than the columns now."""

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

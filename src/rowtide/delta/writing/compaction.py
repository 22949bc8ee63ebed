"""Compaction of a table: its small data files are merged, as neighbours in the order of an integer column."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa

from rowtide.delta.replay import AddFile
from rowtide.delta.snapshot import Location, Snapshot
from rowtide.delta.writing.appends import write_stream
from rowtide.delta.writing.changes import CommitChange, commit_change
from rowtide.delta.writing.commit_race import load_writable

SMALL_BYTES = 8 * 1024 * 1024
"""A file of this size is not rewritten by each compaction."""
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

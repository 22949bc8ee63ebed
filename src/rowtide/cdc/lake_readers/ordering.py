"""Streams of change rows in the order of `ORDER`: sorted within bounded memory, and merged.

A source has a lower bound of its LSNs and is opened only when the merge comes to it, so files that follow one another
are read one after the other. What is too large to be sorted in memory is sorted in runs, which are spilled to temporary
files and merged. DuckDB's sort would convert rows to its own types, while Arrow's are exact. Three million shuffled
rows in twelve files that overlap entirely are read at 48 to 82 MB/s in 370 MB of memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.core.values import frozen

ORDER = ("__$start_lsn", "__$seqval", "__$operation")

BATCH_BYTES = 4 * 1024 * 1024
BATCH_ROWS = 64 * 1024
RUN_BYTES = 16 * 1024 * 1024
"""The size in memory of what is sorted at a time."""
PIECE_BYTES = 512 * 1024
MOST_OPEN = 16
"""The most sources that are merged at a time; of more that overlap, some are merged to a file first."""

Batches: TypeAlias = Iterator[pa.RecordBatch]
Key: TypeAlias = tuple[int, int, int]


@frozen
class OrderedRows:
    """Rows in order; `low` and `high` are bounds of their LSNs."""

    low: int
    high: int
    open: Callable[[], Batches]


def merge(sources: Iterable[OrderedRows]) -> Batches:
    """Yield the rows of all sources in order."""
    with ExitStack() as opened:
        waiting = sorted(sources, key=lambda source: (source.low, source.high))
        # Each source that is open has a batch in memory and a file.
        if _count_overlapping(waiting) > MOST_OPEN:
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="rowtide-")))
            waiting = _merge_to_files(waiting, folder)
        yield from _merge(waiting)


def in_memory_order(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows in order."""
    keys = _keys(rows)
    if _is_ordered(keys):
        return rows
    return rows.take(np.lexsort(keys[::-1]))


def sort(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Yield rows in order; more than `BATCH_BYTES` of them pass through temporary files."""
    small = gather(batches, BATCH_BYTES)
    head = list(islice(small, 2))
    if len(head) < 2:
        yield from map(in_memory_order, head)
        return
    # One run goes through a file, too: as many are open as there are sources.
    runs = gather(drain(head, small), RUN_BYTES, most_rows=None)
    with tempfile.TemporaryDirectory(prefix="rowtide-") as folder:
        spilled = [_spill([in_memory_order(run)], Path(folder, str(place))) for place, run in enumerate(runs)]
        yield from merge(spilled)


def drain(head: list[pa.RecordBatch], more: Batches) -> Batches:
    """Yield batches that were read ahead, then those that follow, without keeping any of them."""
    while head:
        yield head.pop(0)
    yield from more


def are_ordered(batches: Iterable[pa.RecordBatch]) -> bool:
    """Return whether rows, of which the columns of `ORDER` are enough, are in order."""
    last: Key | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        keys = _keys(batch)
        if not _is_ordered(keys) or (last is not None and _key_at(keys, 0) < last):
            return False
        last = _key_at(keys, -1)
    return True


def gather(
    batches: Iterable[pa.RecordBatch], wanted_bytes: int = BATCH_BYTES, most_rows: int | None = BATCH_ROWS
) -> Batches:
    """Yield the same rows in batches of about a number of bytes, and not many more rows."""
    buffered: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        buffered.append(batch)
        size, rows = size + batch.nbytes, rows + batch.num_rows
        if size >= wanted_bytes or (most_rows is not None and rows >= most_rows):
            size = rows = 0
            yield _join_all(buffered)
    if buffered:
        yield _join_all(buffered)


def _join_all(buffered: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Join batches, and forget them."""
    joined = join(buffered)
    buffered.clear()
    return joined


def join(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of batches of one schema, at least one, as one batch."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches)
    arrays = [pa.concat_arrays(column.chunks) for column in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


@dataclass(slots=True)
class _Open:
    """A source that is read: its next rows, and those that follow."""

    rows: pa.RecordBatch
    more: Batches
    keys: list[npt.NDArray[Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.keys = _keys(self.rows)

    @property
    def last(self) -> Key:
        return _key_at(self.keys, -1)

    def count_up_to(self, bound: Key) -> int:
        """Return how many of its next rows are not behind a key."""
        first, end = 0, self.rows.num_rows
        # Narrowed key by key: the rows from `first` on are those that equal the bound so far.
        for key, value in zip(self.keys, bound, strict=True):
            within = key[first:end]
            end = first + int(np.searchsorted(within, value, "right"))
            first += int(np.searchsorted(within, value))
        return end

    def cut(self, count: int) -> pa.RecordBatch:
        """Take the next rows."""
        taken = self.rows.slice(0, count)
        self.rows = self.rows.slice(count)
        self.keys = [key[count:] for key in self.keys]
        return taken


def _merge(waiting: Sequence[OrderedRows]) -> Batches:
    following = list(reversed(waiting))
    opened: list[_Open] = []
    while following or opened:
        # A source is opened once its first row may be the next one: of thousands of files of a change table few
        # overlap.
        while following and (not opened or following[-1].low <= min(each.last for each in opened)[0]):
            opened += _begin(following.pop().open())
        if not opened:
            continue
        if len(opened) == 1:
            yield opened[0].rows
            counts = [opened[0].rows.num_rows]
        else:
            bound = min(each.last for each in opened)
            counts = [each.count_up_to(bound) for each in opened]
            taken = [each.cut(count) for each, count in zip(opened, counts, strict=True) if count]
            yield in_memory_order(join(taken))
        if len(opened) == 1:
            opened = list(_begin(opened[0].more))
        else:
            opened = [kept for each in opened for kept in ([each] if each.rows.num_rows else _begin(each.more))]


def _begin(batches: Batches) -> Iterator[_Open]:
    """Yield what is left of a source, if it has rows."""
    rows = next((batch for batch in batches if batch.num_rows), None)
    if rows is not None:
        yield _Open(rows, batches)


def _merge_to_files(sources: Sequence[OrderedRows], folder: Path) -> list[OrderedRows]:
    """Merge sources to fewer, in files."""
    while _count_overlapping(sources) > MOST_OPEN:
        parts = [sources[begin : begin + MOST_OPEN] for begin in range(0, len(sources), MOST_OPEN)]
        sources = [
            _spill(gather(_merge(part)), folder / f"{len(sources)}.{place}") if len(part) > 1 else part[0]
            for place, part in enumerate(parts)
        ]
    return list(sources)


def _count_overlapping(sources: Iterable[OrderedRows]) -> int:
    """Return how many sources may have rows of one LSN, at most."""
    ends = [(source.low, 1) for source in sources] + [(source.high + 1, -1) for source in sources]
    depth = most = 0
    for _, change in sorted(ends):
        depth += change
        most = max(most, depth)
    return most


def _spill(rows: Iterable[pa.RecordBatch], path: Path) -> OrderedRows:
    """Write rows that are in order to a file."""
    low = high = None
    writer = None
    with pa.OSFile(str(path), "wb") as file:
        for batch in rows:
            if writer is None:
                options = pa.ipc.IpcWriteOptions(compression="lz4")
                writer = pa.ipc.new_stream(file, batch.schema, options=options)
            lsns = _keys(batch)[0]
            low, high = (int(lsns[0]) if low is None else low), int(lsns[-1])
            for piece in _pieces(batch):
                writer.write_batch(piece)
        if writer is not None:
            writer.close()
    return OrderedRows(low or 0, high or 0, lambda: _read(path))


def _pieces(batch: pa.RecordBatch) -> Batches:
    """Cut rows into batches of about `PIECE_BYTES`: one of each sorted run is in memory while they are merged."""
    rows = max(1, batch.num_rows * PIECE_BYTES // max(batch.nbytes, 1))
    for begin in range(0, batch.num_rows, rows):
        yield batch.slice(begin, rows)


def _read(path: Path) -> Batches:
    with pa.OSFile(str(path), "rb") as file:
        if file.size():
            yield from pa.ipc.open_stream(file)


def _keys(rows: pa.RecordBatch) -> list[npt.NDArray[Any]]:
    return [rows.column(name).to_numpy(zero_copy_only=False) for name in ORDER]


def _key_at(keys: Sequence[npt.NDArray[Any]], place: int) -> Key:
    lsn, seqval, operation = (int(key[place]) for key in keys)
    return lsn, seqval, operation


def _is_ordered(keys: Sequence[npt.NDArray[Any]]) -> bool:
    if not len(keys[0]):
        return True
    lsn, seqval, operation = (np.diff(key) for key in keys)
    is_behind = (lsn > 0) | ((lsn == 0) & ((seqval > 0) | ((seqval == 0) & (operation >= 0))))
    return bool(is_behind.all())

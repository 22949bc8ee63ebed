"""Segments: log records as immutable Parquet files; small ones are merged, and what no reader needs is deleted.

A file's rows are ordered by (`table_id`, `commit_lsn`, `seqval`). Each table above some size begins a row group, and
`table_id` and `commit_lsn` have statistics, so that a reader of one table skips the others.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from rowtide.core.failpoints import failpoint
from rowtide.core.formats import StoredFormat, StoreFormat
from rowtide.core.lsn import CommitLsn
from rowtide.core.records import RECORD
from rowtide.log.errors import LogStoreReadFailed, SegmentCorrupt
from rowtide.log.store import entries
from rowtide.storage.store import Missing, Store

SEGMENT = StoreFormat("segment")
_FORMAT = "rowtide.format"

SEGMENTS = "segments/"
PENDING = "pending/"

MAX_ROW_GROUP_ROWS = 128 * 1024
MIN_ROW_GROUP_ROWS = 4096
"""Smaller tables share a row group with their neighbours: each row group costs 0.4 ms and 1.5 kB."""

# Values are text that rarely repeats within a batch and is read once or twice: a dictionary costs more time than
# zstd saves, delta encoding makes the steadily growing numbers smaller and faster than either.
_DELTA = "DELTA_BINARY_PACKED"
_ENCODINGS = dict.fromkeys(("commit_lsn", "commit_time", "xid", "seqval", "operation", "table_id", "image"), _DELTA)


def write_segment(store: Store, records: pa.Table, *, pending: bool = False) -> entries.Segment:
    """Make log records durable under a unique name: at least one record, in the order that the module states.

    `pending`: the records are a part of a transaction that is not complete; the file is not read until an entry names
    it. Raises `LogStoreWriteFailed`.
    """
    lsns = records["commit_lsn"].to_numpy()
    first, last = CommitLsn(int(lsns.min())), CommitLsn(int(lsns.max()))
    table_ids = records["table_id"].to_numpy()
    # The random suffix keeps a former log reader that wakes up from overwriting a file: it leaves an orphan instead.
    path = f"{PENDING if pending else SEGMENTS}{first.value:016x}-{last.value:016x}-{secrets.token_hex(4)}.parquet"
    # Synced before an entry names it, so that no entry points to rows that a power cut can destroy.
    failpoint("segment_sync.before")
    size = store.write_durable(path, partial(_encode, records, table_ids))
    failpoint("segment_sync.after")
    return entries.Segment(
        path=path,
        first=first,
        last=last,
        rows=records.num_rows,
        bytes=size,
        raw_bytes=records.nbytes,
        created_at=datetime.now(UTC),
        tables=tuple(np.unique(table_ids).tolist()),
    )


def read_segment(store: Store, path: str, columns: Sequence[str] = RECORD.names) -> pa.Table:
    """Return a segment's log records, with schema `RECORD`, or some of its columns.

    Raises `SegmentCorrupt`, `LogStoreReadFailed`, also for a file that is gone; `FormatNewer`, `FormatUnnumbered`.
    """
    wanted = pa.schema([RECORD.field(name) for name in columns])
    try:
        with store.open(path) as opened:
            # Checksums are verified, so that a damaged page fails here: no later step could tell a wrong value from a
            # right one, and the server has removed the WAL of the segment.
            file = pq.ParquetFile(opened, page_checksum_verification=True)
            SEGMENT.require_not_newer(store.url(path), _find_format(file))
            return file.read(list(columns)).cast(wanted)
    except Missing as error:
        raise LogStoreReadFailed(store.url(path), os.strerror(errno.ENOENT)) from error
    except (pa.ArrowException, OSError, ValueError) as error:
        # Only errors of the operating system have an errno; pyarrow raises OSError for malformed contents too.
        if isinstance(error, OSError) and error.errno is not None:
            raise LogStoreReadFailed(store.url(path), os.strerror(error.errno)) from error
        raise SegmentCorrupt(path, str(error)) from error


def _encode(records: pa.Table, table_ids: npt.NDArray[np.int32], file: pa.NativeFile) -> None:
    with pq.ParquetWriter(
        file,
        RECORD,
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        column_encoding=_ENCODINGS,
        write_statistics=["table_id", "commit_lsn"],
        write_page_checksum=True,
        store_schema=False,
    ) as writer:
        writer.add_key_value_metadata({_FORMAT: str(SEGMENT.recorded)})
        # Each reader wants a few tables: it skips the row groups of others by the statistics of `table_id`.
        for start, end in _row_groups(table_ids):
            writer.write_table(records.slice(start, end - start), row_group_size=MAX_ROW_GROUP_ROWS)


def _find_format(file: pq.ParquetFile) -> StoredFormat | None:
    """Return the format that a file records. Raises `ValueError`."""
    recorded = (file.metadata.metadata or {}).get(_FORMAT.encode())
    return StoredFormat.parse(recorded.decode()) if recorded is not None else None


def _row_groups(table_ids: npt.NDArray[np.int32]) -> Iterator[tuple[int, int]]:
    """Cut between tables: a large table begins and ends a row group, small ones share."""
    cuts = [0, *(np.flatnonzero(np.diff(table_ids)) + 1).tolist(), len(table_ids)]
    begun = 0
    for start, end in pairwise(cuts):
        if begun < start and (end - start >= MIN_ROW_GROUP_ROWS or start - begun >= MIN_ROW_GROUP_ROWS):
            yield begun, start
            begun = start
    yield begun, cuts[-1]

"""Maintenance of the log store: merge small segments, truncate below the slowest reader, delete unreferenced files.

Only the holder of the log lease runs it. A file is first removed from the state, kept for a grace period in which
readers that planned with it finish, and deleted before the entry that drops it from the list. After a crash at any
point, every file that the state names exists, and no file is left unlisted.

A log store without readers is never truncated. Capture registers a reader for as long as it is enabled; subscriptions
come and go. While there are only subscriptions, or none, a placeholder reader advances with the log, so that only what
a subscription still needs is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import Position
from rowtide.log.store import entries
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.replay import require_lease
from rowtide.log.store.segments import PENDING, SEGMENTS, read_segment, write_segment
from rowtide.log.store.state import ManifestState
from rowtide.storage.store import Store, delete_all

SMALL_SEGMENT_BYTES = 8 * 1024 * 1024
"""Measured in memory: a few bytes on disk may be a row of many megabytes."""
MERGE_AGE = timedelta(seconds=60)
MIN_MERGED_FILES = 8
MAX_MERGED_FILES = 64
MAX_MERGED_BYTES = 64 * 1024 * 1024
MAX_MERGED_ROWS = 1_000_000
MANY_FILES = 64
"""The number of files from which a merge would delay the log reader's next cycle too much."""
# For readers that planned with a file before it was removed from the state.
DELETE_GRACE = timedelta(minutes=10)
_READ_AT_ONCE = 16


def maintain(store: Store, manifest: Manifest, token: int) -> ManifestState:
    """Do one bounded piece of maintenance: truncate, then merge the first run of segments worth it. Raises
    `LeaseLost`.
    """
    now = datetime.now(UTC)
    state = truncate(store, manifest, token, now)
    run = plan_merge(state, now)
    return merge_segments(store, manifest, token, run, now) if run else state


def is_overdue(state: ManifestState) -> bool:
    """Whether earlier log readers have left much maintenance, as those do that end before it is due. Pure."""
    return len(state.segments) + len(state.pending_deletions) >= MANY_FILES


def plan_merge(state: ManifestState, now: datetime) -> tuple[entries.Segment, ...]:
    """Return the first run of neighbouring segments worth merging, empty if there is none.

    Segments that no reader needs are left to `truncate`; parts of large transactions are never merged.
    """
    # Segments that are about to be truncated are not worth a merge.
    needed = state.slowest_reader()
    run: list[entries.Segment] = []
    for segment in state.segments:
        if not _is_mergeable(segment, needed, now) or not _fits(run, segment):
            if len(run) >= MIN_MERGED_FILES:
                break
            run = []
        if _is_mergeable(segment, needed, now):
            run.append(segment)
    return tuple(run) if len(run) >= MIN_MERGED_FILES else ()


def _is_mergeable(segment: entries.Segment, needed: Position | None, now: datetime) -> bool:
    return (
        segment.raw_bytes < SMALL_SEGMENT_BYTES
        and segment.created_at <= now - MERGE_AGE
        # Parts are batches of a large transaction, and large enough.
        and not segment.path.startswith(PENDING)
        and not (needed is not None and needed.covers(segment.last))
    )


def _fits(run: Sequence[entries.Segment], segment: entries.Segment) -> bool:
    return (
        len(run) < MAX_MERGED_FILES
        and sum(other.raw_bytes for other in run) + segment.raw_bytes <= MAX_MERGED_BYTES
        and sum(other.rows for other in run) + segment.rows <= MAX_MERGED_ROWS
    )


def merge_segments(
    store: Store, manifest: Manifest, token: int, run: Sequence[entries.Segment], now: datetime
) -> ManifestState:
    """Write one segment of a run from `plan_merge` and replace the run by it.

    The replaced files are then pending deletion. Raises `LeaseLost`, after which the new file is an orphan.
    """
    with ThreadPoolExecutor(_READ_AT_ONCE, "rowtide-merge") as pool:
        records = _concatenate_by_table(list(pool.map(lambda segment: read_segment(store, segment.path), run)))
    merged = write_segment(store, records)
    replaced = tuple(segment.path for segment in run)
    return manifest.append(entries.SegmentsMerged(token=token, replaced=replaced, segment=merged, merged_at=now))


def _concatenate_by_table(segments: Sequence[pa.Table]) -> pa.Table:
    """Join segments in commit order: each is ordered by table, so slices by table need no sorting."""
    slices = [(table_id, part) for records in segments for table_id, part in _slice_by_table(records)]
    # A stable sort: within a table the slices stay in commit order.
    slices.sort(key=lambda found: found[0])
    return pa.concat_tables([part for _, part in slices])


def _slice_by_table(records: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    table_ids = records["table_id"].to_numpy()
    found, starts = np.unique(table_ids, return_index=True)
    ends = [*starts[1:].tolist(), len(table_ids)]
    for table_id, start, end in zip(found.tolist(), starts.tolist(), ends, strict=True):
        yield table_id, records.slice(start, end - start)


def truncate(store: Store, manifest: Manifest, token: int, now: datetime) -> ManifestState:
    """Remove segments below the slowest reader, and delete the files whose grace period is over.

    Without readers nothing is removed. Raises `LeaseLost`.
    """
    state = manifest.refresh()
    slowest = state.slowest_reader()
    if slowest is not None and _has_anything_below(state, slowest):
        state = manifest.append(entries.SegmentsTruncated(token=token, position=slowest, truncated_at=now))
    expired = tuple(pending.path for pending in state.pending_deletions if pending.since <= now - DELETE_GRACE)
    if expired:
        # Files first: if the entry came first, a crash would leave files that nothing lists.
        delete_all(store, expired)
        state = manifest.append(entries.FilesDeleted(token=token, paths=expired))
    return state


def _has_anything_below(state: ManifestState, position: Position) -> bool:
    return any(position.covers(segment.last) for segment in state.segments) or any(
        position.covers(event.commit_lsn) for event in state.events
    )


def delete_orphans(store: Store, manifest: Manifest, token: int) -> tuple[str, ...]:
    """Delete the segments that no entry names, and return their paths.

    The manifest is read after the segments are listed, and must not have a later holder of the log lease: so no listed
    file belongs to a later holder, which may still name its files. Raises `LeaseLost`.
    """
    there = [path for kind in (SEGMENTS, PENDING) for path in store.list(kind)]
    state = manifest.refresh()
    require_lease(state, "log", token)
    named = {segment.path for segment in state.segments} | {pending.path for pending in state.pending_deletions}
    orphans = tuple(path for path in there if path not in named)
    delete_all(store, orphans)
    return orphans


PLACEHOLDER = "source"
"""The reader that lets a log store without other permanent readers be truncated."""


def ensure_placeholder(manifest: Manifest) -> None:
    """Register the placeholder if the log store has no reader."""
    state = manifest.refresh()
    if not state.readers:
        manifest.append(entries.ReaderAdvanced(PLACEHOLDER, state.position))
        failpoint("placeholder_reader.after")


def is_placeholder_behind(manifest: Manifest) -> bool:
    """Return whether the placeholder is registered and behind the log's position."""
    state = manifest.refresh()
    reader = state.readers.get(PLACEHOLDER)
    return reader is not None and reader.position < state.position


def advance_placeholder(manifest: Manifest) -> None:
    """Advance the placeholder to the log's position.

    Only for the holder of the source's lease: an entry after `remove_placeholder` would register it again.
    """
    if is_placeholder_behind(manifest):
        manifest.append(entries.ReaderAdvanced(PLACEHOLDER, manifest.state.position))


def remove_placeholder(manifest: Manifest) -> None:
    """Remove the placeholder, since a feature has a permanent reader. Idempotent; for the source lease's holder."""
    if PLACEHOLDER in manifest.refresh().readers:
        manifest.append(entries.ReaderLeft(PLACEHOLDER))

"""Checkpoints: a version's whole state in one Parquet file, so that the commits before it need not be read.

Log files that a checkpoint makes superfluous are deleted once they are older than the table's log retention.

Table properties give durations as `interval 1 days`.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rowtide.core.errors import Retryable
from rowtide.core.failpoints import failpoint
from rowtide.delta.replay import LAST_CHECKPOINT, LOG, LogFiles, checkpoint_path, commit_path, read_commit, version_of
from rowtide.delta.snapshot import Location, Snapshot, Tail, open_snapshot, read_hint
from rowtide.events.catalogue import CheckpointFailed
from rowtide.events.event import emit
from rowtide.storage.freshness import KEPT_FOR
from rowtide.storage.places import is_object_url
from rowtide.storage.store import Missing, delete_all

_PART = re.compile(r"(\d+)\s+(week|day|hour|minute|second|millisecond|microsecond)s?", re.IGNORECASE)
_DURATION = re.compile(rf"\s*(?:interval\s+)?(?:{_PART.pattern}\s*)+", re.IGNORECASE)


def parse_duration(text: str) -> timedelta | None:
    """Parse a duration; return None if the text is not one."""
    if _DURATION.fullmatch(text) is None:
        return None
    parts = ((int(found[1]), found[2].lower()) for found in _PART.finditer(text))
    return sum((timedelta(**{f"{unit}s": number}) for number, unit in parts), timedelta())


_INTERVAL, _USUAL_INTERVAL = "delta.checkpointInterval", 10
_MOST_AT_BUCKET = 25
"""The longest interval between checkpoints in an object store, where each commit above one is a request of every
reader.
"""
_REMOVED_FOR, _USUALLY_REMOVED_FOR = "delta.deletedFileRetentionDuration", timedelta(days=7)
_LOG_FOR, _USUALLY_LOG_FOR = "delta.logRetentionDuration", timedelta(days=30)
_CLEANUP = "delta.enableExpiredLogCleanup"

_CHECKSUM, _KEPT_CHECKSUMS = ".crc", 100
"""The suffix of checksum files, and the number of versions whose files are kept for concurrent readers."""

_STRINGS = pa.map_(pa.string(), pa.string())


def _struct(**fields: pa.DataType) -> pa.DataType:
    return pa.struct(list(fields.items()))


_SCHEMA = pa.schema(
    {
        "txn": _struct(appId=pa.string(), version=pa.int64(), lastUpdated=pa.int64()),
        "add": _struct(
            path=pa.string(),
            partitionValues=_STRINGS,
            size=pa.int64(),
            modificationTime=pa.int64(),
            dataChange=pa.bool_(),
            tags=_STRINGS,
            stats=pa.string(),
        ),
        "remove": _struct(path=pa.string(), deletionTimestamp=pa.int64(), dataChange=pa.bool_(), size=pa.int64()),
        "metaData": _struct(
            id=pa.string(),
            name=pa.string(),
            description=pa.string(),
            format=_struct(provider=pa.string(), options=_STRINGS),
            schemaString=pa.string(),
            partitionColumns=pa.list_(pa.string()),
            configuration=_STRINGS,
            createdTime=pa.int64(),
        ),
        "protocol": _struct(
            minReaderVersion=pa.int32(),
            minWriterVersion=pa.int32(),
            readerFeatures=pa.list_(pa.string()),
            writerFeatures=pa.list_(pa.string()),
        ),
    }
)


Maintain = Callable[[Location, int, Mapping[str, str], Tail], None]
"""Keeps the log of a table short after the commit of a version. Receives the table's properties and the cached log
tail.
"""


def is_checkpoint_due(location: Location, version: int, properties: Mapping[str, str]) -> bool:
    """Return whether a version is to have a checkpoint."""
    interval = _interval(properties)
    if is_object_url(location.path):
        interval = min(interval, _MOST_AT_BUCKET)
    return _is_multiple(version, interval)


def _interval(properties: Mapping[str, str]) -> int:
    text = properties.get(_INTERVAL, "")
    return int(text) if text.isdigit() else _USUAL_INTERVAL


def _is_multiple(version: int, interval: int) -> bool:
    return version > 0 and version % interval == 0


def write_checkpoint(snapshot: Snapshot, now: datetime) -> None:
    """Write a version's checkpoint, then name it in `_last_checkpoint`. Raises `LakeWriteFailed`."""
    store = snapshot.location.store
    actions = list(_actions(snapshot, now))
    sink = pa.BufferOutputStream()
    table = pa.Table.from_pylist([{kind: values} for kind, values in actions], schema=_SCHEMA)
    pq.write_table(table, sink, compression="zstd", store_schema=False)
    failpoint("delta_checkpoint.before")
    # Another writer's checkpoint of this version has the same content.
    store.put_if_absent(checkpoint_path(snapshot.version), sink.getvalue().to_pybytes())
    failpoint("delta_checkpoint.after")
    if (read_hint(store) or 0) > snapshot.version:
        # A slower thread may write an older one: commits are compared with the newest.
        return
    hint = {"version": snapshot.version, "size": len(actions), "numOfAddFiles": len(snapshot.files)}
    # After the checkpoint, because readers trust the hint, and would fail if the file did not exist.
    store.put_durable(LAST_CHECKPOINT, json.dumps(hint).encode())
    failpoint("delta_last_checkpoint.after")
    if LogFiles.of(store.list(LOG, after=f"{LOG}{snapshot.version + 1:020d}")).checkpoints:
        # This writer was stopped, and has just replaced the hint of a later one. Without a hint readers list the log.
        store.delete(LAST_CHECKPOINT)


def _actions(snapshot: Snapshot, now: datetime) -> Iterator[tuple[str, Mapping[str, Any]]]:
    state = snapshot.state
    yield "protocol", snapshot.protocol.values()
    yield "metaData", snapshot.metadata.found
    for transaction in state.transactions.values():
        yield "txn", transaction.values()
    oldest = _millis(now - removed_for(snapshot.properties))
    for gone in state.removed.values():
        # Older tombstones may be dropped (Delta's protocol, "Action Reconciliation"): no vacuum needs them any more.
        if gone.deleted_at >= oldest:
            yield "remove", gone.values(changes_data=False)
    for file in state.files.values():
        yield "add", file.values(changes_data=False)


def maintain_log(
    location: Location,
    version: int,
    properties: Mapping[str, str],
    tail: Tail | None = None,
    *,
    now: datetime | None = None,
) -> None:
    """Write a version's checkpoint when due, and delete the log that it replaces, as the table's properties say.

    `tail` is the cached tail of the version's log, which need not be read again. A failure only makes reads slower.
    """
    if not is_checkpoint_due(location, version, properties):
        return
    now = now or datetime.now(UTC)
    try:
        snapshot = _replay(tail) or open_snapshot(location, version)
        if snapshot is not None:
            write_checkpoint(snapshot, now)
            is_cleaned = snapshot.properties.get(_CLEANUP, "true").lower() != "false"
            # More frequent checkpoints in an object store do not make any file deletable sooner.
            if is_cleaned and _is_multiple(version, _interval(properties)):
                forget_versions(location, log_kept_for(snapshot.properties), now)
    except Retryable as error:
        emit(CheckpointFailed(error))


def _replay(tail: Tail | None) -> Snapshot | None:
    """Replay the cached tail; return None if its checkpoint does not exist, because it could not be written."""
    try:
        return tail.replay() if tail is not None else None
    except Missing:
        return None


def log_kept_for(properties: Mapping[str, str]) -> timedelta:
    """Return the log retention that a table's properties set."""
    return _duration(properties, _LOG_FOR, _USUALLY_LOG_FOR)


def removed_for(properties: Mapping[str, str]) -> timedelta:
    """Return how long a table's removed files are kept."""
    return _duration(properties, _REMOVED_FOR, _USUALLY_REMOVED_FOR)


def forget_versions(location: Location, age: timedelta, now: datetime) -> None:
    """Delete the log below the last checkpoint whose version is older than `age`, with its checksums.

    Files that are younger than `freshness.KEPT_FOR` always stay. Raises `LakeWriteFailed`, `LakeReadFailed`.
    """
    paths = location.store.list(LOG)
    # A writer that was stopped finds its number taken only while that commit's file exists: see `put_commit`.
    before = _millis(now - max(age, KEPT_FOR))
    versions = sorted(LogFiles.of(paths).checkpoints)
    # Times ascend with versions, apart from small differences of clocks, so only a few are looked up.
    place = bisect.bisect_left(versions, x=True, key=lambda version: not _is_older(location, version, before))
    if place == 0:
        return
    oldest = versions[place - 1]
    known = ((path, version_of(path)) for path in paths)
    delete_all(location.store, [path for path, version in known if version is not None and version < oldest])


def forget_checksums(location: Location) -> None:
    """Delete the checksums that other writers left of early versions: only the newest is read. Raises as
    `forget_versions`.
    """
    versions = [(version_of(path), path) for path in location.store.list(LOG) if path.endswith(_CHECKSUM)]
    newest = max((version or 0 for version, _ in versions), default=0)
    delete_all(location.store, [path for version, path in versions if (version or 0) < newest - _KEPT_CHECKSUMS])


def _is_older(location: Location, version: int, before: int) -> bool:
    """Return whether a version was committed before a time in milliseconds; False if that is unknown."""
    try:
        actions = dict(read_commit(location.store.get(commit_path(version))))
    except (Missing, ValueError):
        return False
    time = actions.get("commitInfo", {}).get("timestamp")
    return isinstance(time, int) and time < before


def _duration(properties: Mapping[str, str], name: str, usual: timedelta) -> timedelta:
    """Return a retention; one that cannot be parsed is infinite."""
    text = properties.get(name)
    if text is None:
        return usual
    found = parse_duration(text)
    # Another writer wrote the retention in an unknown form: delete nothing rather than too much.
    return found if found is not None else datetime.now(UTC) - datetime(1971, 1, 1, tzinfo=UTC)


def _millis(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)

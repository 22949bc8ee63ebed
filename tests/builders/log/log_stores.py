"""Manifests, segments and log records to begin a test with, and what child processes do to a store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pyarrow as pa

from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.operations import Operation
from rowtide.core.records import RECORD
from rowtide.core.tables import ColumnShape, ImageKind, LoggedTable, TableShape
from rowtide.log.membership import Event, Member
from rowtide.log.store.entries import LeaseTaken, Opened, RangeAppended, Segment, StoredSource, TableGiven
from rowtide.log.store.location import LocalStore, open_store
from rowtide.log.store.manifest import LOG_STORE, Manifest
from rowtide.log.store.replay import apply
from rowtide.log.store.segments import write_segment
from rowtide.log.store.state import ManifestState
from rowtide.storage.store import Store

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOURCE = StoredSource(system_identifier="7001", timeline=1, slot="rowtide_5", publication="rowtide_5", publication_id=9)
START = Position(100)


def opened(epoch: int = 0, log: int = 100, reason: str | None = None) -> Opened:
    recorded = LOG_STORE.recorded if epoch == 0 else None
    return Opened(epoch=epoch, position=Position.of(epoch, log), source=SOURCE, reason=reason, format=recorded)


def table_version(table_id: int = 1) -> LoggedTable:
    columns = (ColumnShape("id", 23, -1, is_key=True), ColumnShape("name", 25, -1, is_key=False))
    return LoggedTable(table_id, TableShape(16384 + table_id, "public", f"t{table_id}", ImageKind.FULL, columns))


def member(member_id: str = "m1") -> Member:
    return Member(member_id, "cdc", f"public_{member_id}", 16385, "public", "t1", ("id", "name"), "{}")


def segment(
    first: int,
    last: int | None = None,
    *,
    path: str | None = None,
    rows: int = 10,
    size: int = 1000,
    age: timedelta = timedelta(hours=1),
    tables: tuple[int, ...] = (1,),
) -> Segment:
    last = first if last is None else last
    return Segment(
        path=path or f"segments/{first}-{last}.parquet",
        first=CommitLsn(first),
        last=CommitLsn(last),
        rows=rows,
        bytes=size // 4,
        raw_bytes=size,
        created_at=NOW - age,
        tables=tables,
    )


def range_to(
    state: ManifestState,
    end: int,
    segments: Sequence[Segment] = (),
    events: Sequence[Event] = (),
    token: int | None = None,
) -> RangeAppended:
    """Return the range from the state's position to `end`, under the log lease unless told otherwise."""
    return RangeAppended(
        token=state.leases["log"].token if token is None else token,
        from_position=state.position,
        position=Position.of(state.epoch, end),
        segments=tuple(segments),
        events=tuple(events),
        transactions=len(segments),
    )


def records(changes: Sequence[tuple[int, int, int]]) -> pa.Table:
    """Return inserts for (table_id, commit_lsn, seqval), each with a row of its own."""
    rows = [
        {
            "commit_lsn": commit_lsn,
            "commit_time": NOW + timedelta(microseconds=commit_lsn),
            "xid": commit_lsn * 7,
            "origin": None,
            "seqval": seqval,
            "operation": int(Operation.INSERT),
            "table_id": table_id,
            "image": int(ImageKind.NONE),
            "before": None,
            "after": [f"{table_id}/{commit_lsn}/{seqval}", None],
            "absent": b"\x02" if seqval % 2 else None,
            "payload": None,
        }
        for table_id, commit_lsn, seqval in sorted(changes)
    ]
    return pa.Table.from_pylist(rows, schema=RECORD)


def open_manifest(store: Store, tables: int = 2) -> tuple[Manifest, int]:
    """Open a log store with epoch 0 at `START` and some tables; return its manifest and the log lease's token."""
    manifest = Manifest(store)
    manifest.append(opened())
    token = manifest.take_lease("log", "the reader")
    for table_id in range(1, tables + 1):
        manifest.append(TableGiven(token=token, version=table_version(table_id)))
    return manifest, token


def open_state() -> ManifestState:
    """Return the state of a store with epoch 0 at `START`, table 1 and the log lease, and nothing in it."""
    entries = (opened(), LeaseTaken("log", "the reader", NOW), TableGiven(2, table_version(1)))
    state = apply(None, 1, entries[0])
    for entry in entries[1:]:
        state = apply(state, state.version + 1, entry)
    return state


def append_records(store: Store, manifest: Manifest, changes: Sequence[tuple[int, int, int]]) -> Segment:
    """Write the changes as the log reader does; the range ends just behind the last."""
    written = write_segment(store, records(changes))
    manifest.append(range_to(manifest.state, written.last.value + 1, [written]))
    return written


def append_records_in_child(root: str) -> None:
    """Append one segment: the failpoints' work, run in a process that they may kill."""
    store = LocalStore(root)
    manifest = Manifest.open(store)
    append_records(store, manifest, [(1, manifest.state.position.value, 1)])


def claim_in_child(place: str, name: str, barrier: Barrier, outcome: str) -> None:
    """Put the same path as everybody who waits at the barrier, and leave a file if it was us."""
    store = open_store(place)
    barrier.wait()
    if store.put_if_absent("manifest/claimed", name.encode()):
        Path(outcome).joinpath(name).touch()

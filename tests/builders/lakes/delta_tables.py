"""Delta tables: written by hand, commit by commit, and by rowtide's own committer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rowtide.delta.checkpoints import maintain_log
from rowtide.delta.errors import LakeReadFailed, LakeWriteFailed
from rowtide.delta.replay import AddFile
from rowtide.delta.snapshot import Location, Snapshot, Tail, open_snapshot
from rowtide.delta.writing.appends import write_rows
from rowtide.delta.writing.commits import Committer, PriorVersion, create_table
from rowtide.storage.freshness import KEPT_FOR
from rowtide.storage.local import LocalFolder
from rowtide.storage.store import StoreErrors

ERRORS = StoreErrors(LakeReadFailed, LakeWriteFailed)
SCHEMA: dict[str, Any] = {
    "type": "struct",
    "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}],
}
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}


def metadata(**properties: str) -> dict[str, Any]:
    """Return the action for a table of one bigint column `id`."""
    values = {"id": "7", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [], "createdTime": 1}
    return {"metaData": {**values, "schemaString": json.dumps(SCHEMA), "configuration": properties}}


def write_commit(path: Path, version: int, *actions: Mapping[str, Any]) -> Path:
    """Write a commit, whatever was there."""
    file = path / "_delta_log" / f"{version:020d}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(action) + "\n" for action in actions))
    return file


def write_ids(path: Path, version: int, *ids: int, **more: Any) -> str:
    """Commit a file with ids, and return its name."""
    name = f"{version}.parquet"
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), path / name)
    statistics = {"numRecords": len(ids), "minValues": {"id": min(ids)}, "maxValues": {"id": max(ids)}}
    values = {"path": name, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    write_commit(path, version, {"add": {**values, "stats": json.dumps(statistics), **more}})
    return name


def make_table(path: Path, *, commits: int = 0) -> Path:
    """Make a table, and commits each of which adds the id of its version."""
    write_commit(path, 0, {"protocol": PROTOCOL}, metadata())
    for version in range(1, commits + 1):
        write_ids(path, version, version)
    return path


def locate(path: Path) -> Location:
    """Return a local table's location."""
    return Location(str(path), LocalFolder(str(path), ERRORS))


def own(path: Path, version: int | None = None) -> Snapshot:
    """Return a version of a table that is there."""
    snapshot = open_snapshot(locate(path), version)
    assert snapshot is not None
    return snapshot


def create(path: Path, **properties: str) -> Path:
    """Create a table of one bigint column `id`."""
    create_table(locate(path), json.dumps(SCHEMA), properties)
    return path


def append(
    committer: Committer, location: Location, cycle: int, rows: pa.Table | None = None, identity: str = "one"
) -> bool:
    """Append a cycle's rows, by default its number as id."""
    given = rows if rows is not None else pa.table({"id": pa.array([cycle], pa.int64())})

    def write(state: PriorVersion) -> list[AddFile]:
        name = f"{identity}-{cycle}-{state.version}.parquet"
        return [write_rows(location, state.columns, state.metadata, given, name)]

    return committer.commit_once(location, identity=identity, cycle=cycle, write=write)


def append_asleep(committer: Committer, location: Location, cycle: int, sleep: Callable[[], None]) -> bool:
    """Append as `append` in a process that sleeps, once, between looking at the table and its commit."""
    names = iter(["first", "again"])

    def write(state: PriorVersion) -> list[AddFile]:
        name = next(names)
        if name == "first":
            sleep()
        rows = pa.table({"id": pa.array([cycle], pa.int64())})
        return [write_rows(location, state.columns, state.metadata, rows, f"{name}-{cycle}.parquet")]

    return committer.commit_once(location, identity="one", cycle=cycle, write=write)


def maintain_later(location: Location, version: int, properties: Mapping[str, str], tail: Tail) -> None:
    """Maintain a table's log as if the versions were older than what any cleanup leaves."""
    maintain_log(location, version, properties, tail, now=datetime.now(UTC) + KEPT_FOR)


def append_cycles_in_child(path: str, identity: str, cycles: Sequence[int], barrier: Barrier, results: str) -> None:
    """Append cycles once everybody is at the barrier, and write down which were new."""
    committer, location = Committer(), locate(Path(path))
    barrier.wait()
    done = [append(committer, location, cycle, identity=identity) for cycle in cycles]
    Path(results).write_text(json.dumps(done))

"""Delta tables written by hand, commit by commit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
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

"""Lakes without a source and without Spark: published cycles of change rows, as capture leaves them."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from rowtide.cdc.change_columns import change_columns
from rowtide.cdc.instances import Instance
from rowtide.cdc.published import (
    DDL_HISTORY,
    ENABLED,
    INSTANCES,
    LSN_TIME_MAPPING,
    SNAPSHOTS,
    base_table_path,
    change_table_path,
    system_table_path,
)
from rowtide.cdc.recorded_snapshots import SnapshotState
from rowtide.cdc.rows.conversion import change_schema
from rowtide.cdc.system_tables import InstanceEvent, instance_row, rows_of
from rowtide.core.lsn import CommitLsn
from rowtide.delta.formats import FORMAT, IDENTITY, LAKE_TABLE
from rowtide.delta.replay import AddFile
from rowtide.delta.writing.appends import write_rows
from rowtide.delta.writing.commits import Committer, PriorVersion, create_table
from rowtide.lake.stores import locate
from rowtide.lake.tables import is_table

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SECONDS_PER_CYCLE = 5
_DELTA_TYPES: dict[str, Any] = {"bigint": "long", "int": "integer", "smallint": "short"}
_EXACT = {"type": "map", "keyType": "integer", "valueType": "string", "valueContainsNull": True}


_SYSTEM_TABLES = (("instances", INSTANCES), ("lsn_time_mapping", LSN_TIME_MAPPING), ("ddl_history", DDL_HISTORY))


class MadeLake:
    """A lake of capture instances, whose cycles are given as rows of `change_schema`."""

    def __init__(self, folder: Path | str) -> None:
        """Make one in a folder, or at a URL."""
        self.path = str(folder)
        self.cycle = 0
        self._committer = Committer()
        self._events: list[InstanceEvent] = []
        self._snapshots: dict[tuple[str, int], dict[str, Any]] = {}
        self._snapshot_events = self._chunks = 0
        for name, columns in _SYSTEM_TABLES:
            _create(system_table_path(self.path, name), columns, name)

    def enable(self, instance: Instance, lsn: int, *, is_mapped: bool = False) -> None:
        """Let an instance begin at an LSN with the next cycle."""
        path = change_table_path(self.path, instance.capture_instance)
        _create(path, _columns(instance), instance.member_id, is_mapped=is_mapped)
        self.record(InstanceEvent(instance, ENABLED, CommitLsn(lsn)))

    def record(self, *events: InstanceEvent) -> None:
        """Have rows of `instances` in the next cycle."""
        self._events += events

    def publish(self, *parts: tuple[Instance, Sequence[pa.Table]], lsns: Iterable[int] | None = None) -> None:
        """Publish a cycle: rows of each instance, a file for each table of rows; at LSNs, by default those of rows."""
        self.cycle += 1
        found: set[int] = set()
        for instance, files in parts:
            found |= {int(lsn) for rows in files for lsn in pc.unique(rows["__$start_lsn"]).to_numpy()}
            self._append(change_table_path(self.path, instance.capture_instance), instance.member_id, files)
        rows = [instance_row(self.cycle, place, event) for place, event in enumerate(self._events)]
        self._append(system_table_path(self.path, "instances"), "instances", [rows_of(INSTANCES, rows)])
        self._events = []
        mapped = rows_of(LSN_TIME_MAPPING, [self._transaction(lsn) for lsn in sorted(found if lsns is None else lsns)])
        self._append(system_table_path(self.path, "lsn_time_mapping"), "lsn_time_mapping", [mapped])

    def begin_snapshot(
        self, instance: Instance, number: int, begin: int, *, is_whole: bool = True, visible: str | None = None
    ) -> None:
        """Record that a snapshot begins, whose rows have an LSN."""
        for path, columns, identity in (
            (system_table_path(self.path, "snapshots"), SNAPSHOTS, "snapshots"),
            (base_table_path(self.path, instance.capture_instance), _columns(instance), instance.member_id),
        ):
            if not is_table(path):
                _create(path, columns, identity)
        values = {"begin_lsn": begin, "is_whole": is_whole, "definition": json.dumps(_definition(visible))}
        self._snapshots[instance.member_id, number] = values
        self._record_snapshot(instance, number, SnapshotState.PLANNED)

    def copy_chunk(self, instance: Instance, number: int, rows: Sequence[dict[str, Any]]) -> None:
        """Append captured values that a chunk of a snapshot has."""
        begin = self._snapshots[instance.member_id, number]["begin_lsn"]
        stamp = {"__$start_lsn": begin, "__$seqval": 0, "__$operation": 2}
        self._chunks += 1
        identity = f"{instance.member_id}:snapshot:{number}:{self._chunks}"
        path = base_table_path(self.path, instance.capture_instance)
        self._append(path, identity, [make_rows(instance, [stamp | row for row in rows])], cycle=1)

    def end_snapshot(self, instance: Instance, number: int, covered: int | None) -> None:
        """Record that a snapshot is complete as of an LSN; None: that it was given up."""
        state = SnapshotState.CANCELLED if covered is None else SnapshotState.COVERED
        self._record_snapshot(instance, number, state, covered)

    def _record_snapshot(
        self, instance: Instance, number: int, state: SnapshotState, covered: int | None = None
    ) -> None:
        self._snapshot_events += 1
        row = {
            **self._snapshots[instance.member_id, number],
            "cycle": self._snapshot_events,
            "snapshot": number,
            "capture_instance": instance.capture_instance,
            "member_id": instance.member_id,
            "state": state.value,
            "covered_lsn": covered,
        }
        path = system_table_path(self.path, "snapshots")
        self._append(path, "snapshots", [rows_of(SNAPSHOTS, [row])], cycle=self._snapshot_events)

    def _transaction(self, lsn: int) -> dict[str, object]:
        time = BEGIN + timedelta(seconds=SECONDS_PER_CYCLE * self.cycle)
        return {
            "start_lsn": lsn,
            "tran_end_time": time,
            "tran_commit_time": time,
            "tran_id": lsn,
            "cycle": self.cycle,
            "published_at": time,
            "host": socket.gethostname(),
        }

    def _append(self, path: str, identity: str, files: Sequence[pa.Table], cycle: int | None = None) -> None:
        location = locate(path)

        def write(state: PriorVersion) -> list[AddFile]:
            names = (f"{self.cycle:06d}-{uuid4().hex}.parquet" for _ in files)
            return [
                write_rows(location, state.columns, state.metadata, rows, name)
                for name, rows in zip(names, files, strict=True)
                if rows.num_rows
            ]

        assert self._committer.commit_once(location, identity=identity, cycle=cycle or self.cycle, write=write)


def make_rows(instance: Instance, rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Return change rows of an instance from values by column; a column without value is null."""
    return pa.Table.from_pylist(list(rows), schema=change_schema(instance))


def _columns(instance: Instance) -> list[tuple[str, str]]:
    return [(column.name, column.type_name) for column in change_columns(instance)]


def _definition(visible: str | None) -> dict[str, object]:
    return {
        "request_id": 1,
        "condition": None,
        "bounds": [],
        "visible": visible,
        "generation": "",
        "rows": 0,
        "size": 0,
    }


def _create(path: str, columns: Sequence[tuple[str, str]], identity: str, *, is_mapped: bool = False) -> None:
    fields = [
        {"name": name, "type": _delta_type(type_name), "nullable": True, "metadata": {}} for name, type_name in columns
    ]
    properties = {IDENTITY: identity, FORMAT: str(LAKE_TABLE.recorded), "delta.checkpointInterval": "100"}
    if is_mapped:
        properties["delta.columnMapping.mode"] = "name"
    assert create_table(locate(path), json.dumps({"type": "struct", "fields": fields}), properties)


def _delta_type(name: str) -> Any:
    return _EXACT if name.startswith("map") else _DELTA_TYPES.get(name, name)

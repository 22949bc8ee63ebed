"""Lakes without a source and without Spark: published cycles of change rows, as capture leaves them."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_tables import INSTANCES, LSN_TIME_MAPPING, change_table_path, system_table_path
from rowtide.cdc.published import ENABLED
from rowtide.cdc.rows.change_columns import change_columns
from rowtide.cdc.rows.conversion import change_schema
from rowtide.cdc.system_tables import InstanceEvent, instance_row, rows_of
from rowtide.core.lsn import CommitLsn
from rowtide.delta.actions import AddFile
from rowtide.delta.appends import write_rows
from rowtide.delta.commits import Committer, TableState
from rowtide.delta.creation import create_table
from rowtide.lake.stores import locate
from rowtide.lake.tables import IDENTITY

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SECONDS_PER_CYCLE = 5
_DELTA_TYPES: dict[str, Any] = {"bigint": "long", "int": "integer", "smallint": "short"}
_EXACT = {"type": "map", "keyType": "integer", "valueType": "string", "valueContainsNull": True}


class MadeLake:
    """A lake of capture instances, whose cycles are given as rows of `change_schema`."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder)
        self.cycle = 0
        self._committer = Committer()
        self._events: list[InstanceEvent] = []
        for name, columns in (("instances", INSTANCES), ("lsn_time_mapping", LSN_TIME_MAPPING)):
            _create(system_table_path(self.path, name), columns, name)

    def enable(self, instance: Instance, lsn: int, *, is_mapped: bool = False) -> None:
        """Let an instance begin at an LSN with the next cycle."""
        columns = [(column.name, column.type_name) for column in change_columns(instance)]
        path = change_table_path(self.path, instance.capture_instance)
        _create(path, columns, instance.member_id, is_mapped=is_mapped)
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

    def _append(self, path: str, identity: str, files: Sequence[pa.Table]) -> None:
        location = locate(path)

        def write(state: TableState) -> list[AddFile]:
            names = (f"{self.cycle:06d}-{place}.parquet" for place in range(len(files)))
            return [
                write_rows(location, state.columns, state.metadata, rows, name)
                for name, rows in zip(names, files, strict=True)
                if rows.num_rows
            ]

        assert self._committer.commit_once(location, identity=identity, cycle=self.cycle, write=write)


def make_rows(instance: Instance, rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Return change rows of an instance from values by column; a column without value is null."""
    return pa.Table.from_pylist(list(rows), schema=change_schema(instance))


def _create(path: str, columns: Sequence[tuple[str, str]], identity: str, *, is_mapped: bool = False) -> None:
    fields = [
        {"name": name, "type": _delta_type(type_name), "nullable": True, "metadata": {}} for name, type_name in columns
    ]
    properties = {IDENTITY: identity, "delta.checkpointInterval": "100"}
    if is_mapped:
        properties["delta.columnMapping.mode"] = "name"
    assert create_table(locate(path), json.dumps({"type": "struct", "fields": fields}), properties)


def _delta_type(name: str) -> Any:
    return _EXACT if name.startswith("map") else _DELTA_TYPES.get(name, name)

"""Lakes with their log store, to be copied: filled cycle by cycle without a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import rowtide
from builders.capture.capture_instances import instance, source_table
from builders.lakes.made_lakes import MadeLake, make_rows
from builders.log.log_stores import append_records, open_manifest
from rowtide.cdc.published import change_table_path
from rowtide.core.lsn import Position
from rowtide.delta.checkpoints import forget_versions
from rowtide.delta.writing.alteration import set_properties
from rowtide.lake.stores import locate
from rowtide.log.store.entries import LeaseTaken
from rowtide.log.store.location import LocalStore
from rowtide.log.store.manifest import Manifest
from rowtide.relocation.portions import LakePlace
from rowtide.relocation.survey import survey

ITEM = instance(table=source_table([("id", "integer"), ("name", "text")]))
NAME = ITEM.capture_instance


class FilledLake:
    """A lake of one capture instance, and the log store in it."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder)
        self.made = MadeLake(folder)
        self.made.enable(ITEM, 90)
        self.store = LocalStore(f"{folder}/log")
        self.manifest, self.token = open_manifest(self.store)
        self.rows = 0

    @property
    def change_table(self) -> str:
        return change_table_path(self.path, NAME)

    def fill(self, cycles: int = 1) -> FilledLake:
        """Add cycles, each of one change, and the segment that it was read from."""
        for _ in range(cycles):
            self.rows += 1
            lsn = 100 + 10 * self.rows
            append_records(self.store, self.manifest, [(1, lsn, 1)])
            row = {"__$start_lsn": lsn, "__$seqval": 1, "__$operation": 2, "id": self.rows, "name": f"row {self.rows}"}
            self.made.publish((ITEM, [make_rows(ITEM, [row])]))
        return self

    def checkpoint_often(self) -> None:
        """Have a checkpoint of each table at every tenth version."""
        for table in self._tables():
            set_properties(locate(table), {"delta.checkpointInterval": "10"})

    def forget_versions(self) -> None:
        """Delete each table's log below its last checkpoint."""
        for table in self._tables():
            forget_versions(locate(table), timedelta(0), datetime.now(UTC) + timedelta(days=1))

    def _tables(self) -> list[str]:
        return [str(folder) for folder in Path(self.path, "cdc").iterdir()]

    def take_leases(self, times: int) -> None:
        """Add entries to the manifest that need no segments."""
        for _ in range(times):
            self.manifest.append(LeaseTaken("lake", "somebody", self.manifest.state.leases["log"].taken_at))


def read_ids(lake: str) -> list[int]:
    """Return the keys of a lake's published changes, in order."""
    rows: list[dict[str, Any]] = rowtide.open_lake(lake).get_all_changes(NAME).to_arrow().read_all().to_pylist()
    return [row["id"] for row in rows]


def read_position(log_store: str) -> Position:
    """Return how far a log store has the log."""
    return Manifest.open(LocalStore(log_store)).state.position


def describe(lake: str) -> dict[str, tuple[int, str]]:
    """Return version and state of each table of a lake and of its log store."""
    return {portion.name: (portion.version, portion.content) for portion in survey(LakePlace.of(lake))}

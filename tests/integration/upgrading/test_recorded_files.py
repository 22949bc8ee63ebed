"""SQLite files that earlier versions made: devices continue from where they were."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from builders.recordings import Recording, read_file_tables
from rowtide.core.anchors import Anchor
from rowtide.merge.api import MergeReplication
from rowtide.tracking import ChangeTracking

FILES = ("device.db", "merge_device.db", "merge_field.db", "merge_hub.db", "subscriber.db")


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_the_rows_recorded(recording: Recording, name: str) -> None:
    assert read_file_tables(recording.folder / name) == recording.contents[name]


def test_a_device_enumerates_from_its_anchor(recording: Recording) -> None:
    with closing(sqlite3.connect(recording.folder / "device.db")) as program:
        tracking = ChangeTracking(program)
        with tracking.changes(["in_row", "in_side"], Anchor.parse(recording.contents["device anchor"])) as changes:
            found = [(change.table, str(change.operation), *change.row) for change in changes]
    assert sorted(found) == sorted(
        change
        for table in ("in_row", "in_side")
        for change in (
            (table, "update", 1, "one", 10),
            (table, "delete", 2),
            (table, "insert", 4, "four", 4),
        )
    )


def test_a_hub_and_its_device_synchronise(recording: Recording) -> None:
    hub, device = (recording.folder / name for name in ("merge_hub.db", "merge_device.db"))
    merge = MergeReplication(f"sqlite:///{hub}")
    assert len(merge.list_conflicts()) == 1
    merge.sync("shop", f"sqlite:///{device}")
    with closing(sqlite3.connect(hub)) as at_hub, closing(sqlite3.connect(device)) as at_device:
        for program in (at_hub, at_device):
            rows = program.execute("select id, item, qty from orders order by 1").fetchall()
            assert rows == [(1, "hub", 30), (2, "ink", 5)]
        assert at_device.execute("select id, region from hidden").fetchall() == [(1, "north")]

"""A table as of an LSN without Spark: a snapshot's rows, and the last row of each key that changed since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rowtide
from builders.capture_instances import instance, source_table
from builders.made_lakes import MadeLake, make_rows
from rowtide.cdc.instances import Instance
from rowtide.cdc.published import ENABLED, SKIPPED, SUSPENDED
from rowtide.cdc.queries.errors import (
    BeforeSnapshot,
    ChangesMissingSinceSnapshot,
    ColumnNotCaptured,
    NeverCopied,
    OutsideInterval,
)
from rowtide.cdc.system_tables import InstanceEvent
from rowtide.core.lsn import CommitLsn
from rowtide.core.mask import pack_mask
from rowtide.core.tables import BeforeImages

TABLE = source_table([("id", "integer"), ("name", "text"), ("at", "date")])
ITEM, SPARING = instance(table=TABLE), instance(table=TABLE, before_images=BeforeImages.KEY)


@pytest.fixture
def made(lake: Path) -> MadeLake:
    """An instance from 100 on, and a snapshot of three rows at 105, complete at 115."""
    return begin(lake, ITEM)


def begin(lake: Path, item: Instance) -> MadeLake:
    made = MadeLake(lake)
    made.enable(item, 100)
    made.publish(lsns=[100])
    made.begin_snapshot(item, 1, 105)
    made.copy_chunk(item, 1, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    made.copy_chunk(item, 1, [{"id": 3, "name": "c"}])
    made.end_snapshot(item, 1, 115)
    made.publish(lsns=[110, 115])
    return made


def change(lsn: int, operation: int, key: int | None, name: str | None = None, **more: object) -> dict[str, Any]:
    seqval = {"__$seqval": (key or 0) + 1}
    return {"__$start_lsn": lsn, "__$operation": operation, "id": key, "name": name, **seqval, **more}


def publish(made: MadeLake, *rows: dict[str, Any], item: Instance = ITEM) -> None:
    made.publish((item, [make_rows(item, rows)]))


def read(made: MadeLake, lsn: int | None = None) -> dict[int, str | None]:
    at = CommitLsn(lsn) if lsn is not None else None
    rows = rowtide.open_lake(made.path).get_table_as_of("public_t1", at).to_arrow().read_all().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["name"] for row in rows}


def test_last_row_of_each_key_hides_the_snapshots(made: MadeLake) -> None:
    publish(made, change(120, 3, 1, "a"), change(120, 4, 1, "A"), change(120, 1, 2, "b"))
    publish(made, change(130, 2, 4, "d"), change(130, 2, 2, "B"))
    publish(made, change(140, 2, 5, "e"), change(141, 1, 5, "e"))
    assert read(made, 115) == {1: "a", 2: "b", 3: "c"}
    assert read(made, 120) == {1: "A", 3: "c"}
    assert read(made, 135) == {1: "A", 2: "B", 3: "c", 4: "d"}
    assert read(made) == read(made, 135)


def test_changes_that_a_chunk_saw_count_once(made: MadeLake) -> None:
    """Another chunk was read before them; the log brings them again."""
    made.begin_snapshot(ITEM, 2, 205)
    made.copy_chunk(ITEM, 2, [{"id": 1, "name": "a"}, {"id": 5, "name": "e"}])
    made.copy_chunk(ITEM, 2, [{"id": 2, "name": "of 220"}])
    publish(made, change(210, 2, 5, "e"), change(212, 1, 5, "e"), change(220, 4, 2, "of 220"), change(225, 1, 3, "c"))
    made.end_snapshot(ITEM, 2, 230)
    made.publish(lsns=[230])
    assert read(made, 230) == {1: "a", 2: "of 220"}
    assert read(made, 212) == {1: "a", 2: "b", 3: "c"}


def test_truncate_removes_what_was_before_it(made: MadeLake) -> None:
    publish(made, change(120, 4, 1, "A"), change(121, 6, None))
    publish(made, change(122, 2, 7, "g"))
    assert read(made, 121) == {}
    assert read(made) == {7: "g"}


def test_missing_values_come_from_earlier_rows(lake: Path) -> None:
    made = begin(lake, SPARING)
    lacking = {"__$absent_mask": pack_mask([2], 3)}
    publish(made, change(120, 4, 1, None, **lacking), change(121, 2, 4, "d"), item=SPARING)
    publish(made, change(122, 4, 4, None, **lacking), change(123, 4, 3, "C"), item=SPARING)
    publish(
        made, change(124, 4, 3, None, **lacking), change(125, 1, 2), change(126, 2, 2, None, **lacking), item=SPARING
    )
    rows = rowtide.open_lake(made.path).get_table_as_of("public_t1").to_arrow().read_all().to_pylist()
    found = {row["id"]: (row["name"], row["__$absent_mask"]) for row in rows}
    assert found == {1: ("a", None), 2: (None, pack_mask([2], 3)), 3: ("C", None), 4: ("d", None)}


def test_snapshot_of_some_rows_lies_above_the_whole_one(made: MadeLake) -> None:
    made.begin_snapshot(ITEM, 2, 205, is_whole=False)
    made.copy_chunk(ITEM, 2, [{"id": 1, "name": "again"}])
    made.publish(lsns=[210])
    assert read(made) == {1: "a", 2: "b", 3: "c"}
    made.end_snapshot(ITEM, 2, 220)
    made.publish(lsns=[220])
    assert read(made) == {1: "again", 2: "b", 3: "c"}
    assert read(made, 210) == {1: "a", 2: "b", 3: "c"}


def test_columns_are_chosen_by_name(made: MadeLake) -> None:
    found = rowtide.open_lake(made.path).get_table_as_of("public_t1", None, ["name"])
    assert found.schema.names == ["name", "__$absent_mask", "__$exact"]
    assert set(found.to_arrow().read_all()["name"].to_pylist()) == {"a", "b", "c"}
    with pytest.raises(ColumnNotCaptured):
        rowtide.open_lake(made.path).get_table_as_of("public_t1", None, ["nmae"])


def test_before_the_snapshot_is_complete_it_is_refused(made: MadeLake) -> None:
    with pytest.raises(BeforeSnapshot) as refused:
        read(made, 110)
    assert str(CommitLsn(115)) in refused.value.filled_hint
    with pytest.raises(OutsideInterval):
        read(made, 116)


def test_without_a_snapshot_it_is_refused(lake: Path) -> None:
    made = MadeLake(lake)
    made.enable(ITEM, 100)
    made.publish(lsns=[100])
    with pytest.raises(NeverCopied):
        read(made)
    made.begin_snapshot(ITEM, 1, 105)
    made.publish(lsns=[110])
    with pytest.raises(NeverCopied):
        read(made)
    made.end_snapshot(ITEM, 1, None)
    with pytest.raises(NeverCopied):
        read(made)


def test_changes_missing_since_the_snapshot_are_an_error(made: MadeLake) -> None:
    made.record(InstanceEvent(ITEM, SKIPPED, CommitLsn(120), "the transaction was skipped: too large"))
    made.publish(lsns=[120])
    assert read(made, 115) == {1: "a", 2: "b", 3: "c"}
    with pytest.raises(ChangesMissingSinceSnapshot):
        read(made)


def test_snapshot_from_before_a_gap_is_not_used(made: MadeLake) -> None:
    made.record(InstanceEvent(ITEM, SUSPENDED, CommitLsn(120), "gap"), InstanceEvent(ITEM, ENABLED, CommitLsn(121)))
    made.publish(lsns=[121])
    with pytest.raises(NeverCopied):
        read(made)

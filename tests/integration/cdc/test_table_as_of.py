"""A table as of an LSN without Spark: a snapshot's rows, and the last row of each key that changed since."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import rowtide
from builders.capture.capture_instances import instance, source_table
from builders.lakes.made_lakes import MadeLake, make_rows
from rowtide.cdc.change_columns import pack_mask
from rowtide.cdc.errors.querying import (
    BeforeSnapshot,
    ChangesMissingSinceSnapshot,
    ColumnNotCaptured,
    NeverCopied,
    OutsideInterval,
)
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.as_of import latest_rows
from rowtide.cdc.published import ALTERED, ENABLED, SKIPPED, SUSPENDED, base_table_path, change_table_path
from rowtide.cdc.spark_changes import Changes
from rowtide.cdc.system_tables import InstanceEvent
from rowtide.core.lsn import CommitLsn
from rowtide.core.tables import BeforeImages
from rowtide.delta.snapshot import Snapshot
from rowtide.delta.writing import appends
from rowtide.delta.writing.changes import CommitChange, commit_change
from rowtide.lake.session import for_reading
from rowtide.lake.stores import locate
from rowtide.lake.tables import widen_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


FAR = 1 << 40
"""Keys that lie so far apart have no bit each."""


@pytest.mark.parametrize("apart", [1, FAR])
@pytest.mark.parametrize("item", [ITEM, SPARING])
def test_large_transaction_lies_in_several_files(lake: Path, item: Instance, apart: int) -> None:
    """Its rows have one LSN, and the files that have them are in no order."""
    wide = replace(item, columns=wide_key(item).columns)
    made = begin(lake, wide)
    rows = [
        change(120, 2, key * apart, f"at {step}") | {"__$seqval": step} for step, key in enumerate([7, 8, 7, -9], 1)
    ]
    rows += [change(120, 1, 8 * apart) | {"__$seqval": 5}, change(120, 4, 1, "A") | {"__$seqval": 6}]
    files = [make_rows(wide, part) for part in ([rows[2], rows[0]], rows[3:], [rows[1]])]
    made.publish((wide, files))
    assert read(made) == {1: "A", 2: "b", 3: "c", 7 * apart: "at 3", -9 * apart: "at 4"}


def wide_key(item: Instance) -> Instance:
    columns = instance(table=source_table([("id", "bigint"), ("name", "text"), ("at", "date")])).columns
    return replace(item, columns=columns)


def test_truncate_lies_within_a_transaction(made: MadeLake) -> None:
    rows = [change(120, 2, 4, "d"), change(120, 6, None), change(120, 2, 5, "e"), change(120, 4, 5, "E")]
    made.publish((ITEM, [make_rows(ITEM, [row | {"__$seqval": place} for place, row in enumerate(rows)])]))
    assert read(made) == {5: "E"}


def test_lone_truncate_empties_the_table(made: MadeLake) -> None:
    publish(made, change(120, 6, None))
    assert read(made) == {}
    publish(made, change(130, 2, 9, "i"))
    assert read(made) == {9: "i"}


def test_values_are_missing_before_and_after_a_truncate(lake: Path) -> None:
    made = begin(lake, SPARING)
    lacking = {"__$absent_mask": pack_mask([2], 3)}
    publish(made, change(119, 2, 4, "d"), change(120, 4, 4, None, **lacking), item=SPARING)
    publish(made, change(121, 6, None), change(122, 2, 5, "e"), change(123, 4, 5, None, **lacking), item=SPARING)
    assert read(made, 120) == {1: "a", 2: "b", 3: "c", 4: "d"}
    assert read(made) == {5: "e"}


def test_key_was_widened_since_the_snapshot(made: MadeLake) -> None:
    for path in (base_table_path, change_table_path):
        widen_columns(path(made.path, "public_t1"), {"id": "bigint"})
    wide = wide_key(ITEM)
    made.record(InstanceEvent(wide, ALTERED, CommitLsn(119)))
    publish(made, change(120, 4, 1, "A"), change(120, 2, 1 << 33, "far"), item=wide)
    assert read(made) == {1: "A", 2: "b", 3: "c", 1 << 33: "far"}


@pytest.mark.parametrize("is_ordered", [True, False])
def test_file_of_many_row_groups_is_read_backwards(
    made: MadeLake, monkeypatch: pytest.MonkeyPatch, *, is_ordered: bool
) -> None:
    monkeypatch.setattr(latest_rows, "_SMALL_BYTES", 0)
    monkeypatch.setattr(appends, "_GROUP_ROWS", 2)
    lsns = range(120, 130) if is_ordered else [125, 121, 129, 120, 124, 128, 126, 123, 127, 122]
    for lsn in sorted(lsns):
        publish(made, change(lsn, 4 if lsn % 2 else 3, 1 + lsn % 3, f"at {lsn}"))
    rewrite_as_one_file(change_table_path(made.path, "public_t1"), list(lsns))
    assert read(made) == {1: "at 129", 2: "at 127", 3: "at 125"}
    assert read(made, 126) == {1: "at 123", 2: "at 121", 3: "at 125"}


def rewrite_as_one_file(path: str, lsns: list[int]) -> None:
    """Write a table's rows, of which each has an LSN, to one file, in an order of LSNs."""

    def plan(snapshot: Snapshot) -> CommitChange:
        rows = {row["__$start_lsn"]: row for row in snapshot.read().to_pylist()}
        batches = [pa.RecordBatch.from_pylist([rows[lsn]], schema=snapshot.columns.schema) for lsn in lsns]
        file = appends.write_stream(snapshot.location, snapshot.columns, snapshot.metadata, batches, "one.parquet")
        return CommitChange("OPTIMIZE", removed=list(snapshot.files.values()), added=[file], changes_rows=False)

    assert commit_change(locate(path), plan)


NAMED: dict[str, Callable[[int], object]] = {"bigint": int, "integer": int, "text": str}
"""Keys of types, by numbers."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("apart", [1, 1 << 58], ids=["positions in one number", "positions too large for that"])
@pytest.mark.parametrize("key", ["bigint", "integer", "text"])
def test_last_rows_by_spark_are_those_without(spark: SparkSession, lake: Path, key: str, apart: int) -> None:
    """Keys that are whole numbers, and others; several rows of a key in a transaction; truncates; a second layer."""
    named = NAMED[key]
    item = instance(table=source_table([("id", key), ("name", "text"), ("at", "date")]))
    made = MadeLake(lake)
    made.enable(item, 100)
    made.publish(lsns=[100])
    made.begin_snapshot(item, 1, 105)
    made.copy_chunk(item, 1, [{"id": named(number), "name": f"copied {number}"} for number in range(-70, 70)])
    made.end_snapshot(item, 1, 106)
    made.begin_snapshot(item, 2, 110, is_whole=False)
    made.copy_chunk(item, 2, [{"id": named(number), "name": f"again {number}"} for number in range(-5, 5)])
    made.end_snapshot(item, 2, 111)
    made.publish(lsns=[106, 111])
    rows: list[tuple[int, int, int | None]] = [
        (120, 4, 1),
        (120, 1, 2),
        (120, 2, 2),
        (121, 1, -64),
        (121, 2, 700),
        (122, 1, -63),
        (122, 1, 700),
    ]
    rows += [(130, 6, None), (131, 2, 64), (131, 2, 0), (131, 1, 64), (140, 4, 0)]
    changes = [
        change(lsn, operation, None, f"{lsn} {place}")
        | {"id": None if number is None else named(number), "__$seqval": place * apart}
        for place, (lsn, operation, number) in enumerate(rows)
    ]
    publish(made, *changes, item=item)
    by_spark = Changes(for_reading(spark), made.path)
    for lsn in (111, 120, 121, 122, 130, 131, 140):
        found = by_spark.get_table_as_of("public_t1", CommitLsn(lsn)).select("id", "name").collect()
        assert len(found) == len({row["id"] for row in found})
        assert {row["id"]: row["name"] for row in found} == read(made, lsn), lsn

"""A dropped column is null in all rows from the drop on, in tables as of an LSN and in targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import rowtide
from builders.capture.applied_targets import AppliedTargets
from builders.lakes.outside_readers import load_functions
from rowtide.cdc.lake_readers.lake import Lake
from rowtide.core.lsn import CommitLsn
from rowtide.targets.options import ApplyEngine, TargetFormat

if TYPE_CHECKING:
    from builders.capture.captured_databases import CapturedDatabase

TABLE = (
    "create table item (id int primary key, secret text, seen date, name text)",
    "insert into item values (1, 'a', 'infinity', 'x'), (2, 'b', '2026-01-01', 'y')",
)
WHOLE = [(1, "a", "x"), (2, "b", "y")]
EMPTIED = [(1, None, "z"), (2, None, "y")]
DROP = ("alter table item drop column secret, drop column seen", "update item set name = 'z' where id = 1")


def rows_of(captured: CapturedDatabase, at: CommitLsn | None = None) -> list[tuple[object, ...]]:
    found = Lake(str(captured.lake)).get_table_as_of("public_item", at).to_arrow().read_all().to_pylist()
    assert all(row["__$exact"] is None for row in found) or at is not None
    return sorted(((row["id"], row["secret"], row["name"]) for row in found), key=repr)


@pytest.mark.parametrize("is_told", [True, False])
def test_dropped_column_is_null_in_all_rows(captured: CapturedDatabase, is_told: bool) -> None:  # noqa: FBT001
    captured.execute(*TABLE)
    captured.cdc.enable_db(str(captured.lake))
    if not is_told:
        captured.execute("drop event trigger rowtide_announce_ddl")
    captured.cdc.enable_table("item")
    captured.copy_tables()
    before = captured.cdc.get_max_lsn()
    captured.execute(*DROP)
    captured.capture()

    assert rows_of(captured) == EMPTIED
    assert rows_of(captured, before) == WHOLE
    if is_told:
        # Another column of that name.
        captured.execute("alter table item add secret text default 'c'", "update item set secret = 'd' where id = 2")
        captured.capture()
        assert rows_of(captured) == EMPTIED


def test_dropped_column_is_null_in_a_target(captured: CapturedDatabase) -> None:
    captured.execute(*TABLE)
    captured.enable("item", snapshot=True)
    captured.copy_tables()
    applied = AppliedTargets(captured)
    applied.add("now", "public_item")
    applied.follow()
    captured.execute(*DROP)
    applied.follow()
    assert applied.rows("now", "public_item", "id", "secret", "name") == EMPTIED


@pytest.mark.exhaustive
def test_dropped_column_is_null_by_spark_and_in_targets(captured: CapturedDatabase) -> None:
    captured.execute(*TABLE)
    captured.enable("item", snapshot=True)
    captured.copy_tables()
    applied = AppliedTargets(captured)
    applied.add("now", "public_item", engine=ApplyEngine.AUTO)
    applied.add("past", "public_item", kind="history", format=TargetFormat.ICEBERG)
    applied.follow()
    captured.execute(*DROP)
    applied.follow()

    spark = captured.spark
    columns = ("id", "secret", "name")
    found = captured.cdc.get_table_as_of("public_item", spark=spark).select(*columns).collect()
    assert sorted(map(tuple, found), key=repr) == EMPTIED
    lsn = captured.cdc.get_max_lsn()
    assert lsn is not None
    function = next(name for name in rowtide.register(spark, str(captured.lake)) if "as_of_public_item" in name)
    found = spark.sql(f"select id, secret, name from {function}(cast({lsn.value} as bigint))").collect()
    assert sorted(map(tuple, found), key=repr) == EMPTIED
    assert applied.rows("now", "public_item", *columns) == EMPTIED
    assert applied.rows("past", "public_item", *columns, where="is_current") == EMPTIED
    closed = applied.rows("past", "public_item", *columns, where="not is_current")
    assert set(closed) >= set(WHOLE)
    read_iceberg = load_functions()["read_iceberg"]
    outside = read_iceberg(str(applied.folder / "past" / "past" / "public_item")).select(columns).to_pylist()
    assert sorted(map(tuple, map(dict.values, outside)), key=repr) == applied.rows("past", "public_item", *columns)

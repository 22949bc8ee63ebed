"""Tables of current rows: they have at each LSN what the source had."""

from __future__ import annotations

from typing import Any

import pytest

from builders.capture.applied_targets import AppliedTargets
from builders.capture.captured_databases import CapturedDatabase
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.stores import locate
from rowtide.targets.options import ApplyEngine, TargetFormat


@pytest.fixture
def applied(captured: CapturedDatabase) -> AppliedTargets:
    """Tables item and pair are captured, and have no rows."""
    captured.execute(
        "create table item (id int primary key, name text, price numeric(8,2))",
        "create table pair (a int, b int, c text, primary key (b, a))",
    )
    captured.enable("item", "pair")
    return AppliedTargets(captured)


@pytest.mark.exhaustive  # random changes are the shorter form
def test_a_target_has_the_rows_of_its_tables(applied: AppliedTargets) -> None:
    applied.add("shop", "public_item", "public_pair")
    applied.captured.execute(
        "insert into item values (1, 'tea', 1.5), (2, 'cake', 3), (3, 'milk', 1)",
        "insert into pair select n, n % 3, 'x' || n from generate_series(1, 9) n",
    )
    applied.follow()
    assert applied.rows("shop", "public_item", "id", "name") == [(1, "tea"), (2, "cake"), (3, "milk")]
    applied.captured.execute(
        "update item set price = price * 2, id = id + 10 where id < 3",
        "delete from item where id = 3",
        "insert into item values (3, 'bread', 4)",
        "delete from pair where b = 1",
    )
    first, second = applied.targets.read_position("shop"), applied.follow()["shop"]
    assert applied.rows("shop", "public_item", "id", "name") == [(11, "tea"), (12, "cake"), (3, "bread")]
    assert len(applied.rows("shop", "public_pair")) == 6
    assert first.lsn is not None
    assert second.lsn is not None
    assert first.lsn < second.lsn
    earlier = applied.targets.read("shop", "public_pair", first.lsn, spark=applied.captured.spark)
    assert earlier.count() == 9
    applied.captured.execute("truncate pair", "insert into pair values (1, 1, 'new')")
    applied.follow()
    assert applied.rows("shop", "public_pair") == [(1, 1, "new")]
    assert applied.targets.apply(spark=applied.captured.spark) == {}
    assert applied.notes() == {"public_item": None, "public_pair": None}


@pytest.mark.exhaustive
def test_rows_that_were_there_come_with_the_copy(captured: CapturedDatabase) -> None:
    captured.execute(
        "create table item (id int primary key, name text)",
        "insert into item select n, 'old' from generate_series(1, 20) n",
    )
    captured.enable("item", snapshot=True)
    applied = AppliedTargets(captured)
    applied.add("now", "public_item")
    applied.add("past", "public_item", kind="history")
    applied.captured.execute("update item set name = 'new' where id = 1")
    captured.cdc.run(once=True)
    applied.targets.apply(spark=captured.spark)
    verify_copied(applied)
    begun = applied.targets.read_position("past").lsn
    assert begun is not None
    assert {row[0] for row in applied.rows("past", "public_item", "valid_from_lsn")} == {begun.value}
    # A new copy takes back what the tables should not have, and brings what they lack.
    spark = captured.spark
    spark.sql(f"delete from delta.`{applied.folder}/now/public_item` where id < 5")
    spark.sql(f"update delta.`{applied.folder}/past/public_item` set name = 'wrong' where id = 7")
    captured.execute("insert into item values (21, 'later')", "delete from item where id = 9")
    captured.cdc.resnapshot("item")
    captured.cdc.run(once=True)
    applied.targets.apply(spark=spark)
    verify_copied(applied)
    assert len(applied.rows("past", "public_item")) == 22
    # Rows that are right are not written.
    last = spark.sql(f"describe history delta.`{applied.folder}/now/public_item` limit 1").first()
    assert last is not None
    written = {name: last["operationMetrics"][f"numTargetRows{name}"] for name in ("Inserted", "Updated", "Deleted")}
    assert written == {"Inserted": "5", "Updated": "0", "Deleted": "1"}


@pytest.mark.exhaustive  # only Spark makes tables equal
def test_rows_that_other_clients_changed_are_made_right(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key, name text)", "insert into item values (1, 'a'), (2, 'b')")
    captured.enable("item", snapshot=True)
    captured.cdc.run(once=True)
    applied = AppliedTargets(captured)
    applied.add("now", "public_item")
    applied.add("spark", "public_item", engine=ApplyEngine.SPARK)
    applied.follow()
    for name in ("now", "spark"):
        captured.spark.sql(f"delete from delta.`{applied.folder}/{name}/public_item` where id = 1")
        captured.spark.sql(f"insert into delta.`{applied.folder}/{name}/public_item` values (7, 'x')")
    captured.execute("update item set name = 'c' where id = 2")
    applied.follow()
    assert [applied.rows(name, "public_item") for name in ("now", "spark")] == [[(1, "a"), (2, "c")]] * 2
    captured.spark.sql(f"restore table delta.`{applied.folder}/spark/public_item` to version as of 1")
    captured.execute("update item set name = 'd' where id = 1")
    applied.follow()
    assert applied.rows("spark", "public_item") == [(1, "d"), (2, "c")]


@pytest.mark.exhaustive  # only Spark takes later copies
def test_a_later_copy_leaves_slices_their_moments(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key, name text)", "insert into item values (1, 'a'), (2, 'b')")
    captured.enable("item", snapshot=True)
    applied = AppliedTargets(captured)
    applied.add("past", "public_item", kind="history")
    captured.cdc.run(once=True)
    applied.targets.apply(spark=captured.spark)
    for name in ("x", "y", "z"):
        captured.execute(f"update item set name = '{name}' where id = 1")
    captured.cdc.resnapshot("item", where="id = 2")
    captured.cdc.run(once=True)
    captured.execute("update item set name = 'last' where id = 1")
    captured.capture()
    applied.targets.apply(spark=captured.spark)
    rows = applied.rows("past", "public_item", "id", "valid_from_lsn", "name", "is_current")
    assert [(id_, name, is_current) for id_, _, name, is_current in rows] == [
        *((1, name, False) for name in ("a", "x", "y", "z")),
        (1, "last", True),
        (2, "b", True),
    ]
    assert len({at for id_, at, _, _ in rows if id_ == 1}) == 5


@pytest.mark.exhaustive  # rows that are deleted at once and values that compare are in the test before
def test_a_later_copy_mends_values_of_all_types(captured: CapturedDatabase) -> None:
    captured.execute(
        "create table item (id int primary key, price float8, note text)",
        "insert into item values (1, '-0', 'a'), (2, 'NaN', 'b'), (3, 1, null), (4, null, 'd'), (5, 5, 'e')",
    )
    captured.enable("item", snapshot=True)
    applied = AppliedTargets(captured)
    # Maps cannot be compared.
    applied.add("soft", "public_item", soft_delete="is_deleted", columns={"notes": "map('note', note)"})
    captured.cdc.run(once=True)
    applied.targets.apply(spark=captured.spark)
    table = f"delta.`{applied.folder}/soft/public_item`"
    for change in (
        f"update {table} set price = 0 where id = 1",
        f"update {table} set is_deleted = true where id = 2",
        f"update {table} set note = 'x' where id = 3",
        f"update {table} set notes = map('note', 'x') where id = 4",
        f"insert into {table} (id, is_deleted) values (6, false), (7, true)",
    ):
        captured.spark.sql(change)
    captured.execute("delete from item where id = 5")
    captured.cdc.resnapshot("item")
    captured.cdc.run(once=True)
    applied.targets.apply(spark=captured.spark)
    found = applied.targets.read("soft", "public_item", spark=captured.spark)
    rows = found.selectExpr("id", "string(price)", "note", "notes['note']", "is_deleted").collect()
    assert sorted((tuple(row) for row in rows), key=repr) == [
        (1, "-0.0", "a", "a", False),
        (2, "NaN", "b", "b", False),
        (3, "1.0", None, None, False),
        (4, None, "d", "d", False),
        (5, "5.0", "e", "e", True),
        (6, None, None, None, True),
        (7, None, None, None, True),
    ]


def verify_copied(applied: AppliedTargets) -> None:
    source = sorted(applied.captured.execute("select id, name from item"))
    assert applied.notes() == {"public_item": None}
    assert sorted(applied.rows("now", "public_item")) == source
    found = applied.rows("past", "public_item", "id", "name", "is_current")
    assert sorted((number, name) for number, name, is_current in found if is_current) == source


@pytest.mark.exhaustive  # it takes two copies; that a new one is taken is in the test before
def test_added_columns_flow_in_with_a_second_instance(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key, name text)", "insert into item values (1, 'a'), (2, 'b')")
    captured.enable("item", snapshot=True)
    captured.cdc.run(once=True)
    applied = AppliedTargets(captured)
    applied.add("now", "public_item", follow_columns=True)
    applied.targets.apply(spark=captured.spark)
    captured.execute("alter table item add amount int default 7", "insert into item values (3, 'c', 1)")
    captured.cdc.enable_table("item", capture_instance="item_2", snapshot=True)
    # The table goes over at an LSN above its own last one.
    applied.follow()
    captured.cdc.run(once=True)
    applied.targets.apply(spark=captured.spark)
    (listed,) = applied.targets.list_targets()
    assert (listed.instance, listed.state, listed.location) == ("item_2", "member", f"{applied.folder}/now/public_item")
    assert applied.rows("now", "item_2") == [(1, "a", 7), (2, "b", 7), (3, "c", 1)]
    captured.cdc.disable_table("item", capture_instance="public_item")
    captured.execute("update item set amount = amount + 1")
    applied.follow()
    assert applied.rows("now", "item_2") == [(1, "a", 8), (2, "b", 8), (3, "c", 2)]


@pytest.mark.exhaustive
def test_a_renamed_column_is_renamed_in_targets(captured: CapturedDatabase) -> None:
    captured.execute(
        "create table item (id int primary key, name text, area text, secret text, note text)",
        "insert into item values (1, 'a', 'x', 's', 'p'), (2, 'b', 'y', 's', 'q'), (3, 'c', 'x', 's', 'r')",
    )
    captured.enable("item", snapshot=True)
    captured.cdc.run(once=True)
    applied = AppliedTargets(captured)
    options: dict[str, Any] = {"except_column_list": ("public_item.secret",), "rename": {"note": "remark"}}
    options |= {"follow_columns": True, "partition_by": ("area",)}
    applied.add("now", "public_item", **options)
    applied.add("iceberg", "public_item", format=TargetFormat.ICEBERG, **options)
    applied.add("past", "public_item", kind="history", **options)
    vectors = {"delta.enableDeletionVectors": "true"}
    applied.add("vectors", "public_item", **{**options, "partition_by": ()}, table_properties=vectors)
    applied.targets.apply(spark=captured.spark)
    captured.execute("update item set name = 'A' where id = 1", "delete from item where id = 3")
    applied.follow()
    captured.execute(
        "alter table item rename name to title",
        "alter table item rename area to zone",
        "alter table item rename secret to private",
        "alter table item rename note to name",
        "insert into item values (4, 'd', 'y', 's', 't')",
    )
    captured.cdc.enable_table("item", capture_instance="item_2", snapshot=True)
    # The table goes over at an LSN above its own last one.
    applied.follow()
    captured.cdc.run(once=True)
    applied.targets.apply(spark=captured.spark)
    assert applied.notes() == {"item_2": None}
    columns = {"id", "title", "zone", "remark"}
    source = captured.execute("select id, title, zone, name from item order by id")
    for target in ("now", "iceberg", "vectors", "past"):
        found = applied.targets.read(target, "item_2", spark=captured.spark)
        assert (target, {name for name in found.columns if "valid" not in name} - {"is_current"}) == (target, columns)
        where = "is_current" if target == "past" else "true"
        assert (target, applied.rows(target, "item_2", "id", "title", "zone", "remark", where=where)) == (
            target,
            source,
        )
    # Slices that ended have their values under the new names, and a rename ends none.
    ended = applied.rows("past", "item_2", "id", "title", "zone", "remark", where="not is_current")
    assert ended == [(1, "a", "x", "p"), (3, "c", "x", "r")]
    folder = applied.folder / "now" / "public_item"
    table = open_snapshot(locate(str(folder)))
    assert table is not None
    assert (table.metadata.is_mapped, table.metadata.partition_columns) == (False, ["zone"])
    assert sorted(table.read(["id", "zone"]).to_pylist(), key=str) == [
        {"id": id_, "zone": zone} for id_, _, zone, _ in source
    ]
    captured.cdc.disable_table("item", capture_instance="public_item")
    captured.execute("update item set zone = 'z', title = upper(title)")
    applied.follow()
    for target in ("now", "iceberg", "vectors"):
        assert {row[:2] for row in applied.rows(target, "item_2", "title", "zone")} == {
            ("A", "z"),
            ("B", "z"),
            ("D", "z"),
        }

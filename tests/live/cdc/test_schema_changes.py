"""DDL on captured tables, to the change tables: fixed columns, types that follow, and the history of it all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

import pytest

from builders.capture.captured_databases import CapturedDatabase
from builders.commands.command_lines import rowtide
from builders.commands.hints import run_printed
from builders.faults.cuts import Cut, cut_at
from builders.faults.failpoints import CAPTURE_FAILPOINTS, RETYPING_FAILPOINTS
from builders.servers.ddl import forget_triggers
from rowtide.cdc import system_tables
from rowtide.cdc.capture import appends, capture
from rowtide.cdc.ddl import retyping
from rowtide.cdc.errors.capturing import ValuesDoNotFit
from rowtide.cdc.published import ListedChange
from rowtide.core.lsn import CommitLsn
from rowtide.handle import register
from rowtide.lake import tables
from rowtide.lake.session import pinned

LONG = 1 << 40


class Told(NamedTuple):
    """What a test looks at in a row of the history."""

    command: str
    required: bool
    inferred: bool
    rewrites: bool


@pytest.fixture(scope="module")
def altered(shared: CapturedDatabase) -> CapturedDatabase:
    """Three tables, one altered through its parent, in many ways with rows between, captured in two runs."""
    shared.execute(
        "create table item (id int primary key, name text, gone text, amount numeric(9, 2))",
        'create table typed (id int primary key, n int, d date, t text, s int, v varchar(20), "odd, name" int)',
        "create table parent (id int, v text, twice int generated always as (id * 2) stored)",
        "create table child (primary key (id)) inherits (parent)",
    )
    shared.enable("item", "typed", "child")
    shared.execute(
        "insert into item values (1, 'a', 'x', 1)",
        "insert into typed values (1, 7, '2026-01-02', '12', 3, 'long enough', 9)",
        "insert into typed values (2, null, 'infinity', null, null, null)",
        "alter table item add column more int default 5",
    )
    shared.cdc.enable_table("item", capture_instance="wider")
    shared.execute(
        "insert into item values (2, 'b', 'y', 2, 6)",
        "alter table item rename column name to label",
        "update item set label = 'c' where id = 2",
        "alter table item drop column gone",
        "update item set amount = 3 where id = 2",
    )
    shared.capture()
    with shared.transaction() as session:
        session.execute("insert into typed values (3, 8, '2026-01-03', '13', 4, 'cut')")
        session.execute("update typed set v = 'cut'")
        session.execute("alter table typed alter n type bigint, alter d type timestamp")
        session.execute(f"insert into typed values (4, {LONG}, '2026-01-04 10:00', '14', 5, 'x')")
    shared.execute(
        "alter table typed alter t type int using t::int * 2",
        "alter table typed alter s type smallint",
        "alter table typed alter v type varchar(9)",
        "insert into typed values (5, 1, '2026-01-05', 15, 6, 'y')",
        "alter table item rename to thing",
        "insert into thing values (3, 'd', 4, 7)",
        "insert into child values (1, 'a')",
        "alter table parent rename column v to w",
        "alter table parent alter twice drop expression",
        "alter table parent rename to ancestor",
        "insert into child values (2, 'b', 5)",
        "update child set twice = 6 where id = 2",
    )
    shared.capture()
    return shared


def history(captured: CapturedDatabase, instance: str) -> list[Told]:
    rows = captured.cdc.get_ddl_history(instance)
    assert [row.ddl_lsn for row in rows] == sorted(row.ddl_lsn for row in rows)
    return [Told(row.ddl_command, row.required_column_update, row.inferred, row.rewrites_values) for row in rows]


def test_new_columns_are_ignored_renamed_kept_and_dropped_null(altered: CapturedDatabase) -> None:
    two, three = Decimal("2.00"), Decimal("3.00")
    assert altered.values("public_item", "id", "name", "gone", "amount") == [
        (2, 1, "a", "x", Decimal("1.00")),
        (2, 2, "b", "y", two),
        (3, 2, "b", "y", two),
        (4, 2, "c", "y", two),
        (3, 2, "c", None, two),
        (4, 2, "c", None, three),
        (2, 3, "d", None, Decimal("4.00")),
    ]


def test_a_child_follows_what_is_done_to_its_parent(altered: CapturedDatabase) -> None:
    assert altered.values("public_child", "id", "v", "twice") == [
        (2, 1, "a", None),
        (2, 2, "b", 5),
        (3, 2, "b", 5),
        (4, 2, "b", 6),
    ]
    assert [row["__$update_mask"].hex() for row in altered.changes("public_child", "all")] == ["07", "07", "04"]
    assert [(told.command, told.inferred) for told in history(altered, "public_child")] == [
        ("alter table parent rename column v to w", False),
        ("alter table parent alter twice drop expression", False),
    ]


def test_a_dropped_column_has_no_bit_in_the_masks_of_updates(altered: CapturedDatabase) -> None:
    rows = altered.changes("public_item", "all")
    assert [row["__$update_mask"].hex() for row in rows] == ["0f", "0f", "02", "08", "0f"]
    assert {row["__$absent_mask"] for row in rows} == {None}


def test_second_instance_has_current_columns_and_is_filled_too(
    altered: CapturedDatabase,
) -> None:
    assert altered.values("wider", "id", "name", "more", row_filter="all") == [
        (2, 2, "b", 6),
        (4, 2, "c", 6),
        (4, 2, "c", 6),
        (2, 3, "d", 7),
    ]
    first, second = (altered.cdc.get_min_lsn(name) for name in ("public_item", "wider"))
    assert first < second < CommitLsn(altered.changes("wider")[0]["__$start_lsn"])


def test_the_history_of_each_instance_begins_with_it(altered: CapturedDatabase) -> None:
    later = [
        Told("alter table item rename column name to label", required=False, inferred=False, rewrites=False),
        Told("alter table item drop column gone", required=False, inferred=False, rewrites=False),
        Told("alter table item rename to thing", required=False, inferred=False, rewrites=False),
    ]
    added = Told("alter table item add column more int default 5", required=False, inferred=False, rewrites=False)
    assert history(altered, "public_item") == [added, *later]
    assert history(altered, "wider") == later


def test_ddl_history_has_names_and_time_of_its_transaction(altered: CapturedDatabase) -> None:
    *_, last = altered.cdc.get_ddl_history("public_item")
    assert isinstance(last, ListedChange)
    assert (last.source_schema, last.source_table, last.capture_instance) == ("public", "thing", "public_item")
    assert last.ddl_time == altered.cdc.map_lsn_to_time(last.ddl_lsn)


def test_types_follow_and_values_from_before_are_in_them(altered: CapturedDatabase) -> None:
    rows = altered.values("public_typed", "id", "n", "d", "t", "s", "v", row_filter="all")
    assert [(*row[:3], str(row[3]), *row[4:]) for row in rows if row[0] == 2] == [
        (2, 1, 7, "2026-01-02 00:00:00", 12, 3, "long enough"),
        (2, 2, None, "None", None, None, None),
        (2, 3, 8, "2026-01-03 00:00:00", 13, 4, "cut"),
        (2, 4, LONG, "2026-01-04 10:00:00", 14, 5, "x"),
        (2, 5, 1, "2026-01-05 00:00:00", 15, 6, "y"),
    ]
    assert [row["odd, name"] for row in altered.changes("public_typed", "all")][:2] == [9, None]
    types = dict(altered.cdc.get_all_changes("public_typed", spark=altered.spark).dtypes)
    assert [types[name] for name in ("n", "d", "t", "s", "v")] == [
        "bigint",
        "timestamp_ntz",
        "int",
        "smallint",
        "string",
    ]


def test_a_value_that_neither_type_can_hold_stays_exact(altered: CapturedDatabase) -> None:
    exact = {row["id"]: row["__$exact"] for row in altered.changes("public_typed", "all") if row["__$exact"]}
    assert exact == {2: {3: "infinity"}}


def test_value_rewrites_and_change_table_changes_are_marked(altered: CapturedDatabase) -> None:
    assert [told[1:] for told in history(altered, "public_typed")] == [
        (True, False, True),
        (True, False, True),
        (True, False, True),
        (False, False, True),
    ]


def test_net_changes_go_over_renames_and_types(altered: CapturedDatabase) -> None:
    rows = altered.cdc.get_net_changes("public_typed", spark=altered.spark).collect()
    assert sorted((row["id"], row["n"], row["t"]) for row in rows) == [
        (1, 7, 12),
        (2, None, None),
        (3, 8, 13),
        (4, LONG, 14),
        (5, 1, 15),
    ]


def test_table_changes_switch_instances_at_an_lsn(altered: CapturedDatabase) -> None:
    changes = altered.cdc.get_table_changes("thing", spark=altered.spark)
    names = ("__$capture_instance", "__$operation", "id", "name", "more", "gone", "amount")
    assert [tuple(row[name] for name in names) for row in changes.collect()] == [
        ("public_item", 2, 1, "a", None, "x", Decimal("1.00")),
        ("wider", 2, 2, "b", 6, "y", Decimal("2.00")),
        ("wider", 4, 2, "c", 6, "y", Decimal("2.00")),
        ("wider", 4, 2, "c", 6, None, Decimal("3.00")),
        ("wider", 2, 3, "d", 7, None, Decimal("4.00")),
    ]
    low = altered.cdc.get_min_lsn("wider")
    before = altered.cdc.get_table_changes("thing", None, low.decrement(), spark=altered.spark)
    after = altered.cdc.get_table_changes("thing", low, spark=altered.spark)
    assert (before.count(), after.count()) == (1, 4)


def test_table_changes_masks_count_the_columns_of_both_instances(altered: CapturedDatabase) -> None:
    """The newer instance's columns, and it has all of them: id, name, gone, amount, more."""
    masks = [
        row["__$update_mask"].hex() for row in altered.cdc.get_table_changes("thing", spark=altered.spark).collect()
    ]
    assert masks == ["0f", "1f", "02", "08", "1f"]


def test_the_commands_print_the_history_and_a_table_s_changes(altered: CapturedDatabase) -> None:
    options = ("--format", "jsonl", "--db", altered.url)
    listed = rowtide("cdc", "ddl-history", "public_item", *options)
    assert listed.code == 0, listed.errors
    *_, last = [json.loads(line) for line in listed.output.splitlines()]
    assert (last["ddl_command"], last["source_table"]) == ("alter table item rename to thing", "thing")
    printed = rowtide("cdc", "table-changes", "thing", *options)
    assert printed.code == 0, printed.errors
    first, *_ = [json.loads(line) for line in printed.output.splitlines()]
    assert (first["__$capture_instance"], first["more"], first["amount"]) == ("public_item", None, "1.00")
    rowtide("cdc", "ddl-history", "public_nothing", *options).require_error(22981)


@pytest.mark.exhaustive
def test_functions_that_are_registered_now_have_the_types_of_now(altered: CapturedDatabase) -> None:
    spark = pinned(altered.spark)
    register(spark, str(altered.lake))
    bounds = "(select fn_cdc_get_min_lsn('public_typed')), (select fn_cdc_get_max_lsn())"
    changes = f"fn_cdc_get_all_changes_public_typed({bounds}, 'all')"
    asked = spark.sql(f"select max(n), (select fn_cdc_get_column_ordinal('public_typed', 'n')) from {changes}")
    assert asked.collect() == [(LONG, 2)]


@pytest.mark.exhaustive
def test_renames_and_type_changes_are_inferred_without_triggers(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key, name text, n int)")
    captured.enable("item")
    forget_triggers(captured)
    captured.execute("insert into item values (1, 'a', 1)")
    captured.execute("alter table item rename column name to label", "alter table item alter n type bigint")
    captured.execute("alter table item add column more int", f"insert into item values (2, 'b', {LONG})")
    captured.capture()
    assert captured.values("public_item", "id", "name", "n") == [(2, 1, "a", 1), (2, 2, "b", LONG)]
    table = 'alter table "public"."item"'
    assert history(captured, "public_item") == [
        Told(f'{table} rename column "name" to "label"', required=False, inferred=True, rewrites=False),
        Told(f'{table} alter column "n" type bigint', required=True, inferred=True, rewrites=False),
        Told(f'{table} add column "more" integer', required=False, inferred=True, rewrites=False),
    ]
    captured.execute("insert into item values (3, 'c', 3)")
    captured.capture()
    assert len(history(captured, "public_item")) == 3


@pytest.mark.soak
def test_type_that_captured_values_do_not_fit_waits_for_cleanup(
    captured: CapturedDatabase,
) -> None:
    captured.execute("create table item (id int primary key, n int)")
    captured.enable("item")
    captured.execute("insert into item values (1, 70000)", "insert into item values (2, 2)", "delete from item")
    captured.execute("insert into item values (3, 3)", "alter table item alter n type smallint")
    captured.execute("insert into item values (4, 4)")
    for _ in range(2):
        with pytest.raises(
            ValuesDoNotFit, match="RT-8115: 2 values of n captured by public_item do not fit smallint"
        ) as unfit:
            captured.capture()
    assert captured.values("public_item", "id", row_filter="all")[-1] == (2, 3)
    mark = captured.changes("public_item")[-1]["__$start_lsn"]
    run_printed(unfit.value, captured.url, LSN=str(CommitLsn(mark)))
    captured.capture()
    assert captured.values("public_item", "id", "n") == [(2, 3, 3), (2, 4, 4)]


@pytest.mark.exhaustive
def test_type_that_captured_values_do_not_fit_ends_with_instance(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key, n text)")
    captured.enable("item")
    captured.execute("insert into item values (1, 'a')", "alter table item alter n type int using 1")
    with pytest.raises(ValuesDoNotFit, match="1 values of n"):
        captured.capture()
    captured.cdc.disable_table("item")
    captured.cdc.enable_table("item")
    captured.execute("insert into item values (2, 2)")
    captured.capture()
    assert captured.values("public_item", "id", "n") == [(2, 2, 2)]


def test_values_of_a_column_that_was_replaced_unseen_do_not_fit(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key, n text)")
    captured.enable("item")
    forget_triggers(captured)
    captured.execute("insert into item values (1, 'a')")
    captured.execute("alter table item drop column n", "alter table item add column n int")
    captured.execute("insert into item values (2, 2)")

    with pytest.raises(ValuesDoNotFit, match="do not fit integer, the type of the column that has its name in the"):
        captured.capture()


@pytest.mark.exhaustive
def test_instance_after_a_gap_has_the_types_of_that_time(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key, n int)")
    captured.enable("item")
    captured.execute("alter table item alter n type bigint", f"insert into item values (1, {LONG})", "delete from item")
    captured.capture()
    captured.execute("alter table item alter n type int")
    captured.cdc.reinitialize("to hide what was done")
    captured.execute("insert into item values (2, 2)")
    captured.capture()
    assert captured.values("public_item", "id", "n") == [(2, 2, 2)]
    assert dict(captured.cdc.get_all_changes("public_item", spark=captured.spark).dtypes)["n"] == "int"


@pytest.mark.exhaustive
def test_capture_interrupted_during_a_type_change_does_it_once(
    captured: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off_in_turn(captured, monkeypatch, [*RETYPING_FAILPOINTS, "change_table_append.after"])


@pytest.mark.soak
def test_capture_killed_at_any_failpoint_changes_a_type_once(
    captured: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off_in_turn(captured, monkeypatch, [*RETYPING_FAILPOINTS, *CAPTURE_FAILPOINTS])


def cut_off_in_turn(captured: CapturedDatabase, monkeypatch: pytest.MonkeyPatch, places: Sequence[str]) -> None:
    """In turn a column is widened in place and the change table rewritten; each time rows come with it."""
    captured.execute("create table item (id int primary key, n int)")
    captured.enable("item")
    captured.execute("insert into item values (0, 0)")
    captured.capture()
    for number, place in enumerate(places, 1):
        captured.execute(f"alter table item alter n type {'bigint' if number % 2 else 'int'}")
        captured.execute(f"insert into item values ({number}, {number})")
        captured.read_log()
        with monkeypatch.context() as patched:
            for module in (appends, capture, system_tables, retyping):
                patched.setattr(module, "failpoint", cut_at(place))
            with pytest.raises(Cut):
                captured.capture_log()
        assert len(captured.values("public_item")) in (number, number + 1)
        captured.capture()
        assert captured.values("public_item", "id", "n") == [(2, one, one) for one in range(number + 1)]
        assert len(history(captured, "public_item")) == number
    path = f"{captured.lake}/cdc/public_item_CT"
    assert tables.read_table(captured.spark, path).count() == len(places) + 1

"""What change tracking promises on every database, wherever it keeps its stamps: the pairs are in `OFFERED`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import combinations
from uuid import UUID, uuid4

import pytest

from builders.formats import NEWER, NEWER_READABLE, forgetting, recording
from builders.tracking.tracked_databases import TrackedDatabase
from rowtide.core.anchors import UnknownAnchor
from rowtide.core.formats import FormatNewer, FormatUnnumbered
from rowtide.tracking import Anchor, NetOperation, PurgeType, TrackingKeyType, TrackingOptions
from rowtide.tracking.errors import (
    AnchorTooOld,
    InvalidTombstoneKey,
    NothingToTrack,
    NothingTracked,
    NoTransaction,
    NotTracked,
    TableToTrackNotFound,
    TrackedAlready,
    TrackingKeyMissing,
    TrackingLost,
    TransactionOpen,
)

MINE = UUID(int=7)
THREE_ROWS = "insert into t (id, name, qty) values (1, 'a', 0), (2, 'b', 0), (3, 'c', 0)"


def changes_of_others(tracked: TrackedDatabase, since: Anchor | None, *, mine: UUID = MINE) -> list[tuple[object, ...]]:
    with tracked.tracking.changes(["t"], since, exclude_context=mine) as changes:
        return [(str(change.operation), *change.row) for change in changes]


# What a window's net changes are.


def test_first_call_is_a_full_copy_and_anchor_of_one_snapshot(untracked: TrackedDatabase) -> None:
    untracked.run(THREE_ROWS)
    untracked.enable()

    assert sorted(untracked.changes()) == [("insert", 1, "a", 0), ("insert", 2, "b", 0), ("insert", 3, "c", 0)]
    assert untracked.changes() == []


def test_an_insert_and_its_updates_are_one_insert(tracked: TrackedDatabase) -> None:
    tracked.run("insert into t (id, name, qty) values (1, 'a', 1)", "update t set qty = 2", "update t set qty = 3")

    assert tracked.changes() == [("insert", 1, "a", 3)]


def test_several_updates_are_one_and_a_no_op_update_counts_too(tracked: TrackedDatabase) -> None:
    tracked.run(THREE_ROWS)
    tracked.changes()
    tracked.run("update t set qty = 1 where id = 1", "update t set qty = 2 where id = 1")
    tracked.run("update t set qty = qty where id = 2")

    assert sorted(tracked.changes()) == [("update", 1, "a", 2), ("update", 2, "b", 0)]


def test_a_row_that_came_and_went_is_nothing(tracked: TrackedDatabase) -> None:
    tracked.run(THREE_ROWS, "delete from t")

    assert tracked.changes() == []


def test_row_updated_and_deleted_is_a_delete_of_its_key(tracked: TrackedDatabase) -> None:
    tracked.run(THREE_ROWS)
    tracked.changes()
    tracked.run("update t set qty = 1 where id = 2", "delete from t where id = 2")

    assert tracked.changes() == [("delete", 2)]


@pytest.mark.parametrize("is_one_transaction", [False, True])
def test_a_delete_and_an_insert_of_one_key_are_an_update(
    tracked: TrackedDatabase,
    is_one_transaction: bool,  # noqa: FBT001
) -> None:
    tracked.run(THREE_ROWS)
    tracked.changes()
    rewriting = ["delete from t where id = 1", "insert into t (id, name) values (1, 'new')"]
    tracked.run(*(["begin", *rewriting, "commit"] if is_one_transaction else rewriting))
    assert tracked.changes() == [("update", 1, "new", None)]

    tracked.run("delete from t where id = 1", *rewriting[1:], "delete from t where id = 1")
    assert tracked.changes() == [("delete", 1)]
    tracked.run(*rewriting[1:], "delete from t where id = 1", *rewriting[1:])
    assert tracked.changes() == [("insert", 1, "new", None)]


def test_a_new_key_is_a_delete_and_an_insert(tracked: TrackedDatabase) -> None:
    tracked.run("insert into t (id, name, qty) values (1, 'a', 1)")
    tracked.changes()
    tracked.run("update t set id = 2")
    assert tracked.changes() == [("delete", 1), ("insert", 2, "a", 1)]

    tracked.run("update t set id = 3", "update t set id = 2")
    assert tracked.changes() == [("update", 2, "a", 1)]


def test_a_key_that_a_deleted_row_had_is_an_update_of_that_row(tracked: TrackedDatabase) -> None:
    tracked.run(THREE_ROWS)
    tracked.changes()
    tracked.run("delete from t where id = 2", "update t set id = 2 where id = 1")

    assert tracked.changes() == [("delete", 1), ("update", 2, "a", 0)]


def test_an_upsert_is_what_it_did(tracked: TrackedDatabase) -> None:
    tracked.run("insert into t (id, name) values (1, 'a')")
    tracked.changes()
    tracked.run(
        "insert into t (id, name) values (1, 'x'), (2, 'y') on conflict (id) do update set name = excluded.name",
        "insert into t (id, name) values (1, 'z') on conflict do nothing",
    )

    assert sorted(tracked.changes()) == [("insert", 2, "y", None), ("update", 1, "x", None)]


def test_rolled_back_writes_leave_nothing(tracked: TrackedDatabase) -> None:
    tracked.run("insert into t (id) values (9)")
    tracked.changes()
    tracked.run("begin", "insert into t (id) values (1)", "savepoint s", "insert into t (id) values (2)")
    tracked.run("delete from t where id = 9", "rollback to s", "commit")
    assert tracked.changes() == [("insert", 1, None, None)]

    tracked.run("begin", "update t set qty = 1", "delete from t", "rollback")
    assert tracked.changes() == []


def test_cascaded_changes_are_tracked_with_children_in_order(
    tracked: TrackedDatabase,
) -> None:
    tracked.run(
        "create table child (id integer primary key, t_id integer references t (id) on delete cascade "
        "on update cascade)",
        "insert into t (id) values (1), (2)",
        "insert into child (id, t_id) values (10, 1), (20, 2)",
    )
    tracked.enable("child")
    tracked.seen = None
    tracked.changes("t", "child")
    tracked.run("delete from t where id = 1", "update t set id = 3 where id = 2")

    found = [(change.table, str(change.operation), change.row[0]) for change in tracked.enumerate("t", "child")]
    child, parent = tracked.full_name("child"), tracked.full_name("t")
    assert found[0] == (child, "delete", 10)
    assert sorted(found[1:3]) == [(parent, "delete", 1), (parent, "delete", 2)]
    assert found[3:] == [(parent, "insert", 3), (child, "update", 20)]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(TrackingOptions(sum(one.value for one in some)), id="+".join(str(one.name) for one in some))
        for count in (1, 2, 3)
        for some in combinations(TrackingOptions, count)
    ],
)
def test_only_the_operations_that_were_asked_for_are_tracked(
    untracked: TrackedDatabase, options: TrackingOptions
) -> None:
    untracked.run("insert into t (id) values (1), (2)")
    untracked.enable(options=options)
    untracked.changes()
    untracked.run("insert into t (id) values (3)", "update t set qty = 1 where id = 1", "delete from t where id = 2")

    of_each = {
        TrackingOptions.DELETE: ("delete", 2),
        TrackingOptions.INSERT: ("insert", 3, None, None),
        TrackingOptions.UPDATE: ("update", 1, None, 1),
    }
    assert sorted(untracked.changes()) == [change for option, change in of_each.items() if option in options]
    assert untracked.tracking.get_tracking_options("t") == options


def test_rows_go_by_their_guid_where_that_is_the_key(untracked: TrackedDatabase) -> None:
    one, two = UUID(int=1), UUID(int=2)
    untracked.run(
        f"create table g (id integer primary key, rowguid {untracked.guid_type} not null unique)",
        f"insert into g values (1, '{one}'), (2, '{two}')",
    )
    untracked.enable("g", TrackingKeyType.ROWGUID)
    untracked.changes("g")
    untracked.run(f"update g set id = 3 where rowguid = '{one}'", "delete from g where id = 2")

    found = [tuple(map(str, change)) for change in untracked.changes("g")]
    assert found == [("delete", str(two)), ("update", "3", str(one))]


def test_tables_of_any_key_are_tracked(untracked: TrackedDatabase) -> None:
    untracked.run(
        "create table pair (b text, a integer, v integer, primary key (a, b))",
        "create table only_key (k text primary key)",
    )
    untracked.enable("pair")
    untracked.enable("only_key")
    untracked.changes("pair", "only_key")
    untracked.run(
        "insert into pair (a, b) values (1, 'x'), (1, 'y'), (2, 'x')", "insert into only_key (k) values ('k'), ('')"
    )
    assert len(untracked.changes("pair", "only_key")) == 5

    untracked.run("update pair set v = 1 where a = 1 and b = 'y'", "delete from pair where a = 2")
    untracked.run("update pair set b = 'z' where a = 1 and b = 'x'", "update only_key set k = 'l' where k = 'k'")
    assert sorted(map(str, untracked.changes("pair", "only_key"))) == sorted(
        map(
            str,
            [
                ("delete", 1, "x"),
                ("delete", 2, "x"),
                ("delete", "k"),
                ("insert", "z", 1, None),
                ("update", "y", 1, 1),
                ("insert", "l"),
            ],
        )
    )


@pytest.mark.parametrize(
    "name",
    ['or"der', "quo'te", "a:b %s", "select", "Mixed Case", "b\\s", "a.b", "a$$b", "{x}", "ünï 🙂", "n" * 40],
)
def test_any_name_of_a_table_and_its_columns_is_right(untracked: TrackedDatabase, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    untracked.run(f'create table {quoted} ({quoted} integer primary key, "{"v:1 %s"}" text)')
    untracked.enable(name)
    assert untracked.changes(name) == []
    untracked.run(f"insert into {quoted} ({quoted}) values (1), (2), (3)")
    assert sorted(untracked.changes(name)) == [("insert", 1, None), ("insert", 2, None), ("insert", 3, None)]

    untracked.run(f"delete from {quoted} where {quoted} = 1", f"update {quoted} set {quoted} = 4 where {quoted} = 2")
    untracked.run(f"update {quoted} set \"v:1 %s\" = ':x %s' where {quoted} = 3")
    before = untracked.seen
    found = untracked.enumerate(name)
    assert {change.table for change in found} == {untracked.full_name(name)}
    assert sorted((str(change.operation), *change.row) for change in found) == [
        ("delete", 1),
        ("delete", 2),
        ("insert", 4, None),
        ("update", 3, ":x %s"),
    ]
    assert before is not None
    assert untracked.tracking.changed_since(name, [3], before)
    assert untracked.tracking.pack_tombstone_key(name, [3])
    assert untracked.tracking.purge_tombstone_table_data(name, PurgeType.TIME_BASED, 0) == 2
    untracked.tracking.resume_tracking(name)
    untracked.tracking.disable_tracking(name)


def test_texts_are_what_they_are(tracked: TrackedDatabase) -> None:
    texts = ["", " ", "a", "A", "é", "e\u0301", "🙂", "a'b\"c\\", "NULL", ":x %s {y} $$", "l\ni\tn"]
    for number, text in enumerate(texts):
        tracked.run(f"insert into t (id, name) values ({number}, '{text.replace(chr(39), chr(39) * 2)}')")

    assert [change[2] for change in sorted(tracked.changes(), key=lambda change: int(str(change[1])))] == texts


def test_many_rows_at_once_are_many_changes(tracked: TrackedDatabase) -> None:
    numbers = "with recursive n (id) as (select 1 union all select id + 1 from n where id < 12000) select id from n"
    tracked.run(f"insert into t (id) {numbers}")
    assert len(tracked.changes()) == 12000
    tracked.run("update t set qty = 1 where id <= 6000", "delete from t where id > 6000")

    found = tracked.changes()
    assert [change[0] for change in found] == ["delete"] * 6000 + ["update"] * 6000
    assert tracked.changes() == []


# Windows and anchors.


def test_nothing_is_written_where_nothing_changed(tracked: TrackedDatabase) -> None:
    tracked.run(THREE_ROWS)
    tracked.changes()
    before = tracked.seen
    anchors = f"select count(*) from {tracked.system_table('__sysAnchors')}"
    count = tracked.ask(anchors)

    for _ in range(3):
        assert tracked.changes() == []
        assert tracked.seen == before
    assert tracked.ask(anchors) == count


def test_repeated_window_is_equal_and_a_longer_one_nets_both(tracked: TrackedDatabase) -> None:
    first = tracked.seen
    tracked.run(THREE_ROWS)
    tracked.changes()
    tracked.run("update t set qty = 1 where id = 1", "delete from t where id = 2")
    second = tracked.seen
    for _ in range(2):
        tracked.seen = second
        assert tracked.changes() == [("delete", 2), ("update", 1, "a", 1)]

    tracked.seen = first
    assert sorted(tracked.changes()) == [("insert", 1, "a", 1), ("insert", 3, "c", 0)]


def test_numbers_of_anchors_rise_with_what_is_committed(tracked: TrackedDatabase) -> None:
    numbers = [tracked.tracking.get_last_committed_csn()]
    for qty in range(3):
        tracked.run(f"insert into t (id, qty) values ({qty}, {qty})")
        tracked.changes()
        assert tracked.seen is not None
        numbers.append(tracked.seen.csn)
        assert tracked.tracking.get_last_committed_csn() == numbers[-1]
    assert sorted(set(numbers)) == numbers


def test_several_tables_are_read_in_one_snapshot_beside_writers(tracked: TrackedDatabase) -> None:
    tracked.run("create table u (id integer primary key)")
    tracked.enable("u")
    tracked.run("insert into t (id) values (1)")
    with tracked.tracking.changes(["t", "u"], tracked.seen, whole=["u"]) as changes:
        tracked.ask_elsewhere("insert into t (id) values (2)")
        tracked.ask_elsewhere("insert into u (id) values (3)")
        tables = [(change.table, change.row[0]) for change in changes]
    assert tables == [(tracked.full_name("t"), 1)]
    with tracked.tracking.changes(["t", "u"], changes.anchor) as more:
        tables = [(change.table, change.row[0]) for change in more]
    assert tables == [(tracked.full_name("t"), 2), (tracked.full_name("u"), 3)]


def test_table_tracked_later_is_copied_alone_and_others_continue(tracked: TrackedDatabase) -> None:
    tracked.run(THREE_ROWS)
    tracked.changes()
    tracked.run("create table u (id integer primary key)", "insert into u (id) values (7)")
    tracked.enable("u")
    tracked.run("update t set qty = 1 where id = 1")

    with pytest.raises(AnchorTooOld):
        tracked.changes("t", "u")
    with tracked.tracking.changes(["t", "u"], tracked.seen, whole=["u"]) as changes:
        found = [(str(change.operation), change.row[0]) for change in changes]
    assert found == [("update", 1), ("insert", 7)]
    tracked.seen = changes.anchor
    assert tracked.changes("u", "t") == []
    tracked.tracking.disable_tracking("u")
    tracked.run("delete from t where id = 1")
    assert tracked.changes() == [("delete", 1)]


def test_an_anchor_that_nobody_gave_is_refused(tracked: TrackedDatabase) -> None:
    assert tracked.seen is not None
    tracked.tracking.transaction(seen=tracked.seen)
    for anchor in (Anchor(tracked.seen.csn, "0" * 32), Anchor(tracked.seen.csn + 1, tracked.seen.token)):
        with pytest.raises(UnknownAnchor), tracked.tracking.changes(["t"], anchor):
            pass
        with pytest.raises(UnknownAnchor), tracked.tracking.transaction(seen=anchor):
            pass
        with pytest.raises(UnknownAnchor):
            tracked.tracking.changed_since("t", [1], anchor)


def test_anchors_from_before_tracking_was_disabled_are_refused(
    tracked: TrackedDatabase,
) -> None:
    tracked.tracking.disable_tracking("t")
    tracked.run("insert into t (id) values (1)")
    tracked.enable()
    with pytest.raises((UnknownAnchor, AnchorTooOld)):
        tracked.changes()
    tracked.seen = None

    assert tracked.changes() == [("insert", 1, None, None)]


# Own changes.


def test_own_changes_are_left_out_and_others_are_not(tracked: TrackedDatabase) -> None:
    tracked.run(THREE_ROWS)
    tracked.changes()
    tracked.run("update t set name = 'theirs' where id = 1")
    with tracked.tracking.transaction(MINE, seen=tracked.seen) as transaction:
        tracked.run("update t set qty = 1 where id in (1, 2)", "delete from t where id = 3")
        tracked.run(
            "insert into t (id) values (4)", "insert into t (id) values (5)", "update t set qty = 5 where id = 5"
        )
        assert tracked.tracking.current_transaction_bsn == transaction.bsn
    tracked.run("insert into t (id) values (6)")

    assert sorted(changes_of_others(tracked, transaction.anchor)) == [
        ("insert", 6, None, None),
        ("update", 1, "theirs", 1),
    ]
    assert len(changes_of_others(tracked, transaction.anchor, mine=uuid4())) == 6
    assert len(tracked.changes()) == 6


def test_without_a_seen_anchor_all_own_changes_are_excluded(tracked: TrackedDatabase) -> None:
    tracked.run(THREE_ROWS)
    tracked.changes()
    tracked.run("update t set name = 'theirs' where id = 1")
    with tracked.tracking.transaction(MINE) as transaction:
        tracked.run("update t set qty = 1 where id in (1, 2)")

    assert transaction.anchor is None
    assert changes_of_others(tracked, tracked.seen) == []
    tracked.run("update t set qty = 2 where id = 2")
    assert changes_of_others(tracked, tracked.seen) == [("update", 2, "b", 2)]


def test_delete_of_a_row_that_the_caller_inserted_is_included(tracked: TrackedDatabase) -> None:
    with tracked.tracking.transaction(MINE, seen=tracked.seen) as transaction:
        tracked.run("insert into t (id) values (1)")
    tracked.run("delete from t")

    assert changes_of_others(tracked, transaction.anchor) == [("delete", 1)]


def test_row_changed_by_others_before_own_key_change_is_included(tracked: TrackedDatabase) -> None:
    tracked.run("insert into t (id, qty) values (1, 0), (2, 0)")
    tracked.changes()
    tracked.run("update t set name = 'theirs' where id = 1")
    with tracked.tracking.transaction(MINE, seen=tracked.seen) as transaction:
        tracked.run("update t set id = id + 10")

    assert changes_of_others(tracked, transaction.anchor) == [("insert", 11, "theirs", 0)]


def test_own_and_foreign_inserts_and_deletes_are_distinguished(tracked: TrackedDatabase) -> None:
    tracked.run(THREE_ROWS)
    tracked.changes()
    tracked.run("delete from t where id = 1")
    with tracked.tracking.transaction(MINE, seen=tracked.seen) as transaction:
        tracked.run("insert into t (id, name) values (1, 'mine')", "delete from t where id = 2")
    tracked.run("insert into t (id, name) values (2, 'theirs')")

    found = changes_of_others(tracked, transaction.anchor)
    assert [change[1:] for change in found] == [(2, "theirs", None)]


def test_a_transaction_of_ours_that_fails_leaves_nothing(tracked: TrackedDatabase) -> None:
    tracked.run(THREE_ROWS)
    tracked.changes()
    kept: list[Anchor | None] = []

    def write_and_fail() -> None:
        with tracked.tracking.transaction(MINE, seen=tracked.seen) as transaction:
            kept.append(transaction.anchor)
            tracked.run("update t set qty = 1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    assert tracked.changes() == []
    tracked.run("update t set qty = 2 where id = 1")
    assert changes_of_others(tracked, tracked.seen) == [("update", 1, "a", 2)]
    tracked.seen = kept[0]
    with pytest.raises(UnknownAnchor):
        tracked.changes()


def test_a_transaction_of_ours_is_one_of_its_connection(tracked: TrackedDatabase) -> None:
    tracked.run("begin")
    with pytest.raises(TransactionOpen), tracked.tracking.transaction():
        pass
    tracked.run("rollback")
    with pytest.raises(NoTransaction):
        _ = tracked.tracking.current_transaction_bsn
    with tracked.tracking.transaction() as first:
        tracked.run("insert into t (id) values (1)")
    with tracked.tracking.transaction() as second:
        tracked.run("insert into t (id) values (2)")
    assert second.bsn > first.bsn


def test_conflict_is_seen_before_writing_but_not_for_own_changes(tracked: TrackedDatabase) -> None:
    tracked.run(THREE_ROWS)
    tracked.changes()
    tracked.run("update t set qty = 1 where id = 1", "delete from t where id = 2")
    assert tracked.seen is not None
    with tracked.tracking.transaction(seen=tracked.seen):
        tracked.run("update t set qty = 2 where id = 3", "insert into t (id) values (5)")
        seen = [tracked.tracking.changed_since("t", [key], tracked.seen) for key in (1, 2, 3, 4, 5)]
    assert seen == [True, True, False, False, False]

    assert [tracked.tracking.changed_since("t", [key], tracked.seen) for key in (3, 4, 5)] == [True, False, True]


# Purge.


def test_anchor_before_a_purge_is_refused_and_a_later_one_is_not(tracked: TrackedDatabase) -> None:
    tracked.run("insert into t (id) values (1), (2)")
    tracked.changes()
    old = tracked.seen
    tracked.run("delete from t where id = 1")
    tracked.changes()
    young = tracked.seen
    tracked.run("delete from t where id = 2")
    tracked.changes()
    assert old is not None
    assert young is not None

    assert tracked.tracking.purge_tombstone_table_data("t", PurgeType.CSN_BASED, young.csn) == 1
    assert tracked.tracking.get_tracked("t").min_valid_csn == young.csn
    tracked.seen = young
    assert tracked.changes() == [("delete", 2)]
    tracked.seen = old
    with pytest.raises((AnchorTooOld, UnknownAnchor)):
        tracked.changes()
    with pytest.raises((AnchorTooOld, UnknownAnchor)):
        tracked.tracking.changed_since("t", [1], old)
    with tracked.tracking.changes(["t"]) as changes:
        assert list(changes) == []
    assert tracked.tracking.purge_transaction_sequence_data(PurgeType.TIME_BASED, 0) == 0


def test_anchor_between_purged_deletes_is_refused(tracked: TrackedDatabase) -> None:
    tracked.run("insert into t (id) values (1), (2), (3)")
    anchors: list[Anchor] = []
    for key in (1, 2, 3):
        tracked.run(f"delete from t where id = {key}")
        tracked.changes()
        assert tracked.seen is not None
        anchors.append(tracked.seen)

    assert tracked.tracking.purge_tombstone_table_data("t", PurgeType.CSN_BASED, anchors[-1].csn) == 3
    for anchor in anchors[:-1]:
        with pytest.raises((AnchorTooOld, UnknownAnchor)):
            tracked.tracking.changed_since("t", [1], anchor)
        tracked.seen = anchor
        with pytest.raises((AnchorTooOld, UnknownAnchor)):
            tracked.changes()
    tracked.seen = anchors[-1]
    assert tracked.changes() == []


def test_a_purge_of_one_table_is_no_matter_to_another(tracked: TrackedDatabase) -> None:
    tracked.run("create table u (id integer primary key)")
    tracked.enable("u")
    tracked.seen = None
    tracked.run("insert into t (id) values (1)", "insert into u (id) values (1)")
    tracked.changes("t", "u")
    tracked.run("delete from t", "delete from u")

    assert tracked.tracking.purge_tombstone_table_data("u", PurgeType.TIME_BASED, 0) == 1
    with pytest.raises((AnchorTooOld, UnknownAnchor)), tracked.tracking.changes(["u"], tracked.seen):
        pass
    assert tracked.changes() == [("delete", 1)]
    assert tracked.tracking.purge_tombstone_table_data(None, PurgeType.TIME_BASED, 0) == 1


def test_a_purge_by_days_keeps_what_is_younger(tracked: TrackedDatabase) -> None:
    tracked.run("insert into t (id) values (1), (2)")
    tracked.run("delete from t where id = 1")
    tracked.age_tombstones(8)
    tracked.run("delete from t where id = 2")

    assert tracked.tracking.purge_tombstone_table_data(None, PurgeType.TIME_BASED, 7) == 1
    assert tracked.ask(f"select count(*) from {tracked.system_table('__sysOCSDeletedRows')}") == [(1,)]
    assert tracked.tracking.purge_transaction_sequence_data(PurgeType.TIME_BASED, 7) == 0


def test_what_was_purged_of_rows_that_came_back_is_not_missed(tracked: TrackedDatabase) -> None:
    tracked.run(THREE_ROWS)
    tracked.changes()
    tracked.run("delete from t where id = 1")
    tracked.changes()
    tracked.run("insert into t (id, name) values (1, 'back')")

    tracked.tracking.purge_tombstone_table_data("t", PurgeType.TIME_BASED, 0)
    assert tracked.changes() == [("insert", 1, "back", None)]


# The table changes.


def test_columns_may_be_added_dropped_and_renamed(tracked: TrackedDatabase) -> None:
    tracked.run(THREE_ROWS)
    tracked.changes()
    tracked.run("alter table t add column more text default 'x'")
    tracked.run("update t set more = 'y' where id = 1", "insert into t (id) values (4)")
    found = tracked.enumerate()
    assert [change.columns for change in found] == [("id", "name", "qty", "more")] * 2
    assert sorted((str(change.operation), *change.row) for change in found) == [
        ("insert", 4, None, None, "x"),
        ("update", 1, "a", 0, "y"),
    ]

    tracked.run("alter table t rename column more to most", "update t set most = 'z' where id = 2")
    assert tracked.changes() == [("update", 2, "b", 0, "z")]
    tracked.run("alter table t drop column most", "update t set qty = 3 where id = 3")
    assert tracked.changes() == [("update", 3, "c", 3)]
    tracked.run("alter table t drop column name", "delete from t where id = 3")
    assert tracked.changes() == [("delete", 3)]


def test_lost_tracking_is_found_out_until_it_is_resumed(tracked: TrackedDatabase) -> None:
    tracked.run(THREE_ROWS)
    tracked.changes()
    tracked.drop_a_trigger()
    tracked.run("delete from t where id = 1")
    assert tracked.tracking.get_tracked("t").lost_time is None

    for _ in range(2):
        with pytest.raises(TrackingLost, match="rowtide tracking resume"):
            tracked.changes()
    assert tracked.tracking.get_tracked("t").lost_time is not None
    assert tracked.seen is not None
    with pytest.raises(TrackingLost):
        tracked.tracking.changed_since("t", [1], tracked.seen)
    assert tracked.tracking.resume_tracking("t").lost_time is None
    with pytest.raises(AnchorTooOld):
        tracked.changes()
    with tracked.tracking.changes(["t"], tracked.seen, whole=["t"]) as changes:
        assert sorted(change.row for change in changes) == [(2, "b", 0), (3, "c", 0)]
    tracked.seen = changes.anchor
    tracked.run("delete from t where id = 2", "update t set qty = 1")
    assert tracked.changes() == [("delete", 2), ("update", 3, "c", 1)]


def test_enabling_a_table_in_the_place_of_a_tracked_one_says_so(tracked: TrackedDatabase) -> None:
    tracked.run("drop table t", "create table t (id int primary key, name text, qty int)")
    tracked.run("insert into t (id, name, qty) values (7, 'new', 0)")
    for _ in range(2):
        with pytest.raises(TrackingLost, match="rowtide tracking resume"):
            tracked.enable()

    tracked.tracking.resume_tracking(tracked.full_name("t"))
    tracked.seen = None
    assert tracked.changes() == [("insert", 7, "new", 0)]
    tracked.run("delete from t where id = 7")
    assert tracked.changes() == [("delete", 7)]


@pytest.mark.parametrize("statement", ["drop table t", "alter table t rename to s"])
def test_a_table_that_is_gone_is_found_out_and_can_be_disabled(tracked: TrackedDatabase, statement: str) -> None:
    tracked.run(statement)

    hint = f"rowtide tracking {'disable' if 'drop' in statement else '(disable|resume)'} "
    for _ in range(2):
        with pytest.raises(TrackingLost, match=hint):
            tracked.changes(tracked.full_name("t"))
    tracked.tracking.disable_tracking(tracked.full_name("t"))
    assert [entry for entry in tracked.catalogue() if "trigger" in entry or "__sysClock" in entry] == []


# Enabling and disabling.


def test_tracking_leaves_nothing_behind(untracked: TrackedDatabase) -> None:
    untracked.run(THREE_ROWS)
    before = untracked.catalogue()
    untracked.enable()
    untracked.changes()
    with untracked.tracking.transaction(MINE, seen=untracked.seen):
        untracked.run("delete from t where id = 1", "update t set qty = 1 where id = 2")
    assert untracked.catalogue() > before
    untracked.tracking.disable_tracking("t")

    assert untracked.catalogue() == before
    assert sorted(untracked.ask("select * from t")) == [(2, "b", 1), (3, "c", 0)]
    with pytest.raises(NotTracked):
        untracked.changes()
    with pytest.raises(NothingTracked), untracked.tracking.transaction():
        pass
    with pytest.raises(NothingTracked):
        untracked.tracking.get_last_committed_csn()


def test_untrackable_table_is_refused_with_nothing_left_behind(
    untracked: TrackedDatabase,
) -> None:
    untracked.run("create view v as select * from t", "create table without_key (a integer)")
    before = untracked.catalogue()
    for name in ("v", "absent"):
        with pytest.raises(TableToTrackNotFound):
            untracked.enable(name)
    with pytest.raises(TrackingKeyMissing, match="primary key"):
        untracked.enable("without_key")
    with pytest.raises(NothingToTrack):
        untracked.enable(options=TrackingOptions(0))
    assert untracked.catalogue() == before

    untracked.enable()
    for name in ("__sysAnchors", untracked.system_table("__sysAnchors").replace('"', "")):
        with pytest.raises(TableToTrackNotFound):
            untracked.enable(name)
    with pytest.raises(TrackedAlready):
        untracked.enable()


def test_what_is_not_tracked_is_said_to_be(untracked: TrackedDatabase) -> None:
    tracking = untracked.tracking
    assert tracking.list_tracked() == ()
    assert tracking.get_tracking_options("t") is None
    for _ in range(2):
        with pytest.raises(NotTracked):
            untracked.changes()
        with pytest.raises(NotTracked):
            tracking.disable_tracking("t")
        with pytest.raises(NotTracked):
            tracking.resume_tracking("t")
        with pytest.raises(NotTracked):
            tracking.purge_tombstone_table_data("t", PurgeType.TIME_BASED, 0)
        with pytest.raises(NotTracked):
            tracking.pack_tombstone_key("t", [1])
        with pytest.raises(NotTracked):
            tracking.get_tracked("t")
        untracked.run("create table if not exists u (id integer primary key)")
        if tracking.list_tracked() == ():
            untracked.enable("u")
    assert [tracked.name for tracked in tracking.list_tracked()] == [untracked.full_name("u")]


def test_a_rehearsal_says_what_would_be_done_and_does_nothing(tracked: TrackedDatabase) -> None:
    tracked.run("create table u (id integer primary key)")
    before = tracked.catalogue()
    rehearsal = tracked.tracking.rehearsal()
    rehearsal.enable_tracking("u")
    assert any("create trigger" in statement for statement in rehearsal.statements)
    assert tracked.catalogue() == before
    assert tracked.tracking.get_tracking_options("u") is None

    rehearsal = tracked.tracking.rehearsal()
    rehearsal.disable_tracking("t")
    assert any("drop trigger" in statement for statement in rehearsal.statements)
    assert tracked.catalogue() == before


def test_a_newer_format_is_read_where_it_may_be(tracked: TrackedDatabase) -> None:
    tracked.changes()
    tracked.run("insert into t (id) values (1)", *recording(tracked.format_view, NEWER_READABLE))
    before = tracked.ask(f"select * from {tracked.system_table('__sysAnchors')}")
    writers: tuple[Callable[[], object], ...] = (
        tracked.changes,
        lambda: tracked.tracking.enable_tracking("u"),
        lambda: tracked.tracking.disable_tracking("t"),
        lambda: tracked.tracking.resume_tracking("t"),
        lambda: tracked.tracking.purge_tombstone_table_data("t", PurgeType.TIME_BASED, 0),
        lambda: tracked.tracking.purge_transaction_sequence_data(PurgeType.TIME_BASED, 0),
        lambda: tracked.tracking.transaction().__enter__(),
    )
    for write in writers:
        with pytest.raises(FormatNewer, match="format 2"):
            write()
    assert [one.name for one in tracked.tracking.list_tracked()] == [tracked.full_name("t")]
    assert tracked.seen is not None
    assert tracked.tracking.changed_since("t", [1], tracked.seen)
    tracked.run(*recording(tracked.format_view, NEWER))
    with pytest.raises(FormatNewer):
        tracked.tracking.list_tracked()
    assert tracked.ask(f"select * from {tracked.system_table('__sysAnchors')}") == before


def test_what_has_no_format_is_refused_until_disabled(untracked: TrackedDatabase) -> None:
    before = untracked.catalogue()
    untracked.enable()
    untracked.run(forgetting(untracked.format_view))
    made = untracked.catalogue()
    for use in (untracked.changes, untracked.tracking.list_tracked, lambda: untracked.tracking.enable_tracking("u")):
        with pytest.raises(FormatUnnumbered):
            use()
    assert untracked.catalogue() == made
    untracked.tracking.disable_tracking("t")
    assert untracked.catalogue() == before
    untracked.enable()
    assert untracked.changes() == []


# Packed keys.


@pytest.mark.parametrize(
    "key", [(1, "a"), (-(2**63), ""), (0, "\\,'t\""), (2**63 - 1, "é🙂"), (7, "NULL"), (8, "{1,2}"), (9, "X'00'")]
)
def test_a_key_is_packed_as_its_tombstone_has_it_and_unpacked(untracked: TrackedDatabase, key: tuple[int, str]) -> None:
    number, text = key
    untracked.run("create table k (b text, a bigint, primary key (a, b))")
    untracked.enable("k")
    untracked.run(f"insert into k (a, b) values ({number}, '{text.replace(chr(39), chr(39) * 2)}')")
    untracked.changes("k")
    untracked.run("delete from k")
    ((packed,),) = untracked.ask(untracked.packed_keys)

    assert untracked.tracking.pack_tombstone_key("k", key) == packed
    assert untracked.tracking.unpack_tombstone_key("k", str(packed)) == key
    assert untracked.changes("k") == [("delete", *key)]


def test_what_is_no_key_of_the_table_is_not_packed_or_unpacked(tracked: TrackedDatabase) -> None:
    with pytest.raises(InvalidTombstoneKey, match="2 values"):
        tracked.tracking.pack_tombstone_key("t", [1, 2])
    with pytest.raises(InvalidTombstoneKey):
        tracked.tracking.unpack_tombstone_key("t", "no key")
    with pytest.raises(NotTracked):
        tracked.tracking.pack_tombstone_key("absent", [1])
    packed = tracked.tracking.pack_tombstone_key("t", ["7"])
    assert packed == tracked.tracking.pack_tombstone_key("t", [7])
    assert tracked.tracking.unpack_tombstone_key("t", packed) == (7,)


def test_a_change_names_its_columns(tracked: TrackedDatabase) -> None:
    tracked.run("insert into t (id, name) values (1, 'a')")
    (change,) = tracked.enumerate()
    assert change.operation is NetOperation.INSERT
    assert change.as_dict() == {"id": 1, "name": "a", "qty": None}
    tracked.run("delete from t")
    (change,) = tracked.enumerate()
    assert change.as_dict() == {"id": 1}


@pytest.mark.parametrize("as_texts", [False, True])
def test_an_enumeration_that_is_left_early_closes_cleanly(tracked: TrackedDatabase, *, as_texts: bool) -> None:
    tracked.run("insert into t (id, name) values (1, 'a'), (2, 'b'), (3, 'c')")
    with tracked.tracking.changes(["t"], as_texts=as_texts) as found:
        for _change in found:
            break
    with suppress(KeyError), tracked.tracking.changes(["t"], as_texts=as_texts) as found:
        next(iter(found))
        raise KeyError

    assert [change.row[1] for change in tracked.enumerate()] == ["a", "b", "c"]

"""What an enumeration of a SQLite table says of what other programs did."""

from __future__ import annotations

import sqlite3
from uuid import uuid4

import pytest

from fixtures.sqlite_files import TrackedFile
from rowtide.databases.sqlite.errors import FileFailed
from rowtide.tracking import ChangeTracking, Operation, Storage, TrackingKeyType, TrackingOptions
from rowtide.tracking.errors import NoTransaction, TransactionOpen

INSERT = "insert into t (id, name, qty) values (?, ?, ?)"


def test_the_first_call_is_a_full_copy_and_its_anchor_is_of_the_same_snapshot(sqlite_file: TrackedFile) -> None:
    sqlite_file.program.execute(INSERT, (1, "a", 1))
    sqlite_file.tracking.enable_tracking("t")

    assert sqlite_file.changes() == [("insert", 1, "a", 1)]
    assert sqlite_file.changes() == []


def test_an_insert_and_its_updates_are_one_insert(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute(INSERT, (1, "a", 1))
    tracked_file.program.execute("update t set qty = 2")
    tracked_file.program.execute("update t set qty = 3")

    assert tracked_file.changes() == [("insert", 1, "a", 3)]


def test_a_row_that_came_and_went_is_nothing(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute(INSERT, (1, "a", 1))
    tracked_file.program.execute("delete from t")

    assert tracked_file.changes() == []


def test_a_delete_and_an_insert_of_one_key_are_an_update(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute(INSERT, (1, "a", 1))
    tracked_file.changes()
    tracked_file.program.execute("delete from t")
    tracked_file.program.execute(INSERT, (1, "b", 1))

    assert tracked_file.changes() == [("update", 1, "b", 1)]


def test_a_new_key_is_a_delete_and_an_insert_by_whatever_name_it_is_set(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute(INSERT, (1, "a", 1))
    tracked_file.changes()
    tracked_file.program.execute("update t set rowid = 2")

    assert tracked_file.changes() == [("delete", 1), ("insert", 2, "a", 1)]


def test_rolled_back_writes_leave_nothing(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("begin")
    tracked_file.program.execute(INSERT, (1, "a", 1))
    tracked_file.program.execute("savepoint s")
    tracked_file.program.execute(INSERT, (2, "b", 1))
    tracked_file.program.execute("rollback to s")
    tracked_file.program.execute("commit")

    assert tracked_file.changes() == [("insert", 1, "a", 1)]


def test_nothing_is_written_where_nothing_changed(tracked_file: TrackedFile) -> None:
    before = tracked_file.seen
    version = tracked_file.program.execute("pragma data_version").fetchone()

    assert tracked_file.changes() == []
    assert tracked_file.seen == before
    assert tracked_file.program.execute("pragma data_version").fetchone() == version


def test_a_row_that_replace_displaces_by_another_key_is_deleted(sqlite_file: TrackedFile) -> None:
    sqlite_file.program.execute("create unique index t_name on t (lower(name)) where qty > 0")
    sqlite_file.program.execute(INSERT, (1, "a", 1))
    sqlite_file.tracking.enable_tracking("t")
    sqlite_file.changes()
    sqlite_file.program.execute("insert or replace into t (id, name, qty) values (2, 'A', 5)")

    assert sqlite_file.changes() == [("delete", 1), ("insert", 2, "A", 5)]


def test_rows_that_a_foreign_key_deletes_or_changes_are_changes(sqlite_file: TrackedFile) -> None:
    sqlite_file.program.executescript(
        "pragma foreign_keys = on; insert into t (id) values (1), (2);"
        "create table child (id integer primary key, t_id references t (id) on delete cascade on update cascade);"
        "insert into child values (10, 1), (20, 2);"
    )
    sqlite_file.tracking.enable_tracking("t")
    sqlite_file.tracking.enable_tracking("child")
    sqlite_file.changes("t", "child")
    sqlite_file.program.execute("delete from t where id = 1")
    sqlite_file.program.execute("update t set id = 3 where id = 2")

    found = [(change.table, str(change.operation), change.row[0]) for change in sqlite_file.enumerate("t", "child")]
    assert found == [
        ("child", "delete", 10),
        ("t", "delete", 1),
        ("t", "delete", 2),
        ("t", "insert", 3),
        ("child", "update", 20),
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (TrackingOptions.INSERT, ["insert 3"]),
        (TrackingOptions.UPDATE, ["update 1"]),
        (TrackingOptions.DELETE, ["delete 2"]),
        (TrackingOptions.INSERT | TrackingOptions.DELETE, ["delete 2", "insert 3"]),
        (TrackingOptions.ALL, ["delete 2", "insert 3", "update 1"]),
    ],
)
@pytest.mark.parametrize("storage", Storage)
def test_only_the_operations_that_were_asked_for_are_tracked(
    sqlite_file: TrackedFile, options: TrackingOptions, storage: Storage, expected: list[str]
) -> None:
    sqlite_file.program.execute("insert into t (id) values (1), (2)")
    sqlite_file.tracking.enable_tracking("t", options=options, storage=storage)
    sqlite_file.changes()
    sqlite_file.program.execute("insert into t (id) values (3)")
    sqlite_file.program.execute("update t set qty = 1 where id = 1")
    sqlite_file.program.execute("delete from t where id = 2")

    assert sorted(f"{change[0]} {change[1]}" for change in sqlite_file.changes()) == expected
    assert sqlite_file.tracking.get_tracking_options("T") == options


def test_rows_go_by_their_guid_where_that_is_the_key(sqlite_file: TrackedFile) -> None:
    sqlite_file.program.executescript(
        "create table g (id integer primary key, rowguid text not null unique);"
        "insert into g values (1, 'one'), (2, 'two');"
    )
    sqlite_file.tracking.enable_tracking("g", TrackingKeyType.ROWGUID)
    sqlite_file.changes("g")
    sqlite_file.program.execute("update g set id = 3 where id = 1")
    sqlite_file.program.execute("delete from g where id = 2")

    assert sqlite_file.changes("g") == [("delete", "two"), ("update", 3, "one")]


def test_own_changes_are_left_out_and_others_are_not(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("insert into t (id, qty) values (1, 0), (2, 0), (3, 0)")
    tracked_file.changes()
    mine = uuid4()
    tracked_file.program.execute("update t set name = 'theirs' where id = 1")
    with tracked_file.tracking.transaction(mine, seen=tracked_file.seen) as transaction:
        tracked_file.program.execute("update t set qty = 1 where id in (1, 2)")
        tracked_file.program.execute("delete from t where id = 3")
        assert tracked_file.tracking.current_transaction_bsn == transaction.bsn
    with tracked_file.tracking.changes(["t"], transaction.anchor, exclude_context=mine) as changes:
        assert [(change.operation, change.row) for change in changes] == [(Operation.UPDATE, (1, "theirs", 1))]
    with pytest.raises(NoTransaction):
        _ = tracked_file.tracking.current_transaction_bsn


def test_a_delete_of_a_row_that_the_caller_inserted_is_not_left_out(tracked_file: TrackedFile) -> None:
    mine = uuid4()
    with tracked_file.tracking.transaction(mine, seen=tracked_file.seen) as transaction:
        tracked_file.program.execute(INSERT, (1, "mine", 1))
    tracked_file.program.execute("delete from t")
    with tracked_file.tracking.changes(["t"], transaction.anchor, exclude_context=mine) as changes:
        assert [(change.operation, change.row) for change in changes] == [(Operation.DELETE, (1,))]


def test_a_transaction_of_ours_is_not_opened_within_another(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("begin")

    with pytest.raises(TransactionOpen), tracked_file.tracking.transaction():
        pass


def test_a_conflict_is_seen_before_writing_and_not_in_what_the_writer_did_itself(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("insert into t (id, qty) values (1, 0), (2, 0), (3, 0)")
    tracked_file.changes()
    tracked_file.program.execute("update t set qty = 1 where id = 1")
    tracked_file.program.execute("delete from t where id = 2")
    assert tracked_file.seen is not None
    with tracked_file.tracking.transaction(seen=tracked_file.seen):
        tracked_file.program.execute("update t set qty = 2 where id = 3")
        seen = [tracked_file.tracking.changed_since("t", [key], tracked_file.seen) for key in (1, 2, 3, 4)]

    assert seen == [True, True, False, False]


def test_several_tables_are_read_in_one_snapshot_while_others_write(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("create table u (id integer primary key)")
    tracked_file.tracking.enable_tracking("u")
    tracked_file.program.execute("insert into t (id) values (1)")
    with tracked_file.tracking.changes(["t", "u"], tracked_file.seen, whole=["u"]) as changes:
        tracked_file.program.execute("insert into t (id) values (2)")
        tracked_file.program.execute("insert into u (id) values (3)")
        assert [(change.table, change.row[0]) for change in changes] == [("t", 1)]
    with tracked_file.tracking.changes(["t", "u"], changes.anchor) as more:
        assert [(change.table, change.row[0]) for change in more] == [("t", 2), ("u", 3)]


def test_a_database_in_memory_is_tracked_on_its_one_connection() -> None:
    program = sqlite3.connect(":memory:", isolation_level=None)
    program.execute("create table t (id integer primary key)")
    tracking = ChangeTracking(program)
    tracking.enable_tracking("t")
    with tracking.changes(["t"]) as first:
        assert list(first) == []
    program.execute("insert into t (id) values (1)")
    with tracking.changes(["t"], first.anchor) as changes:
        assert [change.row for change in changes] == [(1,)]
    program.close()


@pytest.mark.parametrize(
    "key",
    [(1, "a"), (-(2**63), ""), (1.5, "\x00,'t"), (None, "é🙂"), (b"\x00\xff,", "NULL"), (1e300, "1"), (0.1, "X''")],
)
def test_a_key_of_any_values_is_packed_as_its_tombstone_has_it_and_unpacked(
    sqlite_file: TrackedFile, key: tuple[object, ...]
) -> None:
    sqlite_file.program.execute("create table k (a, b text, primary key (b, a))")
    sqlite_file.tracking.enable_tracking("k")
    sqlite_file.program.execute("insert into k (a, b) values (?, ?)", key)
    sqlite_file.changes("k")
    sqlite_file.program.execute("delete from k")
    packed = sqlite_file.program.execute("select __sysRK from __sysOCSDeletedRows").fetchone()[0]

    in_order = key[::-1]
    assert sqlite_file.tracking.pack_tombstone_key("k", in_order) == packed
    assert sqlite_file.tracking.unpack_tombstone_key("k", packed) == in_order
    assert sqlite_file.changes("k") == [("delete", *in_order)]


def test_values_come_as_literals_where_texts_are_asked_for_those_too_that_python_has_not(
    tracked_file: TrackedFile,
) -> None:
    tracked_file.program.execute("insert into t (id, name, qty) values (1, 'it''s', null), (2, X'00ff', 9e999)")
    tracked_file.program.execute("insert into t (id, name, qty) values (3, cast(X'61ff' as text), 1.5)")

    with tracked_file.tracking.changes(["t"], tracked_file.seen, as_texts=True) as changes:
        assert [change.row for change in changes] == [
            ("1", "'it''s'", None),
            ("2", "X'00ff'", "9e999"),
            ("3", "cast(X'61ff' as text)", "1.5"),
        ]
        assert [column.name for table in changes.tables for column in table.columns] == ["id", "name", "qty"]
    with pytest.raises(FileFailed, match="RT-1124: .*file.db cannot be read and written: Could not decode to UTF-8"):
        tracked_file.changes()

"""What an enumeration of a SQLite table says of what other programs did."""

from __future__ import annotations

import sqlite3

import pytest

from builders.tracking.tracked_databases import TrackedFile
from rowtide.tracking import ChangeTracking, Storage
from rowtide.tracking.errors import TrackingKeyShared

INSERT = "insert into t (id, name, qty) values (?, ?, ?)"


def test_a_new_key_is_one_by_whatever_name_it_is_set(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute(INSERT, (1, "a", 1))
    tracked_file.changes()
    tracked_file.program.execute("update t set rowid = 2")

    assert tracked_file.changes() == [("delete", 1), ("insert", 2, "a", 1)]


def test_the_file_is_not_written_where_nothing_changed(tracked_file: TrackedFile) -> None:
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


def test_columns_come_and_go_beside_an_index_of_expressions(sqlite_file: TrackedFile) -> None:
    sqlite_file.program.execute("create unique index t_name on t (lower(name)) where qty > 0")
    sqlite_file.program.execute(INSERT, (1, "a", 1))
    sqlite_file.tracking.enable_tracking("t")
    sqlite_file.changes()

    sqlite_file.program.execute("alter table t add column more integer default 7")
    sqlite_file.program.execute("insert or replace into t (id, name, qty) values (2, 'A', 5)")
    assert sqlite_file.changes() == [("delete", 1), ("insert", 2, "A", 5, 7)]
    sqlite_file.program.execute("alter table t drop column more")
    sqlite_file.program.execute("insert or replace into t (id, name, qty) values (3, 'a', 6)")
    assert sqlite_file.changes() == [("delete", 2), ("insert", 3, "a", 6)]


def test_a_row_displaced_by_a_generated_value_is_deleted(sqlite_file: TrackedFile) -> None:
    sqlite_file.program.execute("create table g (id integer primary key, name text, low text as (lower(name)) unique)")
    sqlite_file.tracking.enable_tracking("g")
    sqlite_file.program.execute("insert into g (id, name) values (1, 'a'), (2, 'b')")
    sqlite_file.changes("g")
    sqlite_file.program.execute("update or replace g set name = 'A' where id = 2")

    assert sqlite_file.changes("g") == [("delete", 1), ("update", 2, "A", "a")]


def test_a_tables_names_may_be_those_of_queries(sqlite_file: TrackedFile) -> None:
    sqlite_file.program.execute("create table gone (id integer primary key, packed text)")
    sqlite_file.tracking.enable_tracking("gone")
    sqlite_file.program.execute("insert into gone (id, packed) values (1, 'i1'), (2, 'i1')")
    sqlite_file.changes("gone")
    sqlite_file.program.execute("delete from gone where id = 2")

    assert sqlite_file.changes("gone") == [("delete", 2)]


def test_texts_and_numbers_of_a_key_of_any_type_differ(sqlite_file: TrackedFile) -> None:
    sqlite_file.program.execute("create table k (a any primary key, b integer) strict")
    sqlite_file.tracking.enable_tracking("k", storage=Storage.SIDE)
    sqlite_file.changes("k")
    sqlite_file.program.execute("insert into k (a, b) values (1, 1), ('1', 2)")

    assert sqlite_file.changes("k") == [("insert", 1, 1), ("insert", "1", 2)]
    assert sqlite_file.tracking.pack_tombstone_key("k", ["1"]) == "t31"


def test_rows_that_share_a_key_of_nulls_are_refused(sqlite_file: TrackedFile) -> None:
    sqlite_file.program.execute("create table k (a text primary key, b integer)")
    sqlite_file.tracking.enable_tracking("k")
    sqlite_file.program.execute("insert into k (a, b) values (null, 1)")
    assert sqlite_file.changes("k") == [("insert", None, 1)]
    sqlite_file.program.execute("insert into k (a, b) values (null, 2)")

    with pytest.raises(TrackingKeyShared, match="RT-7213"):
        sqlite_file.changes("k")
    sqlite_file.program.execute("delete from k where b = 1")
    assert sqlite_file.changes("k") == [("update", None, 2)]


@pytest.mark.parametrize("storage", Storage)
@pytest.mark.parametrize(
    ("statement", "left"),
    [("delete from k where b = 1", 2), ("update k set a = 3 where b = 1", 2), ("delete from k", 0)],
)
def test_rows_that_shared_a_key_are_not_lost(
    sqlite_file: TrackedFile, storage: Storage, statement: str, left: int
) -> None:
    sqlite_file.program.execute("create table k (a integer primary key desc, b integer)")
    sqlite_file.program.execute("insert into k (a, b) values (null, 1)")
    sqlite_file.tracking.enable_tracking("k", storage=storage)
    sqlite_file.changes("k")
    sqlite_file.program.execute("insert into k (a, b) values (null, 2)")
    sqlite_file.program.execute(statement)
    of_null = [(operation != "delete", *values) for operation, key, *values in sqlite_file.changes("k") if key is None]

    assert of_null == ([(True, left)] if left else [(False,)])


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
def test_key_of_any_values_packs_as_in_its_tombstone_and_unpacks(
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


def test_values_requested_as_texts_are_sqlite_literals(
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

"""How PostgreSQL tables that are in use come to be tracked, and what that leaves in them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from uuid import UUID

import psycopg
import pytest

from rowtide.databases.postgres import alterations
from rowtide.databases.postgres.errors import LockNotObtained
from rowtide.tracking import ChangeTracking, PurgeType, StampIndex, Storage, TrackingKeyType
from rowtide.tracking.errors import (
    StorageNotOffered,
    TableToTrackNotFound,
    TrackedAlready,
    TrackedTableGone,
    TrackingKeyMissing,
    TrackingLost,
)


@pytest.fixture
def program(database: str) -> Iterator[psycopg.Connection]:
    """A session in a database with a table `t` of 2,500 rows, which has no tracking yet."""
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("create table t (id int primary key, note text)")
        session.execute("insert into t select n, 'x' from generate_series(1, 2500) n")
        yield session


def changes_since(tracking: ChangeTracking, anchor: str | None = None) -> list[tuple[object, ...]]:
    from rowtide.core.anchors import Anchor

    since = None if anchor is None else Anchor.parse(anchor)
    with tracking.changes(["public.t"], since) as changes:
        return [(str(change.operation), *change.row) for change in changes]


def last_anchor(tracking: ChangeTracking) -> str:
    with tracking.changes(["public.t"]) as changes:
        return str(changes.anchor)


def column_names(program: psycopg.Connection) -> list[str]:
    names = "select attname from pg_attribute where attrelid = 't'::regclass and attnum > 0 and not attisdropped"
    return [row[0] for row in program.execute(names)]


def count_whole_reads(program: psycopg.Connection) -> int:
    """Return how often `t` was read from one end to the other; sessions that have just ended have told it by then."""
    program.execute("select pg_stat_force_next_flush()")
    time.sleep(0.5)
    row = program.execute("select pg_stat_get_numscans('t'::regclass)").fetchone()
    assert row is not None
    return int(row[0])


def index_definitions(program: psycopg.Connection) -> str:
    found = program.execute("select indexdef from pg_indexes where indexname like '\\_\\_sysChanges%'").fetchall()
    return " ".join(definition for (definition,) in found)


def test_side_storage_leaves_the_table_as_it_was(program: psycopg.Connection) -> None:
    tracking = ChangeTracking(program)
    tracking.enable_tracking("t", storage=Storage.SIDE)
    anchor = last_anchor(tracking)
    with program.cursor() as cursor, cursor.copy("copy t from stdin") as copy:
        copy.write("2501\tcopied\n")
    program.execute("update t set note = 'y' where id = 7")

    assert column_names(program) == ["id", "note"]
    assert sorted(changes_since(tracking, anchor)) == [("insert", 2501, "copied"), ("update", 7, "y")]
    tracking.disable_tracking("t")
    assert program.execute("select to_regnamespace('rowtide_tracking')").fetchone() == (None,)


def test_stamps_beside_rows_need_a_key_that_is_never_double(program: psycopg.Connection) -> None:
    program.execute("alter table t drop constraint t_pkey; alter table t add primary key (id) deferrable")

    with pytest.raises(StorageNotOffered, match="deferrable"):
        ChangeTracking(program).enable_tracking("t", storage=Storage.SIDE)
    ChangeTracking(program).enable_tracking("t")


def test_stamps_beside_rows_need_rows_that_stay_in_their_table(partitioned: psycopg.Connection) -> None:
    with pytest.raises(StorageNotOffered, match="partitioned"):
        ChangeTracking(partitioned).enable_tracking("t", storage=Storage.SIDE)


@pytest.mark.parametrize("storage", list(Storage))
@pytest.mark.parametrize("index", list(StampIndex))
def test_stamps_have_the_index_that_was_asked_for(
    program: psycopg.Connection, storage: Storage, index: StampIndex
) -> None:
    tracking = ChangeTracking(program)
    assert tracking.enable_tracking("t", storage=storage, index=index).index is index

    assert f"USING {index} (" in index_definitions(program)
    assert tracking.list_tracked()[0].index is index
    tracking.resume_tracking("t")
    assert index_definitions(program).count(f"USING {index} (") == 1


@pytest.mark.parametrize("what", ["lost", "half built"])
def test_enabling_again_builds_an_index_that_was_not_finished(program: psycopg.Connection, what: str) -> None:
    tracking = ChangeTracking(program)
    tracked = tracking.enable_tracking("t")
    with pytest.raises(TrackedAlready, match=r"table \S*\bt is already tracked"):
        tracking.enable_tracking("t")
    oid = program.execute("select 't'::regclass::oid").fetchone()
    assert oid is not None
    name = f"__sysChanges_{oid[0]}"
    if what == "lost":
        program.execute(f'drop index "{name}"'.encode())
    else:
        program.execute("update pg_index set indisvalid = false where indexrelid = %s::regclass", [f'"{name}"'])

    assert tracking.enable_tracking("t") == tracked
    assert program.execute(
        "select indisvalid from pg_index where indexrelid = %s::regclass", [f'"{name}"']
    ).fetchone() == (True,)
    with pytest.raises(TrackedAlready, match=r"table \S*\bt is already tracked"):
        tracking.enable_tracking("t")


def test_a_table_gets_a_rowguid_and_keeps_it_while_it_is_tracked(program: psycopg.Connection) -> None:
    program.execute("alter table t drop constraint t_pkey")
    tracking = ChangeTracking(program)
    with pytest.raises(TrackingKeyMissing):
        tracking.enable_tracking("t")
    told: list[str] = []
    tracking.enable_tracking("t", TrackingKeyType.ROWGUID, on_progress=told.append)
    assert any(message.startswith("Filling rowguid") for message in told)
    anchor = last_anchor(tracking)
    program.execute(
        "insert into t values (1, 'double'); delete from t where id = 5; update t set note = 'z' where id = 6"
    )
    found = changes_since(tracking, anchor)

    assert sorted((change[0], *change[1:3]) for change in found if change[0] != "delete") == [
        ("insert", 1, "double"),
        ("update", 6, "z"),
    ]
    assert [type(change[1]) for change in found if change[0] == "delete"] == [UUID]
    assert program.execute("select count(distinct rowguid) from t").fetchone() == (2500,)
    with pytest.raises(psycopg.errors.NotNullViolation):
        program.execute("update t set rowguid = null where id = 1")
    tracking.disable_tracking("t")
    assert column_names(program) == ["id", "note"]


def test_a_rowguid_that_was_there_stays(program: psycopg.Connection) -> None:
    program.execute("alter table t add column rowguid uuid default gen_random_uuid()")
    tracking = ChangeTracking(program)
    with pytest.raises(TrackingKeyMissing):
        tracking.enable_tracking("t", TrackingKeyType.ROWGUID)
    program.execute("alter table t alter column rowguid set not null, add unique (rowguid)")
    tracking.enable_tracking("t", TrackingKeyType.ROWGUID)
    tracking.disable_tracking("t")

    assert column_names(program) == ["id", "note", "rowguid"]


def test_a_rehearsal_of_a_rowguid_writes_nothing(program: psycopg.Connection) -> None:
    rehearsal = ChangeTracking(program).rehearsal()
    rehearsal.enable_tracking("t", TrackingKeyType.ROWGUID)

    assert any("add column rowguid" in statement for statement in rehearsal.statements)
    assert any("create unique index concurrently" in statement for statement in rehearsal.statements)
    assert column_names(program) == ["id", "note"]


def test_a_prepared_transaction_that_holds_a_table_is_named(
    program: psycopg.Connection, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alterations, "LOCK_TIMEOUT_S", 0.1)
    monkeypatch.setattr(alterations, "LOCK_ATTEMPTS", 1)
    with psycopg.connect(database) as other:
        other.execute("select count(*) from t")
        other.execute("prepare transaction 'left behind'")
    with psycopg.connect(database, autocommit=True) as administrator:
        try:
            with pytest.raises(LockNotObtained, match="by prepared transaction 'left behind'. .*`rollback prepared`"):
                ChangeTracking(program).enable_tracking("t")
        finally:
            administrator.execute("rollback prepared 'left behind'")
    ChangeTracking(program).enable_tracking("t")


def test_nobody_waits_long_behind_a_table_that_cannot_be_locked(
    program: psycopg.Connection, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alterations, "LOCK_TIMEOUT_S", 0.1)
    monkeypatch.setattr(alterations, "LOCK_ATTEMPTS", 2)
    tracking = ChangeTracking(program)
    with psycopg.connect(database, application_name="report") as reader:
        reader.execute("select count(*) from t")
        with pytest.raises(LockNotObtained, match="report"):
            tracking.enable_tracking("t")
        assert tracking.list_tracked() == ()
        monkeypatch.setattr(alterations, "LOCK_ATTEMPTS", 100)
        enabling = threading.Thread(target=tracking.enable_tracking, args=("t",))
        enabling.start()
        reader.rollback()
        enabling.join(30)
    assert [tracked.name for tracked in tracking.list_tracked()] == ["public.t"]


def test_a_renamed_table_is_resumed_under_its_new_name(program: psycopg.Connection) -> None:
    tracking = ChangeTracking(program)
    tracking.enable_tracking("t", storage=Storage.SIDE)
    program.execute("alter table t rename to u")
    with pytest.raises(TrackingLost, match=r"called public\.u now"), tracking.changes(["public.t"]):
        pass

    assert tracking.resume_tracking("public.t").name == "public.u"
    with tracking.changes(["u"]) as changes:
        assert len(list(changes)) == 2500


def test_a_table_that_was_swapped_out_is_lost_under_its_name(program: psycopg.Connection) -> None:
    tracking = ChangeTracking(program)
    tracking.enable_tracking("t")
    program.execute("create table staged (like t); alter table staged add primary key (id)")
    program.execute("begin; alter table t rename to u; alter table staged rename to t; commit")
    for name in ("t", "public.t", '"t"'):
        with pytest.raises(TrackingLost, match=r"called public\.u now|not been resumed"), tracking.changes([name]):
            pass
    assert tracking.resume_tracking("t").name == "public.t"
    program.execute("drop table t")
    with pytest.raises(TrackedTableGone, match="rowtide tracking disable public.t"), tracking.changes(["T"]):
        pass
    tracking.disable_tracking("t")
    assert list(tracking.list_tracked()) == []


@pytest.mark.parametrize("storage", list(Storage))
def test_a_table_that_was_restored_under_its_name_is_resumed(program: psycopg.Connection, storage: Storage) -> None:
    """As by a dump: the same names, another oid, the old triggers and stamps."""
    tracking = ChangeTracking(program)
    tracking.enable_tracking("t", storage=storage)
    program.execute("update t set note = 'before' where id < 10")
    program.execute("create table copy (like t including all); insert into copy select * from t; drop table t")
    program.execute("alter table copy rename to t")
    with pytest.raises(TrackingLost, match="the table was dropped"):
        changes_since(tracking)

    tracking.resume_tracking("public.t")
    anchor = last_anchor(tracking)
    assert changes_since(tracking, anchor) == []
    program.execute("delete from t where id = 3; update t set note = 'after' where id = 4")
    assert sorted(changes_since(tracking, anchor)) == [("delete", 3), ("update", 4, "after")]
    rows = "select count(*) from pg_class where relname like '\\_\\_sysRows%' and relkind = 'r'"
    assert program.execute(rows).fetchone() == (1 if storage is Storage.SIDE else 0,)


def test_times_that_python_cannot_hold_are_texts(program: psycopg.Connection) -> None:
    program.execute("create table e (id timestamptz primary key, d date, s timestamp)")
    tracking = ChangeTracking(program)
    tracking.enable_tracking("e")
    program.execute("insert into e values ('infinity', '0044-03-15 BC', '-infinity'), ('11000-01-01', null, null)")

    with tracking.changes(["e"]) as changes:
        assert sorted(str(change.row[0]) for change in changes) == ["11000-01-01 00:00:00+00", "infinity"]
    program.execute("delete from e where d is not null")
    with tracking.changes(["e"], changes.anchor) as later:
        (gone,) = later
    assert gone.row == ("infinity",)
    assert tracking.changed_since("e", ["infinity"], changes.anchor)


@pytest.fixture
def partitioned(program: psycopg.Connection) -> psycopg.Connection:
    """A session in a database whose `t` is partitioned, with one partition `t1`."""
    program.execute(
        "drop table t; create table t (id int, part int, note text, primary key (id, part)) partition by list (part)"
    )
    program.execute("create table t1 partition of t for values in (1)")
    return program


def test_a_partition_of_later_is_tracked(partitioned: psycopg.Connection) -> None:
    tracking = ChangeTracking(partitioned)
    tracking.enable_tracking("t")
    partitioned.execute("insert into t values (1, 1), (2, 1)")
    first = last_anchor(tracking)
    partitioned.execute("create table t2 partition of t for values in (2)")
    partitioned.execute(
        "insert into t values (3, 2), (4, 2); update t set part = 2 where id = 1; delete from t where id = 4"
    )

    assert sorted(changes_since(tracking, first)) == [("delete", 1, 1), ("insert", 1, 2, None), ("insert", 3, 2, None)]
    second = last_anchor(tracking)
    partitioned.execute("truncate t2")
    assert sorted(changes_since(tracking, second)) == [("delete", 1, 2), ("delete", 3, 2)]


def test_attaching_a_partition_with_rows_ends_tracking(partitioned: psycopg.Connection) -> None:
    tracking = ChangeTracking(partitioned)
    tracking.enable_tracking("t")
    first = last_anchor(tracking)
    partitioned.execute("create table t2 (like t including indexes); insert into t2 (id, part) values (7, 2)")
    partitioned.execute("alter table t attach partition t2 for values in (2)")

    with pytest.raises(TrackingLost, match="rows of its own"):
        changes_since(tracking, first)
    tracking.resume_tracking("t")
    second = last_anchor(tracking)
    partitioned.execute("alter table t detach partition t2")
    with pytest.raises(TrackingLost, match="detached"):
        changes_since(tracking, second)
    tracking.resume_tracking("t")
    assert changes_since(tracking) == []
    partitioned.execute("truncate t2")


def test_new_partition_does_not_hide_disabled_triggers(partitioned: psycopg.Connection) -> None:
    tracking = ChangeTracking(partitioned)
    tracking.enable_tracking("t")
    partitioned.execute("insert into t values (1, 1)")
    anchor = last_anchor(tracking)
    partitioned.execute("alter table t disable trigger user; delete from t")
    partitioned.execute("create table t2 partition of t for values in (2)")

    with pytest.raises(TrackingLost, match="disabled"):
        changes_since(tracking, anchor)


@pytest.mark.parametrize("storage", list(Storage))
@pytest.mark.parametrize(
    ("alteration", "what"),
    [
        ("alter table t rename id to ident", "a column of its key was renamed"),
        ("alter table t drop constraint t_pkey, add primary key (other)", "others are its key now"),
        ("alter table t drop constraint t_pkey", "no primary-key any more"),
    ],
)
def test_another_key_ends_tracking(program: psycopg.Connection, storage: Storage, alteration: str, what: str) -> None:
    program.execute("alter table t add column other int; update t set other = id + 9000")
    tracking = ChangeTracking(program)
    tracking.enable_tracking("t", storage=storage)
    anchor = last_anchor(tracking)
    program.execute(alteration.encode())

    with pytest.raises(TrackingLost, match=what):
        changes_since(tracking, anchor)


def test_after_another_key_was_chosen_it_is_resumed_by_that(program: psycopg.Connection) -> None:
    program.execute("alter table t add column other int; update t set other = id + 9000")
    tracking = ChangeTracking(program)
    tracking.enable_tracking("t")
    program.execute("alter table t drop constraint t_pkey, add primary key (other)")
    tracking.resume_tracking("t")
    anchor = last_anchor(tracking)
    program.execute("delete from t where id = 3")
    assert changes_since(tracking, anchor) == [("delete", 9003)]


@pytest.mark.parametrize("storage", list(Storage))
def test_tracking_can_delete_its_own_rows_under_for_all_tables(program: psycopg.Connection, storage: Storage) -> None:
    program.execute("create publication p for all tables")
    tracking = ChangeTracking(program)
    tracking.enable_tracking("t", storage=storage)
    program.execute("delete from t where id = 1")

    assert tracking.purge_tombstone_table_data("public.t", PurgeType.TIME_BASED, 0) == 1
    program.execute("insert into t select n, 'x' from generate_series(3000, 103001) n; truncate t")
    tracking.resume_tracking("public.t")
    tracking.disable_tracking("public.t")


@pytest.mark.parametrize("index", list(StampIndex))
def test_changes_in_a_large_table_are_found_by_their_stamps(program: psycopg.Connection, index: StampIndex) -> None:
    program.execute("insert into t select n, repeat('x', 500) from generate_series(2501, 60000) n")
    program.execute("vacuum analyze t")
    tracking = ChangeTracking(program)
    tracking.enable_tracking("t", index=index)
    anchor = last_anchor(tracking)
    program.execute("update t set note = 'y' where id % 1000 = 0")
    before = count_whole_reads(program)

    assert len(changes_since(tracking, anchor)) == 60
    assert count_whole_reads(program) == before


@pytest.mark.parametrize(
    "statement",
    [
        "alter table t set unlogged",
        "create table child () inherits (t)",
        "create table parent (note text); alter table t inherit parent",
    ],
)
def test_table_whose_rows_bypass_triggers_is_refused(program: psycopg.Connection, statement: str) -> None:
    program.execute(statement.encode())

    with pytest.raises(TableToTrackNotFound, match="unlogged"):
        ChangeTracking(program).enable_tracking("t")


@pytest.mark.parametrize("storage", list(Storage))
def test_rows_of_a_table_that_inherits_later_are_not_its_own(program: psycopg.Connection, storage: Storage) -> None:
    tracking = ChangeTracking(program)
    tracking.enable_tracking("t", storage=storage)
    anchor = last_anchor(tracking)
    program.execute(
        "create table child (primary key (id)) inherits (t); insert into child (id, note) values (7, 'child')"
    )
    program.execute("update t set note = 'both' where id = 7; delete from child")

    assert changes_since(tracking, anchor) == [("update", 7, "both")]
    assert len(changes_since(tracking)) == 2500


def test_a_table_is_found_by_the_name_that_it_was_enabled_by(program: psycopg.Connection) -> None:
    tracking = ChangeTracking(program)
    tracking.enable_tracking("T")
    with tracking.changes(["T"], whole=["PUBLIC.T"]) as changes:
        assert len(list(changes)) == 2500
    program.execute('create table "T" (id int primary key)')
    tracking.enable_tracking('"T"')
    assert [tracked.name for tracked in tracking.list_tracked()] == ["public.T", "public.t"]
    assert tracking.get_tracked('"T"').name == "public.T"
    assert tracking.get_tracked("T").name == "public.t"

"""What an enumeration of a PostgreSQL table says of what other sessions did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

import psycopg
import pytest

from fixtures.servers import drop_database
from rowtide.core.anchors import UnknownAnchor
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.tracking import Anchor, Change, ChangeTracking, Operation, PurgeType, TrackingOptions
from rowtide.tracking.errors import (
    AnchorTooOld,
    InvalidTombstoneKey,
    NotTracked,
    TrackedAlready,
    TrackingLost,
    TrackingOutdated,
)


@dataclass
class TrackedDatabase:
    """A database, a session at work in it, and its tracking; `seen` is the last anchor."""

    url: str
    program: psycopg.Connection
    tracking: ChangeTracking
    seen: Anchor | None = None

    def changes(self, *tables: str) -> list[tuple[object, ...]]:
        """Enumerate since the last time; return each change as (operation, values...)."""
        return [(str(change.operation), *change.row) for change in self.enumerate(*tables)]

    def enumerate(self, *tables: str) -> list[Change]:
        """As above, the changes themselves."""
        with self.tracking.changes(tables or ("public.t",), self.seen) as changes:
            found = list(changes)
        self.seen = changes.anchor
        return found

    @contextmanager
    def session(self) -> Iterator[psycopg.Connection]:
        with psycopg.connect(self.url) as session:
            yield session


@pytest.fixture
def tracked(database: str) -> Iterator[TrackedDatabase]:
    """A database with an empty, tracked table `t (id, name, qty)`."""
    with psycopg.connect(database, autocommit=True) as program:
        program.execute("create table t (id int primary key, name text, qty int)")
        made = TrackedDatabase(database, program, ChangeTracking(program))
        made.tracking.enable_tracking("t")
        assert made.changes() == []
        yield made


def test_net_changes_of_a_window(tracked: TrackedDatabase) -> None:
    tracked.program.execute("insert into t values (1, 'a', 1), (2, 'b', 1), (3, 'c', 1)")
    assert tracked.changes() == [("insert", 1, "a", 1), ("insert", 2, "b", 1), ("insert", 3, "c", 1)]
    assert tracked.changes() == []

    tracked.program.execute("update t set qty = 2 where id = 1")
    tracked.program.execute("delete from t where id = 2")
    tracked.program.execute("delete from t where id = 3")
    tracked.program.execute("insert into t values (3, 'new', 1), (4, 'd', 1), (5, 'gone', 1)")
    tracked.program.execute("update t set qty = 7 where id = 4")
    tracked.program.execute("delete from t where id = 5")
    assert sorted(tracked.changes()) == [
        ("delete", 2),
        ("insert", 4, "d", 7),
        ("update", 1, "a", 2),
        ("update", 3, "new", 1),
    ]


def test_a_new_key_is_a_delete_and_an_insert(tracked: TrackedDatabase) -> None:
    tracked.program.execute("insert into t values (1, 'a', 1)")
    tracked.changes()
    tracked.program.execute("update t set id = 2")

    assert tracked.changes() == [("delete", 1), ("insert", 2, "a", 1)]


def test_the_documents_five_transactions(tracked: TrackedDatabase) -> None:
    """T1 to T5 begin in this order and commit as T1, T3, T4, T2, T5; an anchor is taken after each."""
    sessions = [psycopg.connect(tracked.url) for _ in range(5)]
    numbers = {}
    for place, session in enumerate(sessions, 1):
        session.execute("insert into t values (%s)", [place])
        row = session.execute("select pg_current_xact_id()::text::bigint").fetchone()
        assert row is not None
        numbers[place] = row[0]
    csns = {}
    for place in (1, 3, 4, 2, 5):
        sessions[place - 1].commit()
        assert [change[1] for change in tracked.changes()] == [place]
        assert tracked.seen is not None
        csns[place] = tracked.seen.csn
    for session in sessions:
        session.close()

    assert [csns[place] - numbers[1] + 1 for place in range(1, 6)] == [1, 4, 2, 3, 5]
    recorded = tracked.program.execute(
        'select "__sysTxBsn", "__sysTxCsn" from rowtide_tracking."__sysTxCommitSequence" order by 1'
    ).fetchall()
    assert recorded == [(numbers[place], csns[place]) for place in (2, 3, 4)]


def test_what_commits_after_anchors_were_taken_is_in_none_of_them_and_in_the_next(tracked: TrackedDatabase) -> None:
    with tracked.session() as slow:
        slow.execute("insert into t values (1)")
        tracked.program.execute("insert into t values (2)")
        assert [change[1] for change in tracked.changes()] == [2]
        tracked.program.execute("insert into t values (3)")
        assert [change[1] for change in tracked.changes()] == [3]
    assert [change[1] for change in tracked.changes()] == [1]


def test_savepoints_and_prepared_transactions(tracked: TrackedDatabase) -> None:
    with tracked.session() as session:
        session.execute("insert into t values (1); savepoint s; insert into t values (2); rollback to s")
        session.execute("savepoint s2; insert into t values (3); release s2")
    assert [change[1] for change in tracked.changes()] == [1, 3]

    with tracked.session() as session:
        session.execute("insert into t values (4); prepare transaction 'p'")
        assert tracked.changes() == []
    tracked.program.execute("insert into t values (5)")
    assert [change[1] for change in tracked.changes()] == [5]
    tracked.program.execute("commit prepared 'p'")
    assert [change[1] for change in tracked.changes()] == [4]


def test_copy_cascades_upserts_and_replicated_rows_are_tracked(tracked: TrackedDatabase) -> None:
    tracked.program.execute("create table child (id int primary key, t_id int references t on delete cascade)")
    tracked.tracking.enable_tracking("child")
    tracked.seen = None
    tracked.changes("t", "child")
    with tracked.program.cursor() as cursor, cursor.copy("copy t (id) from stdin") as copy:
        copy.write("1\n2\n")
    tracked.program.execute("insert into child values (10, 1), (20, 2)")
    assert len(tracked.changes("t", "child")) == 4

    tracked.program.execute("delete from t where id = 1")
    tracked.program.execute("insert into t values (2, 'again') on conflict (id) do update set name = excluded.name")
    tracked.program.execute("set session_replication_role = replica")
    tracked.program.execute("insert into t values (3)")
    found = [(change.table, str(change.operation), change.row[0]) for change in tracked.enumerate("t", "child")]
    assert found == [
        ("public.child", "delete", 10),
        ("public.t", "delete", 1),
        ("public.t", "update", 2),
        ("public.t", "insert", 3),
    ]


def test_a_truncate_of_a_few_rows_is_their_deletes(tracked: TrackedDatabase) -> None:
    tracked.program.execute("insert into t values (1), (2)")
    tracked.changes()
    tracked.program.execute("truncate t")

    assert sorted(tracked.changes()) == [("delete", 1), ("delete", 2)]


def test_a_truncate_of_many_rows_refuses_earlier_anchors(tracked: TrackedDatabase) -> None:
    tracked.program.execute("insert into t select n from generate_series(1, 100001) n")
    tracked.changes()
    tracked.program.execute("truncate t; insert into t values (1)")

    before = tracked.seen
    with pytest.raises(AnchorTooOld):
        tracked.changes()
    tracked.seen = None
    assert tracked.changes() == [("insert", 1, None, None)]
    assert tracked.changes() == []
    noted = tracked.program.execute('select count(*) from rowtide_tracking."__sysTruncations"').fetchone()
    assert noted == (0,)
    tracked.seen = before
    with pytest.raises(AnchorTooOld):
        tracked.changes()


def test_rows_of_partitions_are_tracked_wherever_they_are_written(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as program:
        program.execute(
            "create table t (id int, part int, qty int, primary key (id, part)) partition by list (part);"
            "create table t1 partition of t for values in (1); create table t2 partition of t for values in (2)"
        )
        tracked = TrackedDatabase(database, program, ChangeTracking(program))
        tracked.tracking.enable_tracking("t")
        tracked.changes()
        program.execute("insert into t1 values (1, 1, 0), (2, 1, 0), (3, 1, 0)")
        assert len(tracked.changes()) == 3
        program.execute("delete from t1 where id = 1")
        program.execute("update t set part = 2 where id = 2")
        program.execute("update t1 set qty = 1 where id = 3")
        assert sorted(tracked.changes()) == [
            ("delete", 1, 1),
            ("delete", 2, 1),
            ("insert", 2, 2, 0),
            ("update", 3, 1, 1),
        ]
        program.execute("truncate t2")
        assert tracked.changes() == [("delete", 2, 2)]


def test_own_changes_are_left_out_and_others_are_not(tracked: TrackedDatabase) -> None:
    tracked.program.execute("insert into t values (1, null, 0), (2, null, 0), (3, null, 0)")
    tracked.changes()
    mine = uuid4()
    tracked.program.execute("update t set name = 'theirs' where id = 1")
    assert tracked.seen is not None
    with tracked.tracking.transaction(mine, seen=tracked.seen) as transaction:
        found = [tracked.tracking.changed_since("t", [key], tracked.seen) for key in (1, 2)]
        assert found == [True, False]
        tracked.program.execute("update t set qty = 1 where id in (1, 2)")
        tracked.program.execute("delete from t where id = 3")
        tracked.program.execute("insert into t values (4)")
    with tracked.tracking.changes(["t"], transaction.anchor, exclude_context=mine) as changes:
        assert [(change.operation, change.row) for change in changes] == [(Operation.UPDATE, (1, "theirs", 1))]


def test_purged_tombstones_refuse_anchors_from_before(tracked: TrackedDatabase) -> None:
    tracked.program.execute("insert into t values (1), (2)")
    tracked.changes()
    old = tracked.seen
    tracked.program.execute("delete from t where id = 1")
    tracked.changes()
    young = tracked.seen
    tracked.program.execute("delete from t where id = 2")
    assert young is not None

    assert tracked.tracking.purge_tombstone_table_data("t", PurgeType.CSN_BASED, young.csn) == 1
    tracked.seen = young
    assert tracked.changes() == [("delete", 2)]
    tracked.seen = old
    with pytest.raises((AnchorTooOld, UnknownAnchor)):
        tracked.changes()
    assert tracked.tracking.purge_transaction_sequence_data(PurgeType.TIME_BASED, 0) == 0


@pytest.mark.parametrize(
    "statement",
    [
        'alter table t disable trigger "__sysTracking_delete"',
        'drop trigger "__sysTracking_update" on t',
        'alter table t drop column "__sysInsertTxBsn"',
        "alter table t rename to s",
        "drop table t",
    ],
)
def test_whatever_may_have_hidden_changes_is_found_out(tracked: TrackedDatabase, statement: str) -> None:
    tracked.program.execute(statement.encode())

    for _ in range(2):
        with pytest.raises(TrackingLost):
            tracked.changes()
    tracked.tracking.disable_tracking("public.t")
    assert tracked.program.execute("select to_regnamespace('rowtide_tracking')").fetchone() == (None,)


def test_a_lost_table_is_resumed(tracked: TrackedDatabase) -> None:
    tracked.program.execute('drop trigger "__sysTracking_insert" on t; insert into t values (1)')
    with pytest.raises(TrackingLost):
        tracked.changes()
    tracked.tracking.resume_tracking("t")
    with pytest.raises(AnchorTooOld):
        tracked.changes()
    with tracked.tracking.changes(["t"], tracked.seen, whole=["public.t"]) as changes:
        assert [change.row for change in changes] == [(1, None, None)]


def test_columns_may_be_added_dropped_and_renamed(tracked: TrackedDatabase) -> None:
    tracked.program.execute("insert into t values (1)")
    tracked.changes()
    tracked.program.execute("alter table t add column more text; update t set more = 'x'")
    assert tracked.changes() == [("update", 1, None, None, "x")]
    tracked.program.execute("alter table t rename column more to most; alter table t drop column name")
    tracked.program.execute("update t set most = 'y'")
    assert tracked.changes() == [("update", 1, None, "y")]


@pytest.mark.parametrize("options", [TrackingOptions.INSERT, TrackingOptions.UPDATE, TrackingOptions.DELETE])
def test_only_the_operations_that_were_asked_for_are_tracked(database: str, options: TrackingOptions) -> None:
    with psycopg.connect(database, autocommit=True) as program:
        program.execute("create table t (id int primary key, qty int); insert into t values (1), (2)")
        tracked = TrackedDatabase(database, program, ChangeTracking(program))
        tracked.tracking.enable_tracking("t", options=options)
        tracked.changes()
        program.execute("insert into t values (3); update t set qty = 1 where id = 1; delete from t where id = 2")
        expected = {"INSERT": ("insert", 3, None), "UPDATE": ("update", 1, 1), "DELETE": ("delete", 2)}
        assert tracked.changes() == [expected[str(options.name)]]


def test_a_key_of_any_types_is_packed_as_its_tombstone_has_it_whatever_the_sessions_settings(
    tracked: TrackedDatabase,
) -> None:
    tracked.program.execute(
        "create table k (a timestamptz, b float8, c bytea, d numeric, e text, f interval, primary key (a,b,c,d,e,f))"
    )
    tracked.tracking.enable_tracking("k")
    row = "('2026-11-22 12:00:00.123456+01', 0.1, '\\x00ff', 1.00, 'a,\"{}\\', '1 year 2 days')"
    tracked.program.execute(f"insert into k values {row}".encode())
    tracked.seen = None
    tracked.changes("k")
    tracked.program.execute(
        "set timezone = 'Asia/Tokyo'; set datestyle = 'SQL, DMY'; set extra_float_digits = -3;"
        "set bytea_output = escape; set intervalstyle = 'sql_standard'; delete from k"
    )
    packed = tracked.program.execute('select "__sysRK"::text from rowtide_tracking."__sysOCSDeletedRows"').fetchone()
    assert packed is not None
    values = tracked.tracking.unpack_tombstone_key("k", packed[0])

    assert tracked.tracking.pack_tombstone_key("k", values) == packed[0]
    assert tracked.changes("k") == [("delete", *values)]
    with pytest.raises(InvalidTombstoneKey):
        tracked.tracking.pack_tombstone_key("k", [1])


def test_a_restored_copy_numbers_anew_and_has_to_be_resumed(tracked: TrackedDatabase, server: EmbeddedServer) -> None:
    tracked.program.execute("insert into t values (1)")
    tracked.changes()
    tracked.program.close()
    name = f"copy_{uuid4().hex}"
    with psycopg.connect(server.url(), autocommit=True) as admin:
        source = psycopg.conninfo.conninfo_to_dict(tracked.url)["dbname"]
        admin.execute(f"create database {name} template {source}".encode())
        with psycopg.connect(server.url(name), autocommit=True) as program:
            copy = TrackedDatabase(server.url(name), program, ChangeTracking(program), tracked.seen)
            with pytest.raises(UnknownAnchor):
                copy.changes()
            copy.seen = None
            with pytest.raises(TrackingLost, match="restored copy"):
                copy.changes()
            copy.tracking.resume_tracking("t")
            assert copy.changes() == [("insert", 1, None, None)]
            program.execute("update t set qty = 1")
            assert copy.changes() == [("update", 1, None, 1)]
            assert copy.changes() == []
        drop_database(admin, name)


def test_a_role_that_may_only_write_the_table_is_tracked_and_sees_no_system_table(tracked: TrackedDatabase) -> None:
    role = f"writer_{uuid4().hex}"
    tracked.program.execute(f"create role {role}; grant all on t to {role}".encode())
    tracked.program.execute(f"insert into t values (1); set role {role}".encode())
    tracked.changes()
    tracked.program.execute("insert into t values (2); update t set qty = 1 where id = 2; delete from t where id = 1")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        tracked.program.execute('select * from rowtide_tracking."__sysOCSDeletedRows"')
    tracked.program.execute("truncate t; reset role")

    assert tracked.changes() == [("delete", 1)]
    tracked.program.execute(f"drop owned by {role}; drop role {role}".encode())


def test_a_rehearsal_says_what_would_be_done_and_does_nothing(tracked: TrackedDatabase) -> None:
    tracked.program.execute("create table u (id int primary key)")
    with tracked.tracking.rehearsal() as statements:
        tracked.tracking.enable_tracking("u")

    assert any(statement.startswith("create trigger") for statement in statements)
    assert tracked.tracking.get_tracking_options("public.u") is None
    columns = "select attname from pg_attribute where attrelid = 'u'::regclass and attnum > 0"
    assert tracked.program.execute(columns).fetchall() == [("id",)]
    tracked.tracking.enable_tracking("u")


def test_a_database_of_an_older_form_is_upgraded_and_its_anchors_stay(tracked: TrackedDatabase) -> None:
    tracked.program.execute("insert into t values (1)")
    tracked.program.execute('update rowtide_tracking."__sysOCSTrackedObjects" set "__sysForm" = 0')
    tracked.program.execute('drop trigger "__sysTracking_key" on t')
    with pytest.raises(TrackingOutdated):
        tracked.changes()

    assert tracked.tracking.upgrade_public_tracking() == ("public.t",)
    assert tracked.changes() == [("insert", 1, None, None)]
    assert tracked.tracking.upgrade_public_tracking() == ()


def test_nothing_is_left_behind(tracked: TrackedDatabase) -> None:
    with pytest.raises(TrackedAlready):
        tracked.tracking.enable_tracking("public.t")
    tracked.program.execute("insert into t values (1, 'a', 2)")
    tracked.tracking.disable_tracking("t")

    assert tracked.program.execute("select * from t").fetchall() == [(1, "a", 2)]
    assert tracked.program.execute("select count(*) from pg_trigger where not tgisinternal").fetchone() == (0,)
    assert tracked.program.execute("select to_regnamespace('rowtide_tracking')").fetchone() == (None,)
    with pytest.raises(NotTracked):
        tracked.changes()


def test_values_come_as_the_servers_texts_those_too_that_python_has_not(tracked: TrackedDatabase) -> None:
    tracked.program.execute(
        "create table u (id int primary key, at timestamptz, flag boolean, list int[], document jsonb)"
    )
    tracked.tracking.enable_tracking("u")
    tracked.program.execute("""insert into u values (1, 'infinity', true, '{1,2}', '{"a": 1}')""")

    with tracked.tracking.changes(["u"], as_texts=True) as changes:
        assert [change.row for change in changes] == [("1", "infinity", "t", "{1,2}", '{"a": 1}')]

"""What an enumeration of a PostgreSQL table says of what other sessions did."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from uuid import UUID, uuid4

import psycopg
import pytest

from builders.capture.captured_databases import wait_until
from builders.tracking.tracked_databases import TrackedPostgres
from fixtures.servers import drop_database
from fixtures.tracked import open_postgres
from rowtide.core.anchors import UnknownAnchor
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.tracking import ChangeTracking, PurgeType
from rowtide.tracking.errors import AnchorTooOld, InvalidTombstoneKey, TrackingLost

PARTITIONED = (
    "create table p (id int, part int, qty int, primary key (id, part)) partition by list (part);"
    "create table p1 partition of p for values in (1); create table p2 partition of p for values in (2)"
)


def wait_until_somebody_waits(tracked: TrackedPostgres) -> None:
    waiting = "select count(*) from pg_locks where not granted"
    wait_until(lambda: tracked.ask(waiting) == [(1,)], what="a wait for a lock")


@pytest.fixture
def tracked(request: pytest.FixtureRequest, database: str) -> Iterator[TrackedPostgres]:
    """A database with an empty, tracked table `t (id, name, qty)`, stamps in the row."""
    with open_postgres(request) as opened:
        opened.enable()
        assert opened.changes() == []
        yield opened


def test_the_documents_five_transactions(tracked: TrackedPostgres) -> None:
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


def test_transaction_open_at_an_anchor_is_in_a_later_enumeration(
    tracked: TrackedPostgres,
) -> None:
    with tracked.session() as slow:
        slow.execute("insert into t values (1)")
        tracked.program.execute("insert into t values (2)")
        assert [change[1] for change in tracked.changes()] == [2]
        tracked.program.execute("insert into t values (3)")
        assert [change[1] for change in tracked.changes()] == [3]
    assert [change[1] for change in tracked.changes()] == [1]


def test_savepoints_and_prepared_transactions(tracked: TrackedPostgres) -> None:
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


def test_copy_cascades_upserts_and_replicated_rows_are_tracked(tracked: TrackedPostgres) -> None:
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


def test_a_tables_names_may_be_those_of_queries(tracked: TrackedPostgres) -> None:
    tracked.run("create table gone (id int primary key, packed text[])")
    tracked.tracking.enable_tracking("gone")
    tracked.seen = None
    tracked.run("insert into gone values (1, '{1}'), (2, '{1}')")
    tracked.changes("gone")
    tracked.run("delete from gone where id = 2")
    assert tracked.changes("gone") == [("delete", 2)]


def test_a_truncate_of_a_few_rows_is_their_deletes(tracked: TrackedPostgres) -> None:
    tracked.program.execute("insert into t values (1), (2)")
    tracked.changes()
    tracked.program.execute("truncate t")

    assert sorted(tracked.changes()) == [("delete", 1), ("delete", 2)]


def test_a_truncate_of_many_rows_refuses_earlier_anchors(tracked: TrackedPostgres) -> None:
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


def test_truncate_under_an_old_snapshot_refuses_earlier_anchors(tracked: TrackedPostgres) -> None:
    """Under repeatable read it takes rows, too, that were committed after its snapshot."""
    with tracked.session() as session:
        session.execute("set transaction isolation level repeatable read; select 1")
        tracked.run("insert into t values (1)")
        assert tracked.changes() == [("insert", 1, None, None)]
        session.execute("truncate t")

    with pytest.raises(AnchorTooOld):
        tracked.changes()
    tracked.seen = None
    assert tracked.changes() == []


@pytest.mark.parametrize("statement", ["alter table t alter qty type bigint", "truncate t"])
def test_table_rewritten_after_the_anchor_is_not_read_as_empty(tracked: TrackedPostgres, statement: str) -> None:
    """To earlier snapshots it would be empty: the rewriting waits for its turn, or all is read from a later one."""
    tracked.run("insert into t values (1)")
    with tracked.tracking.changes(["t"]) as changes, tracked.session() as session:
        session.execute("set lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            session.execute(statement.encode())
        assert [change.row for change in changes] == [(1, None, None)]


def test_table_rewritten_before_it_is_locked_is_read_again(tracked: TrackedPostgres) -> None:
    tracked.run("create table u (id int primary key)", "insert into t values (1)", "insert into u values (1)")
    tracked.tracking.enable_tracking("u")
    found: list[tuple[object, ...]] = []

    def copy() -> None:
        with tracked.tracking.changes(["t", "u"]) as changes:
            found.extend((change.table, change.row[0]) for change in changes)

    with tracked.session() as session:
        session.execute("alter table t alter qty type bigint")
        copying = threading.Thread(target=copy)
        copying.start()
        wait_until_somebody_waits(tracked)
    copying.join()
    assert found == [("public.t", 1), ("public.u", 1)]


def test_error_while_applying_changes_is_no_tracking_failure(tracked: TrackedPostgres) -> None:
    tracked.run("create table copy (id int primary key)", "insert into copy values (1)", "insert into t values (1)")

    def apply_all() -> None:
        with tracked.tracking.changes(["t"], tracked.seen) as changes:
            for change in changes:
                tracked.run(f"insert into copy values ({change.row[0]})")

    with pytest.raises(psycopg.errors.UniqueViolation):
        apply_all()
    assert tracked.changes() == [("insert", 1, None, None)]


def test_partition_rows_are_tracked_wherever_they_are_written(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as program:
        program.execute(
            "create table t (id int, part int, qty int, primary key (id, part)) partition by list (part);"
            "create table t1 partition of t for values in (1); create table t2 partition of t for values in (2)"
        )
        tracked = TrackedPostgres(url=database, program=program, tracking=ChangeTracking(program))
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


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ('alter table t disable trigger "__sysTracking_delete"', "a trigger was changed, disabled or dropped"),
        ('alter table t drop column "__sysInsertTxBsn"', "the stamps of its rows are gone"),
    ],
)
def test_whatever_may_have_hidden_changes_is_found_out(tracked: TrackedPostgres, statement: str, what: str) -> None:
    tracked.program.execute(statement.encode())

    for _ in range(2):
        with pytest.raises(TrackingLost, match=f"{what}|it has not been resumed"):
            tracked.changes()
    tracked.tracking.disable_tracking("public.t")
    assert tracked.program.execute("select to_regnamespace('rowtide_tracking')").fetchone() == (None,)


def test_packed_keys_do_not_depend_on_type_or_session_settings(
    tracked: TrackedPostgres,
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


def test_row_moved_to_another_partition_keeps_changes_of_others(tracked: TrackedPostgres) -> None:
    tracked.run(*PARTITIONED.split(";"), "insert into p values (1, 1, 0), (2, 1, 0)")
    tracked.tracking.enable_tracking("p")
    tracked.seen = None
    tracked.changes("p")
    tracked.run("update p set qty = 5 where id = 1")
    mine = UUID(int=7)
    with tracked.tracking.transaction(mine, seen=tracked.seen) as transaction:
        tracked.run("update p set part = 2")

    with tracked.tracking.changes(["p"], transaction.anchor, exclude_context=mine) as changes:
        assert [change.row for change in changes] == [(1, 2, 5)]


def test_a_purge_leaves_what_commits_while_it_runs(tracked: TrackedPostgres) -> None:
    """The number of what commits late is below the anchors', and so below what is to be purged."""
    tracked.run("insert into t values (1), (2)")
    with tracked.session() as slow, tracked.session() as gate:
        slow.execute("delete from t where id = 1")
        tracked.run("delete from t where id = 2")
        assert len(tracked.changes()) == 1
        purged: list[int] = []

        def purge() -> None:
            purged.append(tracked.tracking.purge_tombstone_table_data("t", PurgeType.TIME_BASED, 0))

        gate.execute('lock table rowtide_tracking."__sysTxCommitSequence" in access exclusive mode')
        purging = threading.Thread(target=purge)
        purging.start()
        wait_until_somebody_waits(tracked)
        slow.commit()
        gate.commit()
        purging.join()

    assert purged == [1]
    assert tracked.changes() == [("delete", 1)]


def test_a_purge_refuses_anchors_below_its_youngest_delete(tracked: TrackedPostgres) -> None:
    tracked.run("insert into t values (1), (2)", "delete from t where id = 1")
    tracked.changes()
    between = tracked.seen
    tracked.run("delete from t where id = 2")
    tracked.changes()
    assert tracked.tracking.purge_tombstone_table_data("t", PurgeType.TIME_BASED, 0) == 2
    tracked.seen = between

    with pytest.raises((AnchorTooOld, UnknownAnchor)):
        tracked.changes()


def test_a_restored_copy_numbers_again_and_has_to_be_resumed(tracked: TrackedPostgres, server: EmbeddedServer) -> None:
    tracked.program.execute("insert into t values (1)")
    tracked.changes()
    tracked.program.close()
    name = f"copy_{uuid4().hex}"
    with psycopg.connect(server.url(), autocommit=True) as admin:
        source = psycopg.conninfo.conninfo_to_dict(tracked.url)["dbname"]
        admin.execute(f"create database {name} template {source}".encode())
        with psycopg.connect(server.url(name), autocommit=True) as program:
            copy = TrackedPostgres(
                url=server.url(name), program=program, tracking=ChangeTracking(program), seen=tracked.seen
            )
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
            copy.tracking.disable_tracking("t")
        with psycopg.connect(tracked.url, autocommit=True) as program:
            # The original's anchors are what they were.
            original = TrackedPostgres(
                url=tracked.url, program=program, tracking=ChangeTracking(program), seen=tracked.seen
            )
            program.execute("insert into t values (2)")
            assert original.changes() == [("insert", 2, None, None)]
        drop_database(admin, name)


def test_merge_and_statements_within_statements_are_tracked(tracked: TrackedPostgres) -> None:
    tracked.run("insert into t values (1, 'a', 1), (2, 'b', 1), (3, 'c', 1), (4, 'd', 1)")
    tracked.changes()
    tracked.run(
        "merge into t using (values (1, 9), (2, 0), (5, 5)) s (id, qty) on t.id = s.id "
        "when matched and s.qty = 0 then delete when matched then update set qty = s.qty "
        "when not matched then insert (id, qty) values (s.id, s.qty)",
        "with gone as (delete from t where id = 3 returning *), changed as (update t set qty = 7 where id = 4) "
        "insert into t select id + 10, name, qty from gone",
    )

    assert sorted(tracked.changes(), key=str) == [
        ("delete", 2),
        ("delete", 3),
        ("insert", 13, "c", 1),
        ("insert", 5, None, 5),
        ("update", 1, "a", 9),
        ("update", 4, "d", 7),
    ]


def test_writer_without_metadata_rights_is_tracked(
    tracked: TrackedPostgres,
) -> None:
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


def test_values_are_server_texts_also_where_python_has_no_type(tracked: TrackedPostgres) -> None:
    tracked.program.execute(
        "create table u (id int primary key, at timestamptz, flag boolean, list int[], document jsonb)"
    )
    tracked.tracking.enable_tracking("u")
    tracked.program.execute("""insert into u values (1, 'infinity', true, '{1,2}', '{"a": 1}')""")

    with tracked.tracking.changes(["u"], as_texts=True) as changes:
        assert [change.row for change in changes] == [("1", "infinity", "t", "{1,2}", '{"a": 1}')]

"""Tracked tables on a real server: what can become of them is found, and mended by what is printed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.checks import matching, only, run_mend, stopping
from builders.formats import NEWER, recording
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.diagnosis.postgres import tracking as tracking_rules
from rowtide.diagnosis.result import Advice, CheckResult, State
from rowtide.handle import connect
from rowtide.tracking import ChangeTracking, StampIndex, Storage, TrackingKeyType, TrackingOptions
from rowtide.tracking.errors import TrackingLost

pytestmark = pytest.mark.live

COMMIT_TIMES = "track_commit_timestamp is off"


@pytest.fixture
def program(database: str) -> Iterator[psycopg.Connection]:
    """A session in a database with a table `t` of 1,000 rows, which has no tracking yet."""
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("create table t (id int primary key, note text)")
        session.execute("insert into t select n, 'x' from generate_series(1, 1000) n")
        yield session


@pytest.fixture
def tracking(program: psycopg.Connection) -> ChangeTracking:
    return ChangeTracking(program)


def check(database: str, *tables: str) -> list[CheckResult]:
    """Return the findings but for the one that each tracked database of these servers has."""
    return [finding for finding in connect(database).check(tables) if COMMIT_TIMES not in finding.message]


def mend(database: str, words: str, *tables: str) -> CheckResult:
    """Find it, do what it says, and find it no more."""
    finding = only(check(database, *tables), words)
    run_mend(finding, database)
    assert matching(check(database, *tables), words) == []
    return finding


def enumerate_t(tracking: ChangeTracking) -> None:
    with tracking.changes(["public.t"]) as changes:
        assert list(changes)


@pytest.mark.parametrize("storage", list(Storage))
def test_check_of_a_tracked_database_looks_only_at_tracking(
    database: str, tracking: ChangeTracking, storage: Storage, tmp_path: Path
) -> None:
    before = connect(database).check()
    assert {finding.subject for finding in before} >= {"server", "tables"}
    assert matching(before, COMMIT_TIMES) == []
    tracking.enable_tracking("t", storage=storage)

    (finding,) = connect(database).check()
    assert (finding.state, finding.subject) == (State.HEALTHY, "server")
    assert COMMIT_TIMES in finding.message
    assert {one.subject for one in connect(database).check(lake=str(tmp_path / "lake"))} >= {"server", "tables"}


@pytest.mark.parametrize("storage", list(Storage))
def test_lost_tracking_is_found_and_resumed(
    database: str, program: psycopg.Connection, tracking: ChangeTracking, storage: Storage
) -> None:
    tracking.enable_tracking("t", storage=storage)
    program.execute('alter table t disable trigger "__sysTracking_delete"')
    assert only(check(database), "table public.t: its tracking is lost: a trigger").state is State.FAILING
    with pytest.raises(TrackingLost) as noted:
        enumerate_t(tracking)
    program.execute('alter table t enable always trigger "__sysTracking_delete"')
    time.sleep(1.1)
    with pytest.raises(TrackingLost, match=noted.value.lost_time):
        enumerate_t(tracking)
    assert (
        f"found out at {noted.value.lost_time} UTC: what was missing is there again"
        in only(check(database), "lost").message
    )
    mend(database, "its tracking is lost", "t")
    enumerate_t(tracking)


@pytest.mark.parametrize(("storage", "failing"), [(Storage.ROW, "deletes"), (Storage.SIDE, "all writes")])
def test_renamed_key_column_stops_writes_until_tracking_resumes(
    database: str, program: psycopg.Connection, tracking: ChangeTracking, storage: Storage, failing: str
) -> None:
    tracking.enable_tracking("t", storage=storage)
    program.execute('alter table t rename id to "the ""key"""')
    with pytest.raises(psycopg.errors.UndefinedColumn):
        program.execute("delete from t")
    finding = mend(database, "its triggers use id, which no longer exist")
    assert (finding.state, finding.message.partition(" of it")[0]) == (State.FAILING, failing)
    assert program.execute("delete from t").rowcount == 1000

    program.execute("alter table t drop constraint t_pkey")
    assert isinstance(only(check(database), "it has no primary-key any more").remediation, Advice)
    program.execute('alter table t drop column "the ""key""" cascade')
    assert isinstance(only(check(database), 'its triggers use the "key", which').remediation, Advice)


def test_a_table_that_was_dropped_or_renamed_is_found(
    database: str, program: psycopg.Connection, tracking: ChangeTracking
) -> None:
    program.execute('create schema "Odd s"; create table "Odd s"."a b" (id int primary key)')
    for table in ("t", '"Odd s"."a b"'):
        tracking.enable_tracking(table)
    program.execute('alter table "Odd s"."a b" rename to c; drop table t')
    mend(database, "the table is called Odd s.c now")
    mend(database, "the table was dropped")
    assert [tracked.name for tracked in tracking.list_tracked()] == ["Odd s.c"]


def test_table_dropped_and_created_again_is_tracked_again(
    database: str, program: psycopg.Connection, tracking: ChangeTracking
) -> None:
    tracking.enable_tracking("t")
    program.execute("drop table t; create table t (id int primary key)")
    mend(database, "the table was dropped")
    program.execute("insert into t (id) values (1)")
    with tracking.changes("t") as changes:
        assert [change.row[0] for change in changes] == [1]


@pytest.mark.parametrize("storage", list(Storage))
@pytest.mark.parametrize("index", list(StampIndex))
def test_an_index_that_is_missing_or_half_built_is_built(
    database: str, program: psycopg.Connection, tracking: ChangeTracking, storage: Storage, index: StampIndex
) -> None:
    program.execute('alter table t rename to "T"; alter table "T" add column rowguid uuid default gen_random_uuid()')
    program.execute('alter table "T" alter column rowguid set not null, add unique (rowguid)')
    tracking.enable_tracking('"T"', TrackingKeyType.ROWGUID, storage=storage, index=index)
    assert check(database) == []
    names = program.execute(
        "select indexrelid::regclass::text from pg_index where indexrelid::regclass::text ~ 'Changes'"
    )
    (name,) = names.fetchone() or ("",)
    for statement in ("update pg_index set indisvalid = false where indexrelid = %s::regclass", f"drop index {name}"):
        program.execute(statement.encode(), [name] if "%s" in statement else None)
        assert mend(database, "the index on its stamps").state is State.WARNING
    assert check(database) == []


def test_what_a_newer_build_tracks_is_not_looked_at(
    database: str, program: psycopg.Connection, tracking: ChangeTracking
) -> None:
    tracking.enable_tracking("t")
    for statement in recording("rowtide_tracking.rowtide_format", NEWER):
        program.execute(statement.encode())
    assert only(check(database), "has format 2").state is State.FAILING


def test_old_tombstones_are_purged_when_there_are_many(
    database: str, program: psycopg.Connection, tracking: ChangeTracking
) -> None:
    tracking.enable_tracking("t")
    insert = (
        "insert into rowtide_tracking.\"__sysOCSDeletedRows\" select 'public.t', 1, null, array[n::text], "
        "now() - interval '{days} days' from generate_series(1, {count}) n"
    )
    program.execute(insert.format(days=29, count=150_000).encode())
    assert check(database) == []
    program.execute(insert.format(days=40, count=100_000).encode())
    finding = mend(database, "tombstones")
    assert "250000 tombstones, 100000 of them older than 30 days, the oldest of 40 days ago" in finding.message


def test_new_partition_is_reported_only_if_it_would_be_missed(
    database: str, program: psycopg.Connection, tracking: ChangeTracking
) -> None:
    program.execute("drop table t; create table t (id int, part int, primary key (id, part)) partition by list (part)")
    program.execute("create table t1 partition of t for values in (1)")
    tracking.enable_tracking("t")
    program.execute("insert into t values (1, 1)")
    enumerate_t(tracking)
    program.execute("create table t2 partition of t for values in (2); insert into t values (2, 2)")
    assert check(database) == []
    program.execute("create table t3 (like t including indexes); insert into t3 (id, part) values (3, 3)")
    program.execute("alter table t attach partition t3 for values in (3)")
    assert mend(database, "a partition was attached that has rows of its own").state is State.FAILING


PUBLICATIONS = {
    "create publication p for table t": True,
    "create publication p for tables in schema public": True,
    "create publication p for table t (id)": False,
}


@pytest.mark.parametrize(("publication", "is_told"), PUBLICATIONS.items())
def test_stamps_are_kept_beside_rows_that_a_publication_sends(
    database: str, program: psycopg.Connection, tracking: ChangeTracking, publication: str, *, is_told: bool
) -> None:
    program.execute(publication.encode())
    if not is_told:
        assert matching(check(database, "t"), "publication p") == []
        tracking.enable_tracking("t")
        assert check(database) == []
        return
    before = only(check(database, "t"), "publication p sends all its columns")
    assert (before.state, str(before.remediation)) == (
        State.WARNING,
        """rowtide tracking enable '"public"."t"' --storage side""",
    )
    tracking.enable_tracking("t", options=TrackingOptions.UPDATE, index=StampIndex.BTREE)
    mend(database, "table public.t: publication p")
    (tracked,) = tracking.list_tracked()
    assert (tracked.storage, tracked.options, tracked.index) == (
        Storage.SIDE,
        TrackingOptions.UPDATE,
        StampIndex.BTREE,
    )
    assert check(database) == []


def test_a_publication_of_all_tables_sends_tracking_s_own(
    database: str, program: psycopg.Connection, tracking: ChangeTracking
) -> None:
    program.execute("create publication p for all tables")
    assert matching(check(database), "publication p") == []
    assert only(check(database, "t"), "publication p").state is State.WARNING
    tracking.enable_tracking("t", storage=Storage.SIDE)
    (finding,) = check(database)
    assert "(schema rowtide_tracking)" in finding.message
    sent = program.execute("select tablename from pg_publication_tables where schemaname = 'rowtide_tracking'")
    assert ("__sysOCSDeletedRows",) in sent.fetchall()


def test_what_is_sent_of_a_partition_is_reported_of_its_root(
    database: str, program: psycopg.Connection, tracking: ChangeTracking
) -> None:
    program.execute("drop table t; create table t (id int primary key) partition by list (id)")
    program.execute("create table t1 partition of t for values in (1); create publication p for table t1")
    tracking.enable_tracking("t")
    assert isinstance(only(check(database), "table public.t: publication p").remediation, Advice)


def test_check_of_a_captured_table_says_columns_are_in_the_log(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key)", "create table other (id int primary key)")
    logged.enable("item")
    assert only(check(logged.url, "item"), "it is captured").state is State.HEALTHY
    tracking = ChangeTracking(logged.session)
    for table in ("item", "other"):
        tracking.enable_tracking(table)
    logged.execute("alter table other disable trigger user")
    findings = check(logged.url)
    assert only(findings, "table public.item: it is captured: columns of tracking").state is State.HEALTHY
    assert [finding.subject for finding in stopping(findings)] == ["table public.other"]
    mend(logged.url, "table public.item: it is captured")


def test_scattered_changes_of_a_big_table_get_an_index_of_rows(
    database: str, program: psycopg.Connection, tracking: ChangeTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking_rules, "BIG_TABLE_BYTES", 1)
    program.execute("drop table t; create table t (id int primary key, note text) with (fillfactor = 50)")
    tracking.enable_tracking("t")
    program.execute("insert into t select n, 'x' from generate_series(1, 1000) n; analyze t")
    assert check(database) == []
    for remainder in range(20):
        program.execute("update t set note = 'y' where mod(id * 7919, 20) = %s", [remainder])
    program.execute("analyze t")
    assert mend(database, "changes are scattered").state is State.HEALTHY
    (plan,) = program.execute(
        'explain (format json) select * from t where "__sysChangeTxBsn" >= pg_current_xact_id()::text::bigint'
    ).fetchone() or ("",)
    assert "t___sysChangeTxBsn_idx" in str(plan)


def test_named_untracked_table_is_judged_if_others_are_tracked(
    database: str, program: psycopg.Connection, tracking: ChangeTracking
) -> None:
    program.execute("create table a (line text); create table b (id int) partition by list (id)")
    program.execute("create table b1 partition of b for values in (1); create table c (rowguid text)")
    tracking.enable_tracking("t")
    assert check(database) == []
    mend(database, "table public.a: it has no primary key", "a")
    assert {tracked.name: tracked.key_type for tracked in tracking.list_tracked()}[
        "public.a"
    ] is TrackingKeyType.ROWGUID
    for table in ("b", "c"):
        assert isinstance(only(check(database, table), "it has no primary key").remediation, Advice)
    assert only(check(database, "b1"), "no table public.b1 that can be tracked").state is State.FAILING


def test_printed_statements_grant_the_rights_tracking_needs(
    make_role: Callable[[str], str], database: str, program: psycopg.Connection, tracking: ChangeTracking
) -> None:
    role, owner = make_role("login"), make_role("login")
    program.execute(f'create table mine (id int primary key); alter table mine owner to "{owner}"'.encode())
    tracking.enable_tracking("t")
    url = database.replace("postgres@", f"{role.replace(' ', '%20')}@")
    assert "may not read the schema rowtide_tracking" in only(check(url), "tracking").message

    program.execute(f'grant usage on schema rowtide_tracking to "{role}"'.encode())
    program.execute(f'grant select on all tables in schema rowtide_tracking to "{role}"'.encode())
    assert only(check(url), "lacks the rights of postgres").state is State.WARNING
    findings = stopping(check(url, "mine"))
    assert [finding.message.partition(",")[0] for finding in findings] == [
        f"it may not create in database {program.info.dbname}",
        f"it lacks the rights of {owner}",
    ]
    for finding in findings:
        run_mend(finding, database)
    assert stopping(check(url, "mine")) == []
    program.execute(f'drop owned by "{owner}", "{role}"'.encode())


def test_a_standby_and_commit_times_are_distinguished(tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path / "server") as server:
        with psycopg.connect(server.url(), autocommit=True) as program:
            program.execute("create table t (id int primary key)")
            ChangeTracking(program).enable_tracking("t")
        run_mend(only(connect(server.url()).check(), "track_commit_timestamp is off"), server.url())
        server.restart()
        assert connect(server.url()).check() == ()
        (server.directory / "data" / "standby.signal").touch()
        server.restart()
        (finding,) = connect(server.url()).check()
        assert (finding.state, finding.subject) == (State.HEALTHY, "server")
        assert "it gives no anchors" in finding.message


def test_postgresql_16_is_checked_too(server_16: EmbeddedServer) -> None:
    with fresh_database(server_16) as database, psycopg.connect(database, autocommit=True) as program:
        program.execute("create table t (id int primary key); create publication p for table t")
        ChangeTracking(program).enable_tracking("t")
        mend(database, "publication p sends all its columns")
        program.execute("alter table t disable trigger user")
        mend(database, "its tracking is lost")

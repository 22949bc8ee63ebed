"""Enabling and disabling: ordered by the log, so that no transaction is captured in part; and all of it undone."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.errors import FeatureNotSupported
from pyspark.sql import DataFrame, SparkSession

from builders.capture.captured_databases import CapturedDatabase, LoggedDatabase, wait_until
from rowtide.cdc.errors.capturing import DefinitionsIncomplete
from rowtide.cdc.errors.enabling import (
    ColumnNameReserved,
    InstanceNameTaken,
    TwoInstancesExist,
    VirtualColumnUnloggable,
)
from rowtide.cdc.errors.querying import InstanceUnknown, LsnOutOfRange
from rowtide.databases.postgres import alterations
from rowtide.databases.postgres.errors import LockNotObtained
from rowtide.delta.writing.commits import Committer
from rowtide.handle import connect
from rowtide.lake import tables
from rowtide.lake.small_tables import append_small
from rowtide.log.errors import DatabaseNotEnabled, LeaseLost, LogStoreNotWritable, SchemaTaken

ROWS_PER_TRANSACTION = 7


@pytest.fixture
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let locks be waited for a shorter time than users are."""
    monkeypatch.setattr(alterations, "LOCK_TIMEOUT_S", 0.2)
    monkeypatch.setattr(alterations, "LOCK_ATTEMPTS", 2)
    monkeypatch.setattr(alterations, "_PAUSE_S", 0.01)


@contextmanager
def writers(logged: LoggedDatabase, count: int) -> Iterator[None]:
    """Run writers whose transactions write seven rows, one by one, into table `item`."""
    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(logged.url) as connection:
            while not stop.is_set():
                for _ in range(ROWS_PER_TRANSACTION):
                    connection.execute("insert into item (xid) values (pg_current_xact_id()::text)")
                connection.commit()

    with ThreadPoolExecutor(count) as pool:
        running = [pool.submit(write) for _ in range(count)]
        try:
            yield
        finally:
            stop.set()
        for writer in running:
            writer.result()


def test_enabling_beside_writers_captures_whole_transactions(logged: LoggedDatabase) -> None:
    logged.execute("create table item (xid text)", "create table log (xid text)")
    logged.enable()
    with writers(logged, 4):
        wait_until(lambda: logged.execute("select count(*) from item")[0][0] > 100, what="writers are busy")
        logged.cdc.enable_table("item")
        enabled = logged.execute("select count(*) from item")[0][0]
        wait_until(lambda: logged.execute("select count(*) from item")[0][0] > enabled + 100, what="writers went on")
    logged.read_log()
    rows = Counter(logged.inserted())
    written = {xid for (xid,) in logged.execute("select distinct xid from item")}
    assert set(rows.values()) == {ROWS_PER_TRANSACTION}
    assert 100 / ROWS_PER_TRANSACTION < len(rows) < len(written)


def test_enabling_waits_for_writers_and_captures_only_later_rows(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int)")
    logged.enable()
    with ThreadPoolExecutor(1) as pool:
        with logged.transaction() as writer:
            writer.execute("insert into item values (1)")
            enabling = pool.submit(logged.cdc.enable_table, "item")
            wait_until(lambda: is_anybody_waiting(logged), what="enable-table waits for the lock")
            writer.execute("insert into item values (2)")
        assert enabling.result() == "public_item"
    logged.execute("insert into item values (3)")
    logged.read_log()
    assert logged.inserted() == ["3"]


def is_anybody_waiting(logged: LoggedDatabase) -> bool:
    return bool(logged.execute("select 1 from pg_locks where not granted and relation = 'item'::regclass"))


def test_lock_timeout_names_the_holder_and_changes_nothing(logged: LoggedDatabase, little_patience: None) -> None:
    logged.execute("create table item (id int)")
    logged.enable()
    with logged.transaction() as writer:
        writer.execute("insert into item values (1)")
        with pytest.raises(LockNotObtained, match=f"RT-22840: table item .*pid {writer.info.backend_pid} "):
            logged.cdc.enable_table("item")
    assert logged.cdc.list_instances() == ()
    assert identity_of(logged, "item") == "d"
    assert logged.cdc.enable_table("item") == "public_item"


def identity_of(logged: LoggedDatabase, table: str) -> str:
    return str(logged.execute(f"select relreplident from pg_class where oid = '{table}'::regclass")[0][0])


def test_original_identity_returns_with_the_last_instance(logged: LoggedDatabase) -> None:
    logged.execute(
        "create table plain (id int primary key)",
        "create table indexed (id int not null)",
        "create unique index by_id on indexed (id)",
        "alter table indexed replica identity using index by_id",
        "create table already (id int)",
        "alter table already replica identity full",
        "create table never (id int)",
        "alter table never replica identity nothing",
    )
    logged.enable("plain", "indexed", "already", "never")
    logged.cdc.enable_table("plain", capture_instance="second")
    assert {identity_of(logged, name) for name in ("plain", "indexed", "already", "never")} == {"f"}
    logged.cdc.disable_table("plain", capture_instance="public_plain")
    assert identity_of(logged, "plain") == "f"
    for table in ("plain", "indexed", "already", "never"):
        logged.cdc.disable_table(table)
    assert [identity_of(logged, name) for name in ("plain", "indexed", "already", "never")] == ["d", "i", "f", "n"]
    published = logged.execute("select distinct prrelid::regclass::text from pg_publication_rel")
    assert published == [("rowtide.control",)]


def test_a_truncate_is_refused_as_long_as_an_instance_refuses_it(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int)", "create table other (id int)", "insert into item values (1)")
    logged.enable("item")
    logged.cdc.enable_table("item", capture_instance="second", refuses_truncate=True)
    with pytest.raises(FeatureNotSupported, match="RT-4711: table public.item is enabled") as refused:
        logged.execute("truncate other, item")
    assert "disable capture instance second" in str(refused.value.diag.message_hint)
    logged.cdc.disable_table("item", capture_instance="public_item")
    with pytest.raises(FeatureNotSupported):
        logged.execute("truncate item")
    logged.cdc.reinitialize("to see whether the refusal stays")
    with pytest.raises(FeatureNotSupported):
        logged.execute("truncate item")
    logged.cdc.disable_table("item", capture_instance="second")
    logged.execute("truncate item")
    assert logged.execute("select count(*) from item") == [(0,)]


def test_names_and_numbers_of_instances_are_limited(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int)", "create table other (id int)", 'create table odd ("__$seqval" int)')
    logged.enable("item")
    with pytest.raises(InstanceNameTaken, match="RT-22926: .*PUBLIC_item"):
        logged.cdc.enable_table("other", capture_instance="PUBLIC_item")
    logged.cdc.enable_table("item", capture_instance="second")
    with pytest.raises(TwoInstancesExist, match="RT-22962: .*public_item, second"):
        logged.cdc.enable_table("item", capture_instance="third")
    with pytest.raises(InstanceUnknown, match="RT-22960: .*third"):
        logged.cdc.disable_table("item", capture_instance="third")
    with pytest.raises(ColumnNameReserved, match="RT-22975"):
        logged.cdc.enable_table("odd")


def test_table_whose_updates_the_server_would_refuse_is_refused(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key, twice int generated always as (id * 2) virtual)")
    logged.enable()
    with pytest.raises(VirtualColumnUnloggable, match=r"RT-4108: .*public\.item .*twice"):
        logged.cdc.enable_table("item")


def test_enabling_a_database_that_has_such_a_schema_is_refused(logged: LoggedDatabase) -> None:
    logged.execute("create schema cdc")
    with pytest.raises(SchemaTaken, match="RT-22906: .*cdc"):
        logged.enable()


def test_enable_db_makes_dropped_tables_again(logged: LoggedDatabase) -> None:
    logged.enable()
    logged.execute("drop table cdc.cleanup_requests", "revoke select on cdc.change_tables from public")
    with pytest.raises(DefinitionsIncomplete, match="cleanup_requests"):
        logged.cdc.run(once=True)
    assert logged.cdc.enable_db(str(logged.lake)).was_enabled
    assert logged.execute("select * from cdc.cleanup_requests") == []
    assert logged.execute("select has_table_privilege('public', 'cdc.change_tables', 'select')") == [(True,)]


def test_a_log_store_that_cannot_be_written_is_not_recorded(logged: LoggedDatabase, tmp_path: Path) -> None:
    with pytest.raises(LogStoreNotWritable, match="RT-2201"):
        logged.cdc.enable_db(str(logged.lake), "/proc/log")
    with pytest.raises(DatabaseNotEnabled):
        logged.cdc.get_source()
    elsewhere = f"file://{tmp_path}/elsewhere"
    assert logged.cdc.enable_db(str(logged.lake), elsewhere).source.log_store == elsewhere
    assert (tmp_path / "elsewhere" / "manifest").is_dir()


@pytest.mark.exhaustive
def test_disable_db_leaves_nothing_and_enable_db_starts_over(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key)")
    captured.enable("item")
    captured.execute("insert into item values (1)")
    captured.capture()
    log_store = captured.cdc.get_source().log_store
    captured.cdc.disable_db()
    assert captured.execute("select nspname from pg_namespace where nspname in ('cdc', 'rowtide')") == []
    assert captured.execute("select 1 from pg_publication") == []
    assert captured.execute("select 1 from pg_replication_slots where database = current_database()") == []
    assert identity_of(captured, "item") == "d"
    assert not [path for path in Path(log_store).rglob("*") if path.is_file()]
    for name in ("public_item_CT", "lsn_time_mapping", "instances", "cycles"):
        assert tables.read_table(captured.spark, f"{captured.lake}/cdc/{name}").count() == 0
    assert not captured.cdc.enable_db(str(captured.lake)).was_enabled
    assert captured.cdc.enable_db(str(captured.lake)).was_enabled
    captured.cdc.enable_table("item")
    captured.execute("insert into item values (2)")
    captured.capture()
    assert captured.values("public_item", "id") == [(2, 2)]


def test_capture_added_to_a_published_database_begins_there(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key)")
    replication = connect(captured.url).replication
    replication.add_publication("shop", lake=str(captured.lake))
    replication.add_article("shop", "item")
    captured.execute("insert into item values (1)")
    captured.read_log()
    captured.enable("item")
    captured.execute("insert into item values (2)")
    captured.capture()

    assert captured.values("public_item", "id") == [(2, 2)]


@pytest.mark.exhaustive
def test_instance_enabled_again_under_its_old_name_begins_empty(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key)", "create table other (id int primary key)")
    captured.enable("item", "other")
    captured.execute("insert into item values (1)", "insert into other values (1)")
    captured.capture()
    first = captured.cdc.get_validity_interval("public_item")
    captured.cdc.disable_table("other")
    captured.execute("insert into item values (2)", "insert into other values (2)")
    captured.cdc.disable_table("item")
    captured.execute("insert into item values (3)")
    captured.cdc.enable_table("item")
    captured.execute("insert into item values (4)")
    captured.capture()
    assert captured.values("public_item", "id") == [(2, 4)]
    with pytest.raises(LsnOutOfRange):
        captured.changes("public_item", from_lsn=first.low)
    with pytest.raises(InstanceUnknown):
        captured.changes("public_other")
    assert table_of(captured, "other").count() == 0


@pytest.mark.exhaustive
def test_redone_cycle_with_a_reused_instance_name_loses_nothing(captured: CapturedDatabase) -> None:
    """The first of the two begins and ends in the cycle; the second's rows are in the table when the cycle breaks."""
    captured.execute("create table item (id int primary key)")
    captured.enable()
    captured.cdc.enable_table("item")
    captured.execute("insert into item values (1)")
    captured.cdc.disable_table("item")
    captured.cdc.enable_table("item")
    captured.execute("insert into item values (2)")
    captured.read_log()
    with captured.open_capture(verifications=1) as capture, pytest.raises(LeaseLost):
        capture.step()
    assert table_of(captured, "item").count() == 1
    captured.capture()
    assert captured.values("public_item", "id") == [(2, 2)]


@pytest.mark.exhaustive
def test_redone_cycle_ends_where_it_was_recorded(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key)")
    captured.enable("item")
    captured.execute("insert into item values (1)")
    captured.read_log()
    with captured.open_capture(verifications=1) as capture, pytest.raises(LeaseLost):
        capture.step()
    assert table_of(captured, "item").count() == 1
    captured.execute("insert into item values (2)")
    captured.capture()
    assert captured.values("public_item", "id") == [(2, 1), (2, 2)]


@pytest.mark.exhaustive
def test_rows_of_a_disabled_instance_are_removed(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key)")
    captured.enable("item")
    captured.execute("insert into item values (1)")
    captured.capture()
    assert table_of(captured, "item").count() == 1
    captured.cdc.disable_table("item")
    captured.capture()
    assert table_of(captured, "item").count() == 0


@pytest.mark.exhaustive
def test_query_from_before_disable_reads_all_rows_or_none(
    captured: CapturedDatabase,
) -> None:
    captured.execute("create table item (id int primary key)", "create table other (id int primary key)")
    captured.enable("item", "other")
    captured.execute("insert into item values (1)")
    captured.capture()
    asked = captured.cdc.get_all_changes("public_item", spark=captured.spark)
    assert asked.count() == 1
    captured.cdc.disable_table("item")
    captured.capture()
    assert table_of(captured, "item").count() == 0
    assert asked.count() == 1


@pytest.mark.exhaustive
def test_instance_that_ends_during_a_read_is_unknown_not_empty(
    captured: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured.execute("create table item (id int primary key)", "create table other (id int primary key)")
    captured.enable("item", "other")
    captured.execute("insert into item values (1)")
    captured.capture()
    read_identified = tables.read_identified

    def read_late(spark: SparkSession, path: str, *, identity: str) -> tables.LakeTableVersion | None:
        captured.cdc.disable_table("item")
        captured.capture()
        return read_identified(spark, path, identity=identity)

    monkeypatch.setattr(tables, "read_identified", read_late)
    with pytest.raises(InstanceUnknown):
        captured.changes("public_item")


def table_of(captured: CapturedDatabase, name: str) -> DataFrame:
    return tables.read_table(captured.spark, f"{captured.lake}/cdc/public_{name}_CT")


@pytest.mark.exhaustive
def test_rows_left_by_a_crash_after_disable_go_at_next_capture(captured: CapturedDatabase) -> None:
    """Its end is published first; then its rows are removed."""
    captured.execute("create table item (id int primary key)", "create table other (id int primary key)")
    captured.enable("item", "other")
    captured.execute("insert into item values (1)", "insert into other values (1)")
    captured.capture()
    place = f"{captured.lake}/cdc/public_other_CT"
    member = captured.cdc.list_recorded_instances()[1].instance.member_id
    rows = table_of(captured, "other").toArrow()
    captured.cdc.disable_table("other")
    captured.capture()
    append_small(Committer(), rows, place, identity=member, cycle=99)
    captured.capture()
    assert table_of(captured, "other").count() == 0
    assert table_of(captured, "item").count() == 1


@pytest.mark.parametrize(
    "name",
    ['"Übung 1"', "Übung 1", 'public."Übung 1"', "public.Übung 1", 'a"b', '"a""b"', "Camel", "plain", "PLAIN"],
)
def test_table_name_is_read_as_in_sql_or_literally(logged: LoggedDatabase, name: str) -> None:
    logged.execute(
        'create table "Übung 1" (id int)',
        'create table "a""b" (id int)',
        'create table "Camel" (id int)',
        "create table plain (id int)",
    )
    logged.enable()
    logged.cdc.enable_table(name, capture_instance="found")
    (listed,) = logged.cdc.list_instances()
    assert listed.source_table.lower() == name.removeprefix("public.").strip('"').replace('""', '"').lower()

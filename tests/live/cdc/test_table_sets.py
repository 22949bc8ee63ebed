"""Many tables enabled by one command: chosen by patterns, tried each by itself, without a writer noticing."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.commands.command_lines import Ended, rowtide
from rowtide.cdc.enabling.table_sets import Outcome, TableOutcome
from rowtide.core.tables import BeforeImages
from rowtide.databases.postgres.errors import RightMissing, TableHeld
from rowtide.handle import connect

UNTOUCHED = "other.untouched"
"""A table that is not enabled: its writer's waits are the machine's."""
_AFTER_READER_S = 10.0
LOCK_WAIT_S = 0.25
"""Of a lock's request no more than 50 ms, and of what its transaction does; the machine itself counts little."""
TABLES = (
    "create table one (id int primary key, document text)",
    "create table two (id int primary key)",
    'create table "Three.a" (id int primary key)',
    "create table parted (id int primary key) partition by range (id)",
    "create table part partition of parted for values from (0) to (100)",
    "create table tmp_four (id int primary key)",
    "create view five as select * from one",
    "create temporary table six (id int)",
    "create schema other",
    "create table other.one (id int primary key)",
    "create unlogged table other.fast (id int primary key)",
)

REFUSED: Sequence[tuple[tuple[str, ...], int]] = (
    (("public.none_*",), 4114),
    (("public.PUBLIC*",), 4114),
    (("cdc.*",), 4114),
    (("public.fiv*",), 4114),
    (("--schema", "none"), 4114),
    (("one", "missing"), 22931),
    (("public.*", "--except", "missing"), 22931),
    (('public."o*', "two*"), 4113),
    (("a.b.c*",), 4113),
    (("--file", "/nowhere/tables"), 1008),
)


@pytest.fixture
def shop(logged: LoggedDatabase) -> LoggedDatabase:
    """An enabled database with tables of most kinds, none captured."""
    logged.enable()
    logged.execute(*TABLES)
    return logged


def instances(logged: LoggedDatabase) -> list[str]:
    return sorted(listed.capture_instance for listed in logged.cdc.list_instances())


def enable(logged: LoggedDatabase, *arguments: str) -> Ended:
    return rowtide("cdc", "enable-table", *arguments, "--format", "jsonl", "--db", logged.url)


def outcomes(ended: Ended) -> Mapping[str, str]:
    rows = [json.loads(line) for line in ended.output.splitlines()]
    return {f"{row['source_schema']}.{row['source_table']}": row["outcome"] for row in rows}


def test_tables_of_a_pattern_are_enabled_but_for_exceptions(shop: LoggedDatabase) -> None:
    shop.cdc.enable_table("one", capture_instance="first")
    ended = enable(shop, "public.*", "--except", "public.tmp_*", "--except", "two")
    assert (ended.code, outcomes(ended)) == (
        1,
        {"public.Three.a": "failed", "public.one": "skipped", "public.parted": "enabled"},
    )
    assert ended.errors.splitlines()[-2:-1] == ["Enabled 1 of 3 tables; 1 enabled already, 1 failed."]
    assert "RT-22932: " in ended.errors.splitlines()[-1]
    assert instances(shop) == ["first", "public_parted"]


@pytest.mark.exhaustive
def test_schemas_files_and_names_are_enabled_together(shop: LoggedDatabase, tmp_path: Path) -> None:
    listed = tmp_path / "tables"
    listed.write_text("# the shop's\npublic.t[wx]o  # two\n\nother.o*\n", encoding="utf-8")
    ended = enable(shop, "one", "--file", str(listed), "--schema", "other", "--except", "other.fast")
    assert (ended.code, set(outcomes(ended).values())) == (0, {"enabled"})
    assert instances(shop) == ["other_one", "public_one", "public_two"]
    again = enable(shop, "--schema", "other", "--except", "other.fast")
    assert (again.code, outcomes(again)) == (0, {"other.one": "skipped"})


@pytest.mark.exhaustive
def test_planned_tables_are_listed_and_nothing_is_changed(shop: LoggedDatabase) -> None:
    shop.execute("insert into one select 1, string_agg(md5(n::text), '') from generate_series(1, 1000) n")
    planned = shop.cdc.plan_tables(["public.*"], excluding=['public."Three.a"'])
    assert [(one.source_table, one.outcome, one.large_columns) for one in planned] == [
        ("one", Outcome.PLANNED, ("document",)),
        ("parted", Outcome.PLANNED, ()),
        ("tmp_four", Outcome.PLANNED, ()),
        ("two", Outcome.PLANNED, ()),
    ]
    assert planned[0].out_of_line_bytes
    assert instances(shop) == []


@pytest.mark.exhaustive
def test_what_names_no_table_is_refused_as_a_whole(shop: LoggedDatabase) -> None:
    for arguments, number in REFUSED:
        enable(shop, *arguments).require_error(number)
    for arguments in ((), ("--except", "one"), ("public.*", "--index", "one_pkey")):
        assert enable(shop, *arguments).code == 2
    assert instances(shop) == []


@pytest.mark.exhaustive
def test_partitions_come_with_their_table_or_not_at_all(shop: LoggedDatabase) -> None:
    assert enable(shop, "public.part*", "--except", "parted").output == ""
    assert outcomes(enable(shop, "public.part*")) == {"public.parted": "enabled"}
    enable(shop, "public.par[!a]").require_error(4114)


@pytest.mark.exhaustive
def test_names_that_clash_fail_by_themselves(shop: LoggedDatabase) -> None:
    shop.execute("create schema other_one", "create table other_one.x (id int)", "create table other.one_x (id int)")
    planned = shop.cdc.plan_tables(["other*.*x"])
    enabled = shop.cdc.enable_tables(["other*.*x"])
    assert [one.outcome for one in planned] == [Outcome.PLANNED, Outcome.FAILED]
    assert [one.outcome for one in enabled] == [Outcome.ENABLED, Outcome.FAILED]
    assert "RT-22926" in str(enabled[1].error)


@pytest.mark.exhaustive
def test_a_table_without_right_does_not_stop_the_others(
    make_role: Callable[[str], str], logged: LoggedDatabase
) -> None:
    owner = make_role("login replication")
    logged.execute(
        f'grant create on database {logged.session.info.dbname} to "{owner}"',
        f'grant create on schema public to "{owner}"',
        f'grant execute on function pg_control_system(), pg_control_checkpoint() to "{owner}"',
        "create table a (id int primary key)",
        "create table b (id int primary key)",
        "create table c (id int primary key)",
        f'alter table a owner to "{owner}"',
        f'alter table c owner to "{owner}"',
    )
    cdc = connect(make_url(logged.url).set(username=owner).render_as_string(hide_password=False)).cdc
    cdc.enable_db(str(logged.lake))
    found = cdc.enable_tables(["public.*"])
    assert [one.outcome for one in found] == [Outcome.ENABLED, Outcome.FAILED, Outcome.ENABLED]
    assert isinstance(found[1].error, RightMissing)
    cdc.disable_db()
    logged.execute(f'drop owned by "{owner}" cascade')


def count_enabled(logged: LoggedDatabase) -> object:
    ((found,),) = logged.execute("select count(*) from cdc.change_tables")
    return found


@dataclass(slots=True)
class Waits:
    """How long the statements of writers took, the longest by table, and which waited for a lock for `LOCK_WAIT_S`."""

    longest_s: dict[str, float]
    for_locks: list[str] = field(default_factory=list)


@contextmanager
def busy_writers(logged: LoggedDatabase, *tables: str) -> Iterator[Waits]:
    """Write single rows into each table and into `UNTOUCHED`, by a session each."""
    logged.execute("create schema other", f"create table {UNTOUCHED} (id int primary key)")
    stop = threading.Event()
    waits = Waits(dict.fromkeys((*tables, UNTOUCHED), 0.0))

    def write(table: str) -> None:
        with psycopg.connect(logged.url, autocommit=True) as session:
            session.execute(f"set lock_timeout to '{LOCK_WAIT_S}s'".encode())
            for number in range(1, 10**9):
                if stop.is_set():
                    return
                begun = time.monotonic()
                try:
                    session.execute(f"insert into {table} values ({number})".encode())
                except psycopg.errors.LockNotAvailable:
                    waits.for_locks.append(table)
                waits.longest_s[table] = max(waits.longest_s[table], time.monotonic() - begun)
                stop.wait(0.002)

    with ThreadPoolExecutor(len(waits.longest_s)) as pool:
        running = [pool.submit(write, table) for table in waits.longest_s]
        try:
            yield waits
        finally:
            stop.set()
        for writer in running:
            writer.result()


@pytest.mark.parametrize(
    ("tables", "limit_s", "reads_s"),
    [
        pytest.param(6, 5, 0, id="few"),
        pytest.param(200, 60, 20, marks=pytest.mark.exhaustive, id="many"),
        pytest.param(200, 60, 600, marks=[pytest.mark.soak, pytest.mark.timeout(1800)], id="ten minutes"),
    ],
)
def test_a_long_reader_holds_up_its_own_tables_only(
    logged: LoggedDatabase, tables: int, limit_s: float, reads_s: float
) -> None:
    """Three tables are written to all the time; a reader has one of them, and another, in an open transaction."""
    logged.enable()
    columns = ", ".join(f"column_{number} text" for number in range(12))
    logged.execute(*(f"create table item_{number} (id int primary key, {columns})" for number in range(tables)))
    told: list[str] = []

    def run() -> tuple[TableOutcome, ...]:
        return logged.cdc.enable_tables(["public.*"], on_progress=lambda rounds: told.append(str(rounds)))

    with busy_writers(logged, "item_0", "item_2", "item_3") as waits, ThreadPoolExecutor(1) as pool:
        with logged.transaction() as reader:
            reader.execute("select from item_0, item_1")
            begun = time.monotonic()
            running = pool.submit(run)
            wait_until(lambda: count_enabled(logged) == tables - 2, what="the other tables are enabled")
            took_s = time.monotonic() - begun
            named = f"public.item_0 waits for pid {reader.info.backend_pid} ("
            wait_until(lambda: any(named in line for line in told), what="the reader is named")
            with suppress(TimeoutError):
                running.result(timeout=max(0.0, begun + reads_s - time.monotonic()))
            assert not running.done()
            assert count_enabled(logged) == tables - 2
        ended = time.monotonic()
        outcomes = {one.outcome for one in running.result()}
        after_s = time.monotonic() - ended
    sys.stdout.write(
        f"{tables - 2} tables in {took_s:.1f} s, the last two {after_s:.1f} s after a reader of "
        f"{ended - begun:.0f} s; longest waits of writers in s: {waits.longest_s}\n"
    )
    assert outcomes == {Outcome.ENABLED}
    assert waits.for_locks == []
    assert after_s < _AFTER_READER_S
    assert took_s < limit_s


@pytest.mark.exhaustive
def test_a_reader_does_not_hold_up_tables_of_key_images(shop: LoggedDatabase) -> None:
    with shop.transaction() as reader:
        reader.execute("select from one, two")
        shop.cdc.enable_tables(["one", "two"], before_images=BeforeImages.KEY)
        assert instances(shop) == ["public_one", "public_two"]


@pytest.mark.exhaustive
def test_a_table_in_use_is_given_up_with_its_holder(shop: LoggedDatabase) -> None:
    with shop.transaction() as writer:
        writer.execute("insert into two values (1)")
        held, enabled = sorted(
            shop.cdc.enable_tables(["one", "two"], wait_s=0.3), key=lambda one: one.outcome, reverse=True
        )
        assert isinstance(held.error, TableHeld)
        assert f"RT-1110: table public.two was in use for 0 s, by pid {writer.info.backend_pid} " in str(held.error)
    assert enabled.outcome is Outcome.ENABLED
    assert instances(shop) == ["public_one"]


@pytest.mark.exhaustive
def test_a_prepared_transaction_is_named_as_holder(shop: LoggedDatabase) -> None:
    shop.execute("begin", "insert into two values (1)", "prepare transaction 'forgotten'")
    (held,) = shop.cdc.enable_tables(["tw*"], wait_s=0.1)
    shop.execute("rollback prepared 'forgotten'")
    assert "by prepared transaction 'forgotten'" in str(held.error)


@pytest.mark.exhaustive
def test_transactions_beside_it_are_captured_whole_or_not_at_all(logged: LoggedDatabase) -> None:
    logged.enable()
    logged.execute("create table item_1 (id int)", "create table item_2 (id int)")
    with ThreadPoolExecutor(1) as pool:
        with logged.transaction() as writer:
            writer.execute("insert into item_1 values (1)")
            running = pool.submit(logged.cdc.enable_tables, ["item*"])
            wait_until(lambda: instances(logged) == ["public_item_2"], what="the other table is enabled")
            writer.execute("insert into item_1 values (2)")
        assert {one.outcome for one in running.result()} == {Outcome.ENABLED}
    logged.execute("insert into item_1 values (3)", "insert into item_2 values (4)")
    logged.read_log()
    assert logged.inserted() == ["3", "4"]

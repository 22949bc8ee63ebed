"""What a plan calls, functions in indexes, checks and statistics, has the rights of the table's owner at most."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Event

import numpy as np
import psycopg
import pytest
from psycopg import sql
from sqlalchemy import Engine, text
from sqlalchemy.exc import NoResultFound

from builders.capture.capture_instances import instance
from builders.capture.captured_databases import wait_until
from builders.commands.command_lines import rowtide
from builders.replication.articles import article
from fixtures.servers import fresh_database
from rowtide.cdc.gaps.comparison import lock_tables
from rowtide.copying.chunks import Chunk, CopiedTable, KeyColumn
from rowtide.copying.source import PostgresCopySource
from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.catalogue import find_table_id, read_table
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.databases.postgres.errors import RowsHidden
from rowtide.databases.urls import parse_url
from rowtide.log.postgres.missed_ddl import attach_partitions
from rowtide.merge.api import MergeReplication
from rowtide.replication.api import TransactionalReplication
from rowtide.replication.targets.compared_rows import BY_HASH
from rowtide.replication.targets.postgres.comparison.rows import open_published
from rowtide.tracking import ChangeTracking
from rowtide.tracking.errors import TrackedPlanCallsCode, TrackingLost

OWNER = "owner of indexes"
EVIL = """
create function app.evil(int) returns int language plpgsql immutable as $$
begin
    perform app.gain();
    return $1;
end $$;
create function app.gain() returns void language plpgsql as $$
begin
    begin
        execute 'reset role';
        -- A transaction that is read-only allows this, too.
        execute format('copy (select 1) to %L', pg_catalog.current_setting('config_file') || current_database());
    exception when others then null;
    end;
    begin
        -- It is read at the commit, by the session.
        execute 'declare held cursor with hold for select app.gain()';
    exception when others then null;
    end;
    perform pg_catalog.set_config('search_path', 'app', false);
end $$;
create function app.text_of(oid, bigint) returns boolean language plpgsql as $$
begin perform app.gain(); return true; end $$;
create operator app.= (leftarg = oid, rightarg = bigint, function = app.text_of);
"""
TABLES = """
create table app.in_index (id int primary key, v text);
create index on app.in_index ((id + app.evil(1)));
create table app.in_predicate (id int primary key, v text);
create index on app.in_predicate (v) where id > app.evil(0);
create table app.in_statistics (id int primary key, v text);
create statistics app.s on (id + app.evil(1)), v from app.in_statistics;
create table app.in_check (id int primary key, v text check (app.evil(1) operator(pg_catalog.>) 0));
create table app.in_bound (id int, v text, primary key (id)) partition by range (id);
create table app.part partition of app.in_bound for values from (0) to (1000);
create index on app.part ((id + app.evil(2)));
"""
ENABLING: Mapping[str, Sequence[Sequence[str]]] = {
    "tracking": [("tracking", "enable", "app.emptied")],
    "merge": [("merge", "add-publication", "m"), ("merge", "add-article", "m", "app.emptied")],
}
WAITING = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
WHOLE = Chunk("m", 1, None, None)
NAMES = ("in_index", "in_predicate", "in_statistics", "in_check", "in_bound")


@pytest.fixture
def databases(each_server: EmbeddedServer) -> Iterator[tuple[str, str]]:
    """The URLs, as a superuser, of a database where another role has tables, and of an empty one."""
    with psycopg.connect(each_server.url(), autocommit=True) as session:
        role = sql.Identifier(OWNER)
        session.execute(sql.SQL("create role {} login").format(role))
        with fresh_database(each_server) as publisher, fresh_database(each_server) as subscriber:
            with psycopg.connect(publisher, autocommit=True) as setting_up:
                setting_up.execute(sql.SQL("create schema app authorization {}").format(role))
                setting_up.execute(sql.SQL("set session authorization {}").format(role))
                setting_up.execute(EVIL.encode())
                setting_up.execute(TABLES)
                for name in NAMES:
                    setting_up.execute(f"insert into app.{name} select g, 'v' from generate_series(1, 9) g".encode())
            yield publisher, subscriber
        session.execute(sql.SQL("drop role {}").format(role))


def as_owner(url: str, statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(sql.SQL("set session authorization {}").format(sql.Identifier(OWNER)))
        session.execute(statements.encode())


def gained(url: str) -> bool:
    """Return whether a function of the owner's has ever had the rights of a superuser on this server."""
    file = "current_setting('config_file') || current_database()"
    with psycopg.connect(url) as session:
        found = session.execute(f"select size from pg_stat_file({file}, true)".encode()).fetchone()
    return found != (None,)


def test_initial_copies_call_nothing_with_the_readers_rights(databases: tuple[str, str], tmp_path: Path) -> None:
    publisher, subscriber = databases
    for words in (
        ("add-publication", "p", "--lake", str(tmp_path / "lake")),
        *(("add-article", "p", f"app.{name}") for name in NAMES),
        ("add-subscription", "p", "--subscriber", subscriber),
        ("run", "--once"),
        ("validate", "p"),
    ):
        ended = rowtide("replication", *words, "--db", publisher)
        assert ended.code == 0, (words, ended)
        assert not gained(publisher), words
    with psycopg.connect(subscriber) as session:
        counts = {name: session.execute(f"select count(*) from app.{name}".encode()).fetchone() for name in NAMES}
    assert counts == dict.fromkeys(NAMES, (9,))


def test_snapshots_call_nothing_with_the_readers_rights(databases: tuple[str, str], tmp_path: Path) -> None:
    publisher, _ = databases
    assert rowtide("cdc", "enable-db", "--lake", str(tmp_path / "lake"), "--db", publisher).code == 0
    for name in NAMES:
        assert rowtide("cdc", "enable-table", f"app.{name}", "--db", publisher).code == 0
        assert not gained(publisher), name


MADE_BEFORE = {
    "rowtide": ("cdc", "enable-db", "--lake", "{lake}"),
    "rowtide_tracking": ("tracking", "enable", "app.in_check"),
    "rowtide_merge": ("merge", "add-publication", "m"),
    "rowtide_subscriber": ("replication", "add-subscription", "p", "--subscriber", "{url}"),
}


@pytest.mark.parametrize("schema", list(MADE_BEFORE))
def test_schemas_of_another_role_are_not_used(databases: tuple[str, str], schema: str, tmp_path: Path) -> None:
    """Its owner may give a table in it code; that the schema is empty, or given away later, does not help."""
    url, publisher = databases
    words = [word.format(lake=tmp_path / "lake", url=url) for word in MADE_BEFORE[schema]]
    at = url
    if words[0] == "replication":
        at = publisher
        with psycopg.connect(publisher, autocommit=True) as session:
            session.execute("create table t (id int primary key)")
        added = ("add-publication", "p", "--lake", str(tmp_path / "lake"))
        for each in (added, ("add-article", "p", "t")):
            assert rowtide("replication", *each, "--db", publisher).code == 0
    with psycopg.connect(url, autocommit=True) as session:
        role = sql.Identifier(OWNER)
        session.execute(sql.SQL("create schema {} authorization {}").format(sql.Identifier(schema), role))
        number = 22906 if schema == "rowtide" else 1127
        rowtide(*words, "--db", at).require_error(number)
        session.execute(sql.SQL("create table {}.held ()").format(sql.Identifier(schema)))
        session.execute(sql.SQL("alter table {}.held owner to {}").format(sql.Identifier(schema), role))
        session.execute(sql.SQL("alter schema {} owner to postgres").format(sql.Identifier(schema)))
        rowtide(*words, "--db", at).require_error(number)


@pytest.mark.parametrize("feature", list(ENABLING))
def test_truncates_call_nothing_with_the_triggers_rights(databases: tuple[str, str], feature: str) -> None:
    """The index comes after the triggers; a truncate of merge is refused, tracking counts it as a large one."""
    url, _ = databases
    as_owner(url, "create table app.emptied (id int primary key, v text); insert into app.emptied values (1, 'v')")
    for words in ENABLING[feature]:
        assert rowtide(*words, "--db", url).code == 0
    assert not gained(url)
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(sql.SQL("set session authorization {}").format(sql.Identifier(OWNER)))
        session.execute("create index on app.emptied ((id + app.evil(1)))")
        if feature == "merge":
            with pytest.raises(psycopg.errors.RaiseException, match="RT-8153"):
                session.execute("truncate app.emptied")
        else:
            session.execute("truncate app.emptied")
    assert not gained(url)


@pytest.mark.parametrize("storage", ["row", "side"])
def test_tracking_calls_nothing_with_the_readers_rights(databases: tuple[str, str], storage: str) -> None:
    url, _ = databases
    for name in (each for each in NAMES if storage == "row" or each != "in_bound"):
        assert rowtide("tracking", "enable", f"app.{name}", "--storage", storage, "--db", url).code == 0
        assert not gained(url), name
        ended = rowtide("tracking", "changes", f"app.{name}", "--db", url)
        assert not gained(url), name
        assert "app.evil" in ended.require_error(6120)
        assert rowtide("tracking", "resume", f"app.{name}", "--db", url).code == 0
        assert rowtide("tracking", "disable", f"app.{name}", "--db", url).code == 0
        assert not gained(url), name


def test_a_tracked_table_whose_plan_calls_code_is_not_asked(databases: tuple[str, str]) -> None:
    """The index comes after the anchor. Its owner, who has the code's rights, reads on."""
    url, _ = databases
    as_owner(url, "create table app.item (id int primary key, v text); insert into app.item values (1, 'v')")
    with psycopg.connect(url, autocommit=True) as session:
        tracking = ChangeTracking(session)
        tracking.enable_tracking("app.item")
        with tracking.changes("app.item") as changes:
            anchor = changes.anchor
        as_owner(url, "create index on app.item ((id + app.evil(1)))")
        with pytest.raises(TrackedPlanCallsCode):
            tracking.changed_since("app.item", (1,), anchor)
    assert not gained(url)


def test_first_values_of_a_column_run_no_code_of_the_owner(databases: tuple[str, str], tmp_path: Path) -> None:
    """A column of a domain has values in rows that were there, or none: the log does not say."""
    publisher, subscriber = databases
    as_owner(publisher, "create table app.item (id int primary key, v text); insert into app.item values (1, 'v')")
    as_owner(publisher, "create domain app.short as text check (length(value) < 9)")
    for words in (
        ("add-publication", "p", "--lake", str(tmp_path / "lake")),
        ("add-article", "p", "app.item"),
        ("add-subscription", "p", "--subscriber", subscriber),
        ("run", "--once"),
    ):
        assert rowtide("replication", *words, "--db", publisher).code == 0
    as_owner(publisher, "create index on app.item ((id + app.evil(1)))")
    as_owner(publisher, "alter table app.item add column w app.short; insert into app.item values (2, 'v', 'w')")
    rowtide("replication", "run", "--once", "--db", publisher)
    assert not gained(publisher)


def test_a_partition_that_comes_is_not_read_by_owners_functions(databases: tuple[str, str], tmp_path: Path) -> None:
    url, _ = databases
    as_owner(url, "create table app.whole (id int primary key) partition by range (id)")
    as_owner(url, "create table app.some partition of app.whole for values from (0) to (9)")
    assert rowtide("cdc", "enable-db", "--lake", str(tmp_path / "lake"), "--db", url).code == 0
    assert rowtide("cdc", "enable-table", "app.whole", "--db", url).code == 0
    with psycopg.connect(url, autocommit=True) as session:
        for (name,) in session.execute("select evtname from pg_event_trigger").fetchall():
            session.execute(sql.SQL("drop event trigger {}").format(sql.Identifier(name)))
    as_owner(url, "create table app.more (id int primary key); create index on app.more ((id + app.evil(1)))")
    as_owner(url, "insert into app.more values (10); alter table app.whole attach partition app.more default")
    with open_engine(parse_url(url), application_name="test").connect() as connection:
        attach_partitions(connection.execution_options(isolation_level="AUTOCOMMIT"))
        brought = (
            connection.execute(text("select content::json ->> 'brings_rows' from rowtide.control")).scalars().all()
        )
    assert brought[-1:] == ["true"]
    assert not gained(url)


def _read_chunk(url: str, engine: Engine, table: CopiedTable) -> int:
    with PostgresCopySource(engine, url).open_chunk(table, WHOLE) as opened:
        return b"".join(opened.blocks).count(b"\n")


def _read_present(url: str, engine: Engine, table: CopiedTable) -> int:
    with PostgresCopySource(engine, url).open_present(table.source_id, table.numbers) as opened:
        return b"".join(opened.read(table, WHOLE, 1_000_000)).count(b"\n")


def _read_difference(url: str, engine: Engine, table: CopiedTable) -> int:
    with engine.connect() as connection:
        captured = instance(table=read_table(connection, table.source_id))
    with lock_tables(engine, url, [table.source_id]) as locked:
        return sum(batch.num_rows for batch in locked.read(captured))


READINGS: Mapping[str, Callable[[str, Engine, CopiedTable], object]] = {
    "chunk": _read_chunk,
    "present": _read_present,
    "difference": _read_difference,
    "place": lambda url, engine, table: (
        PostgresCopySource(engine, url).locate(table, (), np.array([[b"1"]], dtype=np.object_)).tolist()
    ),
}


@pytest.mark.parametrize(
    ("reading", "found"), {"chunk": 2000, "present": 2000, "difference": 2000, "place": [0]}.items()
)
def test_an_index_made_while_a_copy_waits_calls_nothing(
    databases: tuple[str, str], reading: str, found: object
) -> None:
    url, _ = databases
    as_owner(url, "create table app.item (id int primary key, v text)")
    as_owner(url, "insert into app.item select g, repeat('v', 50) from generate_series(1, 2000) g")
    engine = open_engine(parse_url(url), application_name="test")
    with engine.connect() as connection:
        source_id = find_table_id(connection, "app.item")
    assert source_id is not None
    table = CopiedTable("m", source_id, "app", "item", ("id", "v"), (1, 2), (KeyColumn("id", "integer"),))
    with psycopg.connect(url) as owner, ThreadPoolExecutor(1) as thread:
        owner.execute(sql.SQL("set session authorization {}").format(sql.Identifier(OWNER)))
        owner.execute("lock table app.item in access exclusive mode")
        done = thread.submit(READINGS[reading], url, engine, table)
        with psycopg.connect(url, autocommit=True) as other:
            wait_until(lambda: done.done() or other.execute(WAITING).fetchone() is not None, what="the lock is met")
        owner.execute("create index on app.item ((id + app.evil(1)))")
        owner.commit()
        assert done.result() == found
    assert not gained(url)


SWAPS = {
    "view": (
        "alter table app.a rename to moved",
        "create view app.a as select moved.* from app.moved, (select app.evil(1) as e) x where x.e = 1",
    ),
    "index": ("create index on app.a ((id + app.evil(1)))",),
}


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize(("storages", "locked"), [(("row", "row"), "b"), (("row", "side"), "b"), (("row", "row"), "a")])
@pytest.mark.parametrize("method", ["changes", "changed_since"])
def test_what_is_swapped_while_tracking_waits_is_not_read(
    databases: tuple[str, str], swap: str, storages: tuple[str, str], locked: str, method: str
) -> None:
    """The owner holds a lock that the reader waits for, and meanwhile puts something in a table's place."""
    url, _ = databases
    for name, storage in zip("ab", storages, strict=True):
        as_owner(url, f"create table app.{name} (id int primary key, v text); insert into app.{name} values (1, 'v')")
        assert rowtide("tracking", "enable", f"app.{name}", "--storage", storage, "--db", url).code == 0
    with psycopg.connect(url, autocommit=True) as session, psycopg.connect(url) as owner:
        tracking = ChangeTracking(session)
        with tracking.changes("app.a") as changes:
            anchor = changes.anchor
        as_owner(url, "update app.a set v = 'w'")
        owner.execute(sql.SQL("set session authorization {}").format(sql.Identifier(OWNER)))
        owner.execute(f"lock table app.{locked} in access exclusive mode".encode())

        def read() -> object:
            if method == "changed_since":
                return tracking.changed_since("app.a", (1,), anchor)
            with tracking.changes("app.a", since=anchor) as changes:
                return list(changes)

        with ThreadPoolExecutor(1) as thread, suppress(TrackingLost, TrackedPlanCallsCode):
            reading = thread.submit(read)
            with psycopg.connect(url, autocommit=True) as other:
                wait_until(
                    lambda: reading.done() or other.execute(WAITING).fetchone() is not None, what="the lock is met"
                )
            if locked == "a":
                for one in SWAPS[swap]:
                    owner.execute(one.encode())
            else:
                with suppress(psycopg.errors.LockNotAvailable):
                    as_owner(url, "set lock_timeout = 500; " + "; ".join(SWAPS[swap]))
            owner.commit()
            reading.result()
    assert not gained(url)


@pytest.mark.parametrize("command", ["validate", "pending", "snapshot", "sync", "add-subscription"])
def test_merge_calls_nothing_with_the_readers_rights(databases: tuple[str, str], command: str, tmp_path: Path) -> None:
    """The index comes after the article, and the subscription."""
    url, _ = databases
    as_owner(url, "create table app.item (id int primary key, v text); insert into app.item values (1, 'v')")
    merge = MergeReplication(url)
    merge.add_publication("m")
    merge.add_article("m", "app.item")
    device = f"sqlite:///{tmp_path}/device.db"
    merge.add_subscription("m", device)
    as_owner(url, "create index on app.item ((id + app.evil(1)))")
    options = {
        "snapshot": ("--to", str(tmp_path / "files")),
        "add-subscription": ("--subscriber", f"sqlite:///{tmp_path}/other.db"),
    }
    ended = rowtide("merge", command, "m", *options.get(command, ("--subscriber", device)), "--db", url)
    assert not gained(url)
    assert "app.evil" in ended.require_error(8153)


def _merged(url: str, device: str) -> None:
    """Merge two tables of the owner's with a device, and let it have changes to receive."""
    merge = MergeReplication(url)
    merge.add_publication("m")
    for name in "ab":
        as_owner(url, f"create table app.{name} (id int primary key, v text); insert into app.{name} values (1, 'v')")
        merge.add_article("m", f"app.{name}")
    merge.add_subscription("m", device)
    for name in "ab":
        as_owner(url, f"insert into app.{name} values (2, 'w'); update app.{name} set v = 'w' where id = 1")


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("locked", "ab")
@pytest.mark.parametrize("command", ["sync", "validate", "pending", "snapshot"])
def test_what_is_swapped_while_merge_waits_is_not_read(
    databases: tuple[str, str], swap: str, locked: str, command: str, tmp_path: Path
) -> None:
    """The owner holds a lock that the agent waits for, and meanwhile puts something in a table's place."""
    url, _ = databases
    device = f"sqlite:///{tmp_path}/device.db"
    _merged(url, device)
    to = ("--to", str(tmp_path / "files")) if command == "snapshot" else ("--subscriber", device)
    _swap_while_waiting(url, swap, locked, lambda: rowtide("merge", command, "m", *to, "--db", url))
    assert not gained(url)


@pytest.mark.parametrize("swap", SWAPS)
def test_what_is_swapped_at_a_subscriber_is_not_read(databases: tuple[str, str], swap: str) -> None:
    """The tables of a PostgreSQL subscriber were given to another role."""
    hub, url = databases
    _merged(hub, url)
    with psycopg.connect(url, autocommit=True) as session:
        role = sql.Identifier(OWNER)
        for each in ("schema app", "table app.a", "table app.b"):
            session.execute(sql.SQL("alter {} owner to {}").format(sql.SQL(each), role))
    as_owner(url, EVIL)
    as_owner(url, "insert into app.a values (7, 'x'); insert into app.b values (7, 'x')")
    _swap_while_waiting(url, swap, "a", lambda: rowtide("merge", "sync", "m", "--subscriber", url, "--db", hub))
    assert not gained(url)


@pytest.mark.parametrize("swap", SWAPS)
def test_what_is_swapped_while_delivery_waits_is_not_read(
    databases: tuple[str, str], swap: str, tmp_path: Path
) -> None:
    publisher, url = databases
    as_owner(publisher, "create table app.a (id int primary key, v text); insert into app.a values (1, 'v')")
    for words in (
        ("add-publication", "p", "--lake", str(tmp_path / "lake")),
        ("add-article", "p", "app.a"),
        ("add-subscription", "p", "--subscriber", url),
        ("run", "--once"),
    ):
        assert rowtide("replication", *words, "--db", publisher).code == 0
    with psycopg.connect(url, autocommit=True) as session:
        for each in ("schema app", "table app.a"):
            session.execute(sql.SQL("alter {} owner to {}").format(sql.SQL(each), sql.Identifier(OWNER)))
    as_owner(url, EVIL)
    as_owner(publisher, "insert into app.a values (2, 'w'); update app.a set v = 'w' where id = 1")
    _swap_while_waiting(url, swap, "a", lambda: rowtide("replication", "run", "--once", "--db", publisher))
    assert not gained(url)


def _swap_by(url: str, swap: Sequence[str], read: Callable[[], object]) -> None:
    """Run statements of the owner's that are not committed until another session waits."""
    is_read = Event()
    with psycopg.connect(url) as owner, psycopg.connect(url, autocommit=True) as other:
        owner.execute(sql.SQL("set session authorization {}").format(sql.Identifier(OWNER)))
        for one in swap:
            owner.execute(one.encode())

        def commit() -> None:
            wait_until(lambda: is_read.is_set() or other.execute(WAITING).fetchone() is not None, what="a wait")
            assert not is_read.is_set()
            owner.commit()

        with ThreadPoolExecutor(1) as thread:
            # The command takes signals, which the main thread alone can.
            committing = thread.submit(commit)
            read()
            is_read.set()
            committing.result()


def _swap_while_waiting(url: str, swap: str, locked: str, read: Callable[[], object]) -> None:
    is_read = Event()
    with psycopg.connect(url) as owner, psycopg.connect(url, autocommit=True) as other:
        owner.execute(sql.SQL("set session authorization {}").format(sql.Identifier(OWNER)))
        owner.execute(f"lock table app.{locked} in access exclusive mode".encode())

        def swap_then() -> None:
            wait_until(lambda: is_read.is_set() or other.execute(WAITING).fetchone() is not None, what="a wait")
            assert not is_read.is_set()
            if locked == "a":
                for one in SWAPS[swap]:
                    owner.execute(one.encode())
            else:
                with suppress(psycopg.errors.LockNotAvailable):
                    as_owner(url, "set lock_timeout = 500; " + "; ".join(SWAPS[swap]))
            owner.commit()

        with ThreadPoolExecutor(1) as thread:
            # The command takes signals, which the main thread alone can.
            swapping = thread.submit(swap_then)
            read()
            is_read.set()
            swapping.result()


@contextmanager
def _present(url: str, engine: Engine, table: CopiedTable) -> Iterator[Callable[[], object]]:
    with PostgresCopySource(engine, url).open_present(table.source_id, table.numbers) as opened:
        yield lambda: list(opened.read(table, WHOLE, 1_000_000))


@contextmanager
def _difference(url: str, engine: Engine, table: CopiedTable) -> Iterator[Callable[[], object]]:
    with engine.connect() as connection:
        captured = instance(table=read_table(connection, table.source_id))
    with lock_tables(engine, url, [table.source_id]) as locked:
        yield lambda: list(locked.read(captured))


@contextmanager
def _validation(url: str, engine: Engine, table: CopiedTable) -> Iterator[Callable[[], object]]:
    with engine.connect() as connection:
        compared = article(read_table(connection, table.source_id))
    with open_published(url, [compared]) as published:
        yield lambda: published.rows.read_buckets(compared, BY_HASH, with_checksum=True)


OPENED = {"present": _present, "difference": _difference, "validation": _validation}
ARMS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "statistics": ((), ["create statistics app.later on (id + app.evil(1)), v from app.item"]),
    "an index": ((), ["create index on app.item ((id + app.evil(1)))"]),
    "another function": (
        [
            "create function app.same(int) returns int language plpgsql immutable as 'begin return $1; end'",
            "create index on app.item (app.same(id))",
        ],
        ["create or replace function app.same(int) returns int language sql immutable as 'select app.evil(1) + $1'"],
    ),
    "another schema": (
        (),
        [
            "alter schema app rename to gone",
            "create schema app",
            "create function app.gain() returns void language sql as 'select gone.gain()'",
            "create view app.item as select item.* from gone.item, (select gone.evil(1) as e) x where x.e = 1",
        ],
    ),
}
"""How an owner gives a table code that a read runs, in two parts: no lock of a reader keeps the second away."""


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("reading", OPENED)
def test_what_comes_between_two_statements_calls_nothing(databases: tuple[str, str], reading: str, arm: str) -> None:
    """Of a transaction that reads a table several times."""
    url, _ = databases
    first, second = ARMS[arm]
    with psycopg.connect(url, autocommit=True) as session:
        named = {"database": sql.Identifier(session.info.dbname), "role": sql.Identifier(OWNER)}
        session.execute(sql.SQL("grant create on database {database} to {role}").format(**named))
    as_owner(url, "create table app.item (id int primary key, v text); insert into app.item values (1, 'v'), (2, 'v')")
    as_owner(url, "; ".join(["select 1", *first]))
    engine = open_engine(parse_url(url), application_name="test")
    with engine.connect() as connection:
        source_id = find_table_id(connection, "app.item")
    assert source_id is not None
    table = CopiedTable("m", source_id, "app", "item", ("id", "v"), (1, 2), (KeyColumn("id", "integer"),))
    with OPENED[reading](url, engine, table) as read:
        as_owner(url, "; ".join(second))
        with suppress(psycopg.Error, RowtideError):
            read()
    assert not gained(url)


FORCED = "alter table app.item enable row level security, force row level security"


@pytest.mark.parametrize("storage", ["row", "side"])
def test_policies_that_hide_tracked_rows_are_refused(databases: tuple[str, str], storage: str) -> None:
    """Rows that a reader's anchor counts, and did not get, would never arrive; what it asks of one row is no better."""
    url, _ = databases
    role = OWNER.replace(" ", "%20")
    as_owner(url, "create table app.item (id int primary key, v text); insert into app.item values (1, 'v'), (2, 'v')")
    with psycopg.connect(url, autocommit=True) as session:
        given = sql.SQL("grant create on database {} to {}")
        session.execute(given.format(sql.Identifier(session.info.dbname), sql.Identifier(OWNER)))
    owned = url.replace("//postgres@", f"//{role}@")
    assert rowtide("tracking", "enable", "app.item", "--storage", storage, "--db", owned).code == 0
    with psycopg.connect(owned, autocommit=True) as session:
        tracking = ChangeTracking(session)
        with tracking.changes("app.item") as changes:
            anchor = changes.anchor
        session.execute("update app.item set v = 'w'")
        session.execute(FORCED)
        session.execute("create policy first on app.item using (id = 1)")
        rowtide("tracking", "changes", "app.item", "--db", owned).require_error(1040)
        with pytest.raises(RowsHidden, match="app.item|item"):
            tracking.changed_since("app.item", (2,), anchor)
        with session.transaction(), suppress(RowsHidden):
            tracking.changed_since("app.item", (2,), anchor)
        assert session.execute("show row_security").fetchone() == ("on",)
    # A superuser sees all rows.
    with psycopg.connect(url, autocommit=True) as session, session.transaction():
        assert ChangeTracking(session).changed_since("app.item", (2,), anchor)
        assert session.execute("show row_security").fetchone() == ("on",)


SEQUENCE_SWAPPED = (
    "alter sequence app.item_id_seq rename to moved",
    "create view app.item_id_seq as select e::bigint as last_value, true as is_called from app.evil(1) e",
)


@pytest.mark.parametrize("at", ["publisher", "subscriber"])
def test_a_view_in_place_of_a_sequence_is_not_read(databases: tuple[str, str], at: str, tmp_path: Path) -> None:
    """Its owner swaps them while the reader waits for the lock of the sequence, whose name it has looked up."""
    publisher, subscriber = databases
    with psycopg.connect(subscriber, autocommit=True) as session:
        session.execute(sql.SQL("create schema app authorization {}").format(sql.Identifier(OWNER)))
    as_owner(subscriber, EVIL)
    for url in databases:
        as_owner(url, "create table app.item (id int generated by default as identity primary key, v text)")
    for words in (
        ("add-publication", "p", "--lake", str(tmp_path / "lake")),
        ("add-article", "p", "app.item"),
        ("add-subscription", "p", "--subscriber", subscriber, "--if-exists", "keep"),
    ):
        assert rowtide("replication", *words, "--db", publisher).code == 0
    url = {"publisher": publisher, "subscriber": subscriber}[at]
    with psycopg.connect(url) as owner, psycopg.connect(url, autocommit=True) as other, ThreadPoolExecutor(1) as thread:
        owner.execute(sql.SQL("set session authorization {}").format(sql.Identifier(OWNER)))
        for one in SEQUENCE_SWAPPED:
            owner.execute(one.encode())
        replication = TransactionalReplication(publisher)
        reading = thread.submit(lambda: replication.sync_sequences("p"))
        wait_until(lambda: reading.done() or other.execute(WAITING).fetchone() is not None, what="a wait")
        assert not reading.done()
        owner.commit()
        with suppress(RowtideError, NoResultFound):
            reading.result()
    assert not gained(url)


REPLACEMENTS = {
    "view": SWAPS["view"][1].replace("app.moved", "app.b").replace("moved.*", "b.*"),
    "table": "create table app.a (id int primary key, v text, rowguid uuid default gen_random_uuid())",
}
TRAP = """
create function app.spring() returns trigger language plpgsql as 'begin perform app.gain(); return new; end';
create trigger spring before insert or update on app.a for each row execute function app.spring()
"""


@pytest.mark.parametrize("replacement", REPLACEMENTS)
@pytest.mark.parametrize("feature", ["merge", "delivery"])
def test_a_superusers_table_is_not_replaced_meanwhile(
    databases: tuple[str, str], feature: str, replacement: str, tmp_path: Path
) -> None:
    """The owner of its schema drops it while the agent waits for its lock, and puts something in its place."""
    other, url = databases
    for each in databases:
        with psycopg.connect(each, autocommit=True) as session:
            session.execute("create schema if not exists app")
            for name in "ab":
                session.execute(f"create table app.{name} (id int primary key, v text)".encode())
            session.execute(sql.SQL("alter schema app owner to {}").format(sql.Identifier(OWNER)))
    as_owner(url, EVIL)
    device = f"sqlite:///{tmp_path}/device.db"
    if feature == "merge":
        words: tuple[str, ...] = ("merge", "sync", "m", "--subscriber", device, "--db", url)
        merge = MergeReplication(url)
        merge.add_publication("m")
        merge.add_article("m", "app.a")
        merge.add_subscription("m", device)
        with closing(sqlite3.connect(tmp_path / "device.db")) as program, program:
            program.execute("insert into a (id, v) values (5, 'v')")
    else:
        words = ("replication", "run", "--once", "--db", other)
        for step in (
            ("add-publication", "p", "--lake", str(tmp_path / "lake")),
            ("add-article", "p", "app.a"),
            ("add-subscription", "p", "--subscriber", url, "--if-exists", "keep", "--constraints", "enforce"),
            ("run", "--once"),
        ):
            assert rowtide("replication", *step, "--db", other).code == 0
        with psycopg.connect(other, autocommit=True) as session:
            session.execute("insert into app.a values (1, 'v')")
    swap = ["drop table app.a", REPLACEMENTS[replacement]]
    if replacement == "table":
        swap.append(TRAP)
    _swap_by(url, swap, lambda: rowtide(*words))
    assert not gained(url)

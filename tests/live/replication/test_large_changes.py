"""Values up to what PostgreSQL sends are delivered; one that a subscriber cannot hold suspends its article alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import rowtide
from builders.faults.cuts import Cut, cut_at
from builders.faults.failpoints import SUSPENSION_FAILPOINTS
from builders.log.measured_processes import MIB, deliver_in_process, read_in_process
from builders.replication.replicated_databases import deliver_all
from builders.replication.replicated_files import ReplicatedFile
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.log import log_source, reader
from rowtide.replication.distribution import agent
from rowtide.replication.distribution.calls import from_log
from rowtide.replication.targets.sqlite.files import SubscriberFile

LIMITS = (
    (log_source, "LARGE_MESSAGE_BYTES"),
    (reader, "LARGE_MESSAGE_BYTES"),
    (reader, "MAX_BATCH_BYTES"),
    (from_log, "MAX_BATCH_BYTES"),
)
COPIES = 8
"""How often the log reader and delivery have a large value in memory at most, beside what they are themselves."""
MOST_BYTES = 100_000
TOO_LONG = f"repeat('x', {MOST_BYTES + 1})"


def value(mib: int) -> str:
    """A text that is the same in no two rows."""
    return f"repeat(md5(random()::text), {mib * MIB // 32})"


@pytest.fixture(params=["server", pytest.param("server_16", marks=pytest.mark.soak)])
def large(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoggedDatabase]:
    """A database with tables `item` and `other`, published and subscribed to by another of its server."""
    server: EmbeddedServer = request.getfixturevalue(request.param)
    lake = tmp_path_factory.mktemp("lake")
    with fresh_database(server) as url, fresh_database(server) as at, psycopg.connect(url, autocommit=True) as session:
        logged = LoggedDatabase(url, lake, session)
        logged.execute("create table item (id int primary key, value text, note text)")
        logged.execute("create table other (id int primary key)", "alter table item alter value set storage external")
        for command in (
            ("add-publication", "p", "--lake", str(lake)),
            ("add-article", "p", "item"),
            ("add-article", "p", "other"),
            ("add-subscription", "p", "--subscriber", at),
        ):
            assert rowtide("replication", *command, "--db", url).code == 0
        deliver_all(logged)
        with psycopg.connect(at, autocommit=True) as subscriber:
            request.node.subscriber = subscriber
            yield logged


def rows(session: psycopg.Connection[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Return the rows of `item`, their values as digests, and those of `other`."""
    items = session.execute("select id, octet_length(value), md5(value), note from item order by id").fetchall()
    return [*items, *session.execute("select id from other order by id").fetchall()]


@pytest.mark.exhaustive
@pytest.mark.parametrize("mib", [40, pytest.param(600, marks=pytest.mark.soak)])
def test_a_large_value_is_delivered_in_bounded_memory(
    large: LoggedDatabase, request: pytest.FixtureRequest, mib: int
) -> None:
    bases = read_in_process(large), deliver_in_process(large)
    large.execute("insert into other values (1)")
    with large.transaction() as transaction:
        transaction.execute("insert into item values (1, 'small')")
        for number in (2, 3):
            transaction.execute(f"insert into item values ({number}, {value(mib)})".encode())
        transaction.execute("insert into other values (2)")
    large.execute("insert into other values (3)")
    peaks = read_in_process(large), deliver_in_process(large)
    assert rows(request.node.subscriber) == rows(large.session)
    copies = [(peak - base) / (mib * MIB) for base, peak in zip(bases, peaks, strict=True)]
    assert max(copies) < COPIES, copies


@pytest.mark.exhaustive
def test_large_values_are_updated_and_deleted(
    large: LoggedDatabase, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unchanged, the log lacks it; with the old row there are two in one message; what is rolled back does not come."""
    for module, name in LIMITS:
        monkeypatch.setattr(module, name, MIB)
    subscriber = request.node.subscriber
    large.execute(f"insert into item values (1, {value(2)})", f"insert into item values (2, {value(2)})")
    large.execute("update item set note = 'unchanged' where id = 1", f"update item set value = {value(2)} where id = 2")
    deliver_all(large)
    assert rows(subscriber) == rows(large.session)
    with large.transaction() as transaction:
        transaction.execute(f"insert into item values (3, {value(2)})".encode())
        transaction.rollback()
    with large.transaction() as transaction:
        transaction.execute("savepoint here")
        transaction.execute(f"insert into item values (3, {value(2)})".encode())
        transaction.execute("rollback to here")
        transaction.execute("insert into item values (4)")
    large.execute(
        "alter table item replica identity full",
        f"update item set value = {value(2)}, note = 'both' where id = 1",
        "update item set note = 'only the old row has it' where id = 2",
    )
    deliver_all(large)
    assert rows(subscriber) == rows(large.session)
    large.execute("delete from item where id < 4")
    deliver_all(large)
    assert rows(subscriber) == rows(large.session) == [(4, None, None, None)]


def limit_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let SQLite hold less: its own limit is what it compares with a row."""
    opened = SubscriberFile.begin

    def begin(file: SubscriberFile) -> None:
        file.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
        opened(file)

    monkeypatch.setattr(SubscriberFile, "begin", begin)


@pytest.mark.parametrize("place", SUSPENSION_FAILPOINTS)
def test_a_suspension_that_is_cut_is_done_once(
    replicated_file: ReplicatedFile, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    limit_files(monkeypatch)
    publisher, subscriber = replicated_file.publisher, replicated_file.subscriber
    tables = ("create table item (id int primary key, value text)", "create table other (id int primary key)")
    replicated_file.begin(*tables, item={}, other={})
    publisher.execute("insert into item values (1)", f"insert into item values (2, {TOO_LONG})")
    publisher.execute("insert into other values (1)")
    with monkeypatch.context() as patched:
        patched.setattr(agent, "failpoint", cut_at(place))
        with pytest.raises(Cut):
            replicated_file.deliver()
    assert len(publisher.manifest().state.omitted_by_readers) == place.endswith("after")
    replicated_file.deliver()
    assert len(publisher.manifest().state.omitted_by_readers) == 1
    assert subscriber.execute("select id from item") == subscriber.execute("select id from other") == [(1,)]


def test_what_a_file_cannot_hold_suspends_its_article(
    replicated_file: ReplicatedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_files(monkeypatch)
    publisher, subscriber = replicated_file.publisher, replicated_file.subscriber
    replicated_file.begin(
        "create table item (id int primary key, value text)",
        "create table other (id int primary key)",
        item={},
        other={},
    )
    publisher.execute("insert into item values (1)", "insert into other values (1)")
    with publisher.transaction() as transaction:
        transaction.execute("insert into item values (2)")
        transaction.execute(f"insert into item values (3, {TOO_LONG})".encode())
        transaction.execute("insert into other values (2)")
    publisher.execute("insert into item values (4)", "insert into other values (3)")
    replicated_file.deliver()
    publisher.execute("insert into item values (5)", f"insert into item values (6, {TOO_LONG})")
    publisher.execute("insert into other values (4)")
    replicated_file.deliver()
    assert subscriber.execute("select id from item order by id") == [(1,)]
    assert subscriber.execute("select id from other order by id") == [(1,), (2,), (3,), (4,)]
    (lacking,) = publisher.manifest().state.omitted_by_readers
    assert lacking.reason == f"a row takes more than {MOST_BYTES:,} bytes, the most that SQLite holds"
    told = rowtide("replication", "status", "--db", publisher.url, "--format", "csv").output
    assert f"RT-7166: published table public.item is suspended from the transaction at LSN {lacking.lsn} on" in told
    assert (
        f"public.item lacks changes of the transaction that commits at LSN {lacking.lsn}"
        in rowtide("check", "--format", "jsonl", "--db", publisher.url).output
    )

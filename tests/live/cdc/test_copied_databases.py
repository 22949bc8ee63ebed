"""A copied database is recognised: its metadata can go, and nothing of the original's is touched."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import rowtide, rowtide_process
from builders.commands.every_command import list_commands
from builders.commands.hints import run_printed
from builders.faults.failpoints import DISOWNING_FAILPOINTS
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase, Subscriber
from builders.servers.copied_databases import NOTHING, copied, dump, read_metadata, restored
from fixtures.servers import fresh_database
from rowtide.cdc.api import ChangeDataCapture
from rowtide.cdc.enabling.administration import Disabling
from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.connect import open_engine
from rowtide.handle import connect
from rowtide.log.errors import DatabaseCopied, DatabaseNotEnabled, LeaseHeld, LogStoreMoved, LogStoreTaken
from rowtide.log.postgres import slot

if TYPE_CHECKING:
    from rowtide.databases.postgres.embedded import EmbeddedServer

IDENTITIES = """
select relname::text, relreplident::text from pg_class
where relname ~ '^(item|part)' and relkind in ('r', 'p') order by 1
"""
TABLES = (
    "create table item (id int primary key, label text)",
    "create table part (id int primary key, label text) partition by range (id)",
    "create table part_1 partition of part for values from (0) to (100)",
)


def begin(logged: LoggedDatabase) -> None:
    """Capture tables, with one row in the log store."""
    logged.execute(*TABLES)
    logged.enable("item", "part")
    logged.execute("insert into item values (1, 'one')")
    logged.read_log()


def require_next_row_read(logged: LoggedDatabase) -> None:
    """The original continues: what is written now is read."""
    logged.execute("insert into item values (2, 'two')")
    logged.read_log()
    assert logged.inserted() == ["1", "2"]


def publish(logged: LoggedDatabase, subscriber: Subscriber | None = None) -> None:
    """Publish the table, and subscribe to it."""
    replication = connect(logged.url).replication
    replication.add_publication(PUBLICATION)
    replication.add_article(PUBLICATION, "public.item")
    if subscriber is not None:
        replication.add_subscription(PUBLICATION, subscriber.url)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("fixture", "on"), [("logged", "server"), ("logged_16", "server_16")])
def test_every_command_names_the_original(request: pytest.FixtureRequest, fixture: str, on: str) -> None:
    logged: LoggedDatabase = request.getfixturevalue(fixture)
    server: EmbeddedServer = request.getfixturevalue(on)
    begin(logged)
    publish(logged)
    original = f'metadata of database "{logged.session.info.dbname}" of this server'
    with copied(server, logged) as copy:
        before = read_metadata(copy)
        commands = [words for words in list_commands() if words[:2] != ("cdc", "disable-db")]
        ended = {words: rowtide(*words, "--db", copy) for words in commands}
        wrong = {
            words: end
            for words, end in ended.items()
            if not end.errors.startswith("RT-2140: ") or original not in end.errors or end.code != 1
        }
        assert not wrong
        assert str(logged.lake) in ended["cdc", "status"].errors
        assert read_metadata(copy) == before
    require_next_row_read(logged)


@pytest.mark.parametrize(("fixture", "on"), [("logged", "server"), ("logged_16", "server_16")])
def test_disabling_a_copy_leaves_the_original_alone(request: pytest.FixtureRequest, fixture: str, on: str) -> None:
    logged: LoggedDatabase = request.getfixturevalue(fixture)
    server: EmbeddedServer = request.getfixturevalue(on)
    logged.execute(*TABLES)
    identities = logged.execute(IDENTITIES)
    logged.enable("item", "part")
    publish(logged)
    logged.execute("insert into item values (1, 'one')")
    logged.read_log()
    assert logged.execute(IDENTITIES) != identities
    before = read_metadata(logged.url)
    with copied(server, logged) as copy:
        ended = rowtide("cdc", "disable-db", "--yes", "--db", copy)
        assert ended.code == 0, ended.errors
        assert f'belong to database "{logged.session.info.dbname}" of this server' in ended.errors
        assert read_metadata(copy) == NOTHING
        with psycopg.connect(copy) as session:
            assert session.execute(IDENTITIES).fetchall() == identities
        assert connect(copy).cdc.enable_db(f"{logged.lake}_of_the_copy").was_enabled is False
    assert read_metadata(logged.url) == before
    require_next_row_read(logged)


def test_a_database_restored_on_another_server_is_a_copy(
    logged_16: LoggedDatabase, server_16: EmbeddedServer, server: EmbeddedServer
) -> None:
    logged_16.execute(*TABLES, "create table dropped (id int)", "drop table dropped")
    identities = logged_16.execute(IDENTITIES)
    logged_16.enable("item", "part")
    logged_16.execute("insert into item values (1, 'one')")
    logged_16.read_log()
    with restored(server, server_16, logged_16.session.info.dbname) as copy:
        errors = rowtide("cdc", "status", "--db", copy).require_error(2140)
        assert f"database of another server (system {logged_16.cdc.get_source().system_identifier}" in errors
        assert rowtide("cdc", "disable-db", "--yes", "--db", copy).code == 0
        assert read_metadata(copy) == NOTHING
        with psycopg.connect(copy) as session:
            assert session.execute(IDENTITIES).fetchall() == identities
    require_next_row_read(logged_16)


def test_database_of_another_server_with_the_same_oid_is_a_copy(logged: LoggedDatabase) -> None:
    """Servers number their databases alike: the first of each has the same oid."""
    begin(logged)
    logged.execute("update rowtide.source set system_identifier = '7001'")
    errors = rowtide("cdc", "status", "--db", logged.url).require_error(2140)
    assert "database of another server (system 7001, database oid " in errors
    assert logged.cdc.disable_db().owner is not None
    assert read_metadata(logged.url) == NOTHING
    assert logged.lake.joinpath("log").is_dir()


def test_check_and_health_of_a_copy_recommend_no_reinitialising(logged: LoggedDatabase, server: EmbeddedServer) -> None:
    begin(logged)
    with copied(server, logged) as copy:
        ended = rowtide("check", "--format", "jsonl", "--db", copy)
        health = rowtide("health", "--format", "json", "--db", copy)
    assert health.code == 2
    assert "rowtide adopt" in health.output
    assert "reinitialize" not in health.output
    assert ended.code == 1
    assert "reinitialize" not in ended.output
    assert ended.output.count("\n") == 1
    for word in ("is a copy", logged.session.info.dbname, "rowtide cdc disable-db", "rowtide adopt"):
        assert word in ended.output


@pytest.mark.parametrize("is_copy", [True, False])
def test_disabling_says_what_is_lost_and_asks(logged: LoggedDatabase, server: EmbeddedServer, *, is_copy: bool) -> None:
    begin(logged)
    with copied(server, logged) as copy:
        url = copy if is_copy else logged.url
        before = read_metadata(url)
        ended = rowtide_process("cdc", "disable-db", "--db", url)
        assert ended.code == 1
        assert "Lost: " in ended.errors
        assert str(logged.lake) in ended.errors
        assert ("stay as they are" in ended.errors) is is_copy
        assert "Continue?" in ended.errors
        assert ended.errors.splitlines()[-1].startswith("RT-1016: nothing was done")
        assert read_metadata(url) == before
    require_next_row_read(logged)


@pytest.mark.exhaustive
def test_dropping_the_last_publication_asks(replicated: ReplicatedDatabase) -> None:
    url, lake = replicated.publisher.url, str(replicated.publisher.lake)
    for name in ("first", "last"):
        replicated.replication.add_publication(name, lake=lake)
    assert rowtide_process("replication", "drop-publication", "first", "--db", url).code == 0
    asked = rowtide_process("replication", "drop-publication", "last", "--db", url)
    assert asked.code == 1
    assert f"log store {lake}/log" in asked.errors
    assert len(read_metadata(url)[3]) == 1
    assert rowtide("replication", "drop-publication", "last", "--yes", "--db", url).code == 0
    assert read_metadata(url) == NOTHING


def test_a_slot_of_another_database_is_never_dropped(logged: LoggedDatabase, server: EmbeddedServer) -> None:
    logged.enable()
    with fresh_database(server) as other:
        slot.drop_slot(open_engine(other), logged.cdc.get_source().slot)
    assert len(read_metadata(logged.url)[3]) == 1


@pytest.mark.exhaustive
def test_a_copied_publisher_leaves_the_subscriber_alone(replicated: ReplicatedDatabase, server: EmbeddedServer) -> None:
    replicated.begin(TABLES[0], item={})
    subscriber = replicated.subscriber
    with copied(server, replicated.publisher) as copy:
        for words in (("run", "--once"), ("drop-subscription", PUBLICATION, "--subscriber", subscriber.url)):
            rowtide("replication", *words, "--db", copy).require_error(2140)
        connect(copy).cdc.disable_db()
        assert read_metadata(copy) == NOTHING
    replicated.publisher.execute("insert into item values (1, 'one')")
    replicated.deliver()
    replicated.require_equal("item")


@pytest.mark.exhaustive
def test_a_copied_subscriber_is_delivered_nothing(replicated: ReplicatedDatabase, server: EmbeddedServer) -> None:
    replicated.begin(TABLES[0], item={})
    replicated.publisher.execute("insert into item values (1, 'one')")
    replicated.deliver()
    original = LoggedDatabase(replicated.subscriber.url, replicated.publisher.lake, replicated.subscriber.session)
    with copied(server, original) as url, closing(original.session), psycopg.connect(url, autocommit=True) as session:
        replicated.subscriber.session = original.session
        replicated.publisher.execute("insert into item values (2, 'two')")
        replicated.deliver()
        replicated.require_equal("item")
        copy = Subscriber(url, session)
        assert copy.execute("select id from item") == [(1,)]
        # The progress of the original's subscription, which came along, is not that of the copy's own.
        copy.execute("insert into item values (2, 'two')")
        replicated.subscribe(subscriber=copy)
        replicated.publisher.execute("insert into item values (3, 'three')")
        replicated.deliver()
        replicated.require_equal("item")
        assert copy.execute("select id from item order by 1") == [(1,), (2,), (3,)]
        replicated.replication.drop_subscription(PUBLICATION, url)
        replicated.publisher.execute("insert into item values (4, 'four')")
        replicated.deliver()
        replicated.require_equal("item")


@pytest.mark.parametrize("failpoint", DISOWNING_FAILPOINTS)
def test_disabling_a_copy_that_was_killed_is_repeated(
    logged: LoggedDatabase, server: EmbeddedServer, failpoint: str
) -> None:
    begin(logged)
    with copied(server, logged) as copy:
        ended = rowtide_process(
            "cdc", "disable-db", "--yes", "--db", copy, environment={"ROWTIDE_FAILPOINT": failpoint}
        )
        assert ended.code == -9
        if read_metadata(copy) != NOTHING:
            connect(copy).cdc.disable_db()
        assert read_metadata(copy) == NOTHING
    require_next_row_read(logged)


def test_two_that_disable_a_copy_at_once_do_it_once(logged: LoggedDatabase, server: EmbeddedServer) -> None:
    begin(logged)
    with copied(server, logged) as copy, ThreadPoolExecutor(2) as threads:
        start = threading.Barrier(2)

        def disable(cdc: ChangeDataCapture) -> Disabling | RowtideError:
            start.wait()
            try:
                return cdc.disable_db()
            except RowtideError as error:
                return error

        ended = list(threads.map(disable, [connect(copy).cdc, connect(copy).cdc]))
        assert read_metadata(copy) == NOTHING
    assert {type(end) for end in ended} <= {Disabling, LeaseHeld, DatabaseNotEnabled}
    assert Disabling in {type(end) for end in ended}
    require_next_row_read(logged)


def test_a_log_store_of_another_is_left_by_who_was_given_it(logged: LoggedDatabase, server: EmbeddedServer) -> None:
    begin(logged)
    with fresh_database(server) as other:
        cdc = connect(other).cdc
        for _ in range(2):
            with pytest.raises(LogStoreTaken):
                cdc.enable_db(str(logged.lake))
        assert read_metadata(other) == NOTHING
        # It was recorded before its folder was another's.
        cdc.enable_db(f"{logged.lake}_other")
        with psycopg.connect(other, autocommit=True) as session:
            session.execute(
                "update rowtide.source set lake = %s, log_store = %s", [str(logged.lake), f"{logged.lake}/log"]
            )
        for ask in (cdc.status, cdc.find_loss, lambda: cdc.run(once=True), lambda: cdc.enable_db(str(logged.lake))):
            with pytest.raises(LogStoreMoved, match=r"RT-2141: .*rowtide cdc disable-db"):
                ask()
        assert cdc.disable_db().owner is not None
        assert read_metadata(other) == NOTHING
    require_next_row_read(logged)


def test_a_renamed_database_is_no_copy(logged: LoggedDatabase, server: EmbeddedServer) -> None:
    begin(logged)
    name = logged.session.info.dbname
    logged.session.close()
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = %s", [name])
        connection.execute(f"alter database {name} rename to {name}_renamed")
        try:
            with psycopg.connect(server.url(f"{name}_renamed"), autocommit=True) as session:
                require_next_row_read(LoggedDatabase(server.url(f"{name}_renamed"), logged.lake, session))
        finally:
            connection.execute(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = %s", [f"{name}_renamed"]
            )
            connection.execute(f"alter database {name}_renamed rename to {name}")


def test_a_dump_of_a_copied_schema_alone_is_a_copy(logged: LoggedDatabase, server: EmbeddedServer) -> None:
    """A dump contains the definitions, which name the original's log store."""
    begin(logged)
    assert b"rowtide.source" in dump(server, server, logged.session.info.dbname)
    with restored(server, server, logged.session.info.dbname) as copy:
        with pytest.raises(DatabaseCopied) as copied:
            connect(copy).cdc.reinitialize("a test")
        run_printed(copied.value, copy)
    require_next_row_read(logged)

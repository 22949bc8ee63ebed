"""Announcements are rows of `rowtide.control`: the server's own rights decide who may write one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import psycopg
import pyarrow as pa
import pytest
from psycopg import errors

from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.commands.command_lines import rowtide
from builders.servers.ddl import has_triggers, opened_by_owner, opened_by_stranger
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.log import reader
from rowtide.log.errors import AnnouncementUnreadable, LogStoreWriteFailed, PublicationAltered
from rowtide.log.membership import Altered, Disabled, Heartbeat, Traced, encode_disable
from rowtide.log.opening import open_log_reader
from rowtide.log.store.location import LocalStore

BOTH_SERVERS = pytest.mark.parametrize("version", ["logged", "logged_16"])
LARGE = "repeat('x', 100 * 1024 * 1024)"


@pytest.fixture
def item(request: pytest.FixtureRequest) -> LoggedDatabase:
    name = request.getfixturevalue("version") if "version" in request.fixturenames else "logged"
    logged: LoggedDatabase = request.getfixturevalue(name)
    logged.execute("create table item (id int primary key, name text)")
    return logged


def member_id(logged: LoggedDatabase) -> str:
    return str(logged.execute("select member_id from rowtide.members where feature = 'cdc'")[0][0])


def emit(logged: LoggedDatabase, kind: str, content: str) -> None:
    """Write a logical message of the name that an announcement's kind has."""
    logged.session.execute("select pg_logical_emit_message(true, %s, %s)", [f"rowtide.{kind}", content])


def events(logged: LoggedDatabase, *kinds: type) -> list[object]:
    return [event for event in logged.manifest().state.events if isinstance(event, kinds)]


def forge(logged: LoggedDatabase) -> dict[str, str]:
    """Return each kind of announcement, as one could be written about the captured table."""
    disabled = encode_disable(member_id(logged))
    (oid,) = logged.execute("select 'item'::regclass::oid::bigint")[0]
    altered = {
        "source_id": oid,
        "schema": "public",
        "table": "item",
        "command": "ALTER TABLE",
        "statement": "",
        "rewrites_values": False,
        "columns": [],
    }
    return {
        "enable": "{}",
        "disable": disabled,
        "ddl": json.dumps(altered),
        "heartbeat": "",
        "tracer": '{"publication": "p", "tracer_id": 1}',
    }


@BOTH_SERVERS
def test_a_role_that_may_only_connect_announces_nothing(version: str, item: LoggedDatabase) -> None:
    item.enable("item")
    before = item.read_log().members
    with opened_by_stranger(item) as theirs:
        for kind, content in forge(item).items():
            emit(theirs, kind, content)
            row = "insert into rowtide.control (kind, content) values (%s, %s)"
            with pytest.raises(errors.InsufficientPrivilege):
                theirs.session.execute(row, [kind, content])
        with pytest.raises(errors.InsufficientPrivilege):
            theirs.execute("create table rowtide.other (id int)")
    item.execute("insert into item values (1, 'kept')")
    assert item.read_log().members == before
    assert events(item, Disabled, Altered, Heartbeat, Traced) == []
    assert item.inserted() == ["1"]


def test_default_privileges_give_nobody_the_table(item: LoggedDatabase) -> None:
    with opened_by_stranger(item) as theirs:
        item.execute(
            f"alter default privileges grant all on tables to {theirs.session.info.user}, public",
            f"alter default privileges grant all on schemas to {theirs.session.info.user}",
        )
        item.enable("item")
        with pytest.raises(errors.InsufficientPrivilege, match="permission denied for table control"):
            theirs.execute("insert into rowtide.control (kind, content) values ('heartbeat', '')")


def test_rows_that_come_back_from_a_dump_announce_nothing(item: LoggedDatabase) -> None:
    item.enable("item")
    columns = "rowtide.control (id, kind, content, xid, written_at)"
    with item.transaction() as transaction:
        transaction.execute(
            "insert into rowtide.control (kind, content) values ('disable', %s)", [encode_disable(member_id(item))]
        )
        with transaction.cursor().copy(f"copy {columns} to stdout") as copied:
            dumped = b"".join(copied)
        transaction.rollback()
    before = item.read_log().members
    item.execute("delete from rowtide.control")
    with item.session.cursor().copy(f"copy {columns} from stdin") as restored:
        restored.write(dumped)
    assert item.execute("select kind from rowtide.control where kind = 'disable'") == [("disable",)]
    assert item.read_log().members == before


def test_only_what_is_inserted_by_its_owner_announces(item: LoggedDatabase) -> None:
    item.enable("item")
    before = item.read_log().members
    disabled = encode_disable(member_id(item))
    item.execute(
        f"insert into rowtide.control (kind, content) values ('mark', '{disabled}')",
        "update rowtide.control set kind = 'disable'",
        "delete from rowtide.control",
        "truncate rowtide.control",
    )
    assert item.read_log().members == before


def test_the_table_stays_small(item: LoggedDatabase) -> None:
    item.enable("item")
    for number in range(5):
        item.execute(f"alter table item add c{number} int")
        item.read_log()
    # The last one that was stored when the reader began, and what it has read then: an alteration and a mark.
    assert len(item.execute("select 1 from rowtide.control")) <= 3


def test_a_mark_does_not_wait_for_another_that_is_not_committed(item: LoggedDatabase) -> None:
    item.enable("item")
    with open_engine(item.url).begin() as connection:
        connection.exec_driver_sql("delete from rowtide.control")
        connection.exec_driver_sql("insert into rowtide.control (kind, content) values ('mark', '')")
        item.execute("set lock_timeout = '1s'")
        item.read_log(item.mark())


@BOTH_SERVERS
@pytest.mark.timeout(60)
def test_a_mark_ends_the_batch_at_once(version: str, item: LoggedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    item.enable("item")
    item.read_log()
    # Else the server asks after a while whether the log reader is there, and that ends a batch too.
    item.execute(f"alter database {item.execute('select current_database()')[0][0]} set wal_sender_timeout = 0")
    monkeypatch.setattr(reader, "QUIET_S", 3600.0)
    monkeypatch.setattr(reader, "SMALL_BATCH_AGE_S", 3600.0)
    with open_log_reader(item.url) as log_reader:
        item.execute("insert into item values (1)")
        target = item.mark()
        log_reader.step()
        wait_until(lambda: item.manifest().state.position.log > target, what="it is durable")

    assert item.inserted() == ["1"]


@BOTH_SERVERS
def test_table_owner_can_alter_it_but_not_forge_announcements(version: str, item: LoggedDatabase) -> None:
    item.enable("item")
    with opened_by_stranger(item) as theirs:
        item.execute(f"alter table item owner to {theirs.session.info.user}")
        theirs.execute("alter table item add a int")
        with pytest.raises(errors.InsufficientPrivilege):
            theirs.execute("insert into rowtide.control (kind, content) values ('ddl', '{}')")
        with pytest.raises(errors.InsufficientPrivilege):
            theirs.execute("create table children () inherits (rowtide.control)")
        theirs.execute("drop table item")
    item.read_log()
    assert [type(event) for event in events(item, Altered, Disabled)] == [Altered, Altered, Disabled]


def test_the_triggers_write_into_no_table_of_another_owner(item: LoggedDatabase) -> None:
    with opened_by_owner(item) as owner:
        item.execute(f"alter table item owner to {owner.session.info.user}")
        owner.enable("item")
        rowtide("cdc", "enable-db", "--lake", str(owner.lake), "--db", item.url)
        assert has_triggers(item)
        with pytest.raises(errors.InsufficientPrivilege):
            owner.execute("alter table rowtide.control add check (kind <> 'ddl')")
        owner.execute("alter table item add a int")
        owner.execute(
            "drop table rowtide.control",
            "create table rowtide.control (kind text, content text)",
            "create table stolen (by text)",
            """create function steal() returns trigger language plpgsql as
               $$ begin insert into stolen values (current_user); return new; end $$""",
            "create trigger steal before insert on rowtide.control for each row execute function steal()",
        )
        warnings: list[str] = []
        item.session.add_notice_handler(lambda notice: warnings.append(str(notice.message_primary)))
        item.execute("alter table item add b int")
        assert item.execute("select * from stolen") == []
        assert "rowtide.control belongs to another role" in warnings[-1]
        assert not has_triggers(item)
        with pytest.raises(PublicationAltered, match=r"it lost rowtide\.control"):
            owner.read_log()
        owner.cdc.reinitialize("the table of announcements was replaced")
        owner.read_log()
        owner.cdc.disable_table("item")


def test_a_copied_database_announces_nothing_in_the_original(item: LoggedDatabase, server: EmbeddedServer) -> None:
    item.enable("item")
    before = item.read_log().members
    name = item.session.info.dbname
    item.session.close()
    with psycopg.connect(server.url(), autocommit=True) as session:
        session.execute(f"create database {name}_copy template {name}".encode())
        with psycopg.connect(server.url(f"{name}_copy"), autocommit=True) as copy:
            copy.execute("insert into rowtide.control (kind, content) values ('disable', %s)", [encode_disable("x")])
            copy.execute("alter table item add c int")
        session.execute(f"drop database {name}_copy".encode())
    with psycopg.connect(item.url, autocommit=True) as item.session:
        assert item.read_log().members == before
        assert events(item, Disabled, Altered) == []


def test_broken_announcement_stops_its_transaction_until_skipped(item: LoggedDatabase) -> None:
    item.enable("item")
    item.execute("insert into item values (1, 'before')")
    with item.transaction() as transaction:
        transaction.execute("insert into item values (2, 'with it')")
        transaction.execute("insert into rowtide.control (kind, content) values ('enable', 'no member')")
    item.execute("insert into item values (3, 'behind')")
    for _ in range(2):
        with pytest.raises(AnnouncementUnreadable, match="RT-2150: an announcement of kind enable") as stopped:
            item.read_log()
    assert item.inserted() == ["1"]
    ended = rowtide("cdc", "skip-transaction", stopped.value.lsn, "--yes", "--db", item.url)
    assert ended.code == 0, ended
    (gap,) = item.read_log().gaps
    assert gap.reason == "rowtide.control: its content is not as agreed"
    assert item.inserted() == ["1", "3"]


@pytest.mark.exhaustive
def test_large_messages_of_an_application_do_not_stop_reading(item: LoggedDatabase) -> None:
    item.enable("item")
    item.execute(
        "insert into item values (1, 'before')",
        f"select pg_logical_emit_message(true, 'app', {LARGE})",
        f"select pg_logical_emit_message(false, 'app', {LARGE})",
        "insert into item values (2, 'behind')",
    )
    assert item.read_log().gaps == ()
    assert item.inserted() == ["1", "2"]


def test_what_is_queued_behind_a_failed_write_is_not_written(
    item: LoggedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that fails once, while the next batch waits for its turn: the next one's range would cover it."""
    monkeypatch.setattr(reader, "MAX_BATCH_MESSAGES", 4)
    item.enable("item")
    item.read_log()
    write, failures = LocalStore.write_durable, iter([None])

    def write_late(store: LocalStore, path: str, content: Callable[[pa.NativeFile], object]) -> int:
        if path.startswith("segments/") and next(failures, "none left") is None:
            time.sleep(1)
            raise LogStoreWriteFailed(path, "a test's")
        return write(store, path, content)

    for number in range(8):
        item.execute(f"insert into item values ({number})")
    monkeypatch.setattr(LocalStore, "write_durable", write_late)
    with pytest.raises(LogStoreWriteFailed):
        item.read_log()
    item.read_log()
    assert item.inserted() == [str(number) for number in range(8)]

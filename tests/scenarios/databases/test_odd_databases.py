"""Every feature over databases that set all there is: time limits that end any work, another meaning of SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.merge.merged_databases import Member, Merge, ServerMember, open_file_member
from builders.replication.replicated_databases import ReplicatedDatabase, Subscriber
from builders.servers.odd_settings import MEANINGS, TIME_LIMITS, open_program, set_for_database
from fixtures.servers import fresh_database
from rowtide.core.operations import Operation
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.log.store.segments import read_segment
from rowtide.replication.subscription_settings import SyncType
from rowtide.tracking import Storage
from rowtide.tracking.api import open_tracking

COLUMNS = "id int primary key, words text[], raw bytea, span interval, ratio float8, seen timestamptz"
ROW = (
    "({id}, array['NULL', null, chr(92) || 'x', 'it''s'], decode('00ff', 'hex'), "
    "interval '1 mon -2 days 3:04:05.006', 0.1 + 0.2, '2024-02-29 12:00:00.000001+02')"
)
TABLE = f"create table item ({COLUMNS})"


def row(number: int) -> str:
    return f"insert into item values {ROW.format(id=number)}"


@pytest.fixture(params=["server", "server_16"])
def server_of_odd(request: pytest.FixtureRequest) -> EmbeddedServer:
    """Each of the two servers."""
    started: EmbeddedServer = request.getfixturevalue(request.param)
    return started


@pytest.fixture
def odd(server_of_odd: EmbeddedServer) -> Iterator[tuple[Subscriber, Subscriber]]:
    """Two databases that set everything, and in each a program that is there already."""
    with ExitStack() as opened:
        made = []
        for _ in range(2):
            url = opened.enter_context(fresh_database(server_of_odd))
            with psycopg.connect(url, autocommit=True) as session:
                set_for_database(session, MEANINGS | TIME_LIMITS)
            made.append(Subscriber(url, opened.enter_context(open_program(url))))
        yield made[0], made[1]


def test_replication_copies_and_delivers(odd: tuple[Subscriber, Subscriber], tmp_path: Path) -> None:
    source, target = odd
    replicated = ReplicatedDatabase(LoggedDatabase(source.url, tmp_path / "lake", source.session), target)
    file = tmp_path / "copy.db"
    with closing(sqlite3.connect(file)) as made:
        made.execute("pragma user_version = 1")
    replicated.publish(
        TABLE, f"insert into item select {ROW.format(id='n')[1:-1]} from generate_series(1, 3000) n", item={}
    )
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.replication.add_subscription("shop", f"sqlite:///{file}", sync_type=SyncType.AUTOMATIC)
    replicated.deliver()
    source.execute(row(5000), "update item set words = words || words where id < 500", "delete from item where id = 7")
    replicated.deliver()

    replicated.require_equal("item")
    assert [found.result for found in replicated.replication.validate("shop", checksum=True)] == ["passed", "passed"]


def test_the_log_is_read_with_what_programs_do_to_tables(odd: tuple[Subscriber, Subscriber], tmp_path: Path) -> None:
    source, _ = odd
    logged = LoggedDatabase(source.url, tmp_path / "lake", source.session)
    logged.execute(TABLE)
    logged.enable("item")
    logged.execute(row(1), "alter table item add note text default 'none'", row(2), "truncate item")
    logged.read_log()

    rows = [record["after"] for record in logged.records() if record["operation"] == Operation.INSERT]
    assert len(rows) == 2
    store, segments = logged.store(), logged.manifest().state.segments
    payloads = [text for one in segments for text in read_segment(store, one.path)["payload"].to_pylist() if text]
    assert any("alter table item add note" in payload for payload in payloads)
    assert rows[0][1:5] == ['{"NULL",NULL,"\\\\x",it\'s}', "\\x00ff", "P1M-2DT3H4M5.006S", "0.3"]


def test_merge_brings_every_change(odd: tuple[Subscriber, Subscriber], tmp_path: Path) -> None:
    hub, other = odd
    at_hub, at_other = ServerMember(hub.url, hub.session), ServerMember(other.url, other.session)
    with open_file_member(tmp_path / "device.db") as device:
        merge = Merge(at_hub, (at_other, device))
        at_hub.execute(TABLE, f"insert into item select {ROW.format(id='n')[1:-1]} from generate_series(1, 1000) n")
        merge.begin(item={"column_tracking": True, "where": "id < 100000"})
        merge.settle()
        require_equal(at_hub, at_other, device)
        at_other.execute("update item set ratio = 0.3 where id = 1", "delete from item where id = 2")
        at_hub.execute("update item set raw = decode('ff', 'hex') where id = 1", row(5000))
        device.execute("update item set span = 'P1D' where id = 3")
        merge.settle()
        require_equal(at_hub, at_other, device)


def require_equal(hub: Member, other: Member, device: Member) -> None:
    """Servers have the same rows, as text that all settings change alike; a file has the same arrays."""
    assert other.rows("item", "item::text") == hub.rows("item", "item::text")
    assert device.rows("item", "id, words") == hub.rows("item", "id, words::text")


@pytest.mark.parametrize("storage", [Storage.ROW, Storage.SIDE])
def test_tracking_numbers_every_change(odd: tuple[Subscriber, Subscriber], storage: Storage) -> None:
    database, _ = odd
    database.execute(
        "create table t (raw bytea, span interval, seen timestamptz, note text, primary key (raw, span, seen))"
    )
    key = "decode('00ff', 'hex'), interval '1 mon -2 days', '2024-02-29 12:00:00+02'::timestamptz"
    database.execute(f"insert into t values ({key}, 'it''s')")
    with open_tracking(database.url) as tracking:
        tracking.enable_tracking("t", storage=storage)
        with tracking.changes(("t",)) as changes:
            assert len(list(changes)) == 1
        database.execute("update t set note = 'other'")
        with tracking.changes(("t",), changes.anchor) as changes:
            assert [str(change.operation) for change in changes] == ["update"]
        database.execute("delete from t")
        with tracking.changes(("t",), changes.anchor) as changes:
            assert [str(change.operation) for change in changes] == ["delete"]

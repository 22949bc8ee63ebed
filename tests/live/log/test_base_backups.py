"""Two servers with one identity on one timeline: a base backup of one was started, and both write."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from builders.capture.captured_databases import CapturedDatabase, LoggedDatabase
from builders.commands.command_lines import Ended, rowtide, rowtide_process
from builders.servers.copied_databases import NOTHING, base_backup, read_metadata
from fixtures.servers import SETTINGS
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import connect
from rowtide.log.errors import HistoryDiverged, SlotMissing

CAPTURED = ("captured", "disabled", "adopted", "unread")
PUBLISHED = ("published", "dropped")
SUBSCRIBED = "published"
PUBLICATION = "shop"
WROTE_NOT = "it did not write the row of rowtide.control that was read last"


@dataclass(frozen=True)
class Pair:
    """A database, and what it is on the copy of its server."""

    original: CapturedDatabase
    copy: CapturedDatabase

    def require_next_row_read(self) -> None:
        """The original reads on what it writes."""
        ((number,),) = self.original.execute("insert into item select max(id) + 1 from item returning id::text")
        self.original.read_log()
        assert self.original.inserted()[-1] == number


@dataclass(frozen=True)
class Servers:
    """A server and the copy, with the databases of both by their names."""

    pairs: dict[str, Pair]

    def __getitem__(self, name: str) -> Pair:
        return self.pairs[name]


@pytest.fixture(scope="module", params=[18, 16])
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: object
) -> Iterator[Servers]:
    """A server, and a base backup of it that was started as a server of its own.

    Since then both have written, the copy more, and the original was read on, but for the database `unread`.
    """
    folder = tmp_path_factory.mktemp(f"postgres-{request.param}")
    with ExitStack() as stack:

        def start(place: Path) -> EmbeddedServer:
            return stack.enter_context(EmbeddedServer.start(place, version=request.param, settings=SETTINGS))

        def open_on(server: EmbeddedServer, name: str) -> CapturedDatabase:
            session = stack.enter_context(psycopg.connect(server.url(name), autocommit=True))
            return CapturedDatabase(server.url(name), folder / f"lake_{name}", session, spark)  # type: ignore[arg-type]

        original = start(folder / "original")
        with psycopg.connect(original.url(), autocommit=True) as session:
            for name in (*CAPTURED, *PUBLISHED):
                session.execute(f"create database {name}".encode())
        originals = {name: open_on(original, name) for name in (*CAPTURED, *PUBLISHED)}
        for name, database in originals.items():
            begin(database, is_captured=name in CAPTURED)
        base_backup(original, folder / "copy")
        copy = start(folder / "copy")
        pairs = {name: Pair(database, open_on(copy, name)) for name, database in originals.items()}
        for name, pair in pairs.items():
            pair.copy.execute("insert into item select generate_series(100, 9999)", "alter table item add more int")
            if name != "unread":
                pair.original.execute("insert into item values (2)")
                pair.original.read_log()
        yield Servers(pairs)


def begin(database: LoggedDatabase, *, is_captured: bool) -> None:
    """Capture or publish a table, with a row in the log store."""
    database.execute("create table item (id int primary key)")
    if is_captured:
        database.enable("item")
    else:
        replication = connect(database.url).replication
        replication.add_publication(PUBLICATION, lake=str(database.lake))
        replication.add_article(PUBLICATION, "public.item")
        if database.lake.name.endswith(SUBSCRIBED):
            replication.add_subscription(PUBLICATION, subscriber_of(database))
    database.execute("insert into item values (1)")
    database.read_log()
    # The last row of rowtide.control is one of DDL, written within a subtransaction.
    if is_captured:
        database.execute("alter table item add other int", "alter table item drop other")
    database.read_log(read_log_end(database) - 1)


def read_log_end(database: LoggedDatabase) -> int:
    return int(database.execute("select (pg_current_wal_flush_lsn() - '0/0')::bigint")[0][0])


def subscriber_of(database: LoggedDatabase) -> str:
    return f"sqlite:///{database.lake}.db"


def require_refused_at_copy(pair: Pair, *command: str) -> None:
    """A command at the copy is refused, and writes nothing into the log store."""
    before = pair.original.manifest().state
    assert WROTE_NOT in rowtide(*command, "--db", pair.copy.url).require_error(2107)
    assert pair.original.manifest().state == before


def require_copy_reported(ended: Ended) -> None:
    assert WROTE_NOT in ended.output
    assert "reinitialize" not in ended.output
    assert "restart-log" not in ended.output


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "command",
    [
        ("cdc", "run", "--once"),
        ("cdc", "reinitialize", "--yes"),
        ("cdc", "enable-db"),
        ("cdc", "cleanup"),
        ("cdc", "skip-transaction", "0/1", "--yes"),
    ],
    ids=lambda command: command[1],
)
def test_capture_is_refused_at_the_copy(servers: Servers, command: tuple[str, ...]) -> None:
    place = ("--lake", str(servers["captured"].original.lake)) if command[1] == "enable-db" else ()
    require_refused_at_copy(servers["captured"], *command, *place)
    servers["captured"].require_next_row_read()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "command",
    [
        ("replication", "run", "--once"),
        ("replication", "restart-log", "--yes"),
        ("replication", "deliver-backlogs"),
    ],
    ids=lambda command: command[1],
)
def test_replication_is_refused_at_the_copy(servers: Servers, command: tuple[str, ...]) -> None:
    require_refused_at_copy(servers["published"], *command)
    servers["published"].require_next_row_read()


@pytest.mark.parametrize("command", ["add-subscription", "drop-subscription"])
def test_subscriptions_are_left_to_the_original(servers: Servers, command: str) -> None:
    pair = servers[SUBSCRIBED]
    other = "" if command == "drop-subscription" else ".other"
    subscriber = f"{subscriber_of(pair.original)}{other}"
    require_refused_at_copy(pair, "replication", command, PUBLICATION, "--subscriber", subscriber)
    pair.require_next_row_read()
    connect(pair.original.url).replication.run(once=True)
    with closing(sqlite3.connect(f"{pair.original.lake}.db")) as delivered:
        assert delivered.execute("select id from item order by id").fetchall() == pair.original.execute(
            "select id from item order by id"
        )


@pytest.mark.parametrize("name", ["captured", "published"])
def test_check_and_health_name_a_copy(servers: Servers, name: str) -> None:
    pair = servers[name]
    require_copy_reported(rowtide("check", "--format", "jsonl", "--db", pair.copy.url))
    require_copy_reported(rowtide("health", "--format", "json", "--db", pair.copy.url))
    assert WROTE_NOT not in rowtide("check", "--format", "jsonl", "--db", pair.original.url).output


@pytest.mark.exhaustive
def test_disabling_the_copy_removes_only_what_it_has_itself(servers: Servers) -> None:
    pair = servers["disabled"]
    pair.original.capture()
    assert "of which this one is a copy" in str(pair.copy.cdc.find_disabling())
    ended = rowtide("cdc", "disable-db", "--yes", "--db", pair.copy.url)
    assert ended.code == 0, ended.errors
    assert read_metadata(pair.copy.url) == NOTHING
    pair.original.execute("insert into item values (3)")
    pair.original.capture()
    assert pair.original.values("public_item", "id") == [(2, 1), (2, 2), (2, 3)]


def test_dropping_a_copys_last_publication_leaves_the_log_store(servers: Servers) -> None:
    pair = servers["dropped"]
    before = pair.original.manifest().state
    assert "of which this one is a copy" in str(connect(pair.copy.url).replication.find_ending(PUBLICATION))
    ended = rowtide("replication", "drop-publication", PUBLICATION, "--yes", "--db", pair.copy.url)
    assert ended.code == 0, ended.errors
    assert read_metadata(pair.copy.url) == NOTHING
    assert pair.original.manifest().state == before
    pair.require_next_row_read()


def test_a_copy_that_took_the_place_is_adopted(servers: Servers) -> None:
    pair = servers["adopted"]
    found = connect(pair.copy.url).find_adoption()
    assert WROTE_NOT in str(found.blocker)
    adopt = ("adopt", "--yes", "--db", pair.copy.url)
    assert rowtide_process(*adopt, environment={"ROWTIDE_FAILPOINT": "slot_renewal.after"}).code == -9
    ended = rowtide(*adopt)
    assert ended.code == 0, ended.errors
    pair.original.execute("insert into item values (3)", *["select pg_switch_wal()", "truncate item"] * 3)
    with pytest.raises(HistoryDiverged, match=WROTE_NOT):
        pair.original.read_log()
    pair.copy.execute("insert into item values (10000)")
    assert pair.copy.read_log().epoch == 1
    assert pair.copy.inserted() == ["1", "2", "10000"]
    with pytest.raises(HistoryDiverged, match=WROTE_NOT):
        pair.original.read_log()
    with pytest.raises(HistoryDiverged, match=WROTE_NOT):
        pair.original.cdc.reinitialize("a test")


def test_a_copy_is_known_as_soon_as_the_original_is_read(servers: Servers) -> None:
    pair = servers["unread"]
    before = pair.original.manifest().state
    # Nothing that was read is missing in the copy: it may be the server, whose slot was dropped.
    with pytest.raises(SlotMissing, match="RT-2102"):
        pair.copy.read_log()
    assert pair.original.manifest().state == before
    pair.require_next_row_read()
    with pytest.raises(HistoryDiverged, match="RT-2107"):
        pair.copy.read_log()

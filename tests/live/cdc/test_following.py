"""`cdc follow`: published changes of several instances as a stream; captured here without Spark."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.capture.following import FakeReceiver, capture, follow, following, no_spark, receiving
from builders.commands.command_lines import rowtide
from rowtide.agents import loop
from rowtide.cdc.cleanup import cleanup as cleanup_module
from rowtide.cdc.cleanup.cleanup import Cleanup
from rowtide.cdc.consumers.consumers import list_consumers
from rowtide.cdc.errors.jobs import ConsumerContended
from rowtide.cdc.following.follower import ConsumerPosition
from rowtide.cdc.lake_lease import LakeLease
from rowtide.cdc.requests import CleanupOrder
from rowtide.cdc.system_tables import SystemTables
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.connect import open_engine
from rowtide.log.postgres.lease import AdvisoryLease

ENDS_IN_S = 100


@pytest.fixture
def followed(logged: LoggedDatabase) -> LoggedDatabase:
    """Tables item and other are captured, and consumer `feed` reads both."""
    logged.execute("create table item (id int primary key, name text)", "create table other (id int primary key)")
    logged.enable("item", "other")
    logged.cdc.add_consumer("feed", ["public_item", "public_other"])
    capture(logged)
    return logged


def insert(followed: LoggedDatabase, *ids: int) -> None:
    """Insert items and capture them."""
    followed.execute(*(f"insert into item values ({each}, 'a')" for each in ids))
    capture(followed)


def acknowledged(followed: LoggedDatabase) -> CommitLsn | None:
    return followed.cdc.list_consumers()[0].acknowledged_lsn


def test_instances_come_in_the_order_of_commits(followed: LoggedDatabase) -> None:
    for place in range(1, 4):
        followed.execute(f"insert into item values ({place}, 'a')", f"insert into other values ({place})")
    with followed.transaction() as session:
        session.execute("insert into item values (10, 'b')")
        session.execute("insert into other values (10)")
        session.execute("update item set name = 'c' where id = 10")
    capture(followed)

    events = follow(followed, "public_other", "public_item", "--from", "0")

    assert [(event["instance"].removeprefix("public_"), event["after"]["id"]) for event in events] == [
        *((table, place) for place in range(1, 4) for table in ("item", "other")),
        ("item", 10),
        ("other", 10),
        ("item", 10),
    ]
    rows = [events[-1][key] for key in ("operation", "before", "after")]
    assert rows == ["update", {"id": 10, "name": "b"}, {"id": 10, "name": "c"}]
    assert len({event["id"] for event in events}) == len(events)
    assert len({event["transaction"] for event in events}) == 7


def test_a_stream_begins_now_at_an_lsn_or_after_a_time(followed: LoggedDatabase) -> None:
    insert(followed, 1, 2)
    first, second = follow(followed, "public_item", "--from", "0")
    assert follow(followed, "public_item") == []
    assert follow(followed, "public_item", "--from", second["lsn"]) == [second]
    assert follow(followed, "public_item", "--from", first["time"]) == [second]
    assert follow(followed, "public_item", "--from", "0/1") == [first, second]
    ended = rowtide("cdc", "follow", "public_nothing", "--idle-timeout", "0", "--db", followed.url)
    ended.require_error(22960)


def test_a_consumer_goes_on_behind_what_it_acknowledged(followed: LoggedDatabase) -> None:
    insert(followed, 1)
    assert [event["after"]["id"] for event in follow(followed, "--consumer", "feed")] == [1]
    assert follow(followed, "--consumer", "feed") == []
    insert(followed, 2, 3)
    assert [event["after"]["id"] for event in follow(followed, "--consumer", "feed")] == [2, 3]
    assert acknowledged(followed) == followed.cdc.get_max_lsn()
    (listed,) = followed.cdc.list_consumers()
    assert listed.acknowledged_time is not None
    command = ("cdc", "follow", "public_item", "--consumer", "feed", "--db", followed.url)
    assert "reads public_item, public_other, not public_item" in rowtide(*command).require_error(4151)


def test_files_are_acknowledged_when_they_are_complete(followed: LoggedDatabase, tmp_path: Path) -> None:
    insert(followed, 1, 2)
    folder = tmp_path / "events"
    folder.mkdir()
    assert follow(followed, "--consumer", "feed", "--out", str(folder), "--format", "debezium") == []
    (file,) = folder.iterdir()
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(event["op"], event["after"]["id"], event["source"]["table"]) for event in events] == [
        ("c", 1, "item"),
        ("c", 2, "item"),
    ]
    assert file.name == f"changes-{int(CommitLsn.parse(str(events[0]['source']['lsn']))):019d}.jsonl"
    assert acknowledged(followed) == followed.cdc.get_max_lsn()


@pytest.mark.exhaustive
def test_a_kill_before_the_acknowledgement_repeats_events(followed: LoggedDatabase) -> None:
    insert(followed, 1, 2)
    receiver = FakeReceiver()
    with receiving(receiver):
        command = ("--consumer", "feed", "--post", receiver.url)
        with following(followed, *command) as process:
            receiver.on_request = process.kill
            assert process.wait(ENDS_IN_S) == -signal.SIGKILL
        receiver.on_request = lambda: None
        assert acknowledged(followed) is None
        insert(followed, 3)
        follow(followed, *command)
    first, *again = [[event["after"]["id"] for event in request.events] for request in receiver.received]
    assert (first, again) == ([1, 2], [[1, 2, 3]])
    assert len(set(receiver.ids)) == 3


def test_a_refused_event_is_named_and_not_acknowledged(
    followed: LoggedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setenv("RECEIVER_KEY", "Bearer hidden")
    insert(followed, 1)
    before = follow(followed, "public_item", "--from", "0")
    with receiving(FakeReceiver(answers=[500, 422])) as receiver:
        command = ("--consumer", "feed", "--post", receiver.url, "--header-env", "Authorization=RECEIVER_KEY")
        ended = rowtide("cdc", "follow", *command, "--db", followed.url)
        assert (ended.code, ended.output) == (78, "")
        assert "RT-4153" in ended.errors
        assert f"answered 422 Unprocessable Entity to the events from {before[0]['id']} on" in " ".join(
            ended.errors.split()
        ).replace("Unprocessable Content", "Unprocessable Entity")
        assert "hidden" not in ended.errors
        assert receiver.received[0].headers["Authorization"] == "Bearer hidden"
        assert acknowledged(followed) is None
        follow(followed, *command)
    assert receiver.ids == [before[0]["id"]] * 3
    assert acknowledged(followed) == followed.cdc.get_max_lsn()


def test_what_is_published_meanwhile_comes_until_ctrl_c(followed: LoggedDatabase) -> None:
    insert(followed, 1)

    def go_on() -> None:
        if len(receiver.received) > 1:
            os.kill(os.getpid(), signal.SIGINT)
            return
        followed.execute("alter table item add column more int default 5")
        followed.execute("insert into item (id, name, more) values (2, 'b', 6)")
        capture(followed)

    with receiving(FakeReceiver(on_request=go_on)) as receiver:
        ended = rowtide("cdc", "follow", "--consumer", "feed", "--post", receiver.url, "--db", followed.url)
    assert ended.code == 0
    events = [event for request in receiver.received for event in request.events]
    assert [event["after"] for event in events] == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    assert acknowledged(followed) == followed.cdc.get_max_lsn()


@pytest.mark.exhaustive
def test_a_closed_pipe_ends_it_without_acknowledgement(followed: LoggedDatabase) -> None:
    with following(followed, "--consumer", "feed") as process:
        assert process.stdout is not None
        process.stdout.close()
        insert(followed, 1)
        assert process.wait(ENDS_IN_S) == 128 + signal.SIGPIPE
    assert [event["after"]["id"] for event in follow(followed, "--consumer", "feed")] == [1]


def test_of_two_followers_of_a_consumer_the_second_stops(followed: LoggedDatabase) -> None:
    engine = open_engine(followed.url)
    positions = [ConsumerPosition(engine, "feed", ()) for _ in range(2)]
    with engine.connect() as connection:
        for position in positions:
            position.read_instances(connection)
    positions[0].advance(CommitLsn(5), None)
    with pytest.raises(ConsumerContended):
        positions[1].advance(CommitLsn(6), None)
    with engine.connect() as connection, pytest.raises(ConsumerContended):
        positions[1].read_instances(connection)
    positions[0].advance(CommitLsn(7), None)
    assert acknowledged(followed) == CommitLsn(7)


def test_a_cleanup_that_overtakes_is_named(followed: LoggedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup_module, "READER_GRACE_S", 0.0)
    insert(followed, 1)
    (first,) = follow(followed, "--consumer", "feed")
    insert(followed, 2, 3)
    source = followed.cdc.get_source()
    with AdvisoryLease.take(open_engine(followed.url), "lake") as lease:
        over = [replace(known, limit=timedelta(0)) for known in list_consumers(lease.connection)]
        tables = SystemTables(source.lake, source.source_id, no_spark)
        order = CleanupOrder(retention=timedelta(0))
        Cleanup(tables, LakeLease.take(followed.store(), lease), lambda: over).begin(order)
    ended = rowtide("cdc", "follow", "--consumer", "feed", "--idle-timeout", "0", "--db", followed.url)
    assert "removed by the cleanup" in ended.require_error(4134)
    command = ("cdc", "follow", "public_item", "--from", first["lsn"], "--idle-timeout", "0", "--db", followed.url)
    assert "outside the validity interval" in rowtide(*command).require_error(313)


def test_a_database_that_is_not_there_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "FIRST_PAUSE_S", 0.01)
    ended = rowtide("cdc", "follow", "public_item", "--db", "postgresql://postgres@127.0.0.1:1/nowhere")
    assert (ended.code, ended.output) == (69, "")
    assert ended.errors.splitlines()[-1].startswith("RT-1101: ")


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("public_item", "--post", "ftp://host/"),
        ("public_item", "--post", "https://user:sesame@host/"),
        ("public_item", "--post", "https://host/", "--out", "."),
        ("public_item", "--post", "https://host/", "--header-env", "X-Key=NO_SUCH_VARIABLE"),
        ("--consumer", "feed", "--from", "0"),
    ],
)
def test_wrong_usage_is_refused(words: tuple[str, ...]) -> None:
    ended = rowtide("cdc", "follow", *words, "--db", "postgresql://localhost/nowhere")
    assert ended.code == 64
    assert "sesame" not in ended.errors

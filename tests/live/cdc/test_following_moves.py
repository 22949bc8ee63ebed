"""`cdc follow` while what it reads is moved, or its server restarts: events come at least once, and none is missing."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.capture.following import FakeReceiver, capture, follow, receiving
from builders.commands.command_lines import rowtide
from builders.servers.object_servers import Bucket
from rowtide.agents import loop
from rowtide.cdc.following import follower
from rowtide.cdc.following.row_events import read_transactions
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import connect


@pytest.fixture
def followed(logged: LoggedDatabase, monkeypatch: pytest.MonkeyPatch) -> LoggedDatabase:
    """Table item is captured, and consumer `feed` reads it."""
    monkeypatch.setattr(loop, "FIRST_PAUSE_S", 0.1)
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    logged.cdc.add_consumer("feed", ["public_item"])
    insert(logged, 1)
    return logged


def insert(followed: LoggedDatabase, *ids: int) -> None:
    """Insert items and capture them."""
    followed.execute(*(f"insert into item values ({each})" for each in ids))
    capture(followed)


def follow_meanwhile(followed: LoggedDatabase, happen: Callable[[], None]) -> list[int]:
    """Follow to a receiver; after the first request something happens, and the follower continues until item 2 came."""
    ids: list[int] = []

    def note() -> None:
        is_first = has_failed = not ids
        ids.extend(event["after"]["id"] for event in receiver.received[-1].events)
        try:
            if is_first:
                happen()
            has_failed = False
        finally:
            if has_failed or 2 in ids:
                os.kill(os.getpid(), signal.SIGINT)

    with receiving(FakeReceiver(on_request=note)) as receiver:
        ended = rowtide("cdc", "follow", "--consumer", "feed", "--post", receiver.url, "--db", followed.url)
    assert ended.code == 0, ended.errors
    return ids


def test_a_follower_goes_over_to_a_lake_that_was_switched(followed: LoggedDatabase, bucket: Bucket) -> None:
    def move() -> None:
        connect(followed.url).switch_lake(str(followed.lake), f"{bucket.url}/lake")
        shutil.rmtree(followed.lake)
        insert(followed, 2)

    assert follow_meanwhile(followed, move) == [1, 2]
    assert followed.cdc.list_consumers()[0].acknowledged_lsn == followed.cdc.get_max_lsn()
    assert [event["after"]["id"] for event in follow(followed, "public_item", "--from", "0")] == [1, 2]


def test_a_follower_outlasts_a_restart_of_the_server(followed: LoggedDatabase, server: EmbeddedServer) -> None:
    def restart() -> None:
        server.restart("immediate")
        followed.session = psycopg.connect(followed.url, autocommit=True)
        insert(followed, 2)

    ids = follow_meanwhile(followed, restart)
    assert (sorted(set(ids)), ids[-1]) == ([1, 2], 2)
    assert follow(followed, "--consumer", "feed") == []


def test_a_lake_may_be_removed_during_a_delivery(
    followed: LoggedDatabase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(follower, "read_transactions", partial(read_transactions, most=1))
    insert(followed, *range(10, 14))

    def move() -> None:
        connect(followed.url).switch_lake(str(followed.lake), str(tmp_path / "moved"))
        shutil.rmtree(followed.lake)
        insert(followed, 2)

    ids = follow_meanwhile(followed, move)
    assert set(ids) == {1, 10, 11, 12, 13, 2}
    assert ids[-1] == 2

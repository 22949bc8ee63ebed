"""A change that the publisher's server cannot send suspends its article; what else is published is delivered."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import rowtide
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase, Subscriber
from builders.replication.replicated_files import FileSubscriber, ReplicatedFile
from builders.servers.unsendable_changes import TABLES, open_western, write_around
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.replication.subscription_settings import SyncType

Delivered = ReplicatedDatabase | ReplicatedFile


@pytest.fixture
def western(each_server: EmbeddedServer, lake: Path) -> Iterator[LoggedDatabase]:
    """A publisher, nothing published yet."""
    with open_western(each_server, lake) as database:
        yield database


@pytest.fixture(params=["postgres", "sqlite"])
def delivered(
    request: pytest.FixtureRequest, western: LoggedDatabase, each_server: EmbeddedServer, tmp_path: Path
) -> Iterator[Delivered]:
    """Three tables, published to one subscriber."""
    if request.param == "sqlite":
        path = tmp_path / "copy.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as program:
            file = ReplicatedFile(western, FileSubscriber(path, program))
            file.begin(*TABLES, item={}, other={}, third={})
            yield file
    else:
        with fresh_database(each_server) as url, psycopg.connect(url, autocommit=True) as session:
            replicated = ReplicatedDatabase(western, Subscriber(url, session))
            replicated.begin(*TABLES, item={}, other={}, third={})
            yield replicated


def ids(delivered: Delivered, table: str) -> list[int]:
    return [number for (number,) in delivered.subscriber.execute(f"select id from {table} order by id")]


def test_all_other_articles_are_delivered(delivered: Delivered) -> None:
    publisher = delivered.publisher
    publisher.execute("insert into item values (1)", "insert into other values (1)")
    write_around(publisher, "item")
    publisher.execute("insert into item values (5)", "insert into other values (5)")
    delivered.deliver()
    assert ids(delivered, "other") == [1, 2, 4, 5]
    assert ids(delivered, "third") == [2, 4]
    assert ids(delivered, "item") == [1]
    (one,) = publisher.manifest().state.incomplete
    told = rowtide("replication", "status", "--db", publisher.url, "--format", "csv").output
    assert f"RT-7166: published table public.item is suspended from the transaction at LSN {one.lsn} on" in told
    health = rowtide("health", "--format", "json", "--db", publisher.url).output
    assert f"public.item lacks changes of the transaction that commits at LSN {one.lsn}" in health


@pytest.mark.exhaustive
def test_an_article_that_is_added_again_is_whole(delivered: Delivered) -> None:
    publisher, replication = delivered.publisher, delivered.replication
    write_around(publisher, "item")
    delivered.deliver()
    publisher.execute("update item set name = 'sendable' where id = 3")
    replication.drop_subscription(PUBLICATION, delivered.subscriber.url)
    replication.drop_article(PUBLICATION, "item")
    replication.add_article(PUBLICATION, "item")
    delivered.subscriber.execute(*(f"drop table {table}" for table in ("item", "other", "third")))
    delivered.subscribe(SyncType.AUTOMATIC)
    delivered.deliver()
    publisher.execute("insert into item values (5)", "insert into other values (5)")
    delivered.deliver()
    delivered.require_equal("item", "other", "third")
    assert publisher.manifest().state.incomplete == ()

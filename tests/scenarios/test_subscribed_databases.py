"""PostgreSQL's own subscription tests that are about a subscriber's database and tables, by their numbers."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from builders.replicated_databases import PUBLICATION, ReplicatedDatabase, Subscriber
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.replication.errors.delivery import CommandRefused
from rowtide.replication.errors.publishing import PublicationUnknown
from rowtide.replication.sync_types import IfExists, SyncType

TABLE = "create table t (a int primary key, b text)"


@pytest.fixture
def latin(server: EmbeddedServer) -> Iterator[Subscriber]:
    """An empty database in another encoding."""
    with fresh_database(server, encoding="LATIN1") as url, psycopg.connect(url, autocommit=True) as session:
        yield Subscriber(url, session)


def test_pg_005_text_is_converted_to_another_encoding(replicated: ReplicatedDatabase, latin: Subscriber) -> None:
    replicated.publish(TABLE, "insert into t values (1, 'Grüße')", t={})
    replicated.subscribe(SyncType.AUTOMATIC, subscriber=latin)
    replicated.publisher.execute("insert into t values (2, 'ÿ')")
    replicated.deliver()
    assert latin.execute("select b from t order by a") == [("Grüße",), ("ÿ",)]

    replicated.publisher.execute("update t set b = '漢' where a = 2")
    with pytest.raises(CommandRefused, match="in column b"):
        replicated.deliver()


def test_pg_007_a_paused_subscription_is_dropped(replicated: ReplicatedDatabase) -> None:
    replicated.publish(TABLE, t={})
    with pytest.raises(PublicationUnknown):
        replicated.replication.add_subscription("absent", replicated.subscriber.url)
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    replicated.replication.pause(PUBLICATION)
    replicated.publisher.execute("insert into t values (1, 'x')")
    replicated.replication.drop_subscription(PUBLICATION, replicated.subscriber.url)

    assert replicated.replication.list_subscriptions() == ()
    assert replicated.subscriber.execute("table t") == []


@pytest.mark.parametrize("held_as", ["int", "bigint"])
def test_pg_014_rows_are_copied_to_columns_in_other_order(replicated: ReplicatedDatabase, held_as: str) -> None:
    """In binary form where the types are the same, else as text."""
    table = "create table t (a int primary key, b text[], c timestamptz, d bytea)"
    values = "array['x', null], '2022-01-01 00:00+00', '\\x00ff'"
    replicated.publish(table, f"insert into t values (1, {values})", t={})
    replicated.subscriber.execute(f"create table t (d bytea, c timestamptz, a {held_as} primary key, b text[])")
    replicated.subscribe(SyncType.AUTOMATIC, if_exists=IfExists.KEEP)
    replicated.publisher.execute(f"insert into t values (2, {values})")
    replicated.deliver()

    columns = "select a, b, c, d from t order by a"
    assert replicated.subscriber.execute(columns) == replicated.publisher.execute(columns)


@pytest.mark.parametrize("index", ["", "create index on t (b) where a > 1"])
def test_pg_032_rows_are_found_without_an_index_of_the_key(replicated: ReplicatedDatabase, index: str) -> None:
    replicated.publish(TABLE, t={})
    replicated.subscriber.execute("create table t (a int, b text)", *([index] if index else []))
    replicated.subscribe()
    replicated.publisher.execute(
        "insert into t select i, 'x' from generate_series(1, 50) i",
        "update t set b = 'y' where a % 2 = 0",
        "update t set a = a + 100 where a % 5 = 0",
        "delete from t where a % 7 = 0",
    )
    replicated.deliver()

    replicated.require_equal("t")

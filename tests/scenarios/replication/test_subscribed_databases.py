"""PostgreSQL's own subscription tests that are about databases, publications and roles, by their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from sqlalchemy.engine import make_url

from builders.replication.peers import Peer, deliver_until_quiet
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase, Subscriber, deliver_all
from fixtures.replicated import open_peers
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.replication.errors.delivery import CommandRefused
from rowtide.replication.errors.publishing import PublicationUnknown
from rowtide.replication.subscription_settings import IfExists, SyncType

TABLE = "create table t (a int primary key, b text)"


@pytest.fixture
def chain(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Peer, ...]]:
    """Three databases, the second of which hands on what it gets of the first."""
    with open_peers(server, tmp_path_factory.mktemp("chain"), 3) as peers:
        for peer in peers:
            peer.execute(TABLE)
        first, second, third = peers
        for publisher in (first, second):
            publisher.publish("t")
        first.subscribe(second)
        second.subscribe(third, forward=True)
        yield peers


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


def test_pg_016_022_nested_subtransactions_go_down_a_chain(chain: tuple[Peer, ...]) -> None:
    first, _, third = chain
    with first.transaction() as writer:
        for number in range(5):
            writer.execute(f"savepoint s{number}")
            rows = f"generate_series({1000 * number}, {1000 * number + 999}) i"
            writer.execute(f"insert into t select i, 'of {number}' from {rows}".encode())
        writer.execute("rollback to s3")
        writer.execute("update t set b = 'all' where a % 100 = 0")
    deliver_until_quiet(chain[:2])

    assert third.rows("t") == first.rows("t")
    assert len(third.rows("t")) == 3000


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_pg_022_a_prepared_transaction_goes_down_a_chain(chain: tuple[Peer, ...], ends: str) -> None:
    first, _, third = chain
    first.execute("begin", "insert into t values (1, 'x')", "prepare transaction 'first'", "insert into t values (2)")
    deliver_until_quiet(chain[:2])
    assert third.rows("t") == ["(2,)"]
    first.execute(f"{ends} prepared 'first'")
    deliver_until_quiet(chain[:2])

    assert third.rows("t") == first.rows("t")


def test_pg_024_a_second_publication_is_added_and_dropped(replicated: ReplicatedDatabase) -> None:
    url = replicated.subscriber.url
    replicated.publish(TABLE, "create table u (a int primary key)", "insert into u values (1)", t={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.replication.add_publication("second")
    replicated.replication.add_article("second", "u")
    replicated.replication.add_subscription("second", url)
    deliver_all(replicated.publisher)
    replicated.publisher.execute("insert into u values (2)", "insert into t values (1)")
    deliver_all(replicated.publisher)
    replicated.require_equal("t", "u")

    replicated.replication.drop_subscription("second", url)
    replicated.publisher.execute("insert into u values (3)", "insert into t values (2)")
    deliver_all(replicated.publisher)
    replicated.require_equal("t")
    assert replicated.subscriber.execute("table u") == [(1,), (2,)]


def test_pg_027_033_an_agents_role_needs_the_rights_it_uses(
    make_role: Callable[[str], str], replicated: ReplicatedDatabase
) -> None:
    """What it lacks is said with the command; rows that a policy forbids are refused, not lost."""
    role = make_role("login")
    database = replicated.subscriber.session.info.dbname
    replicated.publish(TABLE, t={})
    replicated.subscriber.execute(TABLE, f'grant create on database "{database}" to "{role}"')
    url = make_url(replicated.subscriber.url).set(username=role).render_as_string(hide_password=False)
    replicated.subscribe(subscriber=Subscriber(url, replicated.subscriber.session))
    replicated.publisher.execute("insert into t values (1, 'x')")
    with pytest.raises(CommandRefused, match="permission denied for table t"):
        replicated.deliver()

    replicated.subscriber.execute(f'grant select, insert, update, delete on t to "{role}"')
    replicated.deliver()
    replicated.require_equal("t")
    replicated.subscriber.execute("create policy p on t using (a < 5)", "alter table t enable row level security")
    replicated.publisher.execute("insert into t values (7, 'x')")
    with pytest.raises(CommandRefused, match="row-level security"):
        replicated.deliver()
    replicated.subscriber.execute(f'drop owned by "{role}" cascade', "drop table t")


@pytest.mark.parametrize("index", ["", "create index on t (b) where a > 1", "create unique index on t ((a + 1))"])
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


@pytest.mark.parametrize("identity", ["default", "full"])
def test_pg_034_a_table_with_a_temporal_key_is_delivered(replicated: ReplicatedDatabase, identity: str) -> None:
    period = "'[2000-01-01,2010-01-01)'"
    replicated.publish(
        "create table t (id int4range, valid_at daterange, a text, primary key (id, valid_at without overlaps))",
        f"alter table t replica identity {identity}",
        f"insert into t values ('[1,2)', {period}, 'a')",
        t={},
    )
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    replicated.publisher.execute(
        f"insert into t values ('[2,3)', {period}, 'a'), ('[3,4)', {period}, 'a'), ('[4,5)', {period}, 'a')",
        "update t set a = 'b' where id = '[2,3)'",
        "update t set valid_at = '[2010-01-01,2020-01-01)' where id = '[4,5)'",
        "delete from t where id = '[3,4)'",
    )
    replicated.deliver()

    replicated.require_equal("t")


def test_pg_100_1_index_of_a_function_with_a_condition(replicated: ReplicatedDatabase) -> None:
    double = "create function double(x int) returns int immutable language sql as 'select x * 2'"
    index = "create index on t (b) where a > double(1)"
    replicated.subscriber.execute(double, TABLE, index)
    replicated.publish(double, TABLE, index, t={})
    replicated.subscribe()
    replicated.publisher.execute("insert into t values (1, 'x'), (5, 'y')", "update t set b = 'z' where a = 5")
    replicated.deliver()

    replicated.require_equal("t")

"""A distribution database that is another database than the publisher."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import select, text
from sqlalchemy.engine import make_url

from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.commands.command_lines import rowtide
from builders.faults.killed_programs import KILLED, run_program
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase
from builders.replication.replication_runs import running, wait_rows
from builders.servers.copied_databases import moved
from fixtures.servers import fresh_database
from rowtide.core.errors import Remedy
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.databases.postgres.errors import ConnectionFailed, UnexpectedSqlError, translated
from rowtide.handle import connect
from rowtide.replication.articles.articles import FEATURE
from rowtide.replication.distributor import subscription_records
from rowtide.replication.distributor.definitions import agents
from rowtide.replication.distributor.location import distributor, is_elsewhere, noticing_moves
from rowtide.replication.errors.delivery import (
    DistributionElsewhere,
    DistributionMissing,
    DistributionMoved,
    DistributorUnreachable,
)
from rowtide.replication.errors.publishing import ArticleExists
from rowtide.replication.errors.subscribing import PasswordGiven
from rowtide.replication.subscription_settings import IfExists, SyncType

ORDERS = "create table orders (id int primary key, qty int)"
COMMAND = """
import json, sys
from rowtide.handle import connect
from rowtide.replication.subscription_settings import SyncType
method, arguments = sys.argv[2], json.loads(sys.argv[3])
if "sync_type" in arguments[1]:
    arguments[1]["sync_type"] = SyncType(arguments[1]["sync_type"])
getattr(connect(sys.argv[1]).replication, method)(*arguments[0], **arguments[1])
"""
SCHEMAS = r"select nspname from pg_namespace where nspname like 'distribution%'"


@dataclass
class Distribution:
    """An empty database that is to be the distributor's."""

    url: str
    server: EmbeddedServer

    def execute(self, statement: LiteralString) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as session:
            cursor = session.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        """Let nobody in: the distributor is down."""
        self.allow(self.url, "false")
        with psycopg.connect(self.server.url(), autocommit=True) as session:
            name = make_url(self.url).database
            session.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])

    def open(self) -> None:
        self.allow(self.url, "true")

    def allow(self, url: str, allowed: LiteralString) -> None:
        """Let new sessions into a database of the server, or none."""
        name = sql.Identifier(make_url(url).database or "")
        with psycopg.connect(self.server.url(), autocommit=True) as session:
            session.execute(sql.SQL("alter database {} allow_connections " + allowed).format(name))


@pytest.fixture
def distribution(server: EmbeddedServer) -> Iterator[Distribution]:
    with fresh_database(server) as url:
        yield Distribution(url, server)


@pytest.fixture
def other_publisher(server: EmbeddedServer, tmp_path: Path) -> Iterator[LoggedDatabase]:
    """An empty database with a place for its log store."""
    with fresh_database(server) as url, psycopg.connect(url, autocommit=True) as session:
        yield LoggedDatabase(url, tmp_path / "other_lake", session)


@pytest.fixture
def published(replicated: ReplicatedDatabase, distribution: Distribution) -> ReplicatedDatabase:
    """A publication without articles, and a table at both ends."""
    for database in (replicated.publisher, replicated.subscriber):
        database.execute(ORDERS)
    replicated.replication.add_publication(
        PUBLICATION, lake=str(replicated.publisher.lake), distribution_db=distribution.url
    )
    return replicated


@pytest.fixture
def delivered(published: ReplicatedDatabase) -> ReplicatedDatabase:
    """The same, with an article and a subscription."""
    published.replication.add_article(PUBLICATION, "orders")
    published.subscribe()
    return published


def kill(replicated: ReplicatedDatabase, failpoint: str, method: str, *positional: str, **named: str) -> int:
    """Call a method of the publisher's in a process that is killed at a failpoint; return how it ended."""
    arguments = json.dumps([positional, named])
    return run_program(COMMAND, replicated.publisher.url, method, arguments, failpoint=failpoint)


def require_delivered(replicated: ReplicatedDatabase) -> None:
    """Each article is a member of the log, each member an article, and changes arrive."""
    count = f"select count(*) from rowtide.members where feature = '{FEATURE}'"
    ((members,),) = replicated.publisher.execute(count)
    assert members == len(replicated.replication.list_articles())
    replicated.publisher.execute("insert into orders values ((select count(*) from orders), 1)")
    replicated.deliver()
    replicated.require_equal("orders")


def test_publisher_keeps_only_where_its_distributor_is(
    delivered: ReplicatedDatabase, distribution: Distribution
) -> None:
    replication = delivered.replication
    require_delivered(delivered)
    delivered.publisher.execute("alter table orders add column note text")
    require_delivered(delivered)
    token = replication.post_tracer_token(PUBLICATION)
    replication.run(once=True)

    (status,) = replication.status()
    assert (status.agent, status.undelivered_commands) == ("succeed", 0)
    (arrival,) = replication.list_tracer_tokens(PUBLICATION)
    assert (arrival.tracer_id, arrival.subscriber_latency is not None) == (token, True)
    assert len(replication.list_history()) == 2
    assert [article.columns for article in replication.list_articles()] == [("id", "qty", "note")]
    assert [row.result for row in replication.validate(PUBLICATION, checksum=True)] == ["passed"]
    assert rowtide("health", "--db", delivered.publisher.url).code == 0
    assert delivered.publisher.execute(SCHEMAS) == []
    assert len(distribution.execute(SCHEMAS)) == 1


def test_last_publication_leaves_nothing_at_either_place(
    delivered: ReplicatedDatabase, distribution: Distribution
) -> None:
    delivered.replication.drop_subscription(PUBLICATION, delivered.subscriber.url)
    delivered.replication.drop_publication(PUBLICATION)

    assert distribution.execute(SCHEMAS) == []
    assert delivered.publisher.execute("select 1 from pg_namespace where nspname = 'rowtide'") == []


@pytest.mark.exhaustive
def test_two_publishers_share_a_distribution_database(
    delivered: ReplicatedDatabase, other_publisher: LoggedDatabase, distribution: Distribution
) -> None:
    other = ReplicatedDatabase(other_publisher, delivered.subscriber)
    other_publisher.execute("create table others (id int primary key)")
    delivered.subscriber.execute("create table others (id int primary key)")
    other.replication.add_publication(PUBLICATION, lake=str(other_publisher.lake), distribution_db=distribution.url)
    other.replication.add_article(PUBLICATION, "others")
    other.subscribe()
    other_publisher.execute("insert into others values (7)")
    other.deliver()

    other.require_equal("others")
    require_delivered(delivered)
    assert [article.article for article in delivered.replication.list_articles()] == ["orders"]
    assert len(distribution.execute(SCHEMAS)) == 2


def test_delivery_goes_on_while_the_distributor_is_down(
    delivered: ReplicatedDatabase, distribution: Distribution
) -> None:
    with running(delivered) as run:
        delivered.publisher.execute("insert into orders values (1, 1)")
        wait_rows(delivered.subscriber, [(1, 1)])
        distribution.close()
        delivered.publisher.execute("insert into orders values (2, 2)")
        wait_rows(delivered.subscriber, [(1, 1), (2, 2)])
        with pytest.raises(DistributorUnreachable, match="not currently accepting connections"):
            delivered.replication.status()
        assert "the distribution database" in rowtide("health", "--db", delivered.publisher.url).output
        distribution.open()
        delivered.publisher.execute("insert into orders values (3, 3)")
        wait_rows(delivered.subscriber, [(1, 1), (2, 2), (3, 3)])

    assert run.troubles == []
    assert delivered.replication.list_history()[0].runstatus == "succeed"


@pytest.mark.exhaustive
def test_a_publisher_may_be_lost_with_its_distributor(
    delivered: ReplicatedDatabase, distribution: Distribution
) -> None:
    ended = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'rowtide both'"
    engine = open_engine(delivered.publisher.url, application_name="rowtide both")

    def ask_while_both_are_killed() -> None:
        with translated(), engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            subscription_records.list_subscriptions(connection, PUBLICATION)
            distribution.allow(delivered.publisher.url, "false")
            distribution.execute(ended)
            connection.execute(text("select 1"))

    with pytest.raises(ConnectionFailed):
        ask_while_both_are_killed()
    distribution.allow(delivered.publisher.url, "true")
    with engine.connect() as connection:
        assert len(subscription_records.list_subscriptions(connection, PUBLICATION)) == 1
    engine.dispose()


@pytest.mark.exhaustive
def test_a_run_that_begins_while_the_distributor_is_down_ends(
    delivered: ReplicatedDatabase, distribution: Distribution
) -> None:
    distribution.close()
    for is_once in (True, False):
        with pytest.raises(DistributorUnreachable, match="move-distribution"):
            delivered.replication.run(once=is_once)


def test_distribution_database_is_moved(
    delivered: ReplicatedDatabase, distribution: Distribution, server: EmbeddedServer
) -> None:
    require_delivered(delivered)
    before = delivered.replication.list_subscriptions()
    with fresh_database(server) as url:
        moving = ("replication", "move-distribution", url, "--db", delivered.publisher.url)
        assert rowtide(*moving).errors.startswith("Moved: ")
        assert distribution.execute(SCHEMAS) == []
        assert delivered.replication.list_subscriptions() == before
        assert delivered.replication.move_distribution(url) == 0
        require_delivered(delivered)
        delivered.replication.add_publication("second")
        delivered.replication.move_distribution(distribution.url)
    assert [known.publication for known in delivered.replication.list_publications()] == [PUBLICATION, "second"]


def test_a_run_follows_it_to_another_place(
    replicated: ReplicatedDatabase, distribution: Distribution, server: EmbeddedServer
) -> None:
    replicated.begin(ORDERS, orders={})
    with fresh_database(server) as url:
        with running(replicated):
            for number, place in enumerate((distribution.url, url), 1):
                replicated.replication.move_distribution(place)
                # The run has looked there since.
                wait_until(lambda: bool(replicated.replication.status()[0].delivered_by), what="a run")
                replicated.publisher.execute(f"insert into orders values ({number}, 1)")
                wait_rows(replicated.subscriber, replicated.publisher.execute("select * from orders order by 1"))
        replicated.replication.move_distribution(distribution.url)


def test_a_statement_that_a_move_overtakes_is_retried(
    replicated: ReplicatedDatabase, distribution: Distribution
) -> None:
    replicated.begin(ORDERS, orders={})
    with open_engine(replicated.publisher.url).connect() as connection:
        assert not is_elsewhere(connection)
        replicated.replication.move_distribution(distribution.url)
        with pytest.raises(DistributionMoved), noticing_moves(), translated():
            distributor(connection).execute(select(agents))
        connection.rollback()
        with pytest.raises(UnexpectedSqlError), noticing_moves(), translated():
            connection.execute(text("select 1 from nowhere"))
    assert DistributionMoved("").remedy is Remedy.RETRY


def test_distribution_database_leaves_the_publisher(replicated: ReplicatedDatabase, distribution: Distribution) -> None:
    replicated.begin(ORDERS, orders={})
    with pytest.raises(DistributionElsewhere, match="in the publisher itself"):
        replicated.replication.add_publication("second", distribution_db=distribution.url)
    assert replicated.replication.move_distribution(distribution.url)

    assert replicated.publisher.execute(SCHEMAS) == []
    require_delivered(replicated)


def test_place_without_a_distribution_database_is_refused(
    delivered: ReplicatedDatabase, distribution: Distribution
) -> None:
    ((schema,),) = distribution.execute(SCHEMAS)
    distribution.execute(f"alter schema {schema} rename to lost")
    with pytest.raises(DistributionMissing, match=schema):
        delivered.replication.status()
    with pytest.raises(PasswordGiven):
        delivered.replication.move_distribution("postgresql://postgres:secret@localhost/other")
    distribution.execute(f"alter schema lost rename to {schema}")
    assert len(delivered.replication.status()) == 1


@pytest.mark.parametrize("failpoint", ["article_record.before", "distributor_commit.before@2"])
def test_killed_add_article_is_completed_by_a_repeat(published: ReplicatedDatabase, failpoint: str) -> None:
    assert kill(published, failpoint, "add_article", PUBLICATION, "orders") == KILLED
    assert published.replication.list_articles() == ()
    published.replication.add_article(PUBLICATION, "orders")
    published.subscribe()

    require_delivered(published)


@pytest.mark.exhaustive
def test_add_article_that_was_recorded_is_there(published: ReplicatedDatabase) -> None:
    assert kill(published, "distributor_commit.after@2", "add_article", PUBLICATION, "orders") == KILLED
    with pytest.raises(ArticleExists):
        published.replication.add_article(PUBLICATION, "orders")
    published.subscribe()

    require_delivered(published)


@pytest.mark.parametrize("failpoint", ["distributor_commit.before@2", "distributor_commit.after@2"])
def test_killed_drop_article_is_completed_by_a_repeat(delivered: ReplicatedDatabase, failpoint: str) -> None:
    delivered.publisher.execute("create table others (id int primary key)")
    delivered.replication.add_article(PUBLICATION, "others")
    assert kill(delivered, failpoint, "drop_article", PUBLICATION, "others") == KILLED
    delivered.replication.drop_article(PUBLICATION, "others")

    require_delivered(delivered)


@pytest.mark.exhaustive
@pytest.mark.parametrize("failpoint", ["distributor_commit.before", "distributor_commit.after"])
def test_killed_subscribing_is_completed_by_a_repeat(published: ReplicatedDatabase, failpoint: str) -> None:
    published.replication.add_article(PUBLICATION, "orders")
    support = {"sync_type": SyncType.REPLICATION_SUPPORT_ONLY.value}
    assert kill(published, failpoint, "add_subscription", PUBLICATION, published.subscriber.url, **support) == KILLED
    if not published.replication.list_subscriptions():
        published.subscribe()
    require_delivered(published)

    url = published.subscriber.url
    assert kill(published, failpoint, "drop_subscription", PUBLICATION, url) == KILLED
    if published.replication.list_subscriptions():
        published.replication.drop_subscription(PUBLICATION, url)
    published.publisher.execute("truncate orders")
    published.subscriber.execute("truncate orders")
    published.subscribe()
    require_delivered(published)


@pytest.mark.exhaustive
@pytest.mark.parametrize("failpoint", ["distributor_record.after", "distributor_commit.before"])
def test_killed_add_publication_is_completed_by_a_repeat(
    replicated: ReplicatedDatabase, distribution: Distribution, failpoint: str
) -> None:
    replicated.publisher.execute(ORDERS)
    replicated.subscriber.execute(ORDERS)
    options = {"lake": str(replicated.publisher.lake), "distribution_db": distribution.url}
    assert kill(replicated, failpoint, "add_publication", PUBLICATION, **options) == KILLED
    replicated.replication.add_publication(PUBLICATION, lake=str(replicated.publisher.lake))
    replicated.replication.add_article(PUBLICATION, "orders")
    replicated.subscribe()

    require_delivered(replicated)
    assert len(distribution.execute(SCHEMAS)) == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "failpoint",
    ["distributor_commit.before", "distributor_commit.after", "source_removal.before", "slot_removal.after"],
)
def test_killed_drop_publication_is_completed_by_a_repeat(
    published: ReplicatedDatabase, distribution: Distribution, failpoint: str
) -> None:
    published.replication.add_article(PUBLICATION, "orders")
    assert kill(published, failpoint, "drop_publication", PUBLICATION) == KILLED
    assert rowtide("replication", "drop-publication", PUBLICATION, "--yes", "--db", published.publisher.url).code == 0

    assert distribution.execute(SCHEMAS) == []
    assert published.publisher.execute("select 1 from pg_namespace where nspname = 'rowtide'") == []


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "failpoint", ["distribution_copy.after", "distributor_commit.before", "distributor_commit.after"]
)
def test_killed_move_is_completed_by_a_repeat(
    delivered: ReplicatedDatabase, distribution: Distribution, server: EmbeddedServer, failpoint: str
) -> None:
    require_delivered(delivered)
    with fresh_database(server) as url:
        assert kill(delivered, failpoint, "move_distribution", url) == KILLED
        delivered.replication.move_distribution(url)
        assert distribution.execute(SCHEMAS) == []
        require_delivered(delivered)
        delivered.replication.move_distribution(distribution.url)


@pytest.mark.exhaustive
def test_articles_are_changed_and_copied_again(delivered: ReplicatedDatabase, distribution: Distribution) -> None:
    require_delivered(delivered)
    delivered.publisher.execute("insert into orders select i, i % 5 from generate_series(10, 60) i")
    delivered.replication.change_article(PUBLICATION, "orders", where="qty > 2", if_exists=IfExists.TRUNCATE)
    delivered.publisher.execute("update orders set qty = 4 where id = 10")
    delivered.deliver()
    wanted = delivered.publisher.execute("select * from orders where qty > 2 order by id")
    assert delivered.subscriber.execute("select * from orders order by id") == wanted
    delivered.replication.reinitialize(PUBLICATION, article="orders")
    delivered.publisher.execute("alter table orders add column note text default 'n'", "update orders set qty = 3")
    delivered.deliver()
    wanted = delivered.publisher.execute("select * from orders where qty > 2 order by id")
    assert delivered.subscriber.execute("select * from orders order by id") == wanted


@pytest.mark.exhaustive
def test_a_publisher_that_was_moved_keeps_its_distributor(
    delivered: ReplicatedDatabase, distribution: Distribution, server: EmbeddedServer
) -> None:
    require_delivered(delivered)
    delivered.publisher.enable()
    with moved(delivered.publisher, server) as url, psycopg.connect(url, autocommit=True) as session:
        adopted = ReplicatedDatabase(LoggedDatabase(url, delivered.publisher.lake, session), delivered.subscriber)
        assert connect(url).adopt() is not None
        assert [one.article for one in adopted.replication.list_articles()] == ["orders"]
        adopted.publisher.execute("insert into orders values (100, 1)")
        adopted.replication.reinitialize(PUBLICATION, if_exists=IfExists.TRUNCATE)
        adopted.deliver()
        adopted.deliver()
        adopted.publisher.execute("update orders set qty = 9 where id = 100")
        adopted.deliver()
        adopted.require_equal("orders")
        assert len(distribution.execute(SCHEMAS)) == 1

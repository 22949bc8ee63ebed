"""A subscriber is another database than the publisher, whatever its URL, and gets each table from one place."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase, list_subscriptions
from builders.replication.replicated_files import ReplicatedFile
from fixtures.servers import fresh_database
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import connect
from rowtide.replication.api import TransactionalReplication
from rowtide.replication.distributor.subscription_records import list_subscribed, list_subscriptions as list_all
from rowtide.replication.errors.conflicts import TableDeliveredAlready, TableDeliveredBack
from rowtide.replication.errors.subscribing import SubscriberIsPublisher, SubscriberKnownOtherwise, SubscriptionExists
from rowtide.replication.subscribing.originators import Ends, plan_originators
from rowtide.replication.subscription_settings import IfExists, SyncType

ITEMS = "create table items (id int primary key, n int)"


@pytest.fixture
def published(replicated: ReplicatedDatabase) -> ReplicatedDatabase:
    """A publication of a table with a row; nobody subscribes yet."""
    replicated.publish_alone(ITEMS)
    replicated.publisher.execute("insert into items values (1, 1)")
    return replicated


@pytest.fixture
def published_16(replicated_16: ReplicatedDatabase) -> ReplicatedDatabase:
    """As `published`, on the PostgreSQL 16."""
    replicated_16.publish_alone(ITEMS)
    replicated_16.publisher.execute("insert into items values (1, 1)")
    return replicated_16


def respelled(url: str) -> str:
    return f"{url}&application_name=other" if "?" in url else f"{url}?application_name=other"


@pytest.mark.parametrize("name", ["published", "published_16"])
@pytest.mark.parametrize("spell", [str, respelled])
def test_a_publisher_does_not_subscribe_to_itself(
    name: str, spell: Callable[[str], str], request: pytest.FixtureRequest
) -> None:
    published: ReplicatedDatabase = request.getfixturevalue(name)
    url = spell(published.publisher.url)
    for options in ({"if_exists": IfExists.DROP}, {"sync_type": SyncType.REPLICATION_SUPPORT_ONLY}):
        with pytest.raises(SubscriberIsPublisher, match="is the publisher itself"):
            published.replication.add_subscription(PUBLICATION, url, **options)

    assert published.publisher.execute("table items") == [(1, 1)]
    assert list_subscriptions(published.publisher) == ()


def test_a_database_subscribes_once_however_its_url_is_spelled(published: ReplicatedDatabase) -> None:
    url = published.subscriber.url
    published.replication.add_subscription(PUBLICATION, url)
    published.deliver()
    with pytest.raises(SubscriberKnownOtherwise, match=f"already subscribes to publication shop, as {url[:20]}"):
        published.replication.add_subscription(PUBLICATION, respelled(url), if_exists=IfExists.DROP)
    with pytest.raises(SubscriptionExists):
        published.replication.add_subscription(PUBLICATION, url)

    published.require_equal("items")


def test_unreachable_known_subscriber_may_be_the_same_database(published: ReplicatedDatabase) -> None:
    published.replication.add_subscription(PUBLICATION, published.subscriber.url)
    published.publisher.execute(
        "update distribution.\"MSdistribution_agents\" set subscriber = 'postgresql://127.0.0.1:1/shop'"
    )
    with pytest.raises(
        SubscriberKnownOtherwise, match="already subscribes to publication shop, as postgresql://127.0.0.1:1/shop"
    ):
        published.replication.add_subscription(PUBLICATION, published.subscriber.url, if_exists=IfExists.DROP)


def test_subscriber_that_also_publishes_needs_no_further_rights(
    make_role: Callable[[str], str], published: ReplicatedDatabase, tmp_path: Path
) -> None:
    other = connect(published.subscriber.url).replication
    other.add_publication("elsewhere", lake=str(tmp_path / "elsewhere"))
    published.subscriber.execute(f'grant create on database "{published.subscriber.session.info.dbname}" to public')
    stranger = make_url(published.subscriber.url).set(username=make_role("login"))
    published.subscriber.execute("grant create, usage on schema public to public")
    published.replication.add_subscription(PUBLICATION, stranger.render_as_string(hide_password=False))
    published.deliver()
    assert published.subscriber.execute("select * from items") == [(1, 1)]
    published.subscriber.execute(f'drop owned by "{stranger.username}" cascade')


def test_a_copy_of_a_subscriber_is_another_subscriber(published: ReplicatedDatabase, server: EmbeddedServer) -> None:
    published.replication.add_subscription(PUBLICATION, published.subscriber.url)
    published.deliver()
    original = published.subscriber.session.info.dbname
    published.subscriber.session.close()
    with psycopg.connect(server.url(), autocommit=True) as session:
        session.execute(f'create database copy template "{original}"'.encode())
        try:
            published.replication.add_subscription(PUBLICATION, server.url("copy"), if_exists=IfExists.DROP)
            published.deliver()
        finally:
            session.execute("drop database copy with (force)")


def test_a_table_of_a_subscriber_is_delivered_by_one_publication(published: ReplicatedDatabase) -> None:
    published.replication.add_publication("second")
    published.replication.add_article("second", "items")
    published.replication.add_subscription(PUBLICATION, published.subscriber.url)
    published.deliver()
    with pytest.raises(TableDeliveredAlready, match=r"public\.items of .* from publication shop"):
        published.replication.add_subscription("second", respelled(published.subscriber.url), if_exists=IfExists.DROP)

    published.require_equal("items")


def test_a_table_is_not_delivered_both_ways_and_forwarded(published: ReplicatedDatabase, tmp_path: Path) -> None:
    published.replication.add_subscription(PUBLICATION, published.subscriber.url)
    published.deliver()
    back = connect(published.subscriber.url).replication
    back.add_publication("back", lake=str(tmp_path / "back"))
    back.add_article("back", "items")
    with pytest.raises(TableDeliveredBack, match=r"publishes public\.items to this database"):
        back.add_subscription(
            "back", published.publisher.url, sync_type=SyncType.REPLICATION_SUPPORT_ONLY, forward=True
        )


@pytest.mark.parametrize("name", ["published", "published_16"])
def test_a_table_is_not_delivered_in_a_ring(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    published: ReplicatedDatabase = request.getfixturevalue(name)
    server = request.getfixturevalue("server_16" if name == "published_16" else "server")
    second = published.subscriber
    second.execute(ITEMS)
    published.subscribe()
    with fresh_database(server) as third:
        with psycopg.connect(third, autocommit=True) as session:
            session.execute(ITEMS)
        publish(second.url, tmp_path / "second").add_subscription(
            "onward", third, sync_type=SyncType.REPLICATION_SUPPORT_ONLY, forward=True
        )
        closing = publish(third, tmp_path / "third")
        for url in (published.publisher.url, respelled(published.publisher.url)):
            with pytest.raises(TableDeliveredBack) as raised:
                closing.add_subscription("onward", url, sync_type=SyncType.REPLICATION_SUPPORT_ONLY, forward=True)
            assert str(raised.value).startswith(f"RT-7163: {url} publishes public.items to this database: ")
        closing.drop_publication("onward")
        first = published.replication
        first.drop_subscription(PUBLICATION, second.url)
        assert list_subscriptions(published.publisher) == ()


def publish(url: str, lake: Path) -> TransactionalReplication:
    """Publish what a subscriber has."""
    replication = connect(url).replication
    replication.add_publication("onward", lake=str(lake))
    replication.add_article("onward", "items")
    return replication


def test_another_table_may_be_delivered_back(published: ReplicatedDatabase, tmp_path: Path) -> None:
    published.replication.add_subscription(PUBLICATION, published.subscriber.url)
    published.subscriber.execute("create table answers (id int primary key)", "insert into answers values (1)")
    back = connect(published.subscriber.url).replication
    back.add_publication("back", lake=str(tmp_path / "back"))
    back.add_article("back", "answers")
    back.add_subscription("back", published.publisher.url)

    with open_engine(published.subscriber.url).connect() as connection:
        (subscription,) = list_all(connection, "back")
        assert subscription.subscriber == published.publisher.url
        assert [article.qualified_name for article in list_subscribed(connection, subscription.agent_id)] == [
            "public.answers"
        ]
    assert [one.publication for one in list_subscriptions(published.publisher)] == [PUBLICATION]


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_file_subscribes_once_however_it_is_named(
    replicated_file: ReplicatedFile, link: Callable[[Path, Path], None]
) -> None:
    replicated_file.publish(ITEMS, items={})
    replicated_file.replication.add_subscription(PUBLICATION, replicated_file.subscriber.url)
    other = replicated_file.subscriber.path.with_name("other.db")
    link(replicated_file.subscriber.path, other)
    with pytest.raises(SubscriberKnownOtherwise, match=f"already subscribes to publication {PUBLICATION}, as"):
        replicated_file.replication.add_subscription(PUBLICATION, f"sqlite:///{other}", if_exists=IfExists.DROP)


def test_a_copy_of_a_file_is_another_subscriber(replicated_file: ReplicatedFile) -> None:
    replicated_file.publish(ITEMS, items={})
    replicated_file.replication.add_subscription(PUBLICATION, replicated_file.subscriber.url)
    replicated_file.deliver()
    other = replicated_file.subscriber.path.with_name("other.db")
    replicated_file.subscriber.copy_to(other)
    replicated_file.replication.add_subscription(PUBLICATION, f"sqlite:///{other}", if_exists=IfExists.DROP)
    replicated_file.publisher.execute("insert into items values (2, 2)")
    replicated_file.deliver()

    replicated_file.require_equal("items")


def test_articles_that_join_at_once_are_one_subscription(published: ReplicatedDatabase) -> None:
    """What another agent lets join after this one has looked is beside it, too."""
    published.publisher.execute("create table more (id int primary key)")
    published.replication.add_article(PUBLICATION, "more")
    published.replication.add_subscription(PUBLICATION, published.subscriber.url)
    published.replication.run(once=True)
    for table in ("items", "more"):
        published.replication.reinitialize(PUBLICATION, published.subscriber.url, article=table)

    url = published.subscriber.url
    with open_engine(published.publisher.url).connect() as connection:
        whole, first, second = sorted(list_all(connection), key=lambda one: one.agent_id)
        assert first.joins == second.joins == whole.agent_id
        articles = list_subscribed(connection, first.agent_id)
        ends = Ends.read(connection, url)
        planned = plan_originators(connection, ends, url, PUBLICATION, articles, forward=False, into=whole.agent_id)
    assert planned.tables == {"public.items"}

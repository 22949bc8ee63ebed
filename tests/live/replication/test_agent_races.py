"""What users do in the moment before an agent hears of it: half a second, or for as long as it is cut off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from builders.faults.cuts import acting_at
from builders.replication.replicated_databases import ReplicatedDatabase, join_level, list_subscriptions
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import ConnectionFailed
from rowtide.replication.distribution.run_context import DeliveryContext
from rowtide.replication.distributor.definitions import SubscriptionState
from rowtide.replication.running.subscription_agent import SubscriptionAgent
from rowtide.replication.subscribing import joining
from rowtide.replication.subscription_settings import SyncType
from rowtide.replication.targets.postgres import subscriber

ITEMS = "create table items (id int primary key, qty int)"
OTHERS = "create table others (id int primary key)"
FILLED = ("insert into items values (1, 1)", "insert into others values (1)")
ALTERED = ("alter table items alter qty type text using 'q' || qty", "insert into others values (2)")
RECORDED = 'select subscription_guid from rowtide_subscriber."MSreplication_subscriptions"'

Act = Callable[[ReplicatedDatabase], object]
ACTS: dict[str, Act] = {
    "article dropped": lambda shop: shop.replication.drop_article("shop", "items"),
    "article copied": lambda shop: shop.replication.reinitialize("shop", article="items"),
    "all copied": lambda shop: shop.replication.reinitialize("shop"),
    "dropped": lambda shop: shop.replication.drop_subscription("shop", shop.subscriber.url),
}


@pytest.fixture
def shop(replicated: ReplicatedDatabase) -> ReplicatedDatabase:
    """A subscriber that has items and others."""
    replicated.publish(ITEMS, OTHERS, *FILLED, items={}, others={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    replicated.deliver()
    return replicated


@contextmanager
def unaware(replicated: ReplicatedDatabase) -> Iterator[SubscriptionAgent]:
    """Open the agent of the only subscription, which does not hear what becomes of it, and let it deliver."""
    publisher, known = replicated.publisher, list_subscriptions(replicated.publisher)
    context = DeliveryContext(publisher.url, open_engine(publisher.url))
    with SubscriptionAgent.open(context, known[0], lambda: known) as agent:
        step_all(agent)
        yield agent


def lose_answer() -> None:
    raise ConnectionFailed("the server ended it")


def step_all(agent: SubscriptionAgent) -> None:
    while agent.step():
        pass


@pytest.mark.parametrize("act", ["article copied", pytest.param("article dropped", marks=pytest.mark.exhaustive)])
def test_agent_copies_no_article_that_left(shop: ReplicatedDatabase, act: str) -> None:
    with unaware(shop) as agent:
        shop.publisher.execute(*ALTERED)
        shop.publisher.read_log(shop.publisher.mark())
        ACTS[act](shop)
        step_all(agent)
    shop.deliver()

    shop.require_equal("others", *(["items"] if act == "article copied" else []))
    assert len(list_subscriptions(shop.publisher)) == 1


@pytest.mark.exhaustive
def test_an_article_that_is_not_prepared_waits_when_resumed(
    shop: ReplicatedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What refers to it waits with it, though the log is kept for it already."""
    shop.replication.reinitialize("shop", article="items")
    with shop.open_agent() as agent:
        step_all(agent)
    (article,) = (one for one in list_subscriptions(shop.publisher) if one.joins is not None)
    monkeypatch.setattr(joining, "failpoint", acting_at("article_preparation.before", lose_answer))
    with pytest.raises(ConnectionFailed):
        join_level(shop.publisher, article)
    shop.replication.resume("shop", shop.subscriber.url)

    states = {one.joins: one.state for one in list_subscriptions(shop.publisher)}
    assert states == {None: SubscriptionState.ACTIVE, article.joins: SubscriptionState.WAITING}
    shop.deliver()
    shop.require_equal("items", "others")


@pytest.mark.exhaustive
def test_a_preparation_whose_answer_is_lost_counts(shop: ReplicatedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The subscriber has committed it, and the agent sees its connection end."""
    shop.replication.reinitialize("shop", article="items")
    with shop.open_agent() as agent:
        step_all(agent)
    (article,) = (one for one in list_subscriptions(shop.publisher) if one.joins is not None)
    monkeypatch.setattr(subscriber, "failpoint", acting_at("subscriber_preparation.after", lose_answer))
    with pytest.raises(ConnectionFailed):
        join_level(shop.publisher, article)
    shop.publisher.execute("insert into items values (2, 2)")
    shop.deliver()

    shop.require_equal("items", "others")


@pytest.mark.parametrize(
    "act", [name if name == "all copied" else pytest.param(name, marks=pytest.mark.exhaustive) for name in ACTS]
)
def test_nothing_is_prepared_for_what_has_left(
    shop: ReplicatedDatabase, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    shop.replication.reinitialize("shop", article="items")
    with shop.open_agent() as agent:
        step_all(agent)
    (article,) = (one for one in list_subscriptions(shop.publisher) if one.joins is not None)

    def act_between() -> None:
        ACTS[act](shop)
        if act != "dropped":
            with shop.open_agent() as agent:
                step_all(agent)

    monkeypatch.setattr(joining, "failpoint", acting_at("article_preparation.before", act_between))
    join_level(shop.publisher, article)
    if act == "article dropped":
        shop.subscriber.execute("drop table items")
        shop.replication.add_article("shop", "items")
    if act == "dropped":
        shop.subscriber.execute("drop table items, others")
        shop.subscribe(SyncType.AUTOMATIC)
    shop.publisher.execute("insert into items values (2, 2)")
    shop.deliver()

    shop.require_equal("items", "others")
    (only,) = list_subscriptions(shop.publisher)
    assert shop.subscriber.execute(RECORDED) == [(only.guid,)]

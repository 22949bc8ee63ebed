"""What happens to a publication while a subscription to it is added: between reading its articles and recording it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from builders.faults.cuts import acting_at
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase, Subscriber
from builders.replication.replicated_files import ReplicatedFile
from rowtide.replication.distributor import publication_records
from rowtide.replication.errors.publishing import (
    PublicationBeingDropped,
    PublicationUnknown,
    SubscriptionBeingAdded,
)
from rowtide.replication.errors.subscribing import SubscriberTableExists
from rowtide.replication.publishing import publications
from rowtide.replication.publishing.publications import drop_article
from rowtide.replication.subscription_settings import IfExists, SyncType
from rowtide.replication.targets.postgres import subscriber as targets

ITEMS = "create table items (id int primary key)"
OTHERS = "create table others (id int primary key)"


def subscribe_while(replicated: ReplicatedDatabase, patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Add a subscription, and do something when its subscriber is prepared."""
    patch.setattr(targets, "failpoint", acting_at("subscriber_preparation.before", act))
    replicated.subscribe(SyncType.AUTOMATIC)


def test_an_article_that_is_added_meanwhile_joins(
    replicated: ReplicatedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicated.publish(ITEMS, OTHERS, items={})
    adding = threading.Thread(target=replicated.replication.add_article, args=("shop", "others"))

    def add() -> None:
        adding.start()
        adding.join(0.5)

    subscribe_while(replicated, monkeypatch, add)
    adding.join()
    replicated.publisher.execute("insert into items values (1)", "insert into others values (1)")
    replicated.deliver()

    replicated.require_equal("items", "others")


CHANGES: dict[str, Callable[[ReplicatedDatabase], object]] = {
    "add": lambda replicated: replicated.replication.add_article("shop", "others"),
    "drop": lambda replicated: replicated.replication.drop_article("shop", "items"),
    "drop all": lambda replicated: replicated.replication.drop_publication("shop"),
}


@pytest.mark.parametrize("change", ["add", "drop all", pytest.param("drop", marks=pytest.mark.exhaustive)])
def test_articles_stay_as_they_are_meanwhile(
    replicated: ReplicatedDatabase, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    replicated.publish(ITEMS, OTHERS, items={})

    def act() -> None:
        monkeypatch.setattr(publication_records, "PATIENCE_S", 0.1)
        with pytest.raises(SubscriptionBeingAdded, match="a subscription to publication .* is being added"):
            CHANGES[change](replicated)

    subscribe_while(replicated, monkeypatch, act)
    replicated.publisher.execute("insert into items values (1)")
    replicated.deliver()

    replicated.require_equal("items")


def test_nothing_is_added_to_a_publication_that_goes(
    replicated: ReplicatedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicated.publish(ITEMS, OTHERS, items={})

    def act() -> None:
        with pytest.raises(PublicationBeingDropped):
            replicated.subscribe(SyncType.AUTOMATIC)
        with pytest.raises(PublicationBeingDropped):
            replicated.replication.add_article("shop", "others")

    def drop(*given: Any) -> None:
        act()
        drop_article(*given)

    monkeypatch.setattr(publications, "drop_article", drop)
    replicated.replication.drop_publication("shop")
    with pytest.raises(PublicationUnknown):
        replicated.subscribe(SyncType.AUTOMATIC)


def test_a_table_that_is_altered_meanwhile_is_followed(
    replicated: ReplicatedDatabase, second_subscriber: Subscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicated.publish(ITEMS, items={})
    replicated.subscribe(SyncType.AUTOMATIC, subscriber=second_subscriber)
    replicated.deliver()

    def alter() -> None:
        replicated.publisher.execute("alter table items add n int", "insert into items values (1, 1)")
        # The other subscriber follows it.
        replicated.deliver()

    subscribe_while(replicated, monkeypatch, alter)
    replicated.publisher.execute("insert into items values (2, 2)")
    replicated.replication.run(once=True)

    replicated.require_equal("items")


def test_a_refused_reinitialize_is_completed_by_a_repeat(subscribed: ReplicatedDatabase | ReplicatedFile) -> None:
    """What refuses is found only once the earlier subscription has ended at the subscriber."""
    subscribed.publish("create table kept (id int primary key, note text)", kept={})
    subscribed.subscribe(SyncType.AUTOMATIC)
    subscribed.publisher.execute("insert into kept values (1, 'a')")
    subscribed.deliver()
    for _ in range(2):
        with pytest.raises(SubscriberTableExists):
            subscribed.replication.reinitialize(PUBLICATION, if_exists=IfExists.FAIL)
        (left,) = subscribed.replication.status()
        assert left.state == "paused"
    subscribed.publisher.execute("insert into kept values (2, 'b')")

    assert len(subscribed.replication.reinitialize(PUBLICATION)) == 1
    subscribed.deliver()
    subscribed.require_equal("kept")
    assert [one.state for one in subscribed.replication.status()] == ["active"]

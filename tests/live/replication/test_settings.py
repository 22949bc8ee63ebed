"""Settings of one subscription: recorded, listed, changed while a run delivers, and replaced by a run's own."""

from __future__ import annotations

import json

import pytest

from builders.commands.command_lines import rowtide
from builders.replication.replicated_databases import ReplicatedDatabase, list_subscriptions
from rowtide.replication.distribution.run_context import DeliveryReport, Watchers
from rowtide.replication.errors.delivery import CommandRefused
from rowtide.replication.errors.subscribing import SettingOutOfRange, SkipErrorsInvalid
from rowtide.replication.subscription_settings import IfExists, SettingsChanges, SubscriptionSettings

ORDERS = "create table orders (id int primary key, qty int not null)"


def insert_one_by_one(replicated: ReplicatedDatabase, *keys: int) -> None:
    for key in keys:
        replicated.publisher.execute(f"insert into orders values ({key}, 0)")


def run(replicated: ReplicatedDatabase, **settings: int) -> list[int]:
    """Deliver what is committed; return the number of transactions of each batch."""
    batches: list[DeliveryReport] = []
    given = SettingsChanges(commit_batch_size=settings["size"]) if settings else SettingsChanges()
    replicated.replication.run(once=True, watchers=Watchers(on_batch=batches.append), **given)
    return [batch.transactions for batch in batches]


@pytest.mark.exhaustive
def test_a_runs_own_settings_go_before_the_subscriptions(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    url = replicated.subscriber.url
    replicated.replication.change_subscription("shop", url, commit_batch_size=2)
    insert_one_by_one(replicated, 1, 2, 3)
    of_the_subscription = run(replicated)
    insert_one_by_one(replicated, 4, 5, 6)

    assert (of_the_subscription, run(replicated, size=3)) == ([2, 1], [3])
    replicated.require_equal("orders")


@pytest.mark.exhaustive
def test_skipped_errors_are_the_subscriptions_own(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.replication.change_subscription("shop", replicated.subscriber.url, skip_errors="2627")
    replicated.subscriber.execute("insert into orders values (1, 7)")
    insert_one_by_one(replicated, 1, 2)
    with pytest.raises(CommandRefused):
        replicated.replication.run(once=True, skip_errors="")
    replicated.deliver()

    assert replicated.subscriber.execute("select id, qty from orders order by 1") == [(1, 7), (2, 0)]


@pytest.mark.exhaustive
def test_settings_are_listed_and_kept_by_a_new_copy(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    url = replicated.subscriber.url
    place = ("shop", "--subscriber", url, "--db", replicated.publisher.url)
    changed = rowtide("replication", "change-subscription", *place, "--commit-batch-size", "7")
    assert changed.code == 0, changed.errors
    replicated.replication.change_subscription("shop", url, skip_errors="20598")
    replicated.replication.reinitialize("shop", if_exists=IfExists.DROP)

    listed = rowtide("replication", "subscriptions", "--format", "jsonl", "--db", replicated.publisher.url)
    assert json.loads(listed.output)["settings"] == {"commit_batch_size": 7, "skip_errors": "20598"}


def test_settings_out_of_range_are_refused_and_not_recorded(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    url = replicated.subscriber.url
    with pytest.raises(SettingOutOfRange, match="commit_batch_size cannot be 0"):
        replicated.replication.change_subscription("shop", url, commit_batch_size=0)
    with pytest.raises(SkipErrorsInvalid):
        replicated.replication.change_subscription("shop", url, skip_errors="1")

    assert list_subscriptions(replicated.publisher)[0].settings == SubscriptionSettings()

"""Backlogs are delivered by Spark's tasks, a subscription each, and run resumes from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builders.replication.replicated_databases import ReplicatedDatabase, Subscriber
from rowtide.databases.postgres.connect import open_engine
from rowtide.replication.running.spark_backlogs import DeliveredBacklog, deliver_backlogs
from rowtide.replication.subscription_settings import SettingsChanges, SyncType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = "create table orders (id int primary key, qty int)"


def deliver(replicated: ReplicatedDatabase, spark: SparkSession, *, least_rows: int) -> tuple[DeliveredBacklog, ...]:
    url = replicated.publisher.url
    return deliver_backlogs(spark, open_engine(url), url, None, SettingsChanges(), least_rows=least_rows)


@pytest.mark.exhaustive
def test_failed_backlog_task_does_not_affect_other_subscriptions(
    replicated: ReplicatedDatabase, second_subscriber: Subscriber, spark: SparkSession
) -> None:
    replicated.begin(ORDERS, orders={})
    second_subscriber.execute(ORDERS)
    replicated.subscribe(subscriber=second_subscriber)
    second_subscriber.execute("insert into orders values (700, 0)")
    for first in range(0, 1000, 100):
        replicated.publisher.execute(f"insert into orders select {first} + i, 1 from generate_series(1, 100) i")
    replicated.publisher.read_log()
    delivered = {backlog.subscriber: backlog for backlog in deliver(replicated, spark, least_rows=1000)}

    well, failed = delivered[replicated.subscriber.url], delivered[second_subscriber.url]
    assert (well.transactions, well.commands, well.failure) == (10, 1000, None)
    replicated.require_equal("orders")
    assert failed.failure is not None
    assert "RT-7114" in failed.failure
    second_subscriber.execute("delete from orders where id = 700")
    replicated.deliver()
    assert second_subscriber.execute("select count(*) from orders") == [(1000,)]


def test_what_is_no_backlog_is_left_to_the_agents(replicated: ReplicatedDatabase, spark: SparkSession) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute("insert into orders values (1, 1)")
    replicated.publisher.read_log()

    assert deliver(replicated, spark, least_rows=1000) == ()
    assert replicated.subscriber.execute("select count(*) from orders") == [(0,)]


@pytest.mark.exhaustive
def test_a_task_copies_what_a_subscriber_lacks_too(replicated: ReplicatedDatabase, spark: SparkSession) -> None:
    replicated.publish(ORDERS, "insert into orders select i, 1 from generate_series(1, 500) i", orders={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.publisher.execute("update orders set qty = 2")
    replicated.publisher.read_log()
    deliver(replicated, spark, least_rows=1)
    replicated.deliver()

    replicated.require_equal("orders")

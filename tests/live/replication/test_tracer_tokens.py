"""Tracer tokens go the way of the changes around them, and say how long each hop took."""

from __future__ import annotations

import json

import pytest

from builders.capture.captured_databases import wait_until
from builders.commands.command_lines import rowtide
from builders.replication.replicated_databases import ReplicatedDatabase, Subscriber
from builders.replication.replication_runs import running
from rowtide.replication.distributor.tracers import TracerArrival
from rowtide.replication.errors.delivery import RowNotFound
from rowtide.replication.errors.publishing import PublicationUnknown

ORDERS = "create table orders (id int primary key, qty int)"
PROGRESS = 'select transaction_timestamp, batch from rowtide_subscriber."MSreplication_subscriptions"'


def arrival(replicated: ReplicatedDatabase) -> TracerArrival:
    (found,) = replicated.replication.list_tracer_tokens("shop")
    return found


def test_a_token_is_pending_until_each_hop_is_made(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    posted = replicated.replication.post_tracer_token("shop")
    before = arrival(replicated)
    assert (before.tracer_id, before.subscriber) == (posted, replicated.subscriber.url)
    assert (before.distributor_latency, before.subscriber_latency, before.overall_latency) == (None, None, None)

    replicated.publisher.read_log()
    stored = arrival(replicated)
    assert stored.publisher_commit is not None
    assert stored.distributor_latency is not None
    assert (stored.subscriber_latency, stored.overall_latency) == (None, None)

    replicated.deliver()
    arrived = arrival(replicated)
    assert arrived.publisher_commit == stored.publisher_commit
    assert arrived.distributor_latency == stored.distributor_latency
    assert arrived.subscriber_latency is not None
    assert arrived.overall_latency == pytest.approx(arrived.distributor_latency + arrived.subscriber_latency, abs=0.002)


@pytest.mark.exhaustive
def test_a_token_without_changes_is_written_at_the_subscriber(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.deliver()
    (before,) = replicated.subscriber.execute(PROGRESS)
    replicated.replication.post_tracer_token("shop")
    replicated.deliver()

    (after,) = replicated.subscriber.execute(PROGRESS)
    assert after[0] > before[0]
    assert after[1] == before[1] + 1


def test_token_arrives_after_the_commits_before_it_not_earlier(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute("insert into orders values (1, 1)", "insert into orders values (2, 2)")
    replicated.deliver()
    replicated.subscriber.execute("delete from orders where id = 2")
    replicated.publisher.execute("update orders set qty = 5 where id = 1")
    first = replicated.replication.post_tracer_token("shop")
    replicated.publisher.execute("update orders set qty = 5 where id = 2")
    second = replicated.replication.post_tracer_token("shop")
    with pytest.raises(RowNotFound):
        replicated.deliver()

    tokens = {
        found.tracer_id: found.subscriber_latency is not None
        for found in replicated.replication.list_tracer_tokens("shop")
    }
    assert tokens == {first: True, second: False}
    assert replicated.subscriber.execute("table orders") == [(1, 5)]
    replicated.subscriber.execute("insert into orders values (2, 2)")
    replicated.deliver()
    assert all(found.overall_latency is not None for found in replicated.replication.list_tracer_tokens("shop"))


@pytest.mark.exhaustive
def test_latency_is_per_subscriber_and_absent_for_a_paused_one(
    replicated: ReplicatedDatabase, second_subscriber: Subscriber
) -> None:
    replicated.begin(ORDERS, orders={})
    second_subscriber.execute(ORDERS)
    replicated.subscribe(subscriber=second_subscriber)
    replicated.replication.pause("shop", second_subscriber.url)
    with running(replicated):
        ended = rowtide("replication", "post-tracer-token", "shop", "--db", replicated.publisher.url)
        assert ended.output == "1\n"

        def arrived() -> list[object]:
            words = ("tracer-tokens", "shop", "--format", "jsonl", "--db", replicated.publisher.url)
            listed = map(json.loads, rowtide("replication", *words).output.splitlines())
            return [row["subscriber"] for row in listed if row["overall_latency"] is not None]

        wait_until(lambda: arrived() == [replicated.subscriber.url], what="the token at the first subscriber")
        replicated.replication.resume("shop")
        wait_until(lambda: len(arrived()) == 2, what="the token at both")


def test_a_token_of_an_unknown_publication_is_refused(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    for ask in (replicated.replication.post_tracer_token, replicated.replication.list_tracer_tokens):
        with pytest.raises(PublicationUnknown):
            ask("nothing")


def test_a_publication_with_tokens_is_dropped(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.replication.post_tracer_token("shop")
    replicated.replication.drop_subscription("shop", replicated.subscriber.url)
    replicated.replication.drop_publication("shop")
    assert replicated.replication.status() == ()

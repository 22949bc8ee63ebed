"""Idle subscriptions: the log store continues, the subscriber is not written to, and a restart finds its place."""

from __future__ import annotations

import pytest

from builders.replication.replicated_databases import (
    PUBLICATION,
    ReplicatedDatabase,
    let_go,
    open_only_agent,
    publish_alone,
)
from builders.replication.replicated_files import ReplicatedFile
from rowtide.replication.distribution.calls.batch_limits import BatchLimits
from rowtide.replication.distribution.run_context import DeliveryReport, Watchers
from rowtide.replication.errors.delivery import SubscriberBehind

ITEMS = "create table items (id int primary key, n int)"
PROGRESS = 'rowtide_subscriber."MSreplication_subscriptions"'


def publish(replicated: ReplicatedDatabase | ReplicatedFile) -> None:
    """Publish a table that is delivered, and one of which nobody hears."""
    publish_alone(replicated.publisher, PUBLICATION, ITEMS)
    publish_alone(replicated.publisher, "unread", "create table notes (id serial primary key)")
    replicated.subscriber.execute(ITEMS)
    replicated.subscribe()
    replicated.publisher.execute("insert into items values (1, 1)")
    replicated.deliver()


class Interrupted(Exception):
    """Ends an agent behind a batch."""


def deliver_one_batch(replicated: ReplicatedDatabase) -> None:
    def interrupt(_report: DeliveryReport) -> None:
        raise Interrupted

    watchers, limits = Watchers(on_batch=interrupt), BatchLimits(transactions=1)
    with open_only_agent(replicated.publisher, limits=limits, watchers=watchers) as running:
        while running.step():
            pass


def pass_time(replicated: ReplicatedDatabase | ReplicatedFile) -> None:
    """Let an agent pass a log that has nothing for its subscriber, which the log store then lets go."""
    replicated.publisher.execute("insert into notes default values")
    replicated.publisher.read_log()
    with open_only_agent(replicated.publisher) as running:
        while running.step():
            pass
    assert not let_go(replicated.publisher).state.segments


def require_next_update_delivered(replicated: ReplicatedDatabase | ReplicatedFile) -> None:
    replicated.publisher.execute("update items set n = n + 1")
    replicated.deliver()
    replicated.require_equal("items")


def test_an_idle_postgresql_subscriber_is_found_again(replicated: ReplicatedDatabase) -> None:
    publish(replicated)
    pass_time(replicated)
    pass_time(replicated)

    require_next_update_delivered(replicated)


@pytest.mark.exhaustive
def test_an_idle_sqlite_subscriber_is_found_again(replicated_file: ReplicatedFile) -> None:
    publish(replicated_file)
    pass_time(replicated_file)
    pass_time(replicated_file)

    require_next_update_delivered(replicated_file)


@pytest.mark.exhaustive
def test_subscriber_restored_before_its_last_batch_is_refused(replicated: ReplicatedDatabase) -> None:
    publish(replicated)
    replicated.subscriber.execute(f"create table backup as table {PROGRESS}")
    require_next_update_delivered(replicated)
    pass_time(replicated)
    replicated.subscriber.execute(f"delete from {PROGRESS}", f"insert into {PROGRESS} table backup")

    with pytest.raises(SubscriberBehind, match="the log store begins at"):
        replicated.deliver()


def test_restored_subscriber_of_equal_batch_count_lacks_nothing(replicated: ReplicatedDatabase) -> None:
    """What came as one batch comes again as two: after the first there are as many as there were."""
    publish(replicated)
    replicated.subscriber.execute(f"create table backup as table {PROGRESS}")
    replicated.publisher.execute("insert into items values (2, 2)", "insert into items values (3, 3)")
    replicated.deliver()
    replicated.subscriber.execute(
        f"delete from {PROGRESS}", f"insert into {PROGRESS} table backup", "delete from items where id > 1"
    )
    with pytest.raises(Interrupted):
        deliver_one_batch(replicated)
    replicated.deliver()

    replicated.require_equal("items")


def test_an_agent_whose_log_is_let_go_under_it_stops(replicated: ReplicatedDatabase) -> None:
    """A restored subscriber catches up behind its own reader, which keeps nothing of that."""
    publish(replicated)
    replicated.subscriber.execute(f"create table backup as table {PROGRESS}")
    require_next_update_delivered(replicated)
    replicated.subscriber.execute(f"delete from {PROGRESS}", f"insert into {PROGRESS} table backup")
    with open_only_agent(replicated.publisher) as running:
        while running.position is None:
            running.step()
        let_go(replicated.publisher)
        with pytest.raises(SubscriberBehind):
            running.step()

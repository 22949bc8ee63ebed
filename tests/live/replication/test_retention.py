"""A subscription that lacks what is older than the retention is deactivated, and blocks nobody."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from builders.capture.capture_processes import DELIVERY, CaptureProcess
from builders.capture.captured_databases import wait_until
from builders.commands.command_lines import rowtide
from builders.commands.hints import run_printed
from builders.faults.failpoints import DEACTIVATION_FAILPOINTS
from builders.replication.replicated_databases import ReplicatedDatabase, Subscriber
from builders.replication.replication_runs import running, wait_rows
from rowtide.databases.postgres.connect import open_engine
from rowtide.handle import connect
from rowtide.replication.distributor import subscription_records
from rowtide.replication.distributor.publication_records import Thresholds
from rowtide.replication.distributor.retention import deactivate_expired
from rowtide.replication.errors.delivery import (
    CommandRefused,
    DistributionRetentionInvalid,
    NotADistributor,
    PublicationThresholdInvalid,
    SubscriptionDeactivated,
)

ORDERS = "create table orders (id int primary key, qty int)"
KEEP_NOTHING = 'update distribution."MSdistributiondbs" set max_distretention = 0'


def deactivate(replicated: ReplicatedDatabase, after: timedelta) -> list[str]:
    """Look for expired subscriptions as if it were so much later; return their subscribers."""
    with open_engine(replicated.publisher.url).begin() as connection:
        now = datetime.now(UTC) + after
        present, manifest = subscription_records.list_subscriptions(connection), replicated.publisher.manifest()
        return [found.subscriber for found in deactivate_expired(connection, manifest, present, now)]


def states(replicated: ReplicatedDatabase) -> list[str]:
    return [status.state for status in replicated.replication.status()]


def test_three_days_are_kept_and_no_more(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute("insert into orders values (1, 1)")
    replicated.publisher.read_log()

    assert deactivate(replicated, timedelta(hours=71)) == []
    assert states(replicated) == ["active"]
    assert deactivate(replicated, timedelta(hours=73)) == [replicated.subscriber.url]
    assert states(replicated) == ["deactivated"]
    assert deactivate(replicated, timedelta(hours=73)) == []


@pytest.mark.exhaustive
def test_thresholds_are_kept_also_in_tables_of_an_earlier_build(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute(
        'alter table distribution."MSpublications" drop latency_threshold_s, drop expiration_threshold',
        "insert into orders values (1, 1)",
    )
    replicated.publisher.read_log()

    facts = [one.message for one in connect(replicated.publisher.url).health() if "shop to" in one.subject]
    assert any("its agent has never run" in fact for fact in facts)
    words = ("change-publication", "shop", "--expiration-threshold", "1", "--db", replicated.publisher.url)
    assert rowtide("replication", *words).code == 0
    assert replicated.replication.change_publication("shop", latency_threshold_s=60) == Thresholds(60, 1)
    assert replicated.replication.change_publication("shop", expiration_threshold=0) == Thresholds(60, None)
    with pytest.raises(PublicationThresholdInvalid):
        replicated.replication.change_publication("shop", expiration_threshold=101)


def test_a_longer_retention_keeps_longer(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute("insert into orders values (1, 1)")
    replicated.publisher.read_log()
    words = ("change-distribution", "--max-retention-hours", "100", "--db", replicated.publisher.url)
    assert rowtide("replication", *words).code == 0

    assert deactivate(replicated, timedelta(hours=99)) == []
    assert deactivate(replicated, timedelta(hours=101)) == [replicated.subscriber.url]


def test_a_subscription_that_has_everything_is_not_deactivated(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute("insert into orders values (1, 1)")
    replicated.deliver()
    replicated.replication.pause("shop")

    assert deactivate(replicated, timedelta(days=1000)) == []


@pytest.mark.exhaustive
def test_a_run_deactivates_tells_and_delivers_to_the_others(
    replicated: ReplicatedDatabase, second_subscriber: Subscriber
) -> None:
    replicated.begin(ORDERS, orders={})
    second_subscriber.execute(ORDERS)
    replicated.replication.pause("shop")
    replicated.publisher.execute("insert into orders values (1, 1)")
    replicated.publisher.read_log()
    replicated.subscribe(subscriber=second_subscriber)
    replicated.publisher.execute(KEEP_NOTHING)
    with running(replicated) as run:
        run.wait_trouble(SubscriptionDeactivated, replicated.subscriber)
        replicated.publisher.execute("insert into orders values (2, 2)")
        wait_rows(second_subscriber, [(2, 2)])

    assert states(replicated) == ["deactivated", "active"]
    assert [error.error_code for error in replicated.replication.list_errors()] == ["21011"]
    # Of the log's readers there are capture and the second subscription.
    assert len(replicated.publisher.manifest().state.readers) == 2


@pytest.mark.exhaustive
def test_deliverable_subscription_is_caught_up_whatever_its_age(
    replicated: ReplicatedDatabase,
) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute("insert into orders values (1, 1)", KEEP_NOTHING)
    replicated.publisher.read_log()
    replicated.replication.run(once=True)

    replicated.require_equal("orders")
    assert states(replicated) == ["active"]


@pytest.mark.exhaustive
def test_once_deactivates_what_it_could_not_deliver(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.subscriber.execute("insert into orders values (1, 0)")
    replicated.publisher.execute("insert into orders values (1, 1)")
    with pytest.raises(CommandRefused):
        replicated.replication.run(once=True)
    replicated.publisher.execute(KEEP_NOTHING)
    with pytest.raises(SubscriptionDeactivated):
        replicated.replication.run(once=True)

    assert states(replicated) == ["deactivated"]


def test_deactivated_subscription_can_only_be_reinitialized(
    replicated: ReplicatedDatabase,
) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute("insert into orders values (1, 1)")
    replicated.publisher.read_log()
    deactivate(replicated, timedelta(hours=73))

    with pytest.raises(SubscriptionDeactivated, match="RT-21011: .*reinitialize") as deactivated:
        replicated.replication.resume("shop")
    with pytest.raises(SubscriptionDeactivated):
        replicated.deliver()
    run_printed(deactivated.value, replicated.publisher.url)
    replicated.publisher.execute("insert into orders values (2, 2)")
    replicated.deliver()
    replicated.require_equal("orders")


@pytest.mark.parametrize("failpoint", DEACTIVATION_FAILPOINTS)
def test_killed_deactivation_is_finished_by_the_next_run(
    replicated: ReplicatedDatabase, failpoint: str, tmp_path: Path
) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.replication.pause("shop")
    replicated.publisher.execute("insert into orders values (1, 1)")
    replicated.publisher.read_log()
    replicated.publisher.execute(KEEP_NOTHING)
    (tmp_path / "failpoints").mkdir()
    (tmp_path / "failpoints" / failpoint).touch()
    with CaptureProcess(replicated.publisher.url, tmp_path, DELIVERY) as process:
        process.wait_killed()
    with CaptureProcess(replicated.publisher.url, tmp_path, DELIVERY):
        wait_until(lambda: states(replicated) == ["deactivated"], what="the subscription deactivated")


def test_zero_retention_or_one_without_publications_is_refused(replicated: ReplicatedDatabase) -> None:
    replicated.publisher.enable()
    with pytest.raises(NotADistributor):
        replicated.replication.change_distribution(max_retention_hours=1)
    with pytest.raises(DistributionRetentionInvalid):
        replicated.replication.change_distribution(max_retention_hours=0)

"""Subscribers restored to an earlier state, and restarted logs: no change is lost silently."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from builders.capture.capture_processes import DELIVERY, CaptureProcess
from builders.capture.captured_databases import wait_until
from builders.commands.hints import run_printed
from builders.replication.replicated_databases import ReplicatedDatabase
from rowtide.log.errors import LogStillRead
from rowtide.log.store.entries import ReaderAdvanced
from rowtide.log.store.maintenance import truncate
from rowtide.replication.errors.delivery import SubscriberAhead, SubscriberBehind
from rowtide.replication.errors.subscribing import SubscriberUnprepared

ORDERS = "create table orders (id int primary key, qty int)"
PROGRESS = 'rowtide_subscriber."MSreplication_subscriptions"'


def test_subscriber_restored_from_a_backup_gets_what_it_lacks(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute("insert into orders values (1, 1)")
    replicated.deliver()
    replicated.subscriber.execute(
        "create table backup as table orders", f"create table backup_progress as table {PROGRESS}"
    )
    replicated.publisher.execute("insert into orders values (2, 2)", "update orders set qty = 3 where id = 1")
    replicated.deliver()
    replicated.subscriber.execute(
        "delete from orders",
        "insert into orders table backup",
        f"delete from {PROGRESS}",
        f"insert into {PROGRESS} table backup_progress",
    )
    replicated.deliver()

    replicated.require_equal("orders")


def test_a_subscriber_from_before_the_subscription_is_refused(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.subscriber.execute("drop schema rowtide_subscriber cascade")

    with pytest.raises(SubscriberUnprepared):
        replicated.deliver()


def test_subscriber_that_needs_truncated_log_is_refused(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute("insert into orders values (1, 1)")
    state = replicated.publisher.read_log()
    manifest = replicated.publisher.manifest()
    for reader in state.readers:
        manifest.append(ReaderAdvanced(reader, state.position, idle_from=state.position))
    token = manifest.take_lease("log", "a test")
    truncate(replicated.publisher.store(), manifest, token, datetime.now(UTC))

    with pytest.raises(SubscriberBehind, match="the log store begins at") as behind:
        replicated.deliver()
    run_printed(behind.value, replicated.publisher.url, PUBLICATION="shop")
    replicated.deliver()
    replicated.require_equal("orders")


def test_log_restarts_only_after_its_publications_are_dropped(
    replicated: ReplicatedDatabase,
) -> None:
    replicated.begin(ORDERS, orders={})
    publication = replicated.publisher.cdc.get_source().publication
    replicated.publisher.execute(f"drop publication {publication}")
    with pytest.raises(LogStillRead):
        replicated.publisher.cdc.reinitialize("a test")
    replicated.replication.drop_subscription("shop", replicated.subscriber.url)
    replicated.replication.drop_publication("shop")
    replicated.publisher.cdc.reinitialize("a test")
    replicated.replication.add_publication("shop")
    replicated.replication.add_article("shop", "orders")
    replicated.subscribe()
    replicated.publisher.execute("insert into orders values (1, 1)")
    replicated.deliver()

    replicated.require_equal("orders")


@pytest.mark.exhaustive
def test_second_process_takes_over_the_log_when_the_first_ends(replicated: ReplicatedDatabase, tmp_path: Path) -> None:
    replicated.begin(ORDERS, orders={})
    session = "select count(*) from pg_stat_activity where application_name like 'rowtide log reader on %'"

    def has(rows: int) -> bool:
        return replicated.subscriber.execute("select count(*) from orders") == [(rows,)]

    (tmp_path / "first").mkdir()
    with CaptureProcess(replicated.publisher.url, tmp_path / "first", DELIVERY) as first:
        replicated.publisher.execute("insert into orders values (1, 1)")
        wait_until(lambda: has(1), what="the first row")
        with CaptureProcess(replicated.publisher.url, tmp_path, ("cdc", "run")) as second:
            wait_until(lambda: replicated.publisher.execute(session)[0][0] >= 2, what="a second log reader")
            first.process.kill()
            first.wait_killed()
            replicated.publisher.execute("insert into orders values (2, 2)")
            target = replicated.publisher.mark()
            manifest = replicated.publisher.manifest()
            wait_until(lambda: manifest.refresh().position.log > target, what="the log read by the second")
            assert second.process.poll() is None
    replicated.deliver()

    replicated.require_equal("orders")


@pytest.mark.exhaustive
def test_subscriber_ahead_of_its_publisher_is_reinitialized(
    replicated: ReplicatedDatabase,
) -> None:
    replicated.begin("create table orders (id int primary key)", orders={})
    replicated.publisher.execute("insert into orders values (1)")
    replicated.deliver()
    position = "transaction_timestamp"
    replicated.subscriber.execute(
        f'update rowtide_subscriber."MSreplication_subscriptions" set {position} = 2 * {position}',
        "insert into orders values (2)",
    )
    with pytest.raises(SubscriberAhead, match="but the log was read only up to LSN") as ahead:
        replicated.deliver()
    run_printed(ahead.value, replicated.publisher.url, PUBLICATION="shop")
    replicated.deliver()

    replicated.require_equal("orders")

"""A run with several subscriptions: what befalls one is its own, and what is changed while it continues is noticed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from builders.capture.capture_processes import DELIVERY, CaptureProcess
from builders.capture.captured_databases import wait_until
from builders.replication.replicated_databases import ReplicatedDatabase, Subscriber
from builders.replication.replication_runs import ORDERS, running, wait_rows
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import ConnectionFailed
from rowtide.log.postgres.control_table import mark_target
from rowtide.replication.errors.delivery import CommandRefused, RowNotFound, SubscriptionsFailed


def test_failed_subscription_is_reported_and_others_continue(
    replicated_twice: ReplicatedDatabase, second_subscriber: Subscriber
) -> None:
    replicated, first = replicated_twice, replicated_twice.subscriber
    with running(replicated) as run:
        replicated.publisher.execute("insert into orders values (1, 1)")
        wait_rows(first, [(1, 1)])
        first.execute("delete from orders")
        replicated.publisher.execute("update orders set qty = 2")
        trouble = run.wait_trouble(RowNotFound, first)
        replicated.publisher.execute("insert into orders values (2, 2)")
        wait_rows(second_subscriber, [(1, 2), (2, 2)])
        assert trouble.pause_s is None
        assert first.execute("table orders") == []

    assert run.error is None
    assert len(run.troubles) == 1


@pytest.mark.exhaustive
def test_run_ends_once_all_subscriptions_failed_and_names_each(
    replicated_twice: ReplicatedDatabase, second_subscriber: Subscriber
) -> None:
    for subscriber in (replicated_twice.subscriber, second_subscriber):
        subscriber.execute("insert into orders values (1, 0)")
    with running(replicated_twice) as run:
        replicated_twice.publisher.execute("insert into orders values (1, 1)")
        run.wait_ended()

    assert isinstance(run.error, SubscriptionsFailed)
    assert run.error.count == 2
    assert f"shop to {replicated_twice.subscriber.url} (RT-7114)" in str(run.error)
    assert f"shop to {second_subscriber.url} (RT-7114)" in str(run.error)


def test_once_delivers_to_others_and_raises_the_failure(
    replicated_twice: ReplicatedDatabase, second_subscriber: Subscriber
) -> None:
    replicated_twice.subscriber.execute("insert into orders values (1, 0)")
    replicated_twice.publisher.execute("insert into orders values (1, 1)")
    with pytest.raises(CommandRefused):
        replicated_twice.replication.run(once=True)

    assert second_subscriber.execute("table orders") == [(1, 1)]


def test_a_subscriber_that_waits_for_a_lock_holds_up_no_other(
    replicated_twice: ReplicatedDatabase, second_subscriber: Subscriber
) -> None:
    replicated, first = replicated_twice, replicated_twice.subscriber
    with running(replicated):
        with first.session.transaction():
            first.execute("lock table orders")
            replicated.publisher.execute("insert into orders values (1, 1)")
            wait_rows(second_subscriber, [(1, 1)])
            replicated.publisher.execute("insert into orders values (2, 2)")
            wait_rows(second_subscriber, [(1, 1), (2, 2)])
            assert first.execute("table orders") == []
        wait_rows(first, [(1, 1), (2, 2)])


@pytest.mark.exhaustive
def test_stopped_run_leaves_a_subscriber_that_waits_for_a_lock(replicated: ReplicatedDatabase, tmp_path: Path) -> None:
    replicated.begin(ORDERS, orders={})
    waiting = "select 1 from pg_locks where not granted"
    with (
        CaptureProcess(replicated.publisher.url, tmp_path, DELIVERY) as run,
        replicated.subscriber.session.transaction(),
    ):
        replicated.subscriber.execute("lock table orders")
        replicated.publisher.execute("insert into orders values (1, 1)")
        wait_until(lambda: bool(replicated.publisher.execute(waiting)), what="a batch that waits")
        assert run.interrupt() == 0
    replicated.deliver()

    replicated.require_equal("orders")


@pytest.mark.exhaustive
def test_unreachable_subscriber_is_retried_and_blocks_no_other(
    replicated_twice: ReplicatedDatabase, second_subscriber: Subscriber
) -> None:
    replicated, first = replicated_twice, replicated_twice.subscriber
    gone = f"{make_url(first.url).database}_gone"
    first.session.close()
    replicated.publisher.execute(f"alter database {make_url(first.url).database} rename to {gone}")
    with running(replicated) as run:
        replicated.publisher.execute("insert into orders values (1, 1)")
        wait_rows(second_subscriber, [(1, 1)])
        assert run.wait_trouble(ConnectionFailed, first).pause_s is not None
        replicated.publisher.execute(f"alter database {gone} rename to {make_url(first.url).database}")
        with psycopg.connect(first.url, autocommit=True) as session:
            wait_rows(Subscriber(first.url, session), [(1, 1)])


def test_a_run_whose_sessions_end_goes_on(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    sessions = (
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
        "and application_name like 'rowtide%' and backend_type = 'client backend'"
    )
    with running(replicated) as run:
        for number in range(1, 3):
            replicated.publisher.execute(f"insert into orders values ({number}, 1)")
            wait_rows(replicated.subscriber, [(one, 1) for one in range(1, number + 1)])
            assert replicated.publisher.execute(sessions)

    assert run.error is None


def test_run_notices_added_and_dropped_subscriptions(
    replicated: ReplicatedDatabase, second_subscriber: Subscriber
) -> None:
    replicated.begin(ORDERS, orders={})
    second_subscriber.execute(ORDERS)
    with running(replicated) as run:
        replicated.subscribe(subscriber=second_subscriber)
        replicated.publisher.execute("insert into orders values (1, 1)")
        for subscriber in (replicated.subscriber, second_subscriber):
            wait_rows(subscriber, [(1, 1)])
        replicated.replication.drop_subscription("shop", replicated.subscriber.url)
        replicated.publisher.execute("insert into orders values (2, 2)")
        wait_rows(second_subscriber, [(1, 1), (2, 2)])

    assert run.troubles == []
    assert replicated.subscriber.execute("table orders") == [(1, 1)]


@pytest.mark.exhaustive
def test_run_releases_a_paused_subscription_and_resumes_it(
    replicated_twice: ReplicatedDatabase, second_subscriber: Subscriber
) -> None:
    replicated, first = replicated_twice, replicated_twice.subscriber
    session = "select 1 from pg_stat_activity where application_name like 'rowtide distribution%' and datname = '{}'"
    query = session.format(make_url(first.url).database)
    with running(replicated) as run:
        wait_until(lambda: len(first.execute(query)) == 1, what="the first agent")
        replicated.replication.pause("shop", first.url)
        wait_until(lambda: not first.execute(query), what="the first agent gone")
        replicated.publisher.execute("insert into orders values (1, 1)")
        wait_rows(second_subscriber, [(1, 1)])
        assert first.execute("table orders") == []
        replicated.replication.resume("shop")
        wait_rows(first, [(1, 1)])

    assert run.troubles == []


@pytest.mark.exhaustive
def test_a_subscription_that_failed_goes_on_when_it_is_resumed(
    replicated_twice: ReplicatedDatabase, second_subscriber: Subscriber
) -> None:
    replicated, first = replicated_twice, replicated_twice.subscriber
    first.execute("insert into orders values (1, 0)")
    with running(replicated) as run:
        replicated.publisher.execute("insert into orders values (1, 1)")
        run.wait_trouble(CommandRefused, first)
        first.execute("delete from orders")
        replicated.replication.resume("shop", first.url)
        replicated.publisher.execute("insert into orders values (2, 2)")
        for subscriber in (first, second_subscriber):
            wait_rows(subscriber, [(1, 1), (2, 2)])


@pytest.mark.exhaustive
def test_once_leaves_paused_subscriptions_alone(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.replication.pause("shop")
    replicated.publisher.execute("insert into orders values (1, 1)")
    replicated.replication.run(once=True)
    paused = replicated.subscriber.execute("table orders")
    replicated.replication.resume("shop")
    replicated.replication.run(once=True)

    assert paused == []
    replicated.require_equal("orders")


@pytest.mark.parametrize("pauses", [False, True])
def test_once_reads_the_log_also_for_nobody(replicated: ReplicatedDatabase, *, pauses: bool) -> None:
    if pauses:
        replicated.begin(ORDERS, orders={})
        replicated.replication.pause("shop")
    else:
        replicated.publish(ORDERS, orders={})
    replicated.publisher.execute("insert into orders values (1, 1)")
    (written,) = replicated.publisher.execute("select pg_current_wal_lsn() - '0/0'")[0]
    replicated.replication.run(once=True)

    assert replicated.publisher.manifest().state.position.log >= written


@pytest.mark.exhaustive
def test_a_run_whose_notes_nobody_reads_any_more_stops_in_order(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    command = [sys.executable, "-m", "rowtide", "replication", "run", "--db", replicated.publisher.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
        assert run.stdout is not None
        run.stdout.close()
        replicated.publisher.execute("insert into orders values (1, 1)")
        assert run.wait(120) == 0
    assert replicated.subscriber.execute("table orders") == [(1, 1)]


def test_a_run_leaves_nothing_that_the_next_decodes_again(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute("insert into orders select i, i from generate_series(1, 1000) i")
    [(written,)] = replicated.publisher.execute("select pg_current_wal_insert_lsn()::text")
    replicated.replication.run(once=True)
    slots = "from pg_replication_slots where slot_type = 'logical' and database = current_database()"
    assert replicated.publisher.execute(f"select restart_lsn >= '{written}' {slots}") == [(True,)]


def test_the_next_run_decodes_nothing_written_meanwhile(
    replicated: ReplicatedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A subscriber's rows are in the same server's log."""
    monkeypatch.setattr("rowtide.replication.running.run._DECODED_AGAIN_BYTES", 500_000)
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute("insert into orders select i, i from generate_series(1, 20000) i")
    [(written,)] = replicated.publisher.execute("select pg_current_wal_insert_lsn()::text")
    replicated.replication.run(once=True)
    slots = "from pg_replication_slots where slot_type = 'logical' and database = current_database()"

    [(behind,)] = replicated.publisher.execute(f"select pg_current_wal_insert_lsn() - restart_lsn {slots}")
    [(delivered,)] = replicated.publisher.execute(f"select pg_current_wal_insert_lsn() - '{written}'")

    assert delivered > 1_000_000
    assert behind < delivered / 4


def test_a_role_that_may_not_log_running_transactions_marks(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    role = f"marking_{replicated.publisher.execute('select current_database()')[0][0]}"
    replicated.publisher.execute(
        f"create role {role}",
        f"grant usage on schema rowtide to {role}",
        f"grant select, insert on rowtide.control to {role}",
    )
    try:
        with open_engine(replicated.publisher.url).begin() as connection:
            connection.execute(text(f"set role {role}"))
            assert mark_target(connection) > 0
    finally:
        replicated.publisher.execute(f"drop owned by {role}", f"drop role {role}")

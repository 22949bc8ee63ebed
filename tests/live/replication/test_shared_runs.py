"""Several runs at once: each subscription has one of them, and another one only once that has ended."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from builders.capture.capture_processes import DELIVERY, CaptureProcess
from builders.capture.captured_databases import wait_until
from builders.commands.command_lines import rowtide
from builders.replication.replicated_databases import ReplicatedDatabase, Subscriber
from builders.replication.replication_runs import ORDERS, running, wait_rows
from fixtures.servers import fresh_database
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.replication.distributor.claims import list_claims
from rowtide.replication.distributor.publication_records import begin_dropping


@pytest.fixture
def six_subscribers(replicated: ReplicatedDatabase, server: EmbeddedServer) -> Iterator[list[Subscriber]]:
    """Six subscribers of one table."""
    replicated.publish(ORDERS, orders={})
    with ExitStack() as stack:
        found = []
        for _ in range(6):
            url = stack.enter_context(fresh_database(server))
            found.append(Subscriber(url, stack.enter_context(psycopg.connect(url, autocommit=True))))
            found[-1].execute(ORDERS)
            replicated.subscribe(subscriber=found[-1])
        yield found


def statuses(replicated: ReplicatedDatabase) -> dict[str, dict[str, Any]]:
    """What `status` prints, by subscriber."""
    ended = rowtide("replication", "status", "--format", "jsonl", "--db", replicated.publisher.url)
    rows = [json.loads(line) for line in ended.output.splitlines()]
    return {row["subscriber"]: row for row in rows}


def wait_at_work(replicated: ReplicatedDatabase, *subscribers: Subscriber, pid: int | None = None) -> None:
    """Wait until a process delivers these subscriptions; by itself, any."""

    def is_at_work() -> bool:
        holders = {name: row["delivered_by"] for name, row in statuses(replicated).items()}
        expected = "" if pid is None else f"{socket.gethostname()} pid {pid}"
        return all((holders[found.url] or "none").startswith(expected or socket.gethostname()) for found in subscribers)

    wait_until(is_at_work, what=f"agents of {[found.url for found in subscribers]} at work")


def read_epoch(subscriber: Subscriber) -> int:
    """Return a number that each agent raises alike when it opens."""
    ((epoch,),) = subscriber.execute('select epoch from rowtide_subscriber."MSreplication_subscriptions"')
    return int(epoch)


@pytest.mark.exhaustive
def test_run_delivers_to_the_named_subscribers_alone(
    replicated_twice: ReplicatedDatabase, second_subscriber: Subscriber
) -> None:
    replicated_twice.publisher.execute("insert into orders values (1, 1)")
    command = ("replication", "run", "shop", "--once", "--subscriber", second_subscriber.url)
    assert rowtide(*command, "--db", replicated_twice.publisher.url).code == 0

    assert second_subscriber.execute("table orders") == [(1, 1)]
    assert replicated_twice.subscriber.execute("table orders") == []


def test_second_run_takes_over_when_the_first_ends(
    replicated_twice: ReplicatedDatabase, second_subscriber: Subscriber
) -> None:
    replicated, first = replicated_twice, replicated_twice.subscriber
    with running(replicated, first) as one:
        wait_at_work(replicated, first)
        with running(replicated) as two:
            wait_until(lambda: bool(two.elsewhere), what="a subscription delivered elsewhere")
            replicated.publisher.execute("insert into orders values (1, 1)")
            for subscriber in (first, second_subscriber):
                wait_rows(subscriber, [(1, 1)])
            one.stop.set()
            one.wait_ended()
            replicated.publisher.execute("insert into orders values (2, 2)")
            for subscriber in (first, second_subscriber):
                wait_rows(subscriber, [(1, 1), (2, 2)])

    assert [found.subscription.subscriber for found in two.elsewhere] == [first.url]
    assert one.troubles == two.troubles == []
    # Two agents, one after the other, at the first; one at the second.
    assert read_epoch(first) == 2 * read_epoch(second_subscriber)
    assert all(row["delivered_by"] is None for row in statuses(replicated).values())


def test_a_publication_that_is_dropped_is_no_claim(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    engine = open_engine(replicated.publisher.url)

    with begin_dropping(engine, "shop"), engine.connect() as connection:
        claims = list_claims(connection)
    engine.dispose()

    assert claims == {}


@pytest.mark.exhaustive
def test_once_waits_for_what_another_run_delivers(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    with running(replicated) as run:
        wait_at_work(replicated, replicated.subscriber)
        replicated.publisher.execute("insert into orders values (1, 1)")
        replicated.replication.run(once=True)
        assert replicated.subscriber.execute("table orders") == [(1, 1)]

    assert run.troubles == []


@pytest.mark.exhaustive
def test_run_that_was_cut_off_goes_on_when_nobody_took_over(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    with running(replicated) as run:
        wait_at_work(replicated, replicated.subscriber)
        replicated.publisher.execute("insert into orders values (0, 0)")
        wait_rows(replicated.subscriber, [(0, 0)])
        before = read_epoch(replicated.subscriber)
        name = "rowtide replication%"
        cut = f"select pg_terminate_backend(pid) from pg_stat_activity where application_name like '{name}'"
        replicated.publisher.execute(cut, "insert into orders values (1, 1)")
        wait_rows(replicated.subscriber, [(0, 0), (1, 1)])
        wait_at_work(replicated, replicated.subscriber)

    assert run.troubles == []
    assert read_epoch(replicated.subscriber) == before


@pytest.mark.exhaustive
def test_subscription_that_failed_here_is_left_to_others(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.subscriber.execute("insert into orders values (1, 0)")
    replicated.publisher.execute("insert into orders values (1, 1)")
    with running(replicated) as first:
        first.wait_ended()
        replicated.subscriber.execute("delete from orders")
        with running(replicated):
            wait_rows(replicated.subscriber, [(1, 1)])

    assert len(first.troubles) == 1


@pytest.mark.exhaustive
def test_killed_process_is_replaced_by_the_other(
    replicated: ReplicatedDatabase, six_subscribers: list[Subscriber], tmp_path: Path
) -> None:
    url, halves = replicated.publisher.url, (six_subscribers[:3], six_subscribers[3:])
    first = [argument for found in halves[0] for argument in ("--subscriber", found.url)]
    folders = tmp_path / "one", tmp_path / "two"
    for folder in folders:
        folder.mkdir()
    with (
        CaptureProcess(url, folders[0], (*DELIVERY, "shop", *first)) as one,
        CaptureProcess(url, folders[1], DELIVERY) as other,
    ):
        wait_at_work(replicated, *six_subscribers)
        replicated.publisher.execute("insert into orders values (1, 1)")
        for subscriber in six_subscribers:
            wait_rows(subscriber, [(1, 1)])
        wait_at_work(replicated, *halves[1], pid=other.process.pid)
        one.process.kill()
        replicated.publisher.execute("insert into orders values (2, 2)")
        for subscriber in six_subscribers:
            wait_rows(subscriber, [(1, 1), (2, 2)])
        wait_at_work(replicated, *six_subscribers, pid=other.process.pid)


def test_a_stopped_run_holds_nothing(replicated: ReplicatedDatabase, tmp_path: Path) -> None:
    replicated.publish(ORDERS, orders={})
    replicated.subscriber.execute(ORDERS)
    replicated.subscribe()
    for database in (replicated.publisher, replicated.subscriber):
        ((name,),) = database.execute("select current_database()")
        database.execute(f"alter database {name} set rowtide.silence_timeout = 3")
    for name in ("stopped", "other"):
        (tmp_path / name).mkdir()
    with CaptureProcess(replicated.publisher.url, tmp_path / "stopped", DELIVERY) as stopped:
        rows: list[tuple[object, ...]] = [(1, 1)]
        replicated.publisher.execute("insert into orders values (1, 1)")
        wait_rows(replicated.subscriber, rows)
        # In the subscriber's transaction, which has locks there.
        insertion = "insert into orders values (2, 2)"
        stopped.stop_at("subscriber_commit.before", cause=lambda: replicated.publisher.execute(insertion))
        with CaptureProcess(replicated.publisher.url, tmp_path / "other", DELIVERY) as other:
            wait_rows(replicated.subscriber, [*rows, (2, 2)])
            stopped.resume()
            replicated.publisher.execute("insert into orders values (3, 3)")
            wait_rows(replicated.subscriber, [*rows, (2, 2), (3, 3)])
            assert other.terminate() == 0

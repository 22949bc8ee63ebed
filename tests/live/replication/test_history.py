"""What agents have done is written down, and no more than that; the log store's manifest is not flooded either."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builders.capture.capture_processes import DELIVERY, CaptureProcess
from builders.capture.captured_databases import wait_until
from builders.commands.command_lines import rowtide
from builders.replication.replicated_databases import ReplicatedDatabase
from builders.replication.replication_runs import running, wait_rows
from rowtide.core.lsn import Position
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import ConnectionFailed
from rowtide.log.errors import SlotMissing
from rowtide.replication.distribution.run_context import DeliveryReport
from rowtide.replication.distributor import history, subscription_records
from rowtide.replication.errors.delivery import CommandRefused
from rowtide.replication.errors.publishing import PublicationUnknown
from rowtide.replication.errors.subscribing import SubscriberUnprepared
from rowtide.replication.running.agent_history import AgentHistory, LogReaderErrors
from rowtide.replication.snapshot.agent import SnapshotReport
from rowtide.replication.status.subscriptions import AgentStanding, TablesStanding, describe

ORDERS = "create table orders (id int primary key, qty int)"


def listed(replicated: ReplicatedDatabase, *command: str) -> list[dict[str, Any]]:
    ended = rowtide("replication", *command, "--format", "jsonl", "--db", replicated.publisher.url)
    assert ended.code == 0, ended
    return [json.loads(line) for line in ended.output.splitlines()]


def test_agent_start_and_end_are_in_history_with_their_counts(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute("insert into orders values (1, 1)", "update orders set qty = 2")
    replicated.replication.run(once=True)
    replicated.publisher.execute("delete from orders")
    replicated.replication.run(once=True)

    rows = listed(replicated, "history", "shop")
    assert [(row["runstatus"], row["delivered_commands"], row["total_delivered_commands"]) for row in rows] == [
        ("succeed", 1, 3),
        ("start", 0, 2),
        ("succeed", 2, 2),
        ("start", 0, 0),
    ]
    assert rows[0]["delivered_transactions"] == 1
    assert rows[0]["subscriber"] == replicated.subscriber.url
    assert isinstance(rows[0]["delivery_latency"], int)
    assert listed(replicated, "errors") == []


def test_error_is_in_history_errors_and_status_until_recovery(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.subscriber.execute("insert into orders values (1, 0)")
    replicated.publisher.execute("insert into orders values (1, 1)", "insert into orders values (2, 2)")
    with pytest.raises(CommandRefused):
        replicated.replication.run(once=True)
    (failed,) = listed(replicated, "errors", "shop")
    (status,) = listed(replicated, "status")
    (latest, _) = listed(replicated, "history")

    assert (failed["error_code"], failed["source_name"]) == ("7114", replicated.subscriber.url)
    assert "public.orders with key id = 1" in str(failed["error_text"])
    assert (latest["runstatus"], latest["error_id"]) == ("fail", failed["id"])
    assert (status["agent"], status["last_error"]) == ("fail", failed["error_text"])
    assert status["undelivered_commands"] == 2

    replicated.subscriber.execute("delete from orders")
    replicated.replication.run(once=True)
    (status,) = listed(replicated, "status")
    assert (status["agent"], status["last_error"], status["undelivered_commands"]) == ("succeed", None, 0)
    assert isinstance(status["latency_s"], float)


def test_paused_subscription_is_shown_with_undelivered_count(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={"where": "qty > 1"})
    replicated.replication.pause("shop")
    replicated.publisher.execute("insert into orders select i, i from generate_series(1, 10) i")
    replicated.publisher.read_log()

    (status,) = listed(replicated, "status")
    assert (status["state"], status["agent"], status["undelivered_commands"]) == ("paused", None, 10)


@pytest.mark.exhaustive
def test_an_agent_that_was_killed_is_shown_as_lost(replicated: ReplicatedDatabase, tmp_path: Path) -> None:
    replicated.begin(ORDERS, orders={})

    def agent() -> object:
        (status,) = listed(replicated, "status")
        return status["agent"]

    with CaptureProcess(replicated.publisher.url, tmp_path, DELIVERY) as run:
        wait_until(lambda: agent() == "start", what="the agent's start")
        run.process.kill()
        run.wait_killed()
        wait_until(lambda: agent() == "lost", what="the agent shown as lost")


def test_history_of_an_unknown_publication_is_refused(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    for ask in (replicated.replication.list_history, replicated.replication.list_errors):
        with pytest.raises(PublicationUnknown):
            ask("nothing")


@pytest.mark.exhaustive
def test_history_expires_after_two_days_except_each_last_state(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.subscriber.execute("insert into orders values (1, 0)")
    replicated.publisher.execute("insert into orders values (1, 1)")
    for _ in range(2):
        with pytest.raises(CommandRefused):
            replicated.replication.run(once=True)
    for table in ("MSdistribution_history", "MSrepl_errors"):
        replicated.publisher.execute(f"update distribution.\"{table}\" set time = time - interval '49 hours'")
    replicated.replication.pause("shop")
    replicated.replication.run(once=True)

    assert [row["runstatus"] for row in listed(replicated, "history")] == ["fail"]
    assert [row["publication"] for row in listed(replicated, "errors")] == ["shop"]


def test_agent_writes_progress_and_retries_once_a_minute(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    engine = open_engine(replicated.publisher.url)
    with engine.connect() as connection:
        (subscription,) = subscription_records.list_subscriptions(connection)
    agent = AgentHistory(engine, subscription)
    report = DeliveryReport(subscription.subscriber, Position(100), 1, 10, 0.1, 250)
    agent.note_batch(report)
    agent._next_message = 0.0
    agent.note_batch(report)
    agent.note_batch(report)
    for error in (ConnectionFailed("gone"), ConnectionFailed("gone"), SubscriberUnprepared("guid")):
        agent.retry(error)
    agent._next_message = 0.0
    agent.retry(SubscriberUnprepared("guid"))

    rows = [
        (row["runstatus"], row["delivered_commands"], row["total_delivered_commands"], row["comments"][:7])
        for row in listed(replicated, "history")
    ]
    assert rows == [
        ("retry", 30, 30, "RT-7112"),
        ("retry", 30, 30, "RT-7112"),
        ("retry", 30, 30, "RT-1101"),
        ("in progress", 20, 20, "The age"),
    ]


def test_status_tells_how_far_a_copy_is_and_what_is_left(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute("insert into orders select i, i from generate_series(1, 1000) i", "analyze orders")
    engine, url = open_engine(replicated.publisher.url), replicated.subscriber.url
    with engine.connect() as connection:
        (subscription,) = subscription_records.list_subscriptions(connection)
    agent = AgentHistory(engine, subscription)
    copied = []
    for chunks in (1, 2, 4):
        agent.note_copy(SnapshotReport(url, "public.orders", chunks, 4, 100, 1.0))
        copied.append(listed(replicated, "status")[0]["copied"])
    assert copied == [
        "1 of 4 chunks (25%), about 250 of 1,000 rows",
        "1 of 4 chunks (25%), about 250 of 1,000 rows",
        None,
    ]
    agent.note_batch(DeliveryReport(url, Position(100), 1, 10, 0.1, 250))
    agent.succeed("")
    with engine.connect() as connection:
        last = history.list_last(connection)[subscription.agent_id]
    state = replicated.publisher.manifest().state
    ahead = [
        describe(subscription, state, 500, AgentStanding(last, where), TablesStanding()).catch_up_s
        for where in ("here 1", None)
    ]
    assert ahead == [5.0, None]


def test_delivery_goes_on_where_history_cannot_be_written(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    for table in ("MSdistribution_history", "MSrepl_errors"):
        replicated.publisher.execute(
            f'alter table distribution."{table}" add constraint full_disk check (time is null) not valid'
        )
    replicated.publisher.execute("insert into orders values (1, 1)")
    replicated.replication.run(once=True)

    replicated.require_equal("orders")


@pytest.mark.exhaustive
def test_batches_and_rest_write_next_to_nothing(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    manifest = replicated.publisher.manifest()
    with running(replicated):
        for number in range(5):
            replicated.publisher.execute(f"insert into orders values ({number}, 1)")
            wait_rows(replicated.subscriber, [(known, 1) for known in range(number + 1)])
        wait_until(lambda: len(listed(replicated, "history")) == 1, what="the agent's start")
    entries = [
        path
        for path in replicated.publisher.store().list("manifest/0")
        if b'"reader_advanced"' in replicated.publisher.store().get(path)
    ]

    assert manifest.refresh().readers
    # Registered, once while it ran, once at its end; capture's own.
    assert len(entries) <= 5
    assert [row["runstatus"] for row in listed(replicated, "history")] == ["succeed", "start"]


@pytest.mark.exhaustive
def test_a_log_that_cannot_be_read_is_in_errors_and_status(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.replication.run(once=True)
    replicated.publisher.drop_slot()
    replicated.publisher.execute("insert into orders values (1, 1)")
    (status,) = listed(replicated, "status")
    assert str(status["last_error"]).startswith("RT-2102: replication slot")
    assert listed(replicated, "errors") == []

    with pytest.raises(SlotMissing):
        replicated.replication.run(once=True)
    for command in (["errors"], ["errors", "shop"]):
        (failed,) = listed(replicated, *command)
        assert (failed["source_name"], failed["error_code"], failed["publication"]) == ("log reader", "2102", None)
    (reader,) = [row for row in listed(replicated, "history") if row["subscriber"] == "log reader"]
    assert (reader["runstatus"], reader["error_id"], reader["comments"]) == ("fail", failed["id"], failed["error_text"])
    (latest, *_) = [row for row in listed(replicated, "history", "shop") if row["subscriber"] != "log reader"]
    assert latest["comments"] == "The agent was stopped."


@pytest.mark.exhaustive
def test_log_reader_error_is_cleared_once_the_log_is_read_on(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    LogReaderErrors(open_engine(replicated.publisher.url)).fail(ConnectionFailed("the server went away"))
    (status,) = listed(replicated, "status")
    assert str(status["last_error"]).startswith("RT-1101")
    replicated.publisher.execute("insert into orders values (1, 1)")
    replicated.deliver()
    (status,) = listed(replicated, "status")
    assert status["last_error"] is None

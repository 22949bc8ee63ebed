"""Deadlocks with programs of the subscriber's: ours is the transaction that goes, and is made again."""

from __future__ import annotations

import psycopg
import pytest

from builders.capture.captured_databases import wait_until
from builders.replication.replicated_databases import ReplicatedDatabase
from builders.replication.replication_runs import running, wait_rows
from rowtide.replication.subscription_settings import SubscriptionSettings

ACCOUNTS = "create table accounts (id int primary key, balance int not null)"
LAST = 299
AGENT_WAITS = """
select 1 from pg_stat_activity
where wait_event_type = 'Lock' and application_name like 'rowtide%' and datname = current_database()
    and clock_timestamp() - state_change > interval '1.2 s'
"""
"""Longer than until it looks for a deadlock, once, by the server's own means."""


def begin(replicated: ReplicatedDatabase, streams: int) -> None:
    """Publish a table, deliver its rows, and change all of them."""
    replicated.subscriber.execute(ACCOUNTS)
    replicated.publish(ACCOUNTS, accounts={})
    replicated.subscribe(settings=SubscriptionSettings(streams=streams))
    replicated.publisher.execute(f"insert into accounts select i, 0 from generate_series(1, {LAST}) i")
    replicated.deliver()
    replicated.publisher.execute("update accounts set balance = 1")


@pytest.mark.parametrize("streams", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_a_program_that_waits_for_a_waiting_agent_wins(replicated: ReplicatedDatabase, streams: int) -> None:
    begin(replicated, streams)
    with psycopg.connect(replicated.subscriber.url) as program, running(replicated):
        program.execute(f"update accounts set balance = balance - 1 where id = {LAST}")
        wait_until(lambda: bool(replicated.subscriber.execute(AGENT_WAITS)), what="an agent that waits")
        # It has this row: one of the two has to go.
        program.execute("update accounts set balance = balance - 1 where id = 1")
        program.commit()
        wait_rows(replicated.subscriber, [(number, 1) for number in range(1, LAST + 1)], "accounts")

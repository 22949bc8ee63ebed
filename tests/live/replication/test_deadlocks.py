"""Deadlocks with programs of the subscriber's: ours is the transaction that goes, and is made again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from builders.capture.captured_databases import wait_until
from builders.replication.replicated_databases import ReplicatedDatabase
from builders.replication.replication_runs import running, wait_rows
from rowtide.databases.postgres.errors import ConnectionFailed
from rowtide.replication.subscription_settings import SubscriptionSettings
from rowtide.replication.targets.postgres.delivery.deadlock_watch import DeadlockWatch, is_deadlocked

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


def test_a_watch_ends_what_a_program_waits_for(database: str) -> None:
    opened: list[psycopg.Connection] = []

    def open_watcher() -> psycopg.Connection:
        opened.append(psycopg.connect(database, autocommit=True))
        return opened[-1]

    with psycopg.connect(database) as program, psycopg.connect(database) as watched:
        program.execute("create table t (id int primary key)")
        program.execute("insert into t values (1), (2)")
        program.commit()
        # Not the server's own look: that comes later.
        for session in (program, watched):
            session.execute("set deadlock_timeout = '1 min'")
            session.commit()
        watch = DeadlockWatch(watched, open_watcher)

        def has_ended_one() -> bool:
            watch.look()
            return watch.has_ended_one

        watch.look()
        assert (len(opened), watch.has_ended_one) == (1, False)

        program.execute("delete from t where id = 1")
        watched.execute("delete from t where id = 2")
        with ThreadPoolExecutor(2) as threads:
            of_program = threads.submit(program.execute, "delete from t where id = 2")
            of_watched = threads.submit(watched.execute, "delete from t where id = 1")
            wait_until(has_ended_one, what="a deadlock that is seen")
            with pytest.raises(psycopg.errors.QueryCanceled):
                of_watched.result()
            watched.rollback()
            of_program.result()
        program.commit()
        assert program.execute("select count(*) from t").fetchone() == (0,)
        assert (len(opened), is_deadlocked(opened[0], [watched.info.backend_pid])) == (1, False)
        watch.close()
        assert opened[0].closed


def test_a_watch_without_a_connection_looks_no_more(database: str, caplog: pytest.LogCaptureFixture) -> None:
    tried: list[int] = []

    def refuse() -> psycopg.Connection:
        tried.append(1)
        raise ConnectionFailed("too many clients")

    with psycopg.connect(database) as watched:
        watch = DeadlockWatch(watched, refuse)
        for _ in range(2):
            watch.look()
    watch.close()
    assert (tried, watch.has_ended_one) == ([1], False)
    assert caplog.text.count("too many clients") == 1

"""A commit that waits for a synchronous standby is in the log, and invisible: the trap of every hand-over by LSN."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.faults.waiting_commits import waiting_commit
from builders.replication.replicated_databases import ReplicatedDatabase, Subscriber
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.replication.distribution.run_context import Watchers
from rowtide.replication.snapshot.agent import SnapshotReport
from rowtide.replication.subscription_settings import SyncType


@pytest.fixture
def waiting(server_with_standby: EmbeddedServer, tmp_path: Path) -> Iterator[ReplicatedDatabase]:
    with (
        fresh_database(server_with_standby) as url,
        fresh_database(server_with_standby) as copy,
        psycopg.connect(url, autocommit=True) as session,
        psycopg.connect(copy, autocommit=True) as copied,
    ):
        yield ReplicatedDatabase(LoggedDatabase(url, tmp_path / "lake", session), Subscriber(copy, copied))


def test_logged_but_invisible_commit_is_delivered_exactly_once(waiting: ReplicatedDatabase) -> None:
    waiting.publish(
        "create table orders (id int primary key, qty int)", "insert into orders values (1, 1), (2, 2)", orders={}
    )
    reports: list[SnapshotReport] = []
    with waiting_commit(waiting.publisher, "update orders set qty = 100 where id = 1"):
        # Decoded, and not there to be seen.
        waiting.publisher.read_log()
        assert waiting.publisher.execute("select qty from orders where id = 1") == [(1,)]
        waiting.subscribe(SyncType.AUTOMATIC)
        with waiting.open_agent(watchers=Watchers(on_snapshot=reports.append)) as agent:
            agent.step()
            assert agent.position is None
    assert "waiter" in reports[-1].waits_for[0]
    waiting.publisher.execute("update orders set qty = qty + 1")
    waiting.deliver()

    waiting.require_equal("orders")
    assert waiting.subscriber.execute("select * from orders order by id") == [(1, 101), (2, 3)]


@pytest.mark.exhaustive
def test_commit_waiting_while_chunks_are_copied_is_delivered(waiting: ReplicatedDatabase) -> None:
    waiting.publish(
        "create table orders (id int primary key, qty int, note text)",
        "insert into orders select i, 0, repeat('n', 100) from generate_series(1, 1000) i",
        orders={},
    )
    waiting.subscribe(SyncType.AUTOMATIC, chunk_bytes=8192)
    with waiting.open_agent() as agent:
        agent.step()
        with waiting_commit(waiting.publisher, "update orders set qty = 100 where id % 2 = 0"):
            waiting.publisher.read_log()
            agent.step()
        while agent.position is None:
            agent.step()
    waiting.deliver()

    waiting.require_equal("orders")


def test_commit_that_waits_counts_where_it_is_delivered(waiting: ReplicatedDatabase) -> None:
    waiting.begin("create table orders (id int primary key, qty int)", orders={})
    waiting.publisher.execute("insert into orders values (1, 1), (2, 2)")
    waiting.deliver()
    with waiting_commit(waiting.publisher, "update orders set qty = 100 where id = 1"):
        waiting.deliver()
        assert waiting.publisher.execute("select qty from orders where id = 1") == [(1,)]
        assert waiting.subscriber.execute("select qty from orders where id = 1") == [(100,)]

        (found,) = waiting.replication.validate("shop", checksum=True)
    assert found.result == "passed"

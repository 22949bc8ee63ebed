"""Delivery killed anywhere, under load: a subscriber shows what the publisher committed, in its order, each once."""

from __future__ import annotations

from pathlib import Path

from builders.bank_transfers import DEFINITIONS, read_state, require_sum, transfers
from builders.capture_processes import CaptureProcess
from builders.captured_databases import wait_until
from builders.failpoints import DELIVERY_FAILPOINTS, SNAPSHOT_FAILPOINTS
from builders.replicated_databases import ReplicatedDatabase
from rowtide.replication.sync_types import SyncType

RUN = ("replication", "run")


def test_whatever_is_killed_a_subscriber_shows_what_was_committed_in_order_and_once(
    replicated: ReplicatedDatabase, tmp_path: Path
) -> None:
    replicated.begin(*DEFINITIONS, account={}, transfer={})
    url, seen = replicated.publisher.url, [set[int]()]

    def look() -> bool:
        """Return whether there is anything new."""
        balances, moved = read_state(replicated.subscriber.url)
        require_sum(balances, moved)
        seen.append(set(moved))
        return len(seen[-1]) > len(seen[-2])

    with transfers(url, first=0, seed=1), transfers(url, first=1_000_000, seed=2):
        for failpoint in DELIVERY_FAILPOINTS:
            with CaptureProcess(url, tmp_path, RUN) as process:
                process.arm(failpoint)
                process.wait_killed()
                look()
        with CaptureProcess(url, tmp_path, RUN):
            wait_until(look, what="transfers after all kills")
    replicated.deliver()
    look()

    replicated.require_equal("account", "transfer")
    by_commit = [int(number) for number in replicated.publisher.inserted() if number is not None]
    assert len(by_commit) == len(set(by_commit))
    for moved in seen:
        # A prefix: nothing of it is missing, nothing behind it is there.
        assert moved == set(by_commit[: len(moved)])
    assert len(seen[-1]) == len(by_commit) > 0


def test_whatever_is_killed_a_snapshot_goes_on_and_brings_each_row_once(
    replicated: ReplicatedDatabase, tmp_path: Path
) -> None:
    replicated.publish(
        *DEFINITIONS,
        "alter table transfer add unique (taker, id)",
        "create table archive (id int primary key, note text)",
        "insert into archive select i, repeat('note ' || i, 20) from generate_series(1, 2000) i",
        account={},
        transfer={},
        archive={},
    )
    url, subscriber = replicated.publisher.url, replicated.subscriber
    with transfers(url, first=0, seed=3), transfers(url, first=1_000_000, seed=4):
        wait_until(lambda: len(read_state(url)[1]) > 500, what="transfers before the copy")
        replicated.subscribe(SyncType.AUTOMATIC, chunk_bytes=8192)
        for failpoint in SNAPSHOT_FAILPOINTS:
            with CaptureProcess(url, tmp_path, RUN) as process:
                process.arm(failpoint)
                process.wait_killed()
        copied = 'select snapshot_status from rowtide_subscriber."MSreplication_subscriptions"'
        assert subscriber.execute(copied) == [("delivered",)]
        with CaptureProcess(url, tmp_path, RUN):
            known = len(read_state(subscriber.url)[1])
            wait_until(lambda: len(read_state(subscriber.url)[1]) > known, what="transfers after all kills")
            for _ in range(20):
                require_sum(*read_state(subscriber.url))
    replicated.deliver()

    replicated.require_equal("account", "transfer", "archive")

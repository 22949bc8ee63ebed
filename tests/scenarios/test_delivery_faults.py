"""Delivery killed anywhere, under load: a subscriber shows what the publisher committed, in its order, each once."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from builders.capture_processes import CaptureProcess
from builders.captured_databases import wait_until
from builders.command_lines import rowtide_process
from builders.failpoints import DELIVERY_FAILPOINTS, SNAPSHOT_FAILPOINTS, SQLITE_DELIVERY_FAILPOINTS
from builders.replicated_databases import ReplicatedDatabase
from builders.replicated_files import ReplicatedFile
from builders.transfers import DEFINITIONS, FIRST_ROWS, Balances, Moved, Sightings, require_sum, transfers
from rowtide.replication.sync_types import SyncType

RUN = ("replication", "run")
ANY_SUBSCRIBERS_FAILPOINTS = tuple(name for name in DELIVERY_FAILPOINTS if name.startswith("reader_advance"))


def read_state(url: str) -> tuple[Balances, Moved]:
    """Return balances and transfers, of one moment."""
    with psycopg.connect(url) as session:
        session.execute("set transaction isolation level repeatable read")
        balances: Balances = dict(session.execute("select id, balance from account").fetchall())
        moved: Moved = {row[0]: row[1:] for row in session.execute("table transfer").fetchall()}
    return balances, moved


def read_file(path: Path) -> tuple[Balances, Moved]:
    """As above, of a file."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as session:
        session.execute("begin")
        balances: Balances = dict(session.execute("select id, balance from account").fetchall())
        moved: Moved = {row[0]: row[1:] for row in session.execute("select * from transfer").fetchall()}
    return balances, moved


@contextmanager
def reading(path: Path, sightings: Sightings) -> Iterator[None]:
    """Look at a file again and again until the block ends."""
    is_over, failures = threading.Event(), list[BaseException]()

    def look() -> None:
        try:
            while not is_over.wait(0.005):
                sightings.add(*read_file(path))
        except BaseException as error:
            failures.append(error)
            raise

    reader = threading.Thread(target=look)
    reader.start()
    try:
        yield
    finally:
        is_over.set()
        reader.join()
    assert not failures


def wait_for_more(sightings: Sightings) -> None:
    known = len(sightings.seen[-1])
    wait_until(lambda: len(sightings.seen[-1]) > known, what="more transfers")


def test_whatever_is_killed_a_subscriber_shows_what_was_committed_in_order_and_once(
    replicated: ReplicatedDatabase, tmp_path: Path
) -> None:
    replicated.begin(*DEFINITIONS, FIRST_ROWS, account={}, transfer={})
    url, sightings = replicated.publisher.url, Sightings()

    def look() -> bool:
        return sightings.add(*read_state(replicated.subscriber.url))

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
    sightings.require_prefixes(replicated.publisher.inserted())


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_whatever_is_killed_a_file_shows_what_was_committed_in_order_and_once_to_who_reads_it_meanwhile(
    replicated_file: ReplicatedFile, tmp_path: Path, journal: str
) -> None:
    replicated_file.subscriber.execute(f"pragma journal_mode = {journal}")
    made = (*DEFINITIONS, FIRST_ROWS)
    replicated_file.begin(*made, at_file=made, account={}, transfer={})
    url, path, sightings = replicated_file.publisher.url, replicated_file.subscriber.path, Sightings()
    with transfers(url, first=0, seed=1), transfers(url, first=1_000_000, seed=2), reading(path, sightings):
        for failpoint in (*SQLITE_DELIVERY_FAILPOINTS, *ANY_SUBSCRIBERS_FAILPOINTS):
            # As the agent takes hold of the file, and then with a batch.
            for waits in (False, True):
                with CaptureProcess(url, tmp_path, RUN) as process:
                    if waits:
                        wait_for_more(sightings)
                    process.arm(failpoint)
                    process.wait_killed()
        with CaptureProcess(url, tmp_path, RUN):
            wait_for_more(sightings)
    replicated_file.deliver()
    sightings.add(*read_file(path))

    replicated_file.require_equal("account", "transfer")
    sightings.require_prefixes(replicated_file.publisher.inserted())
    assert replicated_file.subscriber.execute("pragma integrity_check") == [("ok",)]


def test_whatever_is_killed_a_snapshot_goes_on_and_brings_each_row_once(
    replicated: ReplicatedDatabase, tmp_path: Path
) -> None:
    replicated.publish(
        *DEFINITIONS,
        FIRST_ROWS,
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


def test_whatever_is_killed_a_files_snapshot_goes_on_and_brings_each_row_once(
    replicated_file: ReplicatedFile, tmp_path: Path
) -> None:
    replicated_file.publish(*DEFINITIONS, FIRST_ROWS, account={}, transfer={})
    url, path = replicated_file.publisher.url, replicated_file.subscriber.path
    with transfers(url, first=0, seed=5), transfers(url, first=1_000_000, seed=6):
        wait_until(lambda: len(read_state(url)[1]) > 500, what="transfers before the copy")
        replicated_file.subscribe(SyncType.AUTOMATIC, chunk_bytes=8192)
        # The first is taking the file over, the others are chunks, the hand-over, batches, and its end.
        for passage in range(2, 7):
            for failpoint in SQLITE_DELIVERY_FAILPOINTS:
                ended = rowtide_process(
                    *RUN, "--once", "--db", url, environment={"ROWTIDE_FAILPOINT": f"{failpoint}@{passage}"}
                )
                assert ended.code in (0, -9)
        with CaptureProcess(url, tmp_path, RUN):
            wait_until(lambda: is_handed_over(path), what="the hand-over")
            known = len(read_file(path)[1])
            wait_until(lambda: len(read_file(path)[1]) > known, what="transfers after all kills")
            require_sum(*read_file(path))
    replicated_file.deliver()

    replicated_file.require_equal("account", "transfer")


def is_handed_over(path: Path) -> bool:
    """Whether a file shows what the publisher committed: while rows are copied and handed over it does not."""
    with closing(sqlite3.connect(path, timeout=60)) as session:
        (status,) = session.execute("select snapshot_status from MSreplication_subscriptions").fetchone()
    return bool(status == "delivered")

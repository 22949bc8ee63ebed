"""Snapshots killed anywhere, under load: they continue, and bring each row once."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from builders.capture.capture_processes import DELIVERY, CaptureProcess
from builders.capture.captured_databases import wait_until
from builders.capture.transfers import DEFINITIONS, FIRST_ROWS, read_file, read_state, require_sum, transfers
from builders.commands.command_lines import rowtide_process
from builders.faults.failpoints import (
    PREPARATION_FAILPOINTS,
    SNAPSHOT_FAILPOINTS,
    SQLITE_DELIVERY_FAILPOINTS,
    SUBSCRIBER_REMOVAL_FAILPOINTS,
)
from builders.replication.replicated_databases import ReplicatedDatabase
from builders.replication.replicated_files import ReplicatedFile
from rowtide.replication.subscription_settings import SyncType


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "failpoints",
    [SNAPSHOT_FAILPOINTS[1::4], pytest.param(SNAPSHOT_FAILPOINTS, marks=pytest.mark.exhaustive)],
    ids=["some", "all"],
)
def test_killed_snapshot_resumes_and_copies_each_row_once(
    replicated: ReplicatedDatabase, tmp_path: Path, failpoints: Sequence[str]
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
        for failpoint in failpoints:
            with CaptureProcess(url, tmp_path, DELIVERY) as process:
                process.arm(failpoint)
                process.wait_killed()
        copied = 'select snapshot_status from rowtide_subscriber."MSreplication_subscriptions"'
        assert subscriber.execute(copied) == [("delivered",)]
        with CaptureProcess(url, tmp_path, DELIVERY):
            known = len(read_state(subscriber.url)[1])
            wait_until(lambda: len(read_state(subscriber.url)[1]) > known, what="transfers after all kills")
            for _ in range(20):
                require_sum(*read_state(subscriber.url))
    replicated.deliver()

    replicated.require_equal("account", "transfer", "archive")


@pytest.mark.exhaustive
def test_killed_file_snapshot_resumes_and_copies_each_row_once(replicated_file: ReplicatedFile, tmp_path: Path) -> None:
    replicated_file.publish(*DEFINITIONS, FIRST_ROWS, account={}, transfer={})
    url, path = replicated_file.publisher.url, replicated_file.subscriber.path
    with transfers(url, first=0, seed=5), transfers(url, first=1_000_000, seed=6):
        wait_until(lambda: len(read_state(url)[1]) > 500, what="transfers before the copy")
        replicated_file.subscribe(SyncType.AUTOMATIC, chunk_bytes=8192)
        # The first is taking the file over, the others are chunks, the hand-over, batches, and its end.
        for hit in range(2, 7):
            for failpoint in SQLITE_DELIVERY_FAILPOINTS:
                ended = rowtide_process(
                    *DELIVERY, "--once", "--db", url, environment={"ROWTIDE_FAILPOINT": f"{failpoint}@{hit}"}
                )
                assert ended.code in (0, -9)
        with CaptureProcess(url, tmp_path, DELIVERY):
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


@pytest.mark.exhaustive
def test_a_kept_schema_is_restored_after_a_kill_at_any_step(replicated: ReplicatedDatabase, tmp_path: Path) -> None:
    """The foreign keys and triggers of a subscriber are there, to the letter, whatever was killed between."""
    noting = (
        "create function note() returns trigger language plpgsql as $$begin raise 'acts'; end$$",
        "create trigger note after insert or update on account for each row execute function note()",
    )
    replicated.publish(*DEFINITIONS, FIRST_ROWS, account={}, transfer={})
    replicated.subscriber.execute(*DEFINITIONS, *noting)
    keys = "alter table transfer add foreign key (giver) references account, add foreign key (taker) references account"
    replicated.publisher.execute(keys)
    replicated.subscriber.execute(keys)
    before = replicated.subscriber.execute(OWN_OBJECTS)
    url = replicated.publisher.url
    adding = ("replication", "add-subscription", "shop", "--subscriber", replicated.subscriber.url)
    keeping = ("--if-exists", "keep", "--constraints", "enforce", "--db", url)
    for failpoint in PREPARATION_FAILPOINTS:
        assert rowtide_process(*adding, *keeping, environment={"ROWTIDE_FAILPOINT": failpoint}).code == -9
    assert rowtide_process(*adding, *keeping).code == 0
    for failpoint in SNAPSHOT_FAILPOINTS:
        with CaptureProcess(url, tmp_path, DELIVERY) as process:
            process.arm(failpoint)
            process.wait_killed()
    dropping = ("replication", "drop-subscription", "shop", "--subscriber", replicated.subscriber.url, "--db", url)
    for failpoint in SUBSCRIBER_REMOVAL_FAILPOINTS:
        assert rowtide_process(*dropping, environment={"ROWTIDE_FAILPOINT": failpoint}).code == -9
    assert rowtide_process(*dropping).code == 0

    assert replicated.subscriber.execute(OWN_OBJECTS) == before
    replicated.require_equal("account", "transfer")


OWN_OBJECTS = """
select conname::text, pg_get_constraintdef(oid) from pg_constraint where contype = 'f'
union all select tgname, tgenabled::text from pg_trigger where not tgisinternal order by 1
"""

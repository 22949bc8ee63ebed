"""Both sides killed while a large transaction is delivered in parts: the subscriber shows all of it, once, or nothing.

Without kills, and with a log reader that begins again: `tests/live/replication/test_early_delivery.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.capture.capture_processes import DELIVERY, CaptureProcess
from builders.faults.failpoints import EARLY_DELIVERY_FAILPOINTS, PART_FAILPOINTS
from builders.replication.replicated_databases import ReplicatedDatabase

ROWS = 250_000
SUMS = "select count(*)::int, coalesce(sum(id), 0)::bigint, sum(length(name))::int from item"


@pytest.mark.exhaustive
def test_killed_delivery_of_parts_shows_a_transaction_whole(replicated: ReplicatedDatabase, tmp_path: Path) -> None:
    replicated.begin("create table item (id int primary key, name text)", item={})
    replicated.deliver()
    replicated.publisher.execute(f"insert into item select i, 'name ' || i from generate_series(1, {ROWS}) i")
    for failpoint in (*PART_FAILPOINTS, *EARLY_DELIVERY_FAILPOINTS, "manifest_entry.after", "subscriber_commit.before"):
        with CaptureProcess(replicated.publisher.url, tmp_path, DELIVERY) as process:
            process.arm(failpoint)
            assert replicated.subscriber.execute(SUMS) == [(0, 0, None)]
    with CaptureProcess(replicated.publisher.url, tmp_path, DELIVERY) as process:
        process.arm("subscriber_commit.after")
    replicated.deliver()
    assert replicated.subscriber.execute(SUMS) == replicated.publisher.execute(SUMS)

"""Snapshots of captured tables killed anywhere: they continue, and each row is in the base table once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from builders.capture.capture_processes import CaptureProcess
from builders.capture.captured_databases import CapturedDatabase
from builders.capture.transfers import DEFINITIONS, FIRST_ROWS, read_state, transfers
from builders.faults.failpoints import BASE_FAILPOINTS, BASE_REMOVAL_FAILPOINTS
from builders.faults.killed_programs import KILLED, run_program
from builders.lakes.base_tables import base_rows, snapshots_of, table_of
from rowtide.cdc.recorded_snapshots import SnapshotState
from rowtide.cdc.snapshots.chunk_copies import CopyLimits

SMALL = CopyLimits(chunk_bytes=32 * 1024)
PROGRAM = """
import sys
from pathlib import Path
import psycopg
from builders.capture.capture_processes import CaptureProcess
from builders.capture.captured_databases import CapturedDatabase
from rowtide.cdc.snapshots.chunk_copies import CopyLimits
with psycopg.connect(sys.argv[1], autocommit=True) as session:
    copied = CapturedDatabase(sys.argv[1], Path(sys.argv[2]), session, None)
    copied.copy_requested(CopyLimits(chunk_bytes=32 * 1024))
"""


def kill(copied: CapturedDatabase, failpoint: str) -> int:
    """Copy what is requested in a process that is killed at a failpoint."""
    return run_program(PROGRAM, copied.url, str(copied.lake), failpoint=failpoint)


@pytest.mark.parametrize(
    "failpoints",
    [
        ("base_chunk.before", "base_chunk.after@2", "snapshot_request.before"),
        pytest.param(
            tuple(f"{name}@{hit}" for name in BASE_FAILPOINTS for hit in (1, 2)), marks=pytest.mark.exhaustive
        ),
    ],
    ids=["some", "all"],
)
def test_killed_snapshot_goes_on_and_has_each_row_once(copied: CapturedDatabase, failpoints: Sequence[str]) -> None:
    copied.execute(
        "create table keyed (id int primary key, note text)",
        "insert into keyed select i, repeat('note ' || i, 20) from generate_series(1, 1000) i",
        "create table bag (note text)",
        "insert into bag select 'note ' || i % 7 from generate_series(1, 50) i",
    )
    copied.enable("keyed", "bag", snapshot=True)
    copied.capture()
    killed = 0
    for number, failpoint in enumerate(failpoints):
        killed += kill(copied, failpoint) == KILLED
        copied.execute(
            f"update keyed set id = id + 5000 where id % 13 = {number}",
            f"delete from keyed where id % 17 = {number}",
            f"insert into bag values ('note {number}')",
            f"delete from bag where ctid = (select min(ctid) from bag where note = 'note {number}')",
        )

    copied.copy_tables(SMALL)

    assert killed
    found = table_of(copied, "public_keyed", "id", "note", key=("id",))
    assert found == sorted(copied.execute("select id, note from keyed"), key=repr)
    assert table_of(copied, "public_bag", "note") == sorted(copied.execute("select note from bag"), key=repr)
    ids = base_rows(copied, "public_keyed", "id")
    assert len(ids) == len(set(ids))
    assert snapshots_of(copied, "public_keyed")[-1].state is SnapshotState.COVERED


@pytest.mark.exhaustive
@pytest.mark.parametrize("failpoint", BASE_REMOVAL_FAILPOINTS)
def test_killed_removal_is_completed(copied: CapturedDatabase, failpoint: str) -> None:
    copied.execute(
        "create table keyed (id int primary key, note text)",
        "insert into keyed select i, repeat('note ' || i, 20) from generate_series(1, 1000) i",
    )
    copied.enable("keyed", snapshot=True)
    copied.capture()
    assert kill(copied, "base_chunk.after@2") == KILLED
    copied.cdc.cancel_snapshot("keyed")
    assert kill(copied, failpoint) == KILLED

    copied.copy_tables(SMALL)

    assert base_rows(copied, "public_keyed", "id") == []


@pytest.mark.exhaustive
def test_killed_capture_copies_a_table_that_changes(copied: CapturedDatabase, tmp_path: Path) -> None:
    copied.execute(*DEFINITIONS, FIRST_ROWS)
    with transfers(copied.url, first=0, seed=7), transfers(copied.url, first=1_000_000, seed=8):
        copied.enable("account", "transfer", snapshot=True)
        for failpoint in BASE_FAILPOINTS:
            if not any(one.state in ("requested", "copying") for one in copied.cdc.list_snapshots()):
                copied.cdc.resnapshot("account")
            with CaptureProcess(copied.url, tmp_path) as process:
                process.arm(failpoint)
                process.wait_killed()
    copied.cdc.run(once=True)

    balances, moved = read_state(copied.url)
    assert table_of(copied, "public_account", "id", "balance", key=("id",)) == sorted(balances.items(), key=repr)
    transferred = sorted(((number, *transfer) for number, transfer in moved.items()), key=repr)
    assert table_of(copied, "public_transfer", "id", "giver", "taker", "amount", key=("id",)) == transferred

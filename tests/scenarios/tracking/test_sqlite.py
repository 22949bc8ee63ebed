"""Processes that know nothing of rowtide write to a SQLite file while replicas synchronise."""

from __future__ import annotations

import random
import signal
import sqlite3
from contextlib import closing
from uuid import UUID

import pytest

from builders.faults.failpoints import SQLITE_FAILPOINTS
from builders.faults.killed_programs import KILLED, run_program
from builders.tracking.sqlite_writers import was_killed, writing
from builders.tracking.tracked_databases import TrackedFile
from builders.tracking.tracking_replicas import Replica, images
from rowtide.tracking import PurgeType
from rowtide.tracking.errors import AnchorTooOld

PROGRAM = """
import sqlite3, sys
from contextlib import ExitStack
from uuid import UUID
from rowtide.tracking import ChangeTracking, PurgeType
program = sqlite3.connect(sys.argv[1], isolation_level=None)
tracking = ChangeTracking(program)
with ExitStack() as stack:
    {statement}
"""


def run(file: TrackedFile, statement: str, failpoint: str) -> int:
    """Run a statement on the tracking of a file in a process of its own, to be killed; return its exit code."""
    return run_program(PROGRAM.format(statement=statement), str(file.path), failpoint=failpoint)


@pytest.fixture
def contended(tracked_file: TrackedFile) -> TrackedFile:
    tracked_file.program.execute("create unique index t_name on t (name)")
    tracked_file.tracking.resume_tracking("t")
    return tracked_file


@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=pytest.mark.soak)])
def test_replicas_equal_the_table_beside_killed_writers(contended: TrackedFile, seconds: float) -> None:
    chance = random.Random(seconds)
    replicas = [Replica(contended.tracking) for _ in range(3)]
    with writing(contended.path, seconds=seconds, seeds=range(4)) as writers:
        replicas[0].synchronise()
        writers[0].send_signal(signal.SIGKILL)
        found = replicas[1].synchronise() + replicas[2].synchronise()
        while any(writer.poll() is None for writer in writers):
            found += chance.choice(replicas).synchronise()
            if chance.random() < 0.1:
                oldest = min(replica.anchor.csn for replica in replicas if replica.anchor is not None)
                contended.tracking.purge_tombstone_table_data("t", PurgeType.CSN_BASED, oldest)
        assert not any(was_killed(writer) for writer in writers[1:])
        assert found > 0
    for replica in replicas:
        replica.synchronise()
        names = ("id", "name", "qty")
        replica.assert_equals(images(names, contended.program.execute(f"select {', '.join(names)} from t")))


@pytest.mark.parametrize("failpoint", SQLITE_FAILPOINTS)
def test_an_enumeration_that_is_killed_costs_nothing(tracked_file: TrackedFile, failpoint: str) -> None:
    tracked_file.program.execute("insert into t (id) values (1)")
    assert run(tracked_file, 'list(stack.enter_context(tracking.changes(["t"])))', failpoint) == KILLED

    tracked_file.program.execute("update t set qty = 1")
    assert tracked_file.changes() == [("insert", 1, None, 1)]
    assert tracked_file.changes() == []


@pytest.mark.parametrize("failpoint", SQLITE_FAILPOINTS)
def test_a_purge_that_is_killed_refuses_what_it_removed(tracked_file: TrackedFile, failpoint: str) -> None:
    tracked_file.program.execute("insert into t (id) values (1), (2)")
    tracked_file.changes()
    old = tracked_file.seen
    tracked_file.program.execute("delete from t where id = 1")
    tracked_file.changes()
    statement = 'tracking.purge_tombstone_table_data("t", PurgeType.CSN_BASED, 1000)'
    assert run(tracked_file, statement, failpoint) == KILLED

    tracked_file.seen = old
    if failpoint.endswith("after"):
        with pytest.raises(AnchorTooOld, match="is too old for table"):
            tracked_file.changes()
    else:
        assert tracked_file.changes() == [("delete", 1)]


@pytest.mark.parametrize("failpoint", SQLITE_FAILPOINTS)
def test_killed_own_transaction_leaves_its_context_to_nobody(tracked_file: TrackedFile, failpoint: str) -> None:
    mine = UUID(int=7)
    insert = 'program.execute("insert into t (id) values (1)")'
    statement = f"stack.enter_context(tracking.transaction(UUID(int={mine.int}))); {insert}"
    assert run(tracked_file, statement, failpoint) == KILLED

    tracked_file.program.execute("insert into t (id) values (2)")
    with tracked_file.tracking.changes(["t"], tracked_file.seen, exclude_context=mine) as others:
        assert [change.row[0] for change in others] == [2]
    assert [change[1] for change in tracked_file.changes()] == ([1, 2] if failpoint.endswith("after") else [2])


@pytest.mark.parametrize("failpoint", SQLITE_FAILPOINTS)
def test_killed_enabling_or_disabling_is_all_or_nothing(sqlite_file: TrackedFile, failpoint: str) -> None:
    names = "select name from sqlite_schema order by name"
    untracked = sqlite_file.program.execute(names).fetchall()
    assert run(sqlite_file, 'tracking.enable_tracking("t")', failpoint) == KILLED
    is_done = sqlite_file.tracking.get_tracking_options("t") is not None
    assert is_done == failpoint.endswith("after")
    assert (sqlite_file.program.execute(names).fetchall() == untracked) is not is_done
    if not is_done:
        sqlite_file.tracking.enable_tracking("t")
    assert sqlite_file.changes() == []

    assert run(sqlite_file, 'tracking.disable_tracking("t")', failpoint) == KILLED
    assert (sqlite_file.program.execute(names).fetchall() == untracked) is failpoint.endswith("after")


def test_enumeration_blocks_no_writer_with_write_ahead_log(tracked_file: TrackedFile) -> None:
    mode = tracked_file.program.execute("pragma journal_mode").fetchone()[0]
    tracked_file.program.executemany("insert into t (id) values (?)", ((number,) for number in range(1000)))
    with (
        closing(sqlite3.connect(tracked_file.path, isolation_level=None, timeout=0)) as other,
        tracked_file.tracking.changes(["t"], tracked_file.seen) as changes,
    ):
        found = iter(changes)
        assert next(found).row[0] == 0
        other.execute("update t set qty = 1")
        assert sum(1 for change in found if change.as_dict()["qty"] is None) == 999, mode

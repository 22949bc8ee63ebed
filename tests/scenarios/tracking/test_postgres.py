"""Sessions that know nothing of rowtide write to PostgreSQL at once while replicas synchronise."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
import pytest

from builders.faults.failpoints import POSTGRES_TRACKING_FAILPOINTS
from builders.faults.killed_programs import KILLED, run_program
from builders.tracking.tracking_replicas import Replica, images
from rowtide.tracking import ChangeTracking, PurgeType

PROGRAM = """
import sys
from contextlib import ExitStack
import psycopg
from rowtide.tracking import ChangeTracking, PurgeType
with ExitStack() as stack:
    tracking = ChangeTracking(stack.enter_context(psycopg.connect(sys.argv[1], autocommit=True)))
    {statement}
"""
WRITERS = 16
KEYS = 300


def write(url: str, seed: int, stop: threading.Event, failures: list[Exception]) -> None:
    """Write in transactions of a few statements: some wait, some roll back, some are prepared.

    Each session has keys of its own, so that none waits for another and none fails to serialize but by our doing.
    """
    chance = random.Random(seed)
    try:
        with psycopg.connect(url, autocommit=True) as session:
            number = 0
            while not stop.is_set():
                number += 1
                transact(session, chance, seed, f"p_{seed}_{number}")
    except Exception as error:  # noqa: BLE001 - told by the test
        failures.append(error)
        stop.set()


def transact(session: psycopg.Connection, chance: random.Random, seed: int, name: str) -> None:
    session.execute("begin isolation level " + chance.choice(["read committed", "repeatable read"]))
    for _ in range(chance.randint(1, 6)):
        key = chance.randrange(KEYS) * WRITERS + seed
        statements = [
            ("insert into t values (%s, %s) on conflict (id) do update set qty = excluded.qty", (key, chance.random())),
            ("update t set qty = %s where id = %s", (chance.random(), key)),
            ("delete from t where id = %s", (key,)),
            (f"savepoint s; delete from t where id = {key}; rollback to s", ()),
        ]
        statement, values = chance.choice(statements)
        session.execute(statement.encode(), values or None)
    time.sleep(chance.random() * chance.choice([0, 0, 0.02]))
    # The server has eight places for prepared transactions.
    last = chance.choice(["commit", "commit", "commit", "rollback", "prepare" if seed < 8 else "commit"])
    if last == "prepare":
        session.execute(f"prepare transaction '{name}'".encode())
        session.execute(f"commit prepared '{name}'".encode())
    else:
        session.execute(last.encode())


@dataclass
class NaiveReplica:
    """A copy by the anchor that first comes to mind: the highest number in the rows that can be seen."""

    rows: dict[int, float | None] = field(default_factory=dict)
    highest: int = 0

    def synchronise(self, program: psycopg.Connection) -> None:
        stamp = '"__sysChangeTxBsn"'
        found = program.execute(f"select id, qty, {stamp} from t where {stamp} > %s".encode(), [self.highest])
        for key, qty, bsn in found.fetchall():
            self.rows[key] = qty
            self.highest = max(self.highest, bsn)


@dataclass
class SlowTransaction:
    """An insert of a row that nobody else writes, in a transaction that stays open until it is told to end."""

    session: psycopg.Connection
    key: int
    bsn: int

    @classmethod
    def begin(cls, session: psycopg.Connection, key: int) -> SlowTransaction:
        session.execute("begin")
        session.execute("insert into t values (%s, 0)", [key])
        row = session.execute("select pg_current_xact_id()::text::bigint").fetchone()
        assert row is not None
        return cls(session, key, row[0])


@contextmanager
def writing(url: str) -> Iterator[threading.Event]:
    """Let sixteen sessions write until the event is set, which one that fails does too; raise what failed in them."""
    failures: list[Exception] = []
    stop = threading.Event()
    threads = [threading.Thread(target=write, args=(url, seed, stop, failures)) for seed in range(WRITERS)]
    for thread in threads:
        thread.start()
    try:
        yield stop
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []


@pytest.mark.parametrize("failpoint", POSTGRES_TRACKING_FAILPOINTS)
def test_whatever_is_killed_is_done_whole_or_not_at_all(database: str, failpoint: str) -> None:
    """Enabling, an enumeration, a purge and disabling are killed in turn, each at its own failpoint."""
    with psycopg.connect(database, autocommit=True) as program:
        program.execute("create table t (id int primary key); insert into t values (1)")
        tracking = ChangeTracking(program)
        run(database, 'tracking.enable_tracking("t")', failpoint)
        if tracking.get_tracking_options("public.t") is None:
            tracking.enable_tracking("t")
        replica = Replica(tracking)
        replica.synchronise()
        program.execute("delete from t; insert into t values (2)")
        run(database, 'stack.enter_context(tracking.changes(["t"]))', failpoint)
        assert replica.synchronise() == 2
        run(database, 'tracking.purge_tombstone_table_data("t", PurgeType.TIME_BASED, 0)', failpoint)
        program.execute("insert into t values (3)")
        assert replica.synchronise() == 1
        assert [*replica.rows] == [(2,), (3,)]
        run(database, 'tracking.disable_tracking("t")', failpoint)
        if tracking.get_tracking_options("public.t") is not None:
            tracking.disable_tracking("t")
        assert program.execute("select count(*) from pg_trigger where not tgisinternal").fetchone() == (0,)


def test_every_failpoint_kills_something(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as program:
        program.execute("create table t (id int primary key)")
        ChangeTracking(program).enable_tracking("t")
        program.execute("insert into t values (1); delete from t")
    purge = 'tracking.purge_tombstone_table_data("t", PurgeType.TIME_BASED, 0)'
    statements = {"clock_commit": purge, "postgres_purge": purge, "tracking_commit": 'tracking.disable_tracking("t")'}
    for failpoint in POSTGRES_TRACKING_FAILPOINTS:
        if failpoint.endswith(".before"):
            assert run(database, statements[failpoint.partition(".")[0]], failpoint) == KILLED


def run(url: str, statement: str, failpoint: str) -> int:
    """Run a statement on the tracking of a database in a process of its own; return its exit code."""
    return run_program(PROGRAM.format(statement=statement), url, failpoint=failpoint)


@pytest.mark.parametrize(
    "seconds", [3, pytest.param(8, marks=pytest.mark.exhaustive), pytest.param(120, marks=pytest.mark.soak)]
)
def test_replicas_equal_the_table_while_sixteen_sessions_write(database: str, seconds: float) -> None:
    chance = random.Random(seconds)
    with psycopg.connect(database, autocommit=True) as program:
        program.execute("create table t (id int primary key, qty float8)")
        tracking = ChangeTracking(program)
        tracking.enable_tracking("t")
        replicas, naive = [Replica(tracking) for _ in range(3)], NaiveReplica()
        found, overtaken = 0, list[int]()
        with psycopg.connect(database, autocommit=True) as session, writing(database) as stop:
            for replica in replicas:
                replica.synchronise()
            slow = SlowTransaction.begin(session, -1)
            until = time.monotonic() + seconds
            # On a busy machine it takes longer until there is something to judge by.
            while not stop.is_set() and (time.monotonic() < until or found <= 100 or not overtaken):
                found += chance.choice(replicas).synchronise()
                naive.synchronise(program)
                if naive.highest > slow.bsn:
                    session.execute("commit")
                    overtaken.append(slow.key)
                    slow = SlowTransaction.begin(session, slow.key - 1)
                if chance.random() < 0.05:
                    oldest = min(replica.anchor.csn for replica in replicas if replica.anchor is not None)
                    tracking.purge_tombstone_table_data("t", PurgeType.CSN_BASED, oldest)
        for replica in replicas:
            found += replica.synchronise()
            replica.assert_equals(images(("id", "qty"), program.execute("select id, qty from t").fetchall()))
        naive.synchronise(program)
        assert naive.rows.keys().isdisjoint(overtaken)
        recorded = program.execute('select count(*) from rowtide_tracking."__sysTxCommitSequence"').fetchone()
        assert recorded is not None
        assert recorded[0] > 0


def test_the_highest_number_is_no_anchor(database: str) -> None:
    """Who goes by it never gets what commits after a transaction that began later; see the storm above."""
    with psycopg.connect(database, autocommit=True) as program, psycopg.connect(database, autocommit=True) as session:
        program.execute("create table t (id int primary key, qty float8)")
        ChangeTracking(program).enable_tracking("t")
        replica, naive = Replica(ChangeTracking(program)), NaiveReplica()
        SlowTransaction.begin(session, 1)
        program.execute("insert into t values (2, 0)")
        naive.synchronise(program)
        replica.synchronise()
        session.execute("commit")
        naive.synchronise(program)
        replica.synchronise()

        assert [*naive.rows] == [2]
        assert [*replica.rows] == [(2,), (1,)]

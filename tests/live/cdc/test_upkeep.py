"""Upkeep of the lake beside capture: no cycle waits for it, and only the holder of the lake does it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from builders.capture.captured_databases import CapturedDatabase, wait_until
from builders.lakes.delta_tables import own
from rowtide.cdc.capture.capture import Capture
from rowtide.cdc.lake_lease import LakeLease
from rowtide.cdc.running.threads import UPKEEP_THREAD, LakeUpkeep
from rowtide.cdc.system_tables import SystemTables
from rowtide.databases.postgres.connect import open_engine
from rowtide.delta.writing import commit_race
from rowtide.lake import tables
from rowtide.log.errors import LeaseHeld, LeaseLost
from rowtide.log.postgres.lease import AdvisoryLease, find_holder

DEADLINE_S = 600


@contextmanager
def opened(captured: CapturedDatabase) -> Iterator[Capture]:
    """Capture with upkeep beside it, as `cdc run` has it."""
    source = captured.cdc.get_source()
    with AdvisoryLease.take(open_engine(captured.url), "lake") as lease:
        held = LakeLease.take(captured.store(), lease)
        with LakeUpkeep(held.for_thread(lease.verifier())).running() as upkeep:
            system_tables = SystemTables(source.lake, source.source_id, maintain=upkeep.maintain_log)
            yield Capture(system_tables, captured.store(), held, compact=upkeep.compact)


def write_and_capture(captured: CapturedDatabase, capture: Capture, number: int) -> None:
    captured.execute(f"insert into item values ({number})")
    captured.read_log()
    while capture.step():
        pass


def count_files(captured: CapturedDatabase, name: str) -> int:
    return len(own(Path(f"{captured.lake}/cdc/{name}")).files)


@pytest.mark.exhaustive
def test_cycles_complete_while_a_compaction_is_held(
    captured: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_held, may_go_on = threading.Event(), threading.Event()

    def hold(name: str) -> None:
        if name == "delta_commit.before" and threading.current_thread().name.startswith(UPKEEP_THREAD):
            is_held.set()
            assert may_go_on.wait(DEADLINE_S)

    monkeypatch.setattr(commit_race, "failpoint", hold)
    monkeypatch.setattr(tables, "COMPACTION_INTERVAL", 1)
    captured.execute("create table item (id int primary key)")
    captured.enable("item")
    captured.capture()
    with opened(captured) as capture:
        try:
            for number in (1, 2, 3):
                write_and_capture(captured, capture, number)
            assert is_held.wait(DEADLINE_S)
            for number in (4, 5):
                write_and_capture(captured, capture, number)
            assert captured.values("public_item", "id") == [(2, number) for number in range(1, 6)]
            before = count_files(captured, "cycles")
        finally:
            may_go_on.set()
        wait_until(lambda: count_files(captured, "cycles") < before, what="the compaction")
        wait_until(lambda: count_files(captured, "public_item_CT") < 5, what="the next one")
    assert captured.values("public_item", "id") == [(2, number) for number in range(1, 6)]
    captured.execute("insert into item values (6)")
    captured.capture()
    assert captured.values("public_item", "id") == [(2, number) for number in range(1, 7)]


def test_a_lease_is_verified_from_another_session(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key)")
    captured.enable("item")
    engine = open_engine(captured.url)
    lease = AdvisoryLease.take(engine, "lake")
    with lease:
        verify = lease.verifier()
        verify()
    with AdvisoryLease.take(engine, "lake"), pytest.raises(LeaseLost, match="lake"):
        verify()
    with engine.connect() as connection:
        wait_until(lambda: find_holder(connection, "lake") is None, what="the release")
    with pytest.raises(LeaseLost, match="by nobody"):
        verify()


def test_a_lease_waits_for_a_session_that_is_ending(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key)")
    captured.enable("item")
    engine = open_engine(captured.url)
    lease = AdvisoryLease.take(engine, "lake")
    with pytest.raises(LeaseHeld):
        AdvisoryLease.take(engine, "lake", patience_s=0)
    ending = threading.Timer(0.5, lease.release)
    ending.start()
    AdvisoryLease.take(engine, "lake").release()
    ending.join()

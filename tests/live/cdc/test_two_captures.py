"""Two processes that capture into one lake at once: a cycle has one range, and its rows are there once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from builders.capture.captured_databases import CapturedDatabase
from rowtide.cdc.capture.capture import Capture, CycleOptions
from rowtide.cdc.lake_lease import LakeLease
from rowtide.cdc.system_tables import RecordedCycle, SystemTables
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import ConnectionFailed
from rowtide.delta.errors import AppendNotFound
from rowtide.log.errors import LeaseLost
from rowtide.log.postgres.lease import AdvisoryLease

TRANSACTIONS = 40
END_LEASES = "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory'"


@pytest.fixture
def two_tables(captured: CapturedDatabase) -> CapturedDatabase:
    """Two captured tables, with an unread transaction in each."""
    captured.execute("create table first (id int primary key)", "create table second (id int primary key)")
    captured.enable("first", "second")
    captured.capture()
    captured.execute("insert into first values (1)", "insert into second values (1)")
    captured.read_log()
    return captured


def interrupt_recording(
    monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None], *, is_recorded: bool = False
) -> None:
    """Let something happen between the next check of the lease and the recording of the range, or right after that."""
    record = SystemTables.record

    def record_late(self: SystemTables, cycle: RecordedCycle, token: int) -> bool:
        monkeypatch.setattr(SystemTables, "record", record)
        if not is_recorded:
            meanwhile()
        is_new = record(self, cycle, token)
        if is_recorded:
            meanwhile()
        return is_new

    monkeypatch.setattr(SystemTables, "record", record_late)


@pytest.mark.exhaustive
def test_a_stopped_process_does_not_append_to_a_cycle_of_another(
    two_tables: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stopped before it recorded its range, of both tables; the other's cycle has the first alone."""

    def take_over() -> None:
        two_tables.execute(END_LEASES)
        with two_tables.open_capture(maxtrans=1) as capture:
            capture.step()

    with two_tables.open_capture() as stopped:
        interrupt_recording(monkeypatch, take_over)
        with pytest.raises(ConnectionFailed):
            stopped.step()
    two_tables.capture()

    assert two_tables.values("public_first", "id") == [(2, 1)]
    assert two_tables.values("public_second", "id") == [(2, 1)]


@pytest.mark.exhaustive
def test_a_stopped_process_empties_no_later_instances_table(
    two_tables: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cycle begins an instance; meanwhile that one ended, and another has its name."""
    two_tables.execute("create table third (id int primary key)")
    two_tables.enable("third")
    two_tables.execute("insert into third values (1)")
    two_tables.read_log()

    def take_over() -> None:
        two_tables.execute(END_LEASES)
        two_tables.capture()
        two_tables.cdc.disable_table("third")
        two_tables.enable("third")
        two_tables.execute("insert into third values (2)")
        two_tables.capture()

    with two_tables.open_capture() as stopped:
        interrupt_recording(monkeypatch, take_over, is_recorded=True)
        with pytest.raises(ConnectionFailed):
            stopped.step()

    assert two_tables.values("public_third", "id") == [(2, 2)]


@pytest.mark.exhaustive
def test_a_stopped_process_brings_no_columns_type_back(
    two_tables: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cycle widens a column; meanwhile that one has got another type again."""
    two_tables.execute("create table third (id int primary key, n int)")
    two_tables.enable("third")
    two_tables.execute("insert into third values (1, 1)")
    two_tables.capture()
    two_tables.execute("alter table third alter n type bigint", "insert into third values (2, 2)")
    two_tables.read_log()

    def take_over() -> None:
        two_tables.execute(END_LEASES)
        two_tables.capture()
        two_tables.execute("alter table third alter n type text", "insert into third values (3, 'three')")
        two_tables.capture()

    with two_tables.open_capture() as stopped:
        interrupt_recording(monkeypatch, take_over, is_recorded=True)
        with pytest.raises(ConnectionFailed):  # noqa: PT012 - the first step may only move up to the statement
            for _ in range(3):
                stopped.step()

    assert two_tables.values("public_third", "n") == [(2, "1"), (2, "2"), (2, "three")]


def test_a_process_that_loses_a_cycle_redoes_its_range(
    two_tables: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the lease had come back to it: the other one recorded the cycle, and published nothing."""

    def record_another(self: SystemTables, cycle: RecordedCycle, token: int) -> bool:
        monkeypatch.undo()
        [first, _] = sorted(row["commit_lsn"] for row in two_tables.records())
        assert self.record(RecordedCycle(cycle.cycle, cycle.from_position, type(cycle.to_position)(first + 1)), token)
        return self.record(cycle, token)

    monkeypatch.setattr(SystemTables, "record", record_another)
    with two_tables.open_capture() as capture:
        assert capture.step()
        assert capture.step()
        assert two_tables.values("public_first", "id") == [(2, 1)]
        assert two_tables.values("public_second", "id") == []
        assert capture.step()
    assert two_tables.values("public_second", "id") == [(2, 1)]


@pytest.mark.exhaustive
def test_of_two_that_ignore_the_lease_one_commits_each_cycle(
    two_tables: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the lake's own tables keeps them apart."""
    monkeypatch.setattr(LakeLease, "require", lambda _lease, _state=None: None)
    for number in range(2, TRANSACTIONS):
        two_tables.execute(f"insert into first values ({number})", f"insert into second values ({number})")
    target = two_tables.mark()
    two_tables.read_log(target)
    failures: list[BaseException] = []

    def capture_all(lease: AdvisoryLease, maxtrans: int) -> None:
        try:
            while not capture_on(two_tables, lease, maxtrans, target):
                pass
        except BaseException as error:  # noqa: BLE001 - asserted on below
            failures.append(error)

    with AdvisoryLease.take(open_engine(two_tables.url), "lake") as lease:
        captures = [threading.Thread(target=capture_all, args=(lease, maxtrans)) for maxtrans in (3, 5)]
        for thread in captures:
            thread.start()
        for thread in captures:
            thread.join()

    assert failures == []
    expected = [(2, number) for number in range(1, TRANSACTIONS)]
    assert two_tables.values("public_first", "id") == expected
    assert two_tables.values("public_second", "id") == expected


def capture_on(captured: CapturedDatabase, lease: AdvisoryLease, maxtrans: int, target: int) -> bool:
    """Capture up to a log position; return False where the other process is a cycle ahead, or has taken the lake."""
    source, store = captured.cdc.get_source(), captured.store()
    system_tables = SystemTables(source.lake, source.source_id, lambda: captured.spark)
    capture = Capture(system_tables, store, LakeLease.take(store, lease), options=CycleOptions(maxtrans=maxtrans))
    try:
        while capture.position.log <= target:
            capture.step()
    except (AppendNotFound, LeaseLost):
        return False
    return True

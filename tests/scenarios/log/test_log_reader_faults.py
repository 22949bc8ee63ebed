"""The log reader alone, killed where its batches, positions and parts meet: no transaction lost, twice or in part."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.log.log_reader_processes import is_streaming, log_reader
from rowtide.core.lsn import Position
from rowtide.log import reader
from rowtide.log.log_source import Keepalive
from rowtide.log.opening import open_log_reader
from rowtide.log.store.segments import PENDING


@pytest.mark.exhaustive
def test_commit_at_the_confirmed_position_survives_a_kill(logged: LoggedDatabase, tmp_path: Path) -> None:
    """Its commit LSN is the position: dropping what is "at or below" would lose it when it is sent again."""
    logged.execute("create table item (id int)")
    logged.enable("item")
    has_met = False
    for number in range(0, 20, 2):
        position = kill_between(logged, number, tmp_path)
        logged.read_log()
        assert logged.inserted() == [str(written) for written in range(number + 2)]
        has_met = has_met or logged.records()[-1]["commit_lsn"] == position.value
        if has_met and number:
            break
    assert has_met


def kill_between(logged: LoggedDatabase, number: int, failpoints: Path) -> Position:
    """Commit two transactions with nothing between; kill the log reader when the first is durable but not confirmed."""
    with logged.transaction() as second, logged.transaction() as first:
        first.execute("insert into item values (%s)", [number])
        second.execute("insert into item values (%s)", [number + 1])
        (failpoints / "slot_confirmation.before").touch()
        with log_reader(logged, ROWTIDE_FAILPOINTS=str(failpoints)) as reader:
            wait_until(lambda: is_streaming(logged), what="the log reader streams")
            first.commit()
            assert reader.wait(60) == -9
        second.commit()
    return logged.manifest().state.position


@pytest.mark.exhaustive
def test_transaction_larger_than_a_batch_is_atomic_when_killed(
    logged: LoggedDatabase,
) -> None:
    logged.execute("create table item (id int)")
    logged.enable("item")
    logged.execute("insert into item values (0)", "insert into item select generate_series(1, 2500)")
    parts = ("segment_sync.before@3", "segment_sync.after@2", "part_entry.before@2", "part_entry.after@2")
    failpoints = (*parts, "manifest_entry.before", "manifest_entry.after")
    for failpoint in failpoints:
        with log_reader(logged, ROWTIDE_FAILPOINT=failpoint) as reader:
            assert reader.wait(60) == -9
        assert logged.inserted() in (["0"], [str(number) for number in range(2501)])
    state = logged.read_log()
    assert logged.inserted() == [str(number) for number in range(2501)]
    large = [segment for segment in state.segments if segment.path.startswith(PENDING)]
    assert len(large) > 1
    assert sorted(logged.store().list(PENDING)) == sorted(segment.path for segment in large)
    seqvals = [row["seqval"] for row in logged.records() if row["commit_lsn"] == large[0].first.value]
    assert seqvals == list(range(1, 2501))


def test_keepalives_within_a_large_transaction_publish_nothing(
    logged: LoggedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged.execute("create table item (id int)")
    logged.enable("item")
    before = logged.read_log().position
    logged.execute("insert into item select generate_series(1, 1000)")
    [(end,)] = logged.execute("select (pg_current_wal_insert_lsn() - '0/0')::bigint")
    monkeypatch.setattr(reader, "MAX_BATCH_MESSAGES", 300)
    with open_log_reader(logged.url) as reading:
        source = reading._source
        reading.step()
        with monkeypatch.context() as patched:
            patched.setattr(
                source, "receive", lambda received, **_: setattr(received, "keepalive", Keepalive(end, None))
            )
            wait_until(lambda: not (reading.step() or reading._queued), what="the first part is stored")
            for _ in range(10):
                reading.step()
        assert (logged.manifest().state.position, logged.inserted()) == (before, [])
    logged.read_log()
    assert logged.inserted() == [str(number) for number in range(1, 1001)]


@pytest.mark.exhaustive
def test_a_log_reader_that_lost_its_connection_goes_on_by_itself(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int)")
    logged.enable("item")
    with log_reader(logged) as reader:
        for number in range(3):
            logged.execute(f"insert into item values ({number})")
            wait_until(lambda: str(number) in logged.inserted(), what=f"row {number} is read")  # noqa: B023 - at once
            logged.execute("select pg_terminate_backend(pid) from pg_stat_replication")
        assert reader.poll() is None
    logged.read_log()
    assert logged.inserted() == ["0", "1", "2"]

"""A capture process is stopped (SIGSTOP) for longer than the lake's tables keep their logs, while another one captures.

It wakes between two steps that belong together: its next commits find the numbers free that the other's had.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import rowtide
from builders.capture.capture_processes import LOG_READER, CaptureProcess, find_children
from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.lakes.delta_tables import locate, own
from rowtide.cdc.lake_lease import LAKE
from rowtide.delta.log_files import commit_path
from rowtide.delta.writing.alteration import set_properties
from rowtide.log.errors import LeaseHeld

SOURCES = ("first", "second")
GROWING = ("cycles", "lsn_time_mapping", *(f"public_{name}_CT" for name in SOURCES))
KEEPS_NO_LOG = {"delta.checkpointInterval": "2", "delta.logRetentionDuration": "interval 0 days"}
STOPS = [
    ("cycle_record.before", "delta_commit.before"),
    ("cycle_record.after",),
    ("change_table_append.before", "delta_commit.before"),
    ("change_table_append.after",),
    ("publication.before", "delta_commit.before"),
    ("publication.after",),
    ("delta_checkpoint.before",),
    ("delta_checkpoint.after",),
]
IMPATIENT = """
from datetime import timedelta
from rowtide.delta import checkpoints
from rowtide.storage import freshness
freshness.FRESH_FOR_S, checkpoints.KEPT_FOR = 0.3, timedelta(seconds=1)
from rowtide.cli.main import main
main()
"""
"""The command, where the log is looked at after less than a minute, and cleanup leaves less than ten of it."""
REFUSED = f"RT-{LeaseHeld.number}: the {LAKE} lease is held"


@pytest.fixture
def sleeper(logged: LoggedDatabase, tmp_path: Path) -> Iterator[CaptureProcess]:
    """A process that captures two tables into a lake whose tables keep no log."""
    logged.execute(*(f"create table {name} (id int generated always as identity primary key)" for name in SOURCES))
    logged.enable(*SOURCES)
    with started(logged, tmp_path / "sleeper") as process:
        publish(logged, process)
        for name in GROWING:
            set_properties(locate(table_path(logged, name)), KEEPS_NO_LOG)
        publish(logged, process)
        yield process


def started(logged: LoggedDatabase, directory: Path) -> CaptureProcess:
    directory.mkdir()
    return CaptureProcess(logged.url, directory, program=("-c", IMPATIENT))


def write(logged: LoggedDatabase) -> None:
    logged.execute(*(f"insert into {name} default values" for name in SOURCES))


def publish(logged: LoggedDatabase, process: CaptureProcess) -> None:
    write(logged)
    process.wait_published(logged)


def table_path(logged: LoggedDatabase, name: str) -> Path:
    return logged.lake / "cdc" / name


def cut_off(logged: LoggedDatabase, sleeper: CaptureProcess) -> None:
    """End what a stopped process holds: its sessions, and its log reader."""
    for child in find_children(sleeper.process.pid, LOG_READER):
        os.kill(child, signal.SIGKILL)
    logged.execute("select pg_terminate_backend(pid, 10000) from pg_locks where locktype = 'advisory'")


def lake_files(logged: LoggedDatabase) -> dict[str, tuple[int, frozenset[str]]]:
    """Return the version and the data files of each table, as readers see them."""
    found = {name: own(table_path(logged, name)) for name in (*GROWING, "instances")}
    return {name: (table.version, frozenset(table.files)) for name, table in found.items()}


def numbers(logged: LoggedDatabase, name: str, column: str) -> list[int]:
    values: list[int | None] = own(table_path(logged, name)).read()[column].to_pylist()
    return sorted(value for value in values if value is not None)


def require_everything_once(logged: LoggedDatabase) -> None:
    """Compare the tables, whatever is published of them, with the source."""
    cycles = numbers(logged, "cycles", "cycle")
    assert cycles == list(range(1, len(cycles) + 1))
    assert sorted(set(numbers(logged, "lsn_time_mapping", "cycle"))) == cycles
    lsns = numbers(logged, "lsn_time_mapping", "start_lsn")
    assert lsns == sorted(set(lsns))
    lake = rowtide.open_lake(str(logged.lake))
    for name in SOURCES:
        ids = [number for (number,) in logged.execute(f"select id from {name} order by id")]
        assert numbers(logged, f"public_{name}_CT", "id") == ids
        assert lake.get_all_changes(f"public_{name}").to_arrow().read_all()["id"].to_pylist() == ids


@pytest.mark.exhaustive
@pytest.mark.parametrize("stops", STOPS, ids=lambda stops: stops[0])
def test_a_process_that_wakes_too_late_changes_nothing(
    logged: LoggedDatabase, sleeper: CaptureProcess, tmp_path: Path, stops: tuple[str, ...]
) -> None:
    sleeper.stop_at(*stops, cause=lambda: write(logged))
    taken = [table_path(logged, name) / commit_path(own(table_path(logged, name)).version + 1) for name in GROWING]
    cut_off(logged, sleeper)
    with started(logged, tmp_path / "other") as other:
        publish(logged, other)
        assert all(commit.exists() for commit in taken)
        while any(commit.exists() for commit in taken):
            publish(logged, other)
        before = lake_files(logged)
        sleeper.resume()
        wait_until(lambda: REFUSED in sleeper.messages(), what="it asks for the lease again")
        assert lake_files(logged) == before
        publish(logged, other)
        assert other.terminate() == 0
    publish(logged, sleeper)
    assert sleeper.terminate() == 0
    require_everything_once(logged)

"""A capture process is stopped (SIGSTOP), while another one captures: it changes nothing when it wakes.

It wakes between two steps that belong together: its next commits find the numbers free that the other's had, where the
lake's tables do not keep their logs for so long, or the other has committed nothing yet but what keeps it away.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import insert

import rowtide
from builders.capture.capture_processes import LOG_READER, CaptureProcess, find_children
from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.faults.failpoints import find_capture_failpoints
from builders.lakes.delta_tables import locate, own
from rowtide.cdc.definitions import cleanup_requests, mend_requests
from rowtide.cdc.lake_lease import LAKE, LakeLease
from rowtide.core.tables import Widened
from rowtide.databases.postgres.connect import open_engine
from rowtide.delta.replay import commit_path
from rowtide.delta.writing.alteration import set_properties
from rowtide.delta.writing.widening_removal import is_marked
from rowtide.log.errors import LeaseHeld
from rowtide.log.postgres.lease import AdvisoryLease

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
SILENCE_S = 3
CHAINS = {
    # The step's own commit, whose number is known when it stands there.
    name: (name, "delta_commit.before")
    for name in ("cycle_record.before", "change_table_append.before", "publication.before")
}
TELLING = ("change_table_append.before", "publication.before", "delta_vacuum.before")
"""The failpoints of the default run, where the log reader continues; a paused machine is at one of the log reader."""
SESSIONS_OF = "select count(*) from pg_stat_activity where application_name like 'rowtide % pid {}'"
HOLDS_LAKE = "select count(*) from pg_locks where locktype = 'advisory' and classid = 1919907700 and objid = 2"
HOLDS_LOG = HOLDS_LAKE.replace("objid = 2", "objid = 1")
"""The lake's lease; the other sessions of who had it are ended by who takes it."""
IMPATIENT = """
from datetime import timedelta
from rowtide.delta import checkpoints
from rowtide.storage import store
store.FRESH_FOR_S, checkpoints.KEPT_FOR = 0.3, timedelta(seconds=1)
from rowtide.cli.main import main
main()
"""
"""The command, where the log is looked at after less than a minute, and cleanup leaves less than ten of it."""
SLOT_IN_USE = "select from pg_replication_slots where database = current_database() and active"
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


def require_nothing_changed(logged: LoggedDatabase, sleeper: CaptureProcess) -> None:
    """Let a stopped process continue: it asks for its lease again, and changes no file of the lake before."""
    before = lake_files(logged)
    sleeper.resume()
    wait_until(lambda: REFUSED in sleeper.messages(), what="it asks for the lease again")
    assert lake_files(logged) == before


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


def require_everything_once(logged: LoggedDatabase, *, is_cleaned: bool = False) -> None:
    """Compare the tables, whatever is published of them, with the source; of a cleaned one only the last rows are."""
    cycles = numbers(logged, "cycles", "cycle")
    assert cycles == list(range(1, len(cycles) + 1))
    assert sorted(set(numbers(logged, "lsn_time_mapping", "cycle"))) == cycles
    lsns = numbers(logged, "lsn_time_mapping", "start_lsn")
    assert lsns == sorted(set(lsns))
    lake = rowtide.open_lake(str(logged.lake))
    for name in SOURCES:
        ids = [number for (number,) in logged.execute(f"select id from {name} order by id")]
        shown = lake.get_all_changes(f"public_{name}").to_arrow().read_all()["id"].to_pylist()
        for found in (numbers(logged, f"public_{name}_CT", "id"), shown):
            assert found == (ids[-len(found) :] if is_cleaned and name == SOURCES[0] else ids)


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
        require_nothing_changed(logged, sleeper)
        publish(logged, other)
        assert other.terminate() == 0
    publish(logged, sleeper)
    assert sleeper.terminate() == 0
    require_everything_once(logged)


def within_seconds(url: str) -> str:
    """Return the URL of a process whose sessions are silent after a few seconds."""
    return f"{url}&options=-c%20rowtide.silence_timeout%3D{SILENCE_S}"


def copy_session(process: CaptureProcess) -> str:
    """Return the name of the sessions in which a process copies tables."""
    return f"rowtide snapshot on {socket.gethostname()} pid {process.process.pid}"


TABLES = {
    "copied": "(id int primary key, number int)",
    "large": "(id int primary key, text text)",
    "parts": "(id int primary key)",
}
STATEMENTS: dict[str, tuple[str, ...]] = {
    "types_carried": ("alter table copied alter number type bigint", "insert into copied values (0, 1)"),
    "transaction_omitted": (f"insert into large values (1, repeat('x', {80 << 20}))",),
    "part_entry": ("insert into parts select generate_series(1, 150000)",),
    "delta_creation": ("create table later (id int primary key)",),
}
"""What has to happen that a step is taken, beside what always does."""
CLEANED, FOLDED = ("cleanup_record", "low_endpoints", "rows_removal", "delta_vacuum"), ("roll_forward", "fold")
COPIED = ("base_chunk", "snapshot_event", "snapshot_request")
SMALL_MEMORY = "from rowtide.cdc.capture import capture\ncapture.find_most_row_bytes = lambda: 1 << 20\n"


def bring_about(logged: LoggedDatabase, failpoint: str) -> None:
    """Let a process come to a step: rows are written, removed or copied, or a table is another."""
    step = failpoint.partition(".")[0]
    write(logged)
    logged.execute(*STATEMENTS.get(step, ()))
    if step == "delta_creation":
        logged.cdc.enable_table("later")
    if step == "table_mended":
        logged.cdc.enable_db(str(logged.lake), widened=Widened.MARK)
        logged.execute(*STATEMENTS["types_carried"])
        wait_until(lambda: is_marked(own(table_path(logged, "public_copied_CT"))), what="type widening")
        with open_engine(logged.url).begin() as connection:
            connection.execute(insert(mend_requests).values(capture_instance="public_copied"))
    if step in COPIED:
        logged.cdc.resnapshot("copied")
    if step in (*CLEANED, *FOLDED):
        mark = rowtide.open_lake(str(logged.lake)).get_max_lsn()
        assert mark is not None
        instance = f"public_{SOURCES[0] if step in CLEANED else 'copied'}"
        order = {"capture_instance": instance, "low_water_mark": mark.value, "retention_us": 1}
        with open_engine(logged.url).begin() as connection:
            connection.execute(insert(cleanup_requests).values(**order, is_forced=True))


def stand_at(logged: LoggedDatabase, sleeper: CaptureProcess, failpoint: str) -> None:
    """Let a process stand at a failpoint."""
    if failpoint.startswith("snapshot_removal"):
        logged.cdc.resnapshot("copied")
        sleeper.stop_at("base_chunk.after", cause=lambda: write(logged))
        logged.cdc.cancel_snapshot("copied")
        sleeper.stop_at(failpoint, cause=sleeper.resume)
    else:
        sleeper.stop_at(*CHAINS.get(failpoint, (failpoint,)), cause=lambda: bring_about(logged, failpoint))


def everything(logged: LoggedDatabase, *, is_paused: bool) -> dict[str, object]:
    """Return what a process that captures may change: the lake's tables, and what is its log reader's, if that was
    stopped, too: the log store's manifest and the slot.
    """
    folders = sorted(log.parent for log in logged.lake.glob("cdc/*/_delta_log"))
    tables = {folder.name: own(folder) for folder in folders}
    found: dict[str, object] = {name: (table.version, frozenset(table.files)) for name, table in tables.items()}
    if not is_paused:
        return found
    confirmed = logged.execute(
        "select confirmed_flush_lsn from pg_replication_slots where database = current_database()"
    )
    return {**found, "manifest": logged.manifest().state, "slot": confirmed}


def prepare_copy(logged: LoggedDatabase) -> None:
    """Let a base have rows that changed since, so that they are rolled forward and folded."""
    logged.execute("insert into copied select n, n from generate_series(1, 9) n")
    logged.cdc.enable_table("copied", snapshot=True)
    logged.cdc.run(once=True)
    logged.execute("update copied set number = 0")
    logged.cdc.run(once=True)
    logged.execute("update copied set number = 1")


@pytest.mark.parametrize(
    ("failpoint", "is_paused"),
    [
        *((name, False) for name in TELLING),
        *(pytest.param(name, True, marks=pytest.mark.exhaustive) for name in find_capture_failpoints()),
    ],
)
def test_a_stopped_process_changes_nothing_when_it_wakes(
    logged: LoggedDatabase, tmp_path: Path, failpoint: str, *, is_paused: bool
) -> None:
    logged.execute(
        *(f"create table {name} (id int generated always as identity primary key)" for name in SOURCES),
        *(f"create table {name} {columns}" for name, columns in TABLES.items()),
    )
    logged.enable(*SOURCES)
    if is_paused:
        prepare_copy(logged)
        for name in ("large", "parts"):
            logged.cdc.enable_table(name)
        set_properties(locate(table_path(logged, "cycles")), {"delta.checkpointInterval": "2"})
    sleeper = CaptureProcess(within_seconds(logged.url), tmp_path, program=("-c", SMALL_MEMORY + IMPATIENT))
    with sleeper:
        publish(logged, sleeper)
        stand_at(logged, sleeper, failpoint)
        if is_paused:
            sleeper.pause()
            wait_until(lambda: logged.execute(HOLDS_LOG) == [(0,)], what="the server ends the log reader's session")
        wait_until(lambda: logged.execute(HOLDS_LAKE) == [(0,)], what="the server ends the session")
        # It writes what the stopped process was about to write, and nothing else.
        logged.cdc.run(once=True)
        with AdvisoryLease.take(open_engine(logged.url), LAKE) as lease, ExitStack() as stack:
            LakeLease.take(logged.store(), lease)
            if is_paused:
                # Where its lease is free, a log reader that wakes takes it, and continues.
                stack.enter_context(AdvisoryLease.take(open_engine(logged.url), "log"))
                wait_until(lambda: logged.execute(SLOT_IN_USE) == [], what="the slot has its last confirmation")
            before = everything(logged, is_paused=is_paused)
            sleeper.resume()
            wait_until(lambda: REFUSED in sleeper.messages(), what="it asks for the lease again")
            assert everything(logged, is_paused=is_paused) == before
    write(logged)
    logged.cdc.run(once=True)
    require_everything_once(logged, is_cleaned=failpoint.startswith(CLEANED))


@pytest.mark.exhaustive
def test_a_log_reader_that_is_stopped_is_replaced(logged: LoggedDatabase, tmp_path: Path) -> None:
    logged.execute(*(f"create table {name} (id int generated always as identity primary key)" for name in SOURCES))
    logged.enable(*SOURCES)
    (tmp_path / "parent").mkdir()
    with CaptureProcess(within_seconds(logged.url), tmp_path / "parent") as parent:
        publish(logged, parent)
        stopped = parent.wait_child(LOG_READER)
        os.kill(stopped, signal.SIGSTOP)
        write(logged)
        # After a minute without a word.
        wait_until(lambda: stopped not in find_children(parent.process.pid, LOG_READER), what="killed")
        parent.wait_published(logged)
        assert parent.terminate() == 0
    require_everything_once(logged)


def test_a_machine_that_is_paused_frees_slot_and_leases(logged: LoggedDatabase, tmp_path: Path) -> None:
    logged.execute(*(f"create table {name} (id int generated always as identity primary key)" for name in SOURCES))
    logged.enable(*SOURCES)
    for name in ("paused", "other"):
        (tmp_path / name).mkdir()
    # No server would end the stream by itself.
    url = f"{within_seconds(logged.url)}%20-c%20wal_sender_timeout%3D0"
    with CaptureProcess(url, tmp_path / "paused") as paused, ExitStack() as stack:
        publish(logged, paused)
        # As in the middle of a copy.
        copying = stack.enter_context(closing(psycopg.connect(logged.url, application_name=copy_session(paused))))
        copying.execute(f"select from {SOURCES[0]}")
        paused.stop_at("slot_confirmation.before", cause=lambda: write(logged))
        wait_until(lambda: logged.execute(HOLDS_LAKE) == [(0,)], what="the server ends the session")
        with CaptureProcess(logged.url, tmp_path / "other") as other:
            publish(logged, other)
            assert logged.execute(SESSIONS_OF.format(paused.process.pid)) == [(0,)]
            before = lake_files(logged)
            paused.resume()
            wait_until(lambda: REFUSED in paused.messages(), what="it asks for the lease again")
            assert lake_files(logged) == before
            publish(logged, other)
            assert other.terminate() == 0
    require_everything_once(logged)

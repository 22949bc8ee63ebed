"""Servers that crash, connections that are cut, disks that are full: reading continues by itself, or says what to do.

The log reader alone shows it, but for the lake.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType

import psycopg
import pyarrow as pa
import pytest

from builders.capture.captured_databases import CapturedDatabase, LoggedDatabase, wait_until
from builders.log.log_reader_processes import is_streaming, log_reader
from rowtide.agents.log_reading import open_reading
from rowtide.agents.loop import run_agent
from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.connect import open_engine, open_replication_connection
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.databases.postgres.errors import ConnectionFailed, NoFreeSender, NoFreeSlot
from rowtide.log import reader
from rowtide.log.errors import LogStoreWriteFailed
from rowtide.log.opening import open_log_reader
from rowtide.log.postgres.lease import AdvisoryLease
from rowtide.log.store.entries import Segment
from rowtide.log.store.segments import write_segment
from rowtide.storage.store import Store

_PAUSE_S = 0.005


@dataclass
class Writer:
    """Inserts 0, 1, 2, … into `item`, each in a transaction of its own; reconnects when its connection breaks."""

    url: str
    written: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._write)

    def wait_for_more(self) -> None:
        """Wait until some more rows are there."""
        enough = self.written + 20
        wait_until(lambda: self.written > enough, what="more rows are written")

    def _write(self) -> None:
        while not self._stop.is_set():
            try:
                with psycopg.connect(self.url, autocommit=True) as connection:
                    while not self._stop.wait(_PAUSE_S):
                        connection.execute("insert into item values (%s)", [self.written])
                        self.written += 1
            except psycopg.OperationalError:
                self._stop.wait(_PAUSE_S)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()


@pytest.fixture
def enabled(logged: LoggedDatabase) -> LoggedDatabase:
    """A database with the captured table `item`."""
    logged.execute("create table item (id int)")
    logged.enable("item")
    return logged


def require_no_row_lost(logged: LoggedDatabase) -> None:
    """Compare the log store with the table, of which nothing was deleted: a lost commit's row may be there twice."""
    logged.read_log()
    rows = [row for (row,) in logged.execute("select id::text from item")]
    assert sorted(logged.inserted(), key=str) == sorted(rows)


def wait_all_read(logged: LoggedDatabase, process: subprocess.Popen[bytes]) -> None:
    """Wait until the process has read what is committed now."""
    target, manifest = logged.mark(), logged.manifest()

    def is_read() -> bool:
        assert process.poll() is None
        return manifest.refresh().position.log > target

    wait_until(is_read, what="all is read")


def test_server_crash_under_load_loses_and_duplicates_nothing(enabled: LoggedDatabase, server: EmbeddedServer) -> None:
    with log_reader(enabled) as process, Writer(enabled.url) as writer:
        wait_until(lambda: is_streaming(enabled), what="the log is read")
        for _ in range(2):
            writer.wait_for_more()
            server.restart("immediate")
        enabled.session = psycopg.connect(enabled.url, autocommit=True)
        writer.wait_for_more()
        wait_all_read(enabled, process)
    with enabled.session:
        require_no_row_lost(enabled)


@pytest.mark.exhaustive
def test_connections_cut_under_load_lose_and_duplicate_nothing(
    enabled: LoggedDatabase,
) -> None:
    """The stream and the session that holds the lease, together and each alone."""
    conditions = ("true", "backend_type = 'walsender'", "backend_type = 'client backend'")
    with log_reader(enabled) as process, Writer(enabled.url) as writer:
        for condition in conditions:
            wait_until(lambda: is_streaming(enabled), what="the log is read")
            writer.wait_for_more()
            cut = f"select pg_terminate_backend(pid) from pg_stat_activity where {OURS} and {condition}"
            assert enabled.execute(cut)
            wait_all_read(enabled, process)
    require_no_row_lost(enabled)


OURS = "application_name like 'rowtide log reader%' and datname = current_database()"


def find_lease_session(logged: LoggedDatabase) -> int | None:
    """Return the server process of the session that holds the log lease."""
    held = "locktype = 'advisory' and granted and objid = 1"
    here = "database = (select oid from pg_database where datname = current_database())"
    found = logged.execute(f"select pid from pg_locks where {held} and {here}")
    return found[0][0] if found else None


def test_lease_of_a_cut_session_is_retaken_without_any_change(enabled: LoggedDatabase) -> None:
    with log_reader(enabled) as process:
        wait_until(lambda: is_streaming(enabled), what="the log is read")
        first = find_lease_session(enabled)
        enabled.execute(f"select pg_terminate_backend({first})")
        wait_until(lambda: find_lease_session(enabled) not in (None, first), what="the lease is taken again")
        assert process.poll() is None


def test_reader_without_its_lease_stores_nothing_more(
    enabled: LoggedDatabase,
) -> None:
    with open_log_reader(enabled.url) as cut:
        enabled.execute(f"select pg_terminate_backend({find_lease_session(enabled)}, 10000)")
        with AdvisoryLease.take(open_engine(enabled.url), "log"):
            enabled.execute("insert into item values (1)")
            with pytest.raises(ConnectionFailed):
                step_until_error(cut)
        assert enabled.inserted() == []
    require_no_row_lost(enabled)


def step_until_error(agent: object) -> None:
    assert isinstance(agent, reader.LogReader)
    for _ in range(100):
        agent.step()


@contextmanager
def full_disk(pid: int, *, most_bytes: int = 1) -> Iterator[None]:
    """Let a process write no larger file: it stands for a disk without space, and needs no rights."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def test_full_log_store_is_reported_and_resumes_with_free_space(enabled: LoggedDatabase) -> None:
    with log_reader(enabled) as process, Writer(enabled.url) as writer:
        assert process.stderr is not None
        wait_until(lambda: is_streaming(enabled), what="the log is read")
        writer.wait_for_more()
        with full_disk(process.pid):
            told = process.stderr.readline().decode()
            stopped_at = enabled.manifest().state.position
            writer.wait_for_more()
            assert enabled.manifest().state.position == stopped_at
        wait_all_read(enabled, process)
    assert "RT-2203: the log store could not write " in told
    assert str(enabled.lake / "log") in told
    assert "not full" in told
    require_no_row_lost(enabled)


def test_pauses_grow_while_nothing_becomes_durable(enabled: LoggedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read again at each try is no progress."""

    def write(_store: Store, _records: pa.Table, *, pending: bool = False) -> Segment:
        raise LogStoreWriteFailed("segments", "No space left on device")

    monkeypatch.setattr(reader, "write_segment", write)
    enabled.execute("insert into item values (1)")
    stop, pauses = threading.Event(), list[float]()

    def on_retry(_error: RowtideError, pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) == 3:
            stop.set()

    run_agent(lambda: open_reading(enabled.url), stop=stop, idle_s=0, on_retry=on_retry)
    assert pauses == [0.5, 1.0, 2.0]


def test_nothing_is_stored_behind_a_range_that_was_not_written(
    enabled: LoggedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_writing, may_fail = threading.Event(), threading.Event()

    def write(store: Store, records: pa.Table, *, pending: bool = False) -> Segment:
        if is_writing.is_set():
            return write_segment(store, records, pending=pending)
        is_writing.set()
        assert may_fail.wait(60)
        raise LogStoreWriteFailed("segments", "No space left on device")

    monkeypatch.setattr(reader, "write_segment", write)
    with open_log_reader(enabled.url) as reading, pytest.raises(LogStoreWriteFailed):  # noqa: PT012 - it fails later
        enabled.execute("insert into item values (1)")
        wait_until(lambda: not reading.step() and is_writing.is_set(), what="the first range is written")
        enabled.execute("insert into item values (2)")
        wait_until(reading.step, what="the second range waits behind it")
        may_fail.set()
        wait_until(lambda: reading.step() and False, what="the error")
    require_no_row_lost(enabled)


def test_without_a_free_slot_nothing_is_made_and_a_repeat_works(scarce: LoggedDatabase) -> None:
    scarce.execute("select pg_create_physical_replication_slot('taken')")
    try:
        with pytest.raises(NoFreeSlot):
            scarce.enable()
        assert scarce.execute("select 1 from pg_namespace where nspname in ('cdc', 'rowtide')") == []
        assert scarce.execute("select 1 from pg_publication") == []
    finally:
        scarce.execute("select pg_drop_replication_slot('taken')")
    scarce.execute("create table item (id int)")
    scarce.enable("item")
    scarce.execute("insert into item values (1)")
    scarce.read_log()
    assert scarce.inserted() == ["1"]


@pytest.mark.exhaustive
def test_lack_of_wal_senders_is_reported_until_one_is_free(scarce: LoggedDatabase) -> None:
    scarce.execute("create table item (id int)")
    scarce.enable("item")
    scarce.execute("insert into item values (1)")
    sender = open_replication_connection(scarce.url, application_name="another")
    with pytest.raises(NoFreeSender), open_log_reader(scarce.url):
        pass
    with log_reader(scarce, has_run=True) as process:
        assert process.stderr is not None
        assert f"RT-{NoFreeSender.number}" in process.stderr.readline().decode()
        sender.finish()
        wait_all_read(scarce, process)
    assert scarce.inserted() == ["1"]


@contextmanager
def capture(captured: CapturedDatabase) -> Iterator[subprocess.Popen[bytes]]:
    """Run `cdc run` as a process."""
    command = [sys.executable, "-m", "rowtide", "cdc", "run", "--db", captured.url]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.terminate()


def wait_published(captured: CapturedDatabase) -> None:
    """Wait until all that is committed now is published."""
    target, manifest = captured.mark(), captured.manifest()
    wait_until(lambda: manifest.refresh().readers["cdc"].position.log > target, what="all is published")


@pytest.mark.exhaustive
def test_full_lake_is_reported_and_resumes_with_free_space(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int)")
    captured.enable("item")
    with capture(captured) as process, Writer(captured.url):
        assert process.stderr is not None
        wait_published(captured)
        # The log store's entries are smaller, data files are larger.
        with full_disk(process.pid, most_bytes=1000):
            told = next(line.decode() for line in process.stderr if b"RT-" in line)
        wait_published(captured)
    assert "RT-3103: " in told
    assert str(captured.lake / "cdc") in told
    assert "File too large" in told
    captured.capture()
    rows = [(2, row) for (row,) in captured.execute("select id from item")]
    assert sorted(captured.values("public_item", "id"), key=str) == sorted(rows, key=str)

"""SIGTERM ends a command that runs on, whatever it does then, and leaves no process."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.commands.command_lines import rowtide
from builders.commands.configuration_files import write_file
from builders.commands.service_managers import Service, service
from builders.replication.replicated_databases import ReplicatedDatabase
from rowtide.cli.exit_codes import ExitCode

PATIENCE_S = 20.0
"""Far more than the five seconds that are promised, since other programs run beside the tests."""
_WAITING = "select 1 from pg_locks where not granted"


def processes_of(session: int) -> list[int]:
    """Return the processes of a session, and of those sessions that its processes have begun."""
    found: dict[int, tuple[int, int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] != "Z":
            found[int(stat.parent.name)] = (int(fields[1]), int(fields[3]))
    ours = {pid for pid, (_, of_session) in found.items() if of_session == session}
    while further := {pid for pid, (parent, _) in found.items() if parent in ours} - ours:
        ours |= further
    return sorted(ours)


def require_stop(stopped: Service) -> None:
    """Stop a program, and require that neither it nor what it has started is left."""
    started = processes_of(stopped.process.pid)
    code = stopped.stop(PATIENCE_S)

    assert code == ExitCode.STOPPED, stopped.output
    wait_until(lambda: not any(is_running(pid) for pid in started), what=f"none of {started} runs")


def is_running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def locked(session_url: str, table: str) -> Iterator[None]:
    """Keep a table locked, so that what needs it waits."""
    with closing(psycopg.connect(session_url)) as session, session.transaction():
        session.execute(f"lock table {table} in access exclusive mode")
        yield


@pytest.fixture
def enabled(logged: LoggedDatabase) -> LoggedDatabase:
    logged.execute("create table item (id int primary key)", "insert into item values (1)")
    logged.enable("item", snapshot=True)
    return logged


@pytest.mark.parametrize("command", [("agent", "run"), ("cdc", "run")], ids=" ".join)
def test_mid_snapshot(enabled: LoggedDatabase, tmp_path: Path, command: tuple[str, ...]) -> None:
    with (
        locked(enabled.url, "item"),
        service(tmp_path / "run", *command, "--db", enabled.url) as running,
    ):
        wait_until(lambda: bool(enabled.execute(_WAITING)), what="a copy that waits")
        require_stop(running)


@pytest.mark.parametrize("command", [("agent", "run"), ("cdc", "run")], ids=" ".join)
def test_mid_cycle(enabled: LoggedDatabase, tmp_path: Path, command: tuple[str, ...]) -> None:
    with (
        locked(enabled.url, "cdc.log_scan_sessions"),
        service(tmp_path / "run", *command, "--db", enabled.url) as running,
    ):
        wait_until(lambda: bool(enabled.execute(_WAITING)), what="a cycle that waits")
        require_stop(running)


def test_mid_batch(replicated: ReplicatedDatabase, tmp_path: Path) -> None:
    replicated.begin("create table orders (id int primary key)", orders={})
    with (
        locked(replicated.subscriber.url, "orders"),
        service(tmp_path / "run", "replication", "run", "--db", replicated.publisher.url) as running,
    ):
        replicated.publisher.execute("insert into orders values (1)")
        wait_until(lambda: bool(replicated.publisher.execute(_WAITING)), what="a batch that waits")
        require_stop(running)
    replicated.deliver()

    replicated.require_equal("orders")


def test_mid_synchronisation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f'[databases.{one}]\nurl = "sqlite:///{tmp_path}/{one}.db"\n' for one in ("hub", "field"))
    text = text.replace("[databases.field]", 'run = ["merge"]\n[databases.field]') + "run = []\n"
    monkeypatch.setenv("ROWTIDE_CONFIG", str(write_file(tmp_path / "configuration", text)))
    monkeypatch.delenv("ROWTIDE_DB", raising=False)
    with closing(sqlite3.connect(tmp_path / "hub.db")) as hub:
        hub.execute("create table item (id integer primary key)")
    for command in (
        ("add-publication", "p"),
        ("add-article", "p", "item"),
        ("add-subscription", "p", "--subscriber", "field"),
    ):
        done = rowtide("merge", *command, "--db", "hub")
        assert done.code == 0, done
    with closing(sqlite3.connect(tmp_path / "field.db", isolation_level=None)) as field:
        field.execute("begin exclusive")
        with service(tmp_path / "run", "agent", "run") as running:
            wait_until(lambda: has_open(processes_of(running.process.pid), tmp_path / "field.db"), what="a round")
            require_stop(running)


def has_open(pids: list[int], path: Path) -> bool:
    """Return whether one of some processes has a file open."""
    links = (link for pid in pids for link in Path(f"/proc/{pid}/fd").glob("*"))
    return any(os.path.realpath(link) == str(path) for link in links)


@pytest.mark.exhaustive
@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.1, 0.3, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("command", [("agent", "run"), ("cdc", "run"), ("replication", "run")], ids=" ".join)
def test_during_the_start(enabled: LoggedDatabase, tmp_path: Path, command: tuple[str, ...], after_s: float) -> None:
    with service(tmp_path / "run", *command, "--db", enabled.url) as running:
        time.sleep(after_s)
        started = processes_of(running.process.pid)
        # Before Python has begun the program, SIGTERM itself ends it.
        assert running.stop(PATIENCE_S) in {ExitCode.STOPPED, -signal.SIGTERM}, running.output
        wait_until(lambda: not any(is_running(pid) for pid in started), what=f"none of {started} runs")

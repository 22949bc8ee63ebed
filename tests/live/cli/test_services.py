"""What commands tell a service manager that starts them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.configuration_files import write_file
from builders.commands.running_agents import is_running
from builders.commands.service_managers import service
from rowtide.cdc.jobs.requests import AGENT
from rowtide.databases.postgres.connect import open_engine
from rowtide.log.postgres.lease import AdvisoryLease


@pytest.fixture
def enabled(logged: LoggedDatabase) -> LoggedDatabase:
    logged.execute("create table item (id int primary key)", "insert into item values (1)")
    logged.enable("item", snapshot=True)
    return logged


def test_an_agent_is_ready_and_lives_while_a_cycle_waits(enabled: LoggedDatabase, tmp_path: Path) -> None:
    with service(tmp_path / "agent", "agent", "run", "--db", enabled.url) as agent:
        agent.receive("READY=1")
        agent.receive("STATUS=cycle")
        # The next cycle waits for a lock, longer than the watchdog's time.
        with enabled.transaction() as blocking:
            blocking.execute("lock table cdc.log_scan_sessions in access exclusive mode")
            enabled.execute("insert into item values (2)")
            agent.receive_beats(6)

        assert agent.stop() == 0
        assert agent.messages[-1] == "STOPPING=1"
        assert agent.messages.count("READY=1") == 1


@pytest.mark.exhaustive
def test_a_standby_is_ready(enabled: LoggedDatabase, tmp_path: Path) -> None:
    with (
        AdvisoryLease.take(open_engine(enabled.url), AGENT),
        service(tmp_path / "standby", "agent", "run", "--db", enabled.url) as standby,
    ):
        standby.receive("READY=1")
        assert any(message.startswith("STATUS=RT-2108") for message in standby.messages)

        assert standby.stop() == 0
        assert standby.messages[-1] == "STOPPING=1"


@pytest.mark.exhaustive
def test_an_agent_without_a_server_is_never_ready(tmp_path: Path) -> None:
    with service(tmp_path / "agent", "agent", "run", "--db", "postgresql://nobody@127.0.0.1:1/gone") as agent:
        assert agent.process.wait(60) == 69, agent.output
        agent.receive("STOPPING=1")

        assert "READY=1" not in agent.messages


def test_a_supervisor_tells_and_its_children_do_not(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with closing(sqlite3.connect(tmp_path / f"{name}.db")) as opened:
            opened.execute("create table item (id integer primary key)")
    databases = (
        f'[databases.{name}]\nurl = "sqlite:///{tmp_path}/{name}.db"\nrun = ["merge"]' for name in ("one", "two")
    )
    file = write_file(tmp_path / "configuration", "\n".join(databases))
    with service(tmp_path / "agent", "agent", "run", environment={"ROWTIDE_CONFIG": str(file)}) as agent:
        agent.receive("READY=1")
        agent.receive_beats()
        started = [int(line.rpartition(" ")[2]) for line in agent.messages if "started, process" in line]
        environments = [Path(f"/proc/{pid}/environ").read_bytes() for pid in started]

        assert len(environments) == 2
        assert not any(name in environment for environment in environments for name in (b"NOTIFY_", b"WATCHDOG_"))
        assert agent.stop() == 0
        assert agent.messages[-1] == "STOPPING=1"
        assert not any(is_running(pid) for pid in started)


def test_a_monitor_is_ready_while_a_database_is_not_there(tmp_path: Path) -> None:
    serve = ("monitor", "serve", "--listen", "127.0.0.1:0", "--db", "postgresql://nobody@127.0.0.1:1/gone")
    with service(tmp_path / "monitor", *serve, environment={"STATE_DIRECTORY": str(tmp_path / "state")}) as monitor:
        monitor.receive("STATUS=Serving the monitor at http://127.0.0.1:")
        monitor.receive("READY=1")
        monitor.receive_beats()

        assert monitor.stop() == 0
        assert monitor.messages[-1] == "STOPPING=1"

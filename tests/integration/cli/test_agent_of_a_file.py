"""`rowtide agent run` merges the databases of a configuration file that are files."""

from __future__ import annotations

import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from builders.capture.captured_databases import wait_until
from builders.commands.command_lines import rowtide, rowtide_process
from builders.commands.configuration_files import write_file
from builders.commands.running_agents import RunningAgent, is_running
from builders.monitor.scrapes import Scrape, scrape_until
from rowtide.agents.hangs import HangWatch, running_step
from rowtide.cli.agent import _beat
from rowtide.core.addresses import Address
from rowtide.systemd import ServiceManager


def test_subscribers_are_synchronised_until_the_agent_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, field = tmp_path / "hub.db", tmp_path / "field.db"
    text = f"""
[databases.hub]
url = "sqlite:///{hub}"
run = ["merge"]
[databases.field]
url = "sqlite:///{field}"
run = []
"""
    file = write_file(tmp_path / "configuration", text)
    monkeypatch.setenv("ROWTIDE_CONFIG", str(file))
    monkeypatch.delenv("ROWTIDE_DB", raising=False)
    with closing(sqlite3.connect(hub)) as opened:
        opened.execute("create table item (id integer primary key)")
    for command in (
        ["add-publication", "p"],
        ["add-article", "p", "item"],
        ["add-subscription", "p", "--subscriber", "field"],
    ):
        done = rowtide("merge", *command, "--db", "hub")
        assert done.code == 0, done
    with closing(sqlite3.connect(hub)) as opened:
        opened.execute("insert into item (id) values (7)")
        opened.commit()

    with RunningAgent() as agent:
        agent.wait_for(lambda: read_items(field) == [7])
        agent.wait_for_output("hub merge: p to")
        child = agent.pid_of("hub merge")
        assert is_running(child)
        agent.process.kill()
        agent.process.wait()
        wait_until(lambda: not is_running(child), what="the child has ended")

    assert "field" not in [line.partition(":")[0] for line in agent.output.splitlines()]


def test_quiet_is_quiet_in_every_process(tmp_path: Path) -> None:
    """The errors that each process ends with are printed, and nothing else."""
    files = "".join(f'[databases.{name}]\nurl = "sqlite:///{tmp_path}/{name}.db"\n' for name in ("one", "two"))
    environment = {"ROWTIDE_CONFIG": str(write_file(tmp_path, files))}

    loud, quiet = (rowtide_process("agent", "run", *words, environment=environment) for words in ((), ("--quiet",)))

    assert (loud.code, quiet.code) == (78, 78)
    assert "one: started, process" in loud.errors
    assert "two: needs a person" in loud.errors
    named = sorted(line.partition(" ")[2].partition(":")[0] for line in quiet.errors.splitlines() if "RT-1022" in line)
    assert named == ["RT-1022", "RT-1022"], quiet
    assert "started" not in quiet.errors
    assert "needs a person, and" not in quiet.errors


def test_a_process_with_a_worker_that_hangs_ends(tmp_path: Path) -> None:
    program = """
import threading
from rowtide.agents import hangs
from rowtide.cli import agent_child
agent_child._LOOK_S, agent_child.HangWatch = 0.05, lambda: hangs.HangWatch(0.3)
never = threading.Lock()
never.acquire()
threading.Thread(target=agent_child._end_if_hanging).start()
with hangs.running_step():
    never.acquire()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)

    assert ended.returncode == 1, ended


def test_signs_of_life_end_while_a_worker_hangs(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(5)
        manager = ServiceManager(str(tmp_path / "notify"))
        with running_step():
            _beat(manager, HangWatch(0.0))
            manager.report_status("it works")
        _beat(manager, HangWatch(0.0))

        assert [receiver.recv(100) for _ in range(2)] == [b"STATUS=it works", b"READY=1"]


def read_items(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as opened:
        return [number for (number,) in opened.execute("select id from item")]


def test_metrics_of_all_processes_are_published_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("north", "south")
    text = "".join(
        f'[databases.{name}]\nurl = "sqlite:///{tmp_path}/{name}.db"\nrun = ["merge"]\n'
        f'[databases.device-{name}]\nurl = "sqlite:///{tmp_path}/device-{name}.db"\nrun = []\n'
        for name in names
    )
    monkeypatch.setenv("ROWTIDE_CONFIG", str(write_file(tmp_path / "configuration", text)))
    monkeypatch.delenv("ROWTIDE_DB", raising=False)
    for name in names:
        with closing(sqlite3.connect(tmp_path / f"{name}.db")) as opened:
            opened.execute("create table item (id integer primary key)")
        for command in (
            ["add-publication", "p"],
            ["add-article", "p", "item"],
            ["add-subscription", "p", "--subscriber", f"device-{name}"],
        ):
            assert rowtide("merge", *command, "--db", name).code == 0
    path = tmp_path / "rowtide.prom"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        listen = Address("127.0.0.1", taken.getsockname()[1])
    with RunningAgent("--metrics-listen", str(listen), "--metrics-file", str(path)) as agent:
        counted = "rowtide_merge_sync_duration_seconds_count"
        wait_until(path.exists, what="the file is written")
        found = scrape_until(
            listen, lambda found: {bool(found.values(counted, database=name)) for name in names} == {True}
        )
        assert found.values("rowtide_build_info") == [1]
        agent.process.terminate()
        agent.process.wait()
    written = Scrape(path.read_text())
    assert [written.value("rowtide_job_failed", database=name, job="merge") for name in names] == [0, 0]


def test_without_a_database_it_is_wrong_usage(tmp_path: Path) -> None:
    ended = rowtide_process("agent", "run", environment={"ROWTIDE_CONFIG": str(write_file(tmp_path, ""))})

    assert ended.code == 64
    assert "Missing option '--db', and no configuration file has databases" in ended.errors


def test_databases_that_all_need_a_person_end_it(tmp_path: Path) -> None:
    file = write_file(tmp_path, f'[databases.field]\nurl = "sqlite:///{tmp_path}/field.db"\n')

    ended = rowtide_process("agent", "run", environment={"ROWTIDE_CONFIG": str(file)})

    assert ended.code == 78
    assert "field: RT-1022" in ended.errors
    assert "RT-1167: each of these needs a person: field" in ended.errors

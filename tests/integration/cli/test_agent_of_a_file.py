"""`rowtide agent run` merges the databases of a configuration file that are files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from builders.capture.captured_databases import wait_until
from builders.commands.command_lines import rowtide, rowtide_process
from builders.commands.configuration_files import write_file
from builders.commands.running_agents import RunningAgent, is_running


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


def read_items(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as opened:
        return [number for (number,) in opened.execute("select id from item")]


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

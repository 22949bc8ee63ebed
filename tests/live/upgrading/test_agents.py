"""Agents and upgrades: one of an earlier version that runs is refused, one with --upgrade migrates first."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.commands.command_lines import rowtide_process
from builders.replication.replicated_databases import ReplicatedDatabase
from builders.upgrading.next_formats import environment_of_next_build
from rowtide.cli.exit_codes import ExitCode

ITEM = "create table item (id int primary key, name text)"
PATIENCE_S = 60.0


@pytest.fixture
def next_build(tmp_path: Path) -> Mapping[str, str]:
    """The environment of programs of a build of format 2."""
    return environment_of_next_build(tmp_path / "next_build")


@pytest.fixture
def enabled(logged: LoggedDatabase) -> LoggedDatabase:
    logged.execute(ITEM)
    logged.enable("item")
    logged.execute("insert into item values (1, 'before')")
    return logged


def read_position(logged: LoggedDatabase) -> int:
    return logged.manifest().state.readers["cdc"].position.log


@dataclass(frozen=True)
class OldAgent:
    """A process of this build, and the file of what it prints."""

    process: subprocess.Popen[bytes]
    log: Path

    def require_refused(self) -> None:
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            pytest.fail(self.log.read_text())
        output = self.log.read_text()
        assert code == ExitCode.NEEDS_PERSON, output
        assert "RT-1134: a newer version of rowtide wrote the" in output
        assert "Traceback" not in output


@contextmanager
def old_agent(folder: Path, *arguments: str) -> Iterator[OldAgent]:
    """Run a command of this build, which is killed at the end of the block."""
    log = folder / "old.log"
    with log.open("wb") as written:
        process = subprocess.Popen([sys.executable, "-m", "rowtide", *arguments], stdout=written, stderr=written)
    try:
        yield OldAgent(process, log)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("command", [("agent", "run"), ("cdc", "run")], ids=" ".join)
def test_an_agent_that_runs_is_refused_after_an_upgrade(
    enabled: LoggedDatabase, next_build: Mapping[str, str], tmp_path: Path, command: tuple[str, ...]
) -> None:
    target = enabled.mark()
    with old_agent(tmp_path, *command, "--db", enabled.url) as old:
        wait_until(lambda: read_position(enabled) > target, what="the agent captures")
        enabled.execute("insert into item values (2, 'during')")
        upgraded = rowtide_process("upgrade", "--db", enabled.url, environment=next_build)
        assert upgraded.code == 0, upgraded
        enabled.execute("insert into item values (3, 'after')")
        old.require_refused()
    ended = rowtide_process("cdc", "run", "--once", "--db", enabled.url, environment=next_build)
    assert ended.code == 0, ended
    listed = rowtide_process(
        "cdc", "changes", "public_item", "--format", "csv", "--db", enabled.url, environment=next_build
    )
    assert [word for word in ("before", "during", "after") if word in listed.output] == ["before", "during", "after"]


def test_a_delivery_that_runs_is_refused_after_an_upgrade(
    replicated: ReplicatedDatabase, next_build: Mapping[str, str], tmp_path: Path
) -> None:
    publisher, subscriber = replicated.publisher, replicated.subscriber
    replicated.begin(ITEM, item={})
    publisher.execute("insert into item values (1, 'before')")
    with old_agent(tmp_path, "replication", "run", "--db", publisher.url) as old:
        wait_until(lambda: bool(subscriber.execute("select 1 from item")), what="the row is delivered")
        upgraded = rowtide_process("upgrade", "--db", publisher.url, environment=next_build)
        assert upgraded.code == 0, upgraded
        publisher.execute("insert into item values (2, 'after')")
        old.require_refused()
    refused = rowtide_process("replication", "run", "--once", "--db", publisher.url, environment=next_build)
    assert "RT-1135" in refused.errors
    ended = rowtide_process("replication", "run", "--once", "--upgrade", "--db", publisher.url, environment=next_build)
    assert ended.code == 0, ended
    assert subscriber.execute("select * from item order by 1") == [(1, "before"), (2, "after")]


def test_a_delivery_stops_where_its_subscriber_was_upgraded(
    replicated: ReplicatedDatabase, next_build: Mapping[str, str], tmp_path: Path
) -> None:
    publisher, subscriber = replicated.publisher, replicated.subscriber
    replicated.begin(ITEM, item={})
    publisher.execute("insert into item values (1, 'before')")
    with old_agent(tmp_path, "replication", "run", "--db", publisher.url) as old:
        wait_until(lambda: bool(subscriber.execute("select 1 from item")), what="the row is delivered")
        upgraded = rowtide_process("upgrade", "--db", subscriber.url, environment=next_build)
        assert upgraded.code == 0, upgraded
        publisher.execute("insert into item values (2, 'after')")
        old.require_refused()
    assert subscriber.execute("select * from item") == [(1, "before")]


def test_two_upgrades_at_once_do_each_step_once(enabled: LoggedDatabase, next_build: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "rowtide", "upgrade", "--db", enabled.url]
    both = [
        subprocess.Popen(command, env=next_build, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [one.communicate(timeout=PATIENCE_S)[1] for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    assert sorted(one.splitlines()[-1] for one in said) == [
        "2 were migrated.",
        "Every store has this version's format.",
    ]

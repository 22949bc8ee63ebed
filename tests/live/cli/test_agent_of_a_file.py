"""`rowtide agent run` without `--db`: the databases of a configuration file, each in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from builders.commands.command_lines import rowtide
from builders.commands.configuration_files import write_file, write_secret
from builders.commands.running_agents import RunningAgent
from builders.servers.tcp_servers import ROLE, start_tcp_server

FIRST, SECOND = "one@:/?#%' \"\\é", "two@:/?#%' \"\\é"
OF_OTHERS = "s3cr3t"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[psycopg.Connection[tuple[object, ...]], int]]:
    """A session of a server whose role needs a password, and its port."""
    with (
        start_tcp_server(tmp_path_factory.mktemp("postgres-tcp"), FIRST) as (started, port),
        psycopg.connect(started.url(), autocommit=True) as session,
    ):
        yield session, port


def count_cycles(output: str) -> int:
    return len(re.findall(r"^shop: cycles? .*public_item published", output, re.MULTILINE))


def test_databases_run_apart_with_their_own_secrets(
    server: tuple[psycopg.Connection[tuple[object, ...]], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, port = server
    secret = write_secret(tmp_path / "pw", f"{FIRST}\n")
    file = write_file(
        tmp_path / "configuration",
        f"""
[databases.shop]
url = "postgresql://{ROLE}@127.0.0.1:{port}/postgres"
password = {{ file = "{secret}" }}
lake = "{tmp_path}/lake"
[databases.gone]
url = "postgresql://{ROLE}@127.0.0.1:1/gone"
password = {{ env = "GONE_PW" }}
""",
    )
    monkeypatch.setenv("ROWTIDE_CONFIG", str(file))
    monkeypatch.delenv("ROWTIDE_DB", raising=False)
    session.execute("create table item (id int primary key)")
    for command in (["enable-db"], ["enable-table", "item"]):
        assert rowtide("cdc", *command, "--db", "shop").code == 0
    with RunningAgent(environment={"GONE_PW": OF_OTHERS}) as agent:
        session.execute("insert into item values (1)")
        agent.wait_for(lambda: count_cycles(agent.output) == 1)
        agent.wait_for_output("gone: ended with exit code 69; starts again in 1 s")
        for pid in (agent.process.pid, agent.pid_of("shop"), agent.pid_of("gone")):
            assert not any(each in read_process(pid, "cmdline") for each in (FIRST, OF_OTHERS))
        assert OF_OTHERS not in read_process(agent.pid_of("shop"), "environ")

        # The password is replaced, and the sessions that began with the one before are lost.
        session.execute(sql.SQL(f"alter role {ROLE} password {{}}").format(SECOND))
        write_secret(secret, f"{SECOND}\n")
        session.execute("select pg_terminate_backend(pid) from pg_stat_activity where usename = %s", [ROLE])
        session.execute("insert into item values (2)")
        agent.wait_for(lambda: count_cycles(agent.output) == 2)

        file.write_text("[databases")
        agent.process.send_signal(signal.SIGHUP)
        agent.wait_for_output("Nothing was changed")
        os.kill(agent.pid_of("shop"), signal.SIGKILL)
        agent.wait_for_output("shop: ended by SIGKILL; starts again in 1 s")
        session.execute("insert into item values (3)")
        agent.wait_for(lambda: count_cycles(agent.output) == 3)
        children = [agent.pid_of("shop"), agent.pid_of("gone")]

        assert agent.stop() == 0, agent.output
        assert not any(Path(f"/proc/{pid}").exists() for pid in children)
        assert not any(each in agent.output for each in (FIRST, SECOND, OF_OTHERS))


def test_subscriptions_are_delivered_past_a_pooler(
    server: tuple[psycopg.Connection[tuple[object, ...]], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is read over TCP, with the password; everything else goes to the socket, which trusts everybody."""
    session, port = server
    session.execute("create database published")
    session.execute(sql.SQL(f"alter role {ROLE} password {{}}").format(FIRST))
    socket = session.info.host
    file = write_file(
        tmp_path / "configuration",
        f"""
[databases.shop]
url = "postgresql://{session.info.user}@/published?host={socket}&port={port}"
password = {{ command = ["/bin/cat", "{write_secret(tmp_path / "pw", FIRST)}"] }}
replication_url = "postgresql://{ROLE}@127.0.0.1:{port}/published"
run = ["subscriptions"]
[databases.copy]
url = "sqlite:///{tmp_path}/copy.db"
""",
    )
    monkeypatch.setenv("ROWTIDE_CONFIG", str(file))
    monkeypatch.setenv("ROWTIDE_DB", "shop")
    with psycopg.connect(f"host={socket} port={port} dbname=published user={session.info.user}") as publisher:
        publisher.execute("create table item (id int primary key)")
    replication = (["add-publication", "p", "--lake", f"{tmp_path}/lake"], ["add-article", "p", "item"])
    for command in (*replication, ["add-subscription", "p", "--subscriber", "copy"]):
        added = rowtide("replication", *command)
        assert added.code == 0, added
    with RunningAgent() as agent:
        agent.wait_for(lambda: has_table(tmp_path / "copy.db", "item"))
        with psycopg.connect(f"host={socket} port={port} dbname=published user={session.info.user}") as publisher:
            publisher.execute("insert into item values (7)")
        agent.wait_for(lambda: read_items(tmp_path / "copy.db") == [7])
        agent.wait_for(lambda: list_readers(session) == [(ROLE,)])
        assert agent.stop() == 0


def list_readers(session: psycopg.Connection[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return session.execute("select distinct usename from pg_stat_replication").fetchall()


def has_table(file: Path, name: str) -> bool:
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as device:
        return bool(device.execute("select 1 from sqlite_master where name = ?", [name]).fetchall())


def read_items(file: Path) -> list[int]:
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as device:
        return [number for (number,) in device.execute("select id from item")]


def read_process(pid: int, name: str) -> str:
    """Return what others may see of a process; nothing of one that has ended."""
    path = Path(f"/proc/{pid}/{name}")
    return path.read_text() if path.exists() else ""

"""A command that says how a database stands asks the server nothing twice."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.engine import make_url

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import rowtide
from builders.replication.replicated_databases import ReplicatedDatabase
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.repeated_reading import reading_once
from rowtide.diagnosis import Purpose

COMMANDS = (
    ("health",),
    ("check",),
    *(("check", "--as", purpose) for purpose in Purpose),
    ("check", "item"),
    ("cdc", "status"),
    ("replication", "status"),
)
TRANSACTIONS = {"BEGIN", "COMMIT", "ROLLBACK"}
_ENTRY = re.compile(r"(?m)^(?=\d{4}-\d\d-\d\d )")
_STATEMENT = re.compile(r"(?s)\[(\d+)\] LOG:  (?:statement|execute [^:]*): (.*)")


def server_log(database: LoggedDatabase) -> Path:
    ((directory,),) = database.execute("show data_directory")
    return Path(directory).parent / "log"


def list_statements(database: LoggedDatabase, command: Sequence[str]) -> tuple[Counter[str], int]:
    """Run a command; return its statements with their parameters, as the server has logged them, and how many sessions
    ran them.
    """
    log = server_log(database)
    begin = log.stat().st_size
    ended = rowtide(*command, "--db", database.url)
    assert ended.code in (0, 1), ended
    with log.open(encoding="utf-8", errors="replace") as opened:
        opened.seek(begin)
        entries = _ENTRY.split(opened.read())
    found: list[str] = []
    sessions: set[str] = set()
    for entry in entries:
        statement = _STATEMENT.search(entry)
        if statement is not None:
            sessions.add(statement[1])
            found.append(" ".join(statement[2].split()))
        elif "DETAIL:" in entry and found:
            found[-1] += f" {entry.partition('DETAIL:')[2].strip()}"
    return Counter(found), len(sessions)


def test_no_view_runs_a_query_twice(replicated: ReplicatedDatabase) -> None:
    publisher = replicated.publisher
    replicated.begin("create table item (id int primary key, name text)", item={})
    publisher.enable("item")
    publisher.cdc.add_consumer("reader", ["public_item"])
    publisher.read_log()
    publisher.execute(f"alter database {make_url(publisher.url).database} set log_statement = 'all'")

    ran, sessions = {}, {}
    for command in COMMANDS:
        name = " ".join(command)
        ran[name], sessions[name] = list_statements(publisher, command)

    assert min(map(len, ran.values())) > 10
    # The right to replicate is tried on a session of its own.
    assert {name for name, count in sessions.items() if count > 1} == {"check", "check item", "check --as publisher"}
    repeated = {
        command: [statement for statement, count in statements.items() if count > 1 and statement not in TRANSACTIONS]
        for command, statements in ran.items()
    }
    assert not any(repeated.values()), repeated


def test_a_query_is_run_once_within_the_block_alone(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int)", "insert into item values (1), (2)")
    engine, ids = open_engine(logged.url), text("select id from public.item where id >= :least order by id")

    def read(least: int) -> Sequence[int]:
        with engine.connect() as connection:
            return connection.execute(ids, {"least": least}).scalars().all()

    with reading_once():
        assert read(1) == [1, 2]
        logged.execute("insert into item values (3)")
        assert (read(1), read(2)) == ([1, 2], [2, 3])
        with engine.connect() as connection:
            rows = connection.execute(ids, {"least": 1})
            assert (rows.fetchone(), rows.fetchmany(5), rows.fetchall()) == ((1,), [(2,)], [])
    assert read(1) == [1, 2, 3]
